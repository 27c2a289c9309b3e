//! A checkpoint in portions: some blocks of entries that one thread takes.
//!
//! ```text
//!   file       [a b c] [e g] [h k m]            blocks of CURRENT
//!   changes    b' d n                           what replaces them, if anything does
//!   portions   a b c, b'd  |  e g  |  h k m, n  each with the changes below the next one
//! ```
//!
//! One thread at a time reads the next portion, and verifies it; so the file is read from its
//! beginning to its end with any number of threads. One block more is read ahead, because its
//! first key is where the changes of the portion before it end. (In front of a block of another tree
//! they end with the last key of the portion.) Where many changes lie between two keys of the file, such as
//! keys that ascend, they follow in portions of their own.

use super::block::BlockReader;
use super::entries::{first_key, last_key};
use super::format::{Foot, Kind};
use super::tables::Tables;
use super::unusable::Unusable;
use crate::sorted_changes::{SortedRuns, Stretch};
use crate::trees::CURRENT;
use std::mem;
use std::ops::Bound;

/// Blocks in a portion, unless they are long.
const PORTION_BLOCKS: usize = 16;
/// More changes than this go into portions of their own, if they lie behind the entries of theirs.
const PORTION_CHANGES: usize = if cfg!(test) { 40 } else { 1 << 17 };
/// No block is added to a portion of this size.
pub(super) const PORTION_BYTES: usize = 1 << 20;

/// Verified blocks of entries, in memory that serves for one portion after another.
#[derive(Debug, Default)]
pub(super) struct Portion {
    /// Their payloads; those behind `used` are memory for others.
    payloads: Vec<Vec<u8>>,
    used: usize,
    /// Changes of keys below the next portion, and not below this one.
    pub(super) changes: Vec<Stretch>,
}

impl Portion {
    pub(super) fn payloads(&self) -> impl Iterator<Item = &[u8]> {
        self.payloads[..self.used].iter().map(Vec::as_slice)
    }

    /// Exchanges a payload for memory.
    fn push(&mut self, payload: &mut Vec<u8>) {
        if self.used == self.payloads.len() {
            self.payloads.push(Vec::new());
        }
        mem::swap(&mut self.payloads[self.used], payload);
        self.used += 1;
    }

    fn is_full(&self) -> bool {
        let bytes = || self.payloads().map(<[u8]>::len).sum::<usize>();
        self.used >= PORTION_BLOCKS || bytes() >= PORTION_BYTES
    }

    /// The last key of CURRENT in it.
    fn last_current_key(&self) -> Option<Vec<u8>> {
        let is_of_current = |payload: &&[u8]| matches!(first_key(payload), Some((CURRENT, _)));
        last_key(self.payloads().filter(is_of_current).last()?)
    }

    fn is_empty(&self) -> bool {
        self.used == 0 && self.changes.is_empty()
    }
}

/// The entries of a checkpoint, in the order of the file.
#[derive(Debug)]
pub(super) struct EntryBlocks {
    blocks: BlockReader,
    /// The payload of the next one, unless `end` says what comes instead.
    ahead: Vec<u8>,
    /// The foot, or what is wrong behind all blocks of entries.
    end: Option<Result<Foot, Unusable>>,
}

impl EntryBlocks {
    /// Takes the tables, which stand in front of the entries.
    pub(super) fn behind(
        mut blocks: BlockReader,
        tables: &mut Tables,
    ) -> Result<EntryBlocks, Unusable> {
        let (ahead, end) = loop {
            let (kind, payload) = block(&mut blocks)?;
            match kind {
                Kind::Entries => break (payload.to_vec(), None),
                Kind::Foot => break (Vec::new(), Some(foot(payload))),
                _ => tables.take(kind, payload)?,
            }
        };
        Ok(EntryBlocks { blocks, ahead, end })
    }

    /// Moves the next block of entries to `portion`, if there is one.
    fn take(&mut self, portion: &mut Portion) {
        portion.push(&mut self.ahead);
        self.end = match block(&mut self.blocks) {
            Ok((Kind::Entries, payload)) => {
                self.ahead.clear();
                self.ahead.extend_from_slice(payload);
                return;
            }
            Ok((Kind::Foot, payload)) => Some(foot(payload)),
            Ok(_) => Some(Err("a table follows its entries".into())),
            Err(what) => Some(Err(what.into())),
        };
    }

