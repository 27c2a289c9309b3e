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

/// Pages that are kept for entries that come later.
const CACHED_PAGES: usize = 2048;
/// A larger page is kept only until another one is read.
const CACHED_BYTES_MAX: usize = 16 << 10;

/// Reads entries of one bucket by their places. It keeps pages of the last ones, because entries that are
/// near to each other in one order are often near in another.
#[derive(Debug)]
pub struct EntryReader<'a> {
    file: &'a DatabaseFile,
    /// The last large page, or the only page of a bucket without pages of its own.
    last: Option<Page>,
    /// Each page has one slot, by its number.
    cached: Vec<Option<Page>>,
}

impl<'a> EntryReader<'a> {
    /// A reader of this bucket.
    pub fn new(file: &'a DatabaseFile, bucket: &Bucket) -> EntryReader<'a> {
        let last = match &bucket.tree {
            Tree::Inline(page) => Some(page.clone()),
            Tree::Root(_) => None,
        };
        EntryReader {
            file,
            last,
            cached: vec![None; CACHED_PAGES],
        }
    }

    /// The entry at a place that [`crate::Entries::next_placed`] gave. The file may have changed since
    /// then: an error, or another entry.
    pub fn entry(&mut self, place: Place) -> Result<Entry, Error> {
        let file = self.file;
        let page = self.page(place.page)?;
        if page.kind != PageKind::Leaf || place.element >= page.count {
            let problem = "it has changed while it was read".to_owned();
            return Err(file.damaged(place.page, problem));
        }
        let leaf = page.leaf(place.element);
        let leaf = leaf.map_err(|problem| file.damaged(place.page, problem))?;
        Ok((leaf.key, leaf.value))
    }

    fn page(&mut self, id: u64) -> Result<&Page, Error> {
        let slot = (id % CACHED_PAGES as u64) as usize;
        let is_kept = |page: &Option<Page>| page.as_ref().is_some_and(|page| page.id == id);
        if !is_kept(&self.cached[slot]) && !is_kept(&self.last) {
            let page = self.file.page(id)?.0;
            match page.bytes_len() <= CACHED_BYTES_MAX {
                true => self.cached[slot] = Some(page),
                false => self.last = Some(page),
            }
        }
        let kept = [&self.cached[slot], &self.last].into_iter().flatten();
        let mut kept = kept.filter(|page| page.id == id);
        Ok(kept.next().expect("it is kept since a moment ago"))
    }
}
