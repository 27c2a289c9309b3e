//! Reads: a view determines the revision, a query the range.

use std::ops::RangeBounds;

use etcd_api::etcdserverpb::{
    RangeRequest, RangeResponse,
    range_request::{SortOrder, SortTarget},
};

use revisions::Reader;

use crate::key_range::KeyRange;
use crate::{Error, KeyValue};

/// Number of entries of the first page of [`Entries`], before their size is known.
const FIRST_PAGE_ENTRIES: usize = 32;
/// Greatest number of entries of a page.
const PAGE_ENTRIES_MAX: usize = 512;
/// Approximate size of a page. The allocator reuses the memory of a page of this size for
/// the next one; larger ones would be returned to the system and cause page faults.
const PAGE_BYTES: usize = 128 << 10;

/// The state of the store at one revision.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    reader: &'a Reader,
    /// The revision; 0 means the newest one at each call.
    revision: i64,
}

impl<'a> View<'a> {
    pub(crate) fn new(reader: &'a Reader, revision: i64) -> View<'a> {
        View { reader, revision }
    }

    /// The revision of the view. A watch from the next revision on continues where a read of
    /// this view ends.
    pub fn revision(&self) -> i64 {
        match self.revision {
            0 => self.reader.revision(),
            fixed => fixed,
        }
    }

    /// The newest version of a key at this revision; `None` where it does not exist.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<KeyValue>, Error> {
        let found = self.reader.get(key.as_ref(), self.revision)?;
        Ok(found.as_ref().map(KeyValue::from))
    }

    /// A query of the keys in a range at this revision.
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Query<'a> {
        Query::new(self.reader, KeyRange::new(range), self.revision)
    }

    /// A query of the keys that begin with `prefix` at this revision.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Query<'a> {
        Query::new(
            self.reader,
            KeyRange::prefix(prefix.as_ref()),
            self.revision,
        )
    }
}

/// A read of a range, in either direction.
#[derive(Clone, Debug)]
#[must_use = "a query reads nothing until it is collected, counted or iterated"]
pub struct Query<'a> {
    reader: &'a Reader,
    range: KeyRange,
    revision: i64,
    reverse: bool,
    /// Greatest number of entries; `None` for no limit.
    limit: Option<usize>,
}

impl<'a> Query<'a> {
    pub(crate) fn new(reader: &'a Reader, range: KeyRange, revision: i64) -> Query<'a> {
        Query {
            reader,
            range,
            revision,
            reverse: false,
            limit: None,
        }
    }

    /// Returns entries from the last key to the first.
    pub fn reverse(mut self) -> Query<'a> {
        self.reverse = true;
        self
    }

    /// Returns at most this many entries.
    pub fn limit(mut self, entries_max: usize) -> Query<'a> {
        self.limit = Some(entries_max);
        self
    }

    /// The number of keys in the range, independent of the limit, in O(log n).
    pub fn count(&self) -> Result<u64, Error> {
        if self.range.is_empty() {
            return Ok(0);
        }
        let request = RangeRequest {
            count_only: true,
            ..self.request(&self.range, 0)
        };
        let count = read(self.reader, &request)?.count;
        Ok(u64::try_from(count).expect("a count is never negative"))
    }

    /// Reads all entries into a vector.
    pub fn collect(&self) -> Result<Vec<KeyValue>, Error> {
        self.iter().collect()
    }

    /// An iterator over the entries, which reads them in pages. A query without a fixed
    /// revision reads all pages at the revision of the first.
    pub fn iter(&self) -> Entries<'a> {
        let rest = (!self.range.is_empty()).then(|| self.range.clone());
        Entries {
            query: self.clone(),
            rest,
            left: self.limit,
            page_entries: FIRST_PAGE_ENTRIES,
            page: Vec::new().into_iter(),
        }
    }

    fn request(&self, range: &KeyRange, limit: i64) -> RangeRequest {
        let order = if self.reverse {
            SortOrder::Descend
        } else {
            SortOrder::None
        };
        RangeRequest {
            key: range.key.clone().into(),
            range_end: range.range_end.clone().into(),
            revision: self.revision,
            limit,
            sort_order: order.into(),
            sort_target: SortTarget::Key.into(),
            ..Default::default()
        }
    }
}

/// Iterator of a [`Query`]; ends after the first error.
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    query: Query<'a>,
    /// Part of the range behind the current page; `None` when there is none.
    rest: Option<KeyRange>,
    /// Number of entries until the limit; `None` for no limit.
    left: Option<usize>,
    /// Number of entries of the next page.
    page_entries: usize,
    page: std::vec::IntoIter<KeyValue>,
}

impl Entries<'_> {
    fn turn_page(&mut self) -> Result<(), Error> {
        let Some(range) = self.rest.take() else {
            return Ok(());
        };
        let entries = self.page_entries.min(self.left.unwrap_or(usize::MAX));
        let entries = i64::try_from(entries).expect("a page is small");
        let response = read(self.query.reader, &self.query.request(&range, entries))?;
        if self.query.revision == 0 {
            self.query.revision = response.header.as_ref().map_or(0, |header| header.revision);
        }
        let page: Vec<KeyValue> = response.kvs.iter().map(KeyValue::from).collect();
        if let Some(last) = page.last()
            && response.more
        {
            self.rest = Some(self.after(range, &last.key));
        }
        self.page_entries = entries_in_page(&page);
        self.page = page.into_iter();
        Ok(())
    }

    /// The part of `range` behind `last` in this query's direction.
    fn after(&self, range: KeyRange, last: &[u8]) -> KeyRange {
        if self.query.reverse {
            return KeyRange {
                key: range.key,
                range_end: last.to_vec(),
            };
        }
        let mut key = last.to_vec();
        key.push(0);
        KeyRange {
            key,
            range_end: range.range_end,
        }
    }
}

impl Iterator for Entries<'_> {
    type Item = Result<KeyValue, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == Some(0) {
            return None;
        }
        if self.page.len() == 0
            && let Err(error) = self.turn_page()
        {
            return Some(Err(error));
        }
        let entry = self.page.next()?;
        if let Some(left) = &mut self.left {
            *left -= 1;
        }
        Some(Ok(entry))
    }
}

/// The number of entries of the same size that make a page.
fn entries_in_page(page: &[KeyValue]) -> usize {
    let bytes = |entry: &KeyValue| entry.key.len() + entry.value.len();
    let bytes: usize = page.iter().map(bytes).sum();
    (PAGE_BYTES * page.len() / bytes.max(1)).clamp(1, PAGE_ENTRIES_MAX)
}

fn read(reader: &Reader, request: &RangeRequest) -> Result<RangeResponse, Error> {
    Ok(reader.range(request)?)
}
