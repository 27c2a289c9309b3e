//! Entries of a tree as blocks.
//!
//! ```text
//!   block   tree, widths, number of entries, least value of each field
//!           row row row ...     position, class and stamp of each entry, in a few bytes
//!           key key key ...     without what each shares with the one before
//! ```
//!
//! Entries of one block have much in common: the least value of each field stands in the block
//! once, and a row has the differences of one entry from these, in as many bits as the greatest
//! difference takes (docs/decisions/0044-short-checkpoints.md). Blocks of files before version 5 have two
//! words for each entry (`entries/words.rs`).

mod key;
mod rows;
mod words;

use super::block::BlockWriter;
use super::format::{BLOCK_BYTES, Kind};
use crate::format::{u32_at, u64_at};
use crate::trees::OF_VERSIONS;
use key::{LastKey, put_key};
use ordered_index::IndexEntry;
use rows::{Packed, RowsWriter};
use std::io;
use std::ops::Bound;
use words::Words;

/// Gathers entries; each block can be read without the one before.
#[derive(Debug)]
pub(crate) struct EntriesWriter {
    tree: usize,
    rows: RowsWriter,
    keys: Vec<u8>,
    /// The key that was pushed last; `None` before the first, which may be empty.
    last: Option<Vec<u8>>,
    /// Memory for the payload of a block.
    payload: Vec<u8>,
}

impl EntriesWriter {
    pub(crate) fn new(tree: usize) -> EntriesWriter {
        EntriesWriter {
            tree,
            rows: RowsWriter::default(),
            keys: Vec::new(),
            last: None,
            payload: Vec::new(),
        }
    }

    /// Where the entries go on that were not pushed yet.
    pub(super) fn rest(&self) -> Bound<&[u8]> {
        let last = self.last.as_deref();
        last.map_or(Bound::Unbounded, Bound::Excluded)
    }

    /// Whether the entries fill a block.
    pub(crate) fn is_full(&self) -> bool {
        self.keys.len() + self.rows.bytes() >= BLOCK_BYTES
    }

    pub(crate) fn push(&mut self, key: &[u8], entry: IndexEntry) {
        let is_first_in_block = self.rows.is_empty();
        let last = self.last.get_or_insert_default();
        let before = match is_first_in_block {
            true => &[][..],
            false => &last[..],
        };
        put_key(&mut self.keys, before, key);
        self.rows.push(entry);
        last.clear();
        last.extend(key);
    }

    pub(crate) fn flush(&mut self, blocks: &mut BlockWriter) -> io::Result<()> {
        if self.rows.is_empty() {
            return Ok(());
        }
        blocks.block(Kind::Entries, self.take_payload())
    }

    /// The payload of a block with the gathered entries, of which there is at least one.
    pub(crate) fn take_payload(&mut self) -> &[u8] {
        self.payload.clear();
        self.rows.take(self.tree, &mut self.payload);
        self.payload.append(&mut self.keys);
        &self.payload
    }
}

/// Entries of a block that were not read yet, in one of the two forms.
enum Unread<'p> {
    Packed(Packed<'p>),
    Words(Words<'p>),
}

impl<'p> Unread<'p> {
    /// The tree that a block is of, and its entries.
    fn of(payload: &'p [u8]) -> Result<(usize, Unread<'p>), &'static str> {
        let (head, rest) = payload
            .split_at_checked(8)
            .ok_or("a block of entries is cut off")?;
        // In a block of words the tree takes eight bytes, and is small.
        let is_of_words = u32_at(head, 4) == 0;
        let tree = match is_of_words {
            true => u64_at(head, 0),
            false => u64::from(head[0]),
        };
        let tree = OF_VERSIONS.into_iter().find(|it| *it as u64 == tree);
        let tree = tree.ok_or("a block of entries is of no tree")?;
        let entries = match is_of_words {
            true => Unread::Words(Words(rest)),
            false => Unread::Packed(Packed::of(payload)?),
        };
        Ok((tree, entries))
    }

    /// Takes the next key; false at the end.
    fn next_key(&mut self, key: &mut LastKey) -> Result<bool, &'static str> {
        match self {
            Unread::Packed(packed) => packed.next_key(key),
            Unread::Words(words) => Ok(words.next(key)?.is_some()),
        }
    }
}

/// Shows the entries of a block: tree, key and entry.
pub(crate) fn read_entries<E: From<&'static str>>(
    payload: &[u8],
    mut visit: impl FnMut(usize, &[u8], IndexEntry) -> Result<(), E>,
) -> Result<(), E> {
    let (tree, entries) = Unread::of(payload)?;
    let mut key = LastKey::default();
    // A loop for each form: asking for the form of each entry costs a tenth of an opening.
    match entries {
        Unread::Packed(mut packed) => {
            while let Some(entry) = packed.next(&mut key)? {
                visit(tree, key.bytes(), entry)?;
            }
        }
        Unread::Words(mut words) => {
            while let Some(entry) = words.next(&mut key)? {
                visit(tree, key.bytes(), entry)?;
            }
        }
    }
    Ok(())
}

/// The tree and the first key of a block, unless it is damaged or has no entry.
pub(super) fn first_key(payload: &[u8]) -> Option<(usize, Vec<u8>)> {
    let (tree, mut entries) = Unread::of(payload).ok()?;
    let mut key = LastKey::default();
    let has_one = entries.next_key(&mut key).ok()?;
    has_one.then(|| (tree, key.bytes().to_vec()))
}

/// The last key of a block.
pub(super) fn last_key(payload: &[u8]) -> Option<Vec<u8>> {
    let (_, mut entries) = Unread::of(payload).ok()?;
    let mut key = LastKey::default();
    while entries.next_key(&mut key).ok()? {}
    Some(key.bytes().to_vec())
}

#[cfg(test)]
mod tests;
