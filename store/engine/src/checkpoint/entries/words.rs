//! Entries before version 5: varint bytes shared with the key before, varint further bytes, those
//! bytes, and the two words of the entry. They are read, and written no more.

use super::super::format::take_varint;
use super::key::LastKey;
use crate::format::u64_at;
use ordered_index::IndexEntry;

/// Bytes of the two words.
const ENTRY_BYTES: usize = 16;

/// The entries of a block that were not read yet.
#[derive(Debug)]
pub(super) struct Words<'p>(pub(super) &'p [u8]);

impl Words<'_> {
    pub(super) fn next(&mut self, key: &mut LastKey) -> Result<Option<IndexEntry>, &'static str> {
        match self.0.is_empty() {
            true => Ok(None),
            false => self.take(key).map(Some).ok_or("an entry is cut off"),
        }
    }

    fn take(&mut self, key: &mut LastKey) -> Option<IndexEntry> {
        let shared = usize::try_from(take_varint(&mut self.0)?).ok()?;
        let further = usize::try_from(take_varint(&mut self.0)?).ok()?;
        key.advance(shared, further, &mut self.0)?;
        let (words, rest) = self.0.split_at_checked(ENTRY_BYTES)?;
        self.0 = rest;
        Some(IndexEntry {
            value: u64_at(words, 0),
            stamp: u64_at(words, 8),
        })
    }
}
