//! Entries of a tree as blocks.

use super::block::BlockWriter;
use super::format::{BLOCK_BYTES, Kind, put_varint, take_varint};
use crate::format::u64_at;
use crate::trees::OF_VERSIONS;
use ordered_index::IndexEntry;
use std::io;
use std::ops::Bound;

/// Bytes of the tree's number at the start of a block.
const TREE_BYTES: usize = 8;

/// Gathers entries; each block can be read without the one before.
#[derive(Debug)]
pub(crate) struct EntriesWriter {
    /// The number of the tree, and the entries.
    payload: Vec<u8>,
    /// The key that was pushed last; `None` before the first, which may be empty.
    last: Option<Vec<u8>>,
}

impl EntriesWriter {
    pub(crate) fn new(tree: usize) -> EntriesWriter {
        let payload = (tree as u64).to_le_bytes().to_vec();
        EntriesWriter {
            payload,
            last: None,
        }
    }

    /// Where the entries go on that were not pushed yet.
    pub(super) fn rest(&self) -> Bound<&[u8]> {
        let last = self.last.as_deref();
        last.map_or(Bound::Unbounded, Bound::Excluded)
    }

    /// Whether the entries fill a block.
    pub(crate) fn is_full(&self) -> bool {
        self.payload.len() >= BLOCK_BYTES
    }

    pub(crate) fn push(&mut self, key: &[u8], entry: IndexEntry) {
        let is_first_in_block = self.is_empty();
        let last = self.last.get_or_insert_default();
        let shared = match is_first_in_block {
            true => 0,
            false => shared_bytes(last, key),
        };
        put_varint(&mut self.payload, shared as u64);
        put_varint(&mut self.payload, (key.len() - shared) as u64);
        self.payload.extend(&key[shared..]);
        self.payload.extend(entry.value.to_le_bytes());
        self.payload.extend(entry.stamp.to_le_bytes());
        last.clear();
        last.extend(key);
    }

    pub(crate) fn flush(&mut self, blocks: &mut BlockWriter) -> io::Result<()> {
        if !self.is_empty() {
            blocks.block(Kind::Entries, &self.payload)?;
        }
        self.payload.truncate(TREE_BYTES);
        Ok(())
    }

    fn is_empty(&self) -> bool {
        self.payload.len() == TREE_BYTES
    }
}

/// Shows the entries of a block: tree, key and entry.
pub(crate) fn read_entries<E: From<&'static str>>(
    payload: &[u8],
    mut visit: impl FnMut(usize, &[u8], IndexEntry) -> Result<(), E>,
) -> Result<(), E> {
    let (tree, mut rest) = tree_of(payload)?;
    let mut key = Vec::new();
    while !rest.is_empty() {
        let entry = take_entry(&mut rest, &mut key).ok_or("an entry is cut off")?;
        visit(tree, &key, entry)?;
    }
    Ok(())
}

/// The tree and the first key of a block, unless it is damaged or has no entry.
pub(super) fn first_key(payload: &[u8]) -> Option<(usize, Vec<u8>)> {
    let (tree, mut rest) = tree_of(payload).ok()?;
    let mut key = Vec::new();
    take_entry(&mut rest, &mut key)?;
    Some((tree, key))
}

/// The last key of a block.
pub(super) fn last_key(payload: &[u8]) -> Option<Vec<u8>> {
    let (_, mut rest) = tree_of(payload).ok()?;
    let mut key = Vec::new();
    while !rest.is_empty() {
        take_entry(&mut rest, &mut key)?;
    }
    Some(key)
}

/// The tree that a block is of, and the entries.
fn tree_of(payload: &[u8]) -> Result<(usize, &[u8]), &'static str> {
    let (tree, entries) = payload
        .split_at_checked(TREE_BYTES)
        .ok_or("a block of entries is cut off")?;
    let tree = usize::try_from(u64_at(tree, 0)).ok();
    let tree = tree.filter(|tree| OF_VERSIONS.contains(tree));
    Ok((tree.ok_or("a block of entries is of no tree")?, entries))
}

fn take_entry(rest: &mut &[u8], key: &mut Vec<u8>) -> Option<IndexEntry> {
    let shared = usize::try_from(take_varint(rest)?).ok()?;
    let further = usize::try_from(take_varint(rest)?).ok()?;
    if shared > key.len() || further.checked_add(16)? > rest.len() {
        return None;
    }
    key.truncate(shared);
    key.extend(&rest[..further]);
    let entry = IndexEntry {
        value: u64_at(rest, further),
        stamp: u64_at(rest, further + 8),
    };
    *rest = &rest[further + 16..];
    Some(entry)
}

fn shared_bytes(one: &[u8], other: &[u8]) -> usize {
    one.iter()
        .zip(other)
        .take_while(|(one, other)| one == other)
        .count()
}
