//! A checkpoint in portions: some blocks of entries that one thread takes.
//!
//! One thread at a time reads the next portion, and verifies it; so the file is read from its
//! beginning to its end with any number of threads, and the tables in it are taken in
//! their order.

use super::block::BlockReader;
use super::format::{Foot, Kind};
use super::tables::Tables;
use super::unusable::Unusable;
use std::collections::BTreeSet;

/// Blocks in a portion, unless they are long.
const PORTION_BLOCKS: usize = 16;
/// No block is added to a portion of this size.
pub(super) const PORTION_BYTES: usize = 1 << 20;

/// Verified blocks of entries, in memory that serves for one portion after another.
#[derive(Debug, Default)]
pub(super) struct Portion {
    /// Their payloads, one after the other.
    bytes: Vec<u8>,
    /// Where each payload ends in `bytes`.
    ends: Vec<usize>,
}

impl Portion {
    pub(super) fn payloads(&self) -> impl Iterator<Item = &[u8]> {
        let mut start = 0;
        self.ends.iter().map(move |&end| {
            let payload = &self.bytes[start..end];
            start = end;
            payload
        })
    }

    fn push(&mut self, payload: &[u8]) {
        self.bytes.extend_from_slice(payload);
        self.ends.push(self.bytes.len());
    }

    fn is_full(&self) -> bool {
        self.ends.len() >= PORTION_BLOCKS || self.bytes.len() >= PORTION_BYTES
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }
}

/// Hands out what follows the head of a checkpoint.
#[derive(Debug)]
pub(super) struct Portions<'a> {
    pub(super) blocks: BlockReader,
    pub(super) tables: Tables<'a>,
    /// Portions handed out.
    count: u64,
    /// The foot, or what is wrong behind all portions that were handed out.
    end: Option<Result<Foot, Unusable>>,
}

impl<'a> Portions<'a> {
    pub(super) fn new(blocks: BlockReader, present: &'a BTreeSet<u32>) -> Portions<'a> {
        Portions {
            blocks,
            tables: Tables::new(present),
            count: 0,
            end: None,
        }
    }

    /// Replaces the content of `portion` by the next one. Returns its number; `None` at the end.
    pub(super) fn next(&mut self, portion: &mut Portion) -> Option<u64> {
        portion.clear();
        while self.end.is_none() && !portion.is_full() {
            self.end = self.take_block(portion).transpose();
        }
        if portion.ends.is_empty() {
            return None;
        }
        self.count += 1;
        Some(self.count)
    }

    /// Returns the foot if that is the next block.
    fn take_block(&mut self, portion: &mut Portion) -> Result<Option<Foot>, Unusable> {
        let (kind, payload) = block(&mut self.blocks)?;
        match kind {
            Kind::Entries => portion.push(payload),
            Kind::Foot => {
                let foot = Foot::decode(payload).ok_or("its foot has another size")?;
                return Ok(Some(foot));
            }
            _ => self.tables.take(kind, payload)?,
        }
        Ok(None)
    }

    /// Ends this early: a portion that was handed out is unusable.
    pub(super) fn stop(&mut self) {
        self.end
            .get_or_insert_with(|| Err("a part of it is unusable".into()));
    }

    /// The foot, after all portions.
    pub(super) fn foot(&mut self) -> Result<Foot, Unusable> {
        self.end.take().expect("all portions were handed out")
    }

    /// Bytes of the file, which must end behind the foot.
    pub(super) fn file_bytes(mut self) -> Result<u64, Unusable> {
        if !self.blocks.at_end()? {
            return Err("something follows its foot".into());
        }
        Ok(self.blocks.offset())
    }
}

/// The next block; an error says where in the file it is.
pub(super) fn block(blocks: &mut BlockReader) -> Result<(Kind, &[u8]), String> {
    let offset = blocks.offset();
    let block = blocks.block();
    block.map_err(|what| format!("block at byte {offset}: {what}"))
}
