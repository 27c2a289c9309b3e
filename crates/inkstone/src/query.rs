//! Reads: a view fixes the revision, a query the range.

use std::ops::RangeBounds;

use etcd_api::etcdserverpb::{
    RangeRequest, RangeResponse,
    range_request::{SortOrder, SortTarget},
};

use revisions::Reader;

use crate::key_range::KeyRange;
use crate::{Error, KeyValue};

/// Entries that the first step of [`Entries`] reads, when nothing is known of
/// their size.
const FIRST_PAGE_ENTRIES: usize = 32;
/// Entries that a step reads at most.
const PAGE_ENTRIES_MAX: usize = 512;
/// About what a step reads: what is freed with a page is taken again for the
/// next; much more would go back to the system and come as page faults.
const PAGE_BYTES: usize = 128 << 10;

/// The store at one revision.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    reader: &'a Reader,
    /// 0 for "now, at each call".
    revision: i64,
}

impl<'a> View<'a> {
    pub(crate) fn new(reader: &'a Reader, revision: i64) -> View<'a> {
        View { reader, revision }
    }

    /// Which revision that is: to watch from the next one on what was read here.
    pub fn revision(&self) -> i64 {
        match self.revision {
            0 => self.reader.revision(),
            fixed => fixed,
        }
    }

    /// The version of a key that was newest at this revision.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<KeyValue>, Error> {
        let found = self.reader.get(key.as_ref(), self.revision)?;
        Ok(found.as_ref().map(KeyValue::from))
    }

    /// Keys in a range at this revision.
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Query<'a> {
        Query::new(self.reader, KeyRange::new(range), self.revision)
    }

    /// Keys that begin with `prefix` at this revision.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Query<'a> {
        Query::new(
            self.reader,
            KeyRange::prefix(prefix.as_ref()),
            self.revision,
        )
    }
}

/// A range to be read, in either direction.
#[derive(Clone, Debug)]
#[must_use = "a query reads nothing until it is collected, counted or iterated"]
pub struct Query<'a> {
    reader: &'a Reader,
    range: KeyRange,
    revision: i64,
    reverse: bool,
    /// `None` for all.
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

    /// From the last key to the first.
    pub fn reverse(mut self) -> Query<'a> {
        self.reverse = true;
        self
    }

    /// At most this many entries.
    pub fn limit(mut self, entries_max: usize) -> Query<'a> {
        self.limit = Some(entries_max);
        self
    }

    /// How many keys there are, whatever the limit. Costs O(log n).
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

    /// All entries at once.
    pub fn collect(&self) -> Result<Vec<KeyValue>, Error> {
        self.iter().collect()
    }

    /// The entries, read in pages. All pages are of the revision that was
    /// current when the first was read.
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
    /// What no page has covered yet; `None` when that is nothing.
    rest: Option<KeyRange>,
    /// Entries still to give; `None` for all.
    left: Option<usize>,
    /// What the next page should hold.
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

    /// The part of `range` beyond `last`, in this query's direction.
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

/// How many entries like these make a page.
fn entries_in_page(page: &[KeyValue]) -> usize {
    let bytes = |entry: &KeyValue| entry.key.len() + entry.value.len();
    let bytes: usize = page.iter().map(bytes).sum();
    (PAGE_BYTES * page.len() / bytes.max(1)).clamp(1, PAGE_ENTRIES_MAX)
}

fn read(reader: &Reader, request: &RangeRequest) -> Result<RangeResponse, Error> {
    Ok(reader.range(request)?)
}
