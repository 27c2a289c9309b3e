//! Blocks: the unit that is checksummed.

use super::format::{
    BLOCK_BYTES, BLOCK_BYTES_MAX, BLOCK_HEADER_BYTES, FILE_HEADER_BYTES, Kind, MAGIC, VERSION,
    VERSION_OF_PACKED_ENTRIES, VERSION_READ_MIN,
};
use crate::format::u32_at;
use environment::File;
use std::io;
use std::sync::Arc;
use value_log::crc32c_of as crc;

/// Bytes gathered before one write.
const WRITE_BYTES: usize = 256 << 10;
const READ_BYTES: usize = 256 << 10;

/// A file's first block, to be written over the one that is there.
pub(crate) fn block_at_start(kind: Kind, payload: &[u8]) -> Vec<u8> {
    let mut block = Vec::with_capacity(BLOCK_HEADER_BYTES + payload.len());
    put_block(&mut block, kind, payload, 0);
    block
}

fn put_block(bytes: &mut Vec<u8>, kind: Kind, payload: &[u8], number: u32) {
    let start = bytes.len();
    bytes.extend((kind as u32).to_le_bytes());
    bytes.extend((payload.len() as u32).to_le_bytes());
    bytes.extend(number.to_le_bytes());
    let crc = crc(&[&bytes[start..], payload]);
    bytes.extend(crc.to_le_bytes());
    bytes.extend(payload);
}

/// Writes blocks one after the other.
#[derive(Debug)]
pub(crate) struct BlockWriter {
    file: Arc<dyn File>,
    buffer: Vec<u8>,
    written_bytes: u64,
    /// Bytes from the start that are stable.
    synced_bytes: u64,
    blocks: u32,
}

impl BlockWriter {
    pub(crate) fn new(file: Arc<dyn File>) -> BlockWriter {
        let mut buffer = Vec::with_capacity(WRITE_BYTES + BLOCK_BYTES);
        buffer.extend(MAGIC);
        buffer.extend(VERSION.to_le_bytes());
        buffer.extend(crc(&[&buffer]).to_le_bytes());
        assert_eq!(
            buffer.len(),
            FILE_HEADER_BYTES,
            "the file header has its size"
        );
        BlockWriter {
            file,
            buffer,
            written_bytes: 0,
            synced_bytes: 0,
            blocks: 0,
        }
    }

    /// Bytes written that are not stable yet.
    pub(crate) fn unsynced_bytes(&self) -> u64 {
        self.written_bytes - self.synced_bytes
    }

    /// Makes what was written so far stable, so that the end of a large file is
    /// no burst in which the log's flushes are stuck.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()?;
        self.synced_bytes = self.written_bytes;
        Ok(())
    }

    pub(crate) fn block(&mut self, kind: Kind, payload: &[u8]) -> io::Result<()> {
        assert!(
            payload.len() <= BLOCK_BYTES_MAX,
            "a block of {} bytes",
            payload.len()
        );
        put_block(&mut self.buffer, kind, payload, self.blocks);
        self.blocks += 1;
        if self.buffer.len() >= WRITE_BYTES {
            self.flush()
        } else {
            Ok(())
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.write_at(&[&self.buffer], self.written_bytes)?;
        self.written_bytes += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Makes the file stable; returns its size.
    pub(crate) fn finish(mut self) -> io::Result<u64> {
        self.flush()?;
        self.sync()?;
        Ok(self.written_bytes)
    }
}

/// Reads blocks one after the other and trusts none of them.
#[derive(Debug)]
pub(crate) struct BlockReader {
    file: Arc<dyn File>,
    buffer: Vec<u8>,
    /// Bytes of `buffer` already handed out.
    used: usize,
    read_bytes: u64,
    blocks: u32,
    /// Version of the file.
    version: u32,
}

impl BlockReader {
    pub(crate) fn new(file: Arc<dyn File>) -> Result<BlockReader, String> {
        let mut reader = BlockReader {
            file,
            buffer: Vec::new(),
            used: 0,
            read_bytes: 0,
            blocks: 0,
            version: 0,
        };
        let header = reader.take(FILE_HEADER_BYTES)?;
        if header[..8] != MAGIC {
            return Err("it does not start like a checkpoint".into());
        }
        if u32_at(header, 12) != crc(&[&header[..12]]) {
            return Err("its header fails its checksum".into());
        }
        match u32_at(header, 8) {
            version @ VERSION_READ_MIN..=VERSION => Ok(BlockReader { version, ..reader }),
            other => Err(format!(
                "it has version {other}, this program reads {VERSION_READ_MIN} to {VERSION}"
            )),
        }
    }

    /// Bytes of a file with the same content that would be written now; at least for short keys, which
    /// shrink most.
    pub(crate) fn bytes_now(&self, file_bytes: u64) -> u64 {
        match self.version < VERSION_OF_PACKED_ENTRIES {
            true => file_bytes / 5 * 3,
            false => file_bytes,
        }
    }

    /// The next block.
    pub(crate) fn block(&mut self) -> Result<(Kind, &[u8]), String> {
        let header = self.take(BLOCK_HEADER_BYTES)?;
        let (code, payload_bytes) = (u32_at(header, 0), u32_at(header, 4) as usize);
        let (number, expected) = (u32_at(header, 8), u32_at(header, 12));
        let checked: [u8; 12] = header[..12].try_into().expect("twelve bytes");
        if number != self.blocks || payload_bytes > BLOCK_BYTES_MAX {
            return Err("its header is not one".into());
        }
        self.blocks += 1;
        let payload = self.take(payload_bytes)?;
        if crc(&[&checked, payload]) != expected {
            return Err("it fails its checksum".into());
        }
        let kind = Kind::from_code(code).ok_or_else(|| format!("unknown kind {code}"))?;
        Ok((kind, payload))
    }

    /// Whether nothing follows.
    pub(crate) fn at_end(&mut self) -> Result<bool, String> {
        self.fill(1)?;
        Ok(self.used == self.buffer.len())
    }

    /// Where the next block starts in the file.
    pub(crate) fn offset(&self) -> u64 {
        self.read_bytes - (self.buffer.len() - self.used) as u64
    }

    fn take(&mut self, bytes: usize) -> Result<&[u8], String> {
        self.fill(bytes)?;
        let start = self.used;
        if self.buffer.len() - start < bytes {
            return Err("the file ends in the middle of it".into());
        }
        self.used += bytes;
        Ok(&self.buffer[start..start + bytes])
    }

    /// Reads until `bytes` are there or the file ends.
    fn fill(&mut self, bytes: usize) -> Result<(), String> {
        if self.buffer.len() - self.used >= bytes {
            return Ok(());
        }
        self.buffer.drain(..self.used);
        self.used = 0;
        while self.buffer.len() < bytes {
            let start = self.buffer.len();
            self.buffer
                .resize(start + READ_BYTES.min(bytes.max(READ_BYTES)), 0);
            let read = self
                .file
                .read_at(&mut self.buffer[start..], self.read_bytes);
            let read = read.map_err(|error| format!("cannot be read: {error}"))?;
            self.buffer.truncate(start + read);
            self.read_bytes += read as u64;
            if read == 0 {
                break;
            }
        }
        Ok(())
    }
}
