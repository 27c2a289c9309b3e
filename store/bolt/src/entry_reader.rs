//! Entries by their place, in any order.

use bytes::Bytes;

use crate::bucket::{Bucket, Tree};
use crate::entries::Entry;
use crate::error::Error;
use crate::file::DatabaseFile;
use crate::page::{Page, Place};

/// Reads entries of one bucket by their places: their bytes alone, not the pages that they are in.
#[derive(Debug)]
pub struct EntryReader<'a> {
    file: &'a DatabaseFile,
    /// The only page of a bucket without pages of its own.
    inline: Option<Page>,
}

impl<'a> EntryReader<'a> {
    /// A reader of this bucket.
    pub fn new(file: &'a DatabaseFile, bucket: &Bucket) -> EntryReader<'a> {
        let inline = match &bucket.tree {
            Tree::Inline(page) => Some(page.clone()),
            Tree::Root(_) => None,
        };
        EntryReader { file, inline }
    }

    /// The bytes at a place that [`crate::Entries::next_placed`] gave. The file may have changed since
    /// then: an error, or other bytes.
    pub fn entry(&self, place: Place) -> Result<Entry, Error> {
        let mut key = self.bytes(place)?;
        let value = key.split_off(place.key_bytes as usize);
        Ok((key, value))
    }

    fn bytes(&self, place: Place) -> Result<Bytes, Error> {
        let length = place.key_bytes as usize + place.value_bytes as usize;
        if let Some(page) = &self.inline {
            let begin = place.offset as usize;
            return Ok(page.slice(begin..begin + length));
        }
        // It was within a page, which is at most LEAF_BYTES_MAX.
        let mut bytes = vec![0; length];
        self.file.read_at(&mut bytes, place.offset)?;
        Ok(bytes.into())
    }
}
