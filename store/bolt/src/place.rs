//! Entries by their place, in any order.

use crate::bucket::{Bucket, Tree};
use crate::entries::Entry;
use crate::error::Error;
use crate::file::DatabaseFile;
use crate::page::{Page, PageKind};

/// Where an entry of a bucket is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    pub(crate) page: u64,
    pub(crate) element: u16,
}

/// Reads entries of one bucket by their places. It keeps the page of the last one, for entries that
/// are near to each other.
#[derive(Debug)]
pub struct EntryReader<'a> {
    file: &'a DatabaseFile,
    /// The only page of a bucket without pages of its own.
    inline: Option<Page>,
    last: Option<Page>,
}

impl<'a> EntryReader<'a> {
    /// A reader of this bucket.
    pub fn new(file: &'a DatabaseFile, bucket: &Bucket) -> EntryReader<'a> {
        let inline = match &bucket.tree {
            Tree::Inline(page) => Some(page.clone()),
            Tree::Root(_) => None,
        };
        EntryReader {
            file,
            inline,
            last: None,
        }
    }

    /// The entry at a place that [`crate::Entries::next_placed`] gave. The file may have changed since
    /// then: an error, or another entry.
    pub fn entry(&mut self, place: Place) -> Result<Entry, Error> {
        let page = match &self.inline {
            Some(page) => page,
            None => {
                let last = self.last.take().filter(|page| page.id == place.page);
                let page = last.map_or_else(|| self.read(place.page), Ok)?;
                self.last.insert(page)
            }
        };
        if page.kind != PageKind::Leaf || place.element >= page.count {
            let problem = "it has changed while it was read".to_owned();
            return Err(self.file.damaged(place.page, problem));
        }
        let leaf = page.leaf(place.element);
        let leaf = leaf.map_err(|problem| self.file.damaged(place.page, problem))?;
        Ok((leaf.key, leaf.value))
    }

    fn read(&self, page: u64) -> Result<Page, Error> {
        Ok(self.file.page(page)?.0)
    }
}
