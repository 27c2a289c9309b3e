//! Frames and records of one file.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use crc_fast::{CrcAlgorithm, Digest};
use prost::Message;

use crate::Error;
use crate::record::{CRC, LoggedRecord};

/// Most bytes of a record. etcd's requests have 1.5 MiB unless it was started with more.
pub const RECORD_BYTES_MAX: u64 = 256 << 20;
const LENGTH_BYTES: u64 = 8;
const RECORD_BITS: u32 = 56;
const PADDING_MAX: u64 = 7;
/// etcd writes whole sectors; one of zeros inside a record was never written.
const SECTOR_BYTES: u64 = 512;
const BUFFER_BYTES: usize = 1 << 20;

/// The checksum of all data of a log up to a record.
#[derive(Debug)]
pub(crate) struct Sum(Digest);

impl Sum {
    /// Continues after data with this checksum; 0: no data yet.
    pub fn after(checksum: u32) -> Sum {
        let state = u64::from(!checksum);
        Sum(Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, state))
    }

    pub fn add(&mut self, data: &[u8]) -> u32 {
        self.0.update(data);
        self.checksum()
    }

    pub fn checksum(&self) -> u32 {
        u32::try_from(self.0.finalize()).expect("a CRC of 32 bits")
    }
}

/// Where the record of an entry lies in its file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordPlace {
    pub offset: u64,
    pub bytes: u32,
}

/// The records of a file, in order.
pub(crate) struct Records {
    file: BufReader<File>,
    path: PathBuf,
    file_bytes: u64,
    /// Where the next frame begins.
    offset: u64,
    /// Whether the end of this file may be torn: no other follows.
    is_last: bool,
    /// Where the record begins that was not written whole.
    pub cut_off: Option<u64>,
}

/// The end of what can be read.
enum Unread {
    /// The rest of a record that a crash has cut off.
    Torn,
    Damaged(String),
    Disk(io::Error),
}

impl Records {
    #[expect(
        clippy::disallowed_methods,
        reason = "a file that an operator names, and that no simulated disk has"
    )]
    pub fn open(path: &Path, is_last: bool) -> Result<Records, Error> {
        let disk = |source| Error::Disk {
            path: path.to_owned(),
            source,
        };
        let file = File::open(path).map_err(disk)?;
        let file_bytes = file.metadata().map_err(disk)?.len();
        Ok(Records {
            file: BufReader::with_capacity(BUFFER_BYTES, file),
            path: path.to_owned(),
            file_bytes,
            offset: 0,
            is_last,
            cut_off: None,
        })
    }

    /// The next record with its place. `None` at the end of the file, in which a record that was not
    /// written whole may follow.
    pub fn next(&mut self, sum: &mut Sum) -> Result<Option<(RecordPlace, LoggedRecord)>, Error> {
        let Some((bytes, padding)) = self.length()? else {
            return Ok(None);
        };
        let body = self.body(bytes, padding);
        match body.and_then(|body| self.record(&body, bytes, sum)) {
            Ok(record) => {
                let place = RecordPlace {
                    offset: self.offset + LENGTH_BYTES,
                    bytes: u32::try_from(bytes).expect("the most bytes of a record fit"),
                };
                self.offset += LENGTH_BYTES + bytes + padding;
                Ok(Some((place, record)))
            }
            Err(Unread::Torn) if self.is_last => {
                self.cut_off = Some(self.offset);
                Ok(None)
            }
            Err(Unread::Torn) => {
                Err(self.damaged("its last record is cut off, and another file follows"))
            }
            Err(Unread::Damaged(problem)) => Err(self.damaged(problem)),
            Err(Unread::Disk(source)) => Err(self.disk(source)),
        }
    }

    /// Bytes of the next record and of the padding behind it. `None` where the written part ends.
    fn length(&mut self) -> Result<Option<(u64, u64)>, Error> {
        let mut length = [0; LENGTH_BYTES as usize];
        match self.file.read_exact(&mut length) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                let is_cut = self.is_last && self.file_bytes > self.offset;
                self.cut_off = is_cut.then_some(self.offset);
                return Ok(None);
            }
            Err(source) => return Err(self.disk(source)),
        }
        let length = u64::from_le_bytes(length);
        let bytes = length & ((1 << RECORD_BITS) - 1);
        let padding = match length >> 63 {
            0 => 0,
            _ => (length >> RECORD_BITS) & PADDING_MAX,
        };
        Ok((length != 0).then_some((bytes, padding)))
    }

    fn body(&mut self, bytes: u64, padding: u64) -> Result<Bytes, Unread> {
        let left = self.file_bytes.saturating_sub(self.offset + LENGTH_BYTES);
        if bytes.checked_add(padding).is_none_or(|all| all > left) {
            return Err(Unread::Torn);
        }
        if bytes > RECORD_BYTES_MAX {
            return Err(Unread::Damaged(format!(
                "a record of {bytes} bytes, and {RECORD_BYTES_MAX} are the most that are read"
            )));
        }
        let mut body = vec![0; (bytes + padding) as usize];
        self.file.read_exact(&mut body).map_err(Unread::Disk)?;
        Ok(body.into())
    }

    /// Checks a record. One that fails and has a sector of zeros was not written whole.
    fn record(&self, body: &Bytes, bytes: u64, sum: &mut Sum) -> Result<LoggedRecord, Unread> {
        let unread = |problem: String| match self.is_last && self.has_empty_sector(body) {
            true => Err(Unread::Torn),
            false => Err(Unread::Damaged(problem)),
        };
        let record = match LoggedRecord::decode(body.slice(..bytes as usize)) {
            Ok(record) => record,
            Err(error) => return unread(format!("a record that cannot be read: {error}")),
        };
        if record.kind == CRC {
            return Ok(record);
        }
        let (stored, computed) = (record.crc, sum.add(record.data.as_deref().unwrap_or(&[])));
        if stored != computed {
            return unread(format!(
                "a record with the checksum {stored:08x}, and its bytes have {computed:08x}"
            ));
        }
        Ok(record)
    }

    fn has_empty_sector(&self, body: &[u8]) -> bool {
        let begin = self.offset + LENGTH_BYTES;
        let first = SECTOR_BYTES - begin % SECTOR_BYTES;
        let (head, rest) = body.split_at(body.len().min(first as usize));
        let sectors = rest.chunks(SECTOR_BYTES as usize);
        let mut sectors = std::iter::once(head).chain(sectors);
        sectors.any(|sector| !sector.is_empty() && sector.iter().all(|&byte| byte == 0))
    }

    /// An error at the record that was read last, or is read now.
    pub fn damaged(&self, problem: impl Into<String>) -> Error {
        Error::Damaged {
            path: self.path.clone(),
            offset: self.offset,
            problem: problem.into(),
        }
    }

    fn disk(&self, source: io::Error) -> Error {
        Error::Disk {
            path: self.path.clone(),
            source,
        }
    }
}
