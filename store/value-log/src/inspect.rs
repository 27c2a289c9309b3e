//! A log seen from outside: read-only, without the lock, for `inspect` and
//! `check`.
//!
//! ```text
//!   Directory::list ──► SegmentFile::read ──► SegmentBytes::walk ──► Frame, Frame, .. Stop
//!     names               one file, whole        the chain of frames      why no further
//! ```
//!
//! No byte is trusted: this module shows what it can read and says where it
//! had to stop. The owner of the directory may write at the same time: a segment
//! may grow or be released while it is read. So a caller that finds damage must read
//! the segment again before it reports the damage.

mod home;
mod walk;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use environment::{Disk, File, OpenMode};

use crate::format::{
    RECORD_HEADER_BYTES, SEAL_NOTE_START, SEGMENT_HEADER_BYTES, Salt, Unreadable, VERSION,
};
use crate::record::RecordHeader;
use crate::segment::FileName;
use crate::{Error, Position, SEGMENT_BYTES_MAX, SegmentKind};

pub use crate::format::{FrameKind, SealNote, SegmentHeader};
pub use home::HomeLog;
pub use walk::{Frame, FrameRecord, Link, Stop, Walk, Why};

/// How much is read at a time: a bad sector costs no more than this.
const READ_BYTES: usize = 1 << 20;

/// What the names in a log's directory say.
#[derive(Clone, Debug, Default)]
pub struct Directory {
    /// Files that should be segments, by id.
    pub segments: Vec<SegmentFile>,
    /// Names of files kept for reuse; their contents mean nothing.
    pub spares: Vec<String>,
    /// Names that are not the log's.
    pub others: Vec<String>,
}

impl Directory {
    /// Lists `directory`.
    pub fn list(disk: &dyn Disk, directory: &Path) -> Result<Directory, Error> {
        let names = disk.list(directory).map_err(Error::io("list", directory))?;
        let mut listed = Directory::default();
        for name in names {
            match FileName::parse(&name) {
                Some(FileName::Segment(kind, id)) => {
                    let path = directory.join(&name);
                    listed.segments.push(SegmentFile { id, kind, path });
                }
                Some(FileName::Spare(_) | FileName::Making(_)) => listed.spares.push(name),
                None => listed.others.push(name),
            }
        }
        listed.segments.sort_by_key(|segment| segment.id);
        listed.spares.sort();
        listed.others.sort();
        Ok(listed)
    }
}

/// A file that is a segment by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentFile {
    /// Its number.
    pub id: u32,
    /// What it is for.
    pub kind: SegmentKind,
    /// Where it is.
    pub path: PathBuf,
}

impl SegmentFile {
    /// Reads the file as far as the device lets it. An error when it cannot
    /// be opened at all, for instance because it was released since it was listed.
    pub fn read(&self, disk: &dyn Disk) -> Result<SegmentBytes, Error> {
        let file = disk
            .open(&self.path, OpenMode::Read)
            .map_err(Error::io("open", &self.path))?;
        let file_bytes = file.size().map_err(Error::io("measure", &self.path))?;
        let (bytes, unreadable) = read_all(&file, file_bytes.min(SEGMENT_BYTES_MAX));
        Ok(SegmentBytes {
            file: self.clone(),
            file_bytes,
            bytes,
            unreadable,
        })
    }

    /// The header alone; `None` where there is no valid one.
    pub fn read_header(&self, disk: &dyn Disk) -> Option<SegmentHeader> {
        let header = self.decode_header(disk)?.ok()?;
        self.is_named_by(&header).then_some(header)
    }

    /// The decoded header; `None` if it cannot be read.
    fn decode_header(&self, disk: &dyn Disk) -> Option<Result<SegmentHeader, Unreadable>> {
        let opened = disk.open(&self.path, OpenMode::Read).ok()?;
        match read_all(&opened, SEGMENT_HEADER_BYTES as u64) {
            (_, Some(_)) => None,
            (bytes, None) => Some(SegmentHeader::decode(&bytes)),
        }
    }

    fn is_named_by(&self, header: &SegmentHeader) -> bool {
        (header.id, header.kind) == (self.id, self.kind)
    }
}