    /// End of the changes that go with a portion that was just taken; `None` if none do.
    fn end_of_changes(&self, portion: &Portion) -> Option<Bound<Vec<u8>>> {
        match &self.end {
            Some(Ok(_)) => return Some(Bound::Unbounded),
            Some(Err(_)) => return None,
            None => {}
        }
        if let Some((CURRENT, next)) = first_key(&self.ahead) {
            return Some(Bound::Excluded(next));
        }
        // The keys of CURRENT may go on behind those of another tree.
        Some(Bound::Included(portion.last_current_key()?))
    }
}

fn foot(payload: &[u8]) -> Result<Foot, Unusable> {
    Ok(Foot::decode(payload).ok_or("its foot has another size")?)
}

/// Hands out entries, and changes beside them.
#[derive(Debug)]
pub(super) struct Portions {
    entries: EntryBlocks,
    changes: SortedRuns,
    /// End of the changes that follow the last portion in portions of their own.
    changes_end: Option<Bound<Vec<u8>>>,
    /// Portions handed out.
    count: u64,
}

impl Portions {
    pub(super) fn new(entries: EntryBlocks, changes: SortedRuns) -> Portions {
        Portions {
            entries,
            changes,
            changes_end: None,
            count: 0,
        }
    }

    /// Replaces the content of `portion` by the next one. Returns its number; `None` at the end.
    pub(super) fn next(&mut self, portion: &mut Portion) -> Option<u64> {
        portion.used = 0;
        portion.changes.clear();
        if !self.take_slice(portion) {
            while self.entries.end.is_none() && !portion.is_full() {
                self.entries.take(portion);
            }
            self.add_changes(portion);
        }
        if portion.is_empty() {
            return None;
        }
        self.count += 1;
        Some(self.count)
    }

    fn add_changes(&mut self, portion: &mut Portion) {
        if self.changes.is_empty() {
            return;
        }
        let Some(end) = self.entries.end_of_changes(portion) else {
            return;
        };
        let bound = end.as_ref().map(Vec::as_slice);
        if self.changes.count_to(bound) <= PORTION_CHANGES {
            self.changes.take_to(bound, &mut portion.changes);
            return;
        }
        if let Some(last) = portion.last_current_key() {
            let among_entries = Bound::Included(&last[..]);
            self.changes.take_to(among_entries, &mut portion.changes);
        }
        self.changes_end = Some(end);
        if portion.is_empty() {
            self.take_slice(portion);
        }
    }

    /// Takes some of the changes that have portions of their own; false if there are none.
    fn take_slice(&mut self, portion: &mut Portion) -> bool {
        let Some(end) = &self.changes_end else {
            return false;
        };
        let end = end.as_ref().map(Vec::as_slice);
        self.changes.take_slice(end, &mut portion.changes);
        if portion.changes.is_empty() {
            self.changes_end = None;
        }
        !portion.changes.is_empty()
    }

    /// Ends this early: a portion that was handed out is unusable.
    pub(super) fn stop(&mut self) {
        self.entries
            .end
            .get_or_insert_with(|| Err("a part of it is unusable".into()));
    }

    /// The foot, and the bytes of the file as it would be written now. It must end behind the foot. After all portions.
    pub(super) fn foot(mut self) -> Result<(Foot, u64), Unusable> {
        let foot = self.entries.end.expect("all portions were handed out")?;
        let blocks = &mut self.entries.blocks;
        if !blocks.at_end()? {
            return Err("something follows its foot".into());
        }
        Ok((foot, blocks.bytes_now(blocks.offset())))
    }
}

/// The next block; an error says where in the file it is.
pub(super) fn block(blocks: &mut BlockReader) -> Result<(Kind, &[u8]), String> {
    let offset = blocks.offset();
    let block = blocks.block();
    block.map_err(|what| format!("block at byte {offset}: {what}"))
}
