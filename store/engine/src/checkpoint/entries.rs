//! Encodes entries of a tree as blocks.

use super::block::BlockWriter;
use super::format::{BLOCK_BYTES, Kind, put_varint};
use ordered_index::Entry;
use std::io;

/// Gathers entries; each block can be read without the one before.
#[derive(Debug)]
pub(crate) struct EntriesWriter {
    tree: usize,
    payload: Vec<u8>,
    pub(super) last: Vec<u8>,
    /// Where the next slice goes on.
    pub(super) start: Option<Vec<u8>>,
    empty: bool,
}

impl EntriesWriter {
    pub(crate) fn new(tree: usize) -> EntriesWriter {
        let payload = (tree as u64).to_le_bytes().to_vec();
        EntriesWriter {
            tree,
            payload,
            last: Vec::new(),
            start: None,
            empty: true,
        }
    }

    /// Whether the entries fill a block.
    pub(crate) fn is_full(&self) -> bool {
        self.payload.len() >= BLOCK_BYTES
    }

    pub(crate) fn push(&mut self, key: &[u8], entry: Entry) {
        let shared = if self.empty {
            0
        } else {
            shared_bytes(&self.last, key)
        };
        put_varint(&mut self.payload, shared as u64);
        put_varint(&mut self.payload, (key.len() - shared) as u64);
        self.payload.extend(&key[shared..]);
        self.payload.extend(entry.value.to_le_bytes());
        self.payload.extend(entry.stamp.to_le_bytes());
        self.last.clear();
        self.last.extend(key);
        self.empty = false;
    }

    pub(crate) fn flush(&mut self, blocks: &mut BlockWriter) -> io::Result<()> {
        if !self.empty {
            blocks.block(Kind::Entries, &self.payload)?;
        }
        self.payload.clear();
        self.payload.extend((self.tree as u64).to_le_bytes());
        self.empty = true;
        Ok(())
    }
}

fn shared_bytes(one: &[u8], other: &[u8]) -> usize {
    one.iter()
        .zip(other)
        .take_while(|(one, other)| one == other)
        .count()
}