/// Reads up to `wanted` bytes; stops at the first error and says where.
fn read_all(file: &Arc<dyn File>, wanted: u64) -> (Bytes, Option<(u64, String)>) {
    let mut bytes = vec![0; wanted as usize];
    let mut filled = 0;
    let mut unreadable = None;
    while filled < bytes.len() {
        let end = bytes.len().min(filled + READ_BYTES);
        match file.read_at(&mut bytes[filled..end], filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) => {
                unreadable = Some((filled as u64, error.to_string()));
                break;
            }
        }
    }
    bytes.truncate(filled);
    (bytes.into(), unreadable)
}

/// A segment's bytes in memory.
#[derive(Clone, Debug)]
pub struct SegmentBytes {
    /// The file they come from.
    pub file: SegmentFile,
    /// Its size.
    pub file_bytes: u64,
    /// What could be read, from the start on.
    bytes: Bytes,
    /// Where reading failed, and what the system said.
    pub unreadable: Option<(u64, String)>,
}

impl SegmentBytes {
    /// The header, or what is wrong with it.
    pub fn header(&self) -> Result<SegmentHeader, String> {
        let header = SegmentHeader::decode(&self.bytes).map_err(|unreadable| match unreadable {
            Unreadable::Foreign => "it does not begin with a segment header".to_owned(),
            Unreadable::Version(found) => {
                format!("it has format version {found}, this program reads {VERSION}")
            }
            Unreadable::Checksum => "its header fails its checksum".to_owned(),
            Unreadable::Nonsense => "its header makes no sense".to_owned(),
        })?;
        if !self.file.is_named_by(&header) {
            return Err(format!("its header belongs to segment {:08x}", header.id));
        }
        Ok(header)
    }

    /// The note that was written when the segment was left; `None` while it
    /// is in use. An error when there is a note that fails its checksum.
    pub fn seal(&self) -> Result<Option<SealNote>, String> {
        let note = self
            .bytes
            .get(SEAL_NOTE_START as usize..)
            .unwrap_or_default();
        match SealNote::decode(note) {
            Ok(note) if note.segment == self.file.id => Ok(Some(note)),
            Ok(_) | Err(Unreadable::Foreign) => Ok(None),
            Err(_) => Err("the note of its end fails its checksum".to_owned()),
        }
    }

    /// Where the seal note is in the file.
    pub const SEAL_OFFSET: u64 = SEAL_NOTE_START;

    /// The frames. With `after`, the first one must follow that link.
    pub fn walk(&self, after: Option<Link>) -> Walk {
        let promised = self.seal().ok().flatten().map_or(0, |seal| seal.end);
        let salt = SegmentHeader::salt_of(&self.bytes).unwrap_or(Salt::PROVISIONAL);
        Walk::new(self.bytes.clone(), self.file.id, salt, after, promised)
    }
    /// The frames behind damage that begins at `from`, the end of the last
    /// sound frame, which had the link `last`: up to the next damage, which
    /// may follow at once. `None` where no header of a frame follows.
    pub fn walk_behind(&self, from: u64, last: Option<Link>) -> Option<Walk> {
        self.walk(last).behind(from)
    }

    /// The end of the last bytes at or behind `from` that are not zero, as frames are
    /// aligned.
    pub fn used_from(&self, from: u64) -> u64 {
        let bytes = self.bytes.get(from as usize..).unwrap_or_default();
        let used = bytes.iter().rposition(|&byte| byte != 0);
        from + used.map_or(0, |last| (last as u64 + 1).next_multiple_of(8))
    }

    /// The record at `offset`, by its own checksum alone: it counts as sound
    /// in a damaged group too. `None` where none verifies.
    pub fn record_at(&self, offset: u64) -> Option<FrameRecord> {
        let bytes = self.bytes.get(offset as usize..)?;
        let record = RecordHeader::decode(bytes)?;
        let payload_bytes = record.verify(bytes)?.len();
        let start = offset as usize + RECORD_HEADER_BYTES;
        Some(FrameRecord {
            position: Position::new(self.file.id, offset),
            kind: record.kind,
            record_bytes: record.record_bytes() as u64,
            payload: self.bytes.slice(start..start + payload_bytes),
        })
    }
}
