//! An iterator over keys and their values, from both ends, which fetches page by page.
//!
//! ```text
//!   keys     a b c d e f g h i j k l
//!            └─┘ front     back └──┘     pages that are fetched and not yet returned
//!               ▲ start      end ▲       bounds of the keys that are not fetched
//! ```

use std::collections::VecDeque;
use std::mem;
use std::ops::ControlFlow;

use bytes::Bytes;
use engine::{End, Looked, Looks};

use crate::bounds::{Bounds, successor};
use crate::gathered::Gathered;
use crate::snapshot::{Snapshot, no_pair};
use crate::{Error, pair};

/// Pairs of the first page.
const PAGE_MIN: usize = 16;
/// A page has as many times the pairs of the one before it, up to those of `PageLimits`.
const GROWTH: usize = 2;
/// The same for a page that is fetched, if the device had to read the one before it and its records lie in order: more of
/// them take the device hardly longer.
const GROWTH_WAITING: usize = 4;
/// Of pages that are fetched.
const FETCHED: PageLimits = PageLimits {
    pairs: 512,
    bytes: 256 << 10,
};
/// Of pages that are visited, without memory for their values. A list of pairs for the device to read has as many pairs at
/// most, too.
const VISITED: PageLimits = PageLimits {
    pairs: 8 << 10,
    bytes: 4 << 20,
};
/// A page has at most as many pairs, and ends with the value with which it has these bytes.
#[derive(Clone, Copy, Debug)]
struct PageLimits {
    pairs: usize,
    bytes: u64,
}

impl PageLimits {
    fn up_to(self, pairs: usize) -> PageLimits {
        let pairs = pairs.min(self.pairs);
        PageLimits { pairs, ..self }
    }
}

/// Keys and their values in ascending order of the keys, as they were at one moment; from
/// the last key with [`Iterator::rev`]. It ends after an error.
///
/// Keys and values of a range share buffers of up to 64 KiB, and a longer value has one of its own.
/// A buffer lives as long as any of them: copy a key or a value that you keep.
#[derive(Debug)]
pub struct Range {
    snapshot: Snapshot,
    /// Bounds of the keys that are not fetched yet.
    rest: Bounds,
    front: VecDeque<(Bytes, Bytes)>,
    /// In ascending order of keys, too.
    back: VecDeque<(Bytes, Bytes)>,
    /// Pairs of the next page, at most.
    page: usize,
}

impl Range {
    pub(crate) fn new(snapshot: Snapshot, bounds: Bounds) -> Range {
        Range {
            snapshot,
            rest: bounds,
            front: VecDeque::new(),
            back: VecDeque::new(),
            page: PAGE_MIN,
        }
    }

    /// Fetches the next page from one end; the page is empty when nothing is left. A page ends in
    /// front of a pair that cannot be read; the one that begins with such a pair is an error.
    fn fetch(&mut self, from: End) -> Result<VecDeque<(Bytes, Bytes)>, Error> {
        if self.rest.is_empty() {
            return Ok(VecDeque::new());
        }
        let snapshot = self.snapshot.clone();
        let mut looks = snapshot.engine().looks();
        self.list(&mut looks, from, FETCHED.up_to(self.page));
        let mut gathered = Gathered::for_records_of(looks.log_bytes());
        let mut memory = Vec::new();
        let end = looks.at_page(pairs_for(&mut memory, |key, value| {
            gathered.push(key, value);
            ControlFlow::Continue(())
        }));
        let outcome = end.map_or_else(|error| Err(error.into()), through);
        let pairs = gathered.end();
        self.grow_page(match looks.waits_in_order() {
            true => GROWTH_WAITING,
            false => GROWTH,
        });
        match (outcome, pairs.back()) {
            (Err(error), None) => return Err(error),
            (Err(_), Some((last, _))) => self.pass(Some(last), from),
            (Ok(_), _) => self.pass_page(&looks, from),
        }
        Ok(pairs)
    }

    fn list(&self, looks: &mut Looks<'_>, from: End, limits: PageLimits) {
        let now = self.snapshot.engine().snapshot();
        let (start, end) = (&self.rest.start, self.rest.end.as_deref());
        let range = now.range(start, end, self.snapshot.revision());
        looks.list(range, from, limits.pairs, limits.bytes);
    }

    fn pass_page(&mut self, page: &Looks<'_>, from: End) {
        let last = page.last_key().filter(|_| !page.ends_range());
        self.pass(last, from);
    }

    /// Goes on behind this key in that direction; without one, nothing is left.
    fn pass(&mut self, last: Option<&[u8]>, from: End) {
        match (last, from) {
            (None, _) => self.rest.end = Some(self.rest.start.clone()),
            (Some(last), End::Front) => self.rest.start = successor(last),
            (Some(last), End::Back) => self.rest.end = Some(last.to_vec()),
        }
    }

    fn grow_page(&mut self, growth: usize) {
        self.page = (self.page * growth).min(VISITED.pairs);
    }

    /// Calls `visit` with each key of the range and its value, in ascending order of the keys, until a
    /// call breaks. Pairs that were taken from the iterator before are not visited. If a pair cannot
    /// be read, those in front of it were visited before the error is returned.
    ///
    /// This takes less time than the iterator, because values of up to 32 KiB are not copied if they are in
    /// memory and not compressed. A call should be short: during it the room of some segments is not
    /// given back, if these are released.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let directory = tempfile::tempdir()?;
    /// # let map = ordered_map::Map::open(directory.path().join("data"))?;
    /// # map.put("colour/ink", "black")?;
    /// # map.put("colour/stone", "grey")?;
    /// use std::ops::ControlFlow;
    ///
    /// let mut bytes = 0;
    /// map.prefix("colour/").visit(|_key, value| {
    ///     bytes += value.len();
    ///     ControlFlow::Continue(())
    /// })?;
    /// assert_eq!(bytes, 9);
    /// # Ok(())
    /// # }
    /// ```
    pub fn visit(
        mut self,
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        for (key, value) in mem::take(&mut self.front) {
            if visit(&key, &value).is_break() {
                return Ok(());
            }
        }
        if self.visit_rest(&mut visit)?.is_break() {
            return Ok(());
        }
        let mut back = self.back.iter();
        // A break ends this as the last pair does.
        let _ = back.try_for_each(|(key, value)| visit(key, value));
        Ok(())
    }

    /// Visits what was not fetched.
    fn visit_rest(
        &mut self,
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, Error> {
        let (snapshot, mut memory) = (self.snapshot.clone(), Vec::new());
        let mut looks = snapshot.engine().looks();
        let end = looks.at_pages(pairs_for(&mut memory, visit), |looks| self.list_next(looks));
        through(end?)
    }

    /// Lists the next page that is visited, if there is one, and passes it.
    fn list_next(&mut self, looks: &mut Looks<'_>) {
        if !self.rest.is_empty() {
            let limits = match looks.portion_bytes() {
                Some(bytes) => PageLimits { bytes, ..VISITED },
                None => VISITED.up_to(self.page),
            };
            self.list(looks, End::Front, limits);
            self.pass_page(looks, End::Front);
            self.grow_page(GROWTH);
        }
    }

    fn end_with(&mut self, error: Error) -> Result<(Bytes, Bytes), Error> {
        self.rest.end = Some(self.rest.start.clone());
        self.front.clear();
        self.back.clear();
        Err(error)
    }
}

/// Shows the pairs of versions to `visit`; `memory` is for values that are compressed. It breaks where that does, or
/// with an error.
fn pairs_for(
    memory: &mut Vec<u8>,
    mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
) -> impl FnMut(Looked<'_>) -> ControlFlow<Result<(), Error>> {
    move |Looked { key, main, kv }| match pair::value_of(kv, memory) {
        Some(value) => visit(key, value).map_break(Ok),
        None => ControlFlow::Break(Err(no_pair(key, main))),
    }
}

/// How looks at pairs have ended.
fn through(end: ControlFlow<Result<(), Error>>) -> Result<ControlFlow<()>, Error> {
    match end {
        ControlFlow::Break(end) => end.map(ControlFlow::Break),
        ControlFlow::Continue(()) => Ok(ControlFlow::Continue(())),
    }
}

impl Iterator for Range {
    type Item = Result<(Bytes, Bytes), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.front.is_empty() {
            match self.fetch(End::Front) {
                Ok(page) => self.front = page,
                Err(error) => return Some(self.end_with(error)),
            }
        }
        let pair = self.front.pop_front().or_else(|| self.back.pop_front());
        pair.map(Ok)
    }
}

impl DoubleEndedIterator for Range {
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.back.is_empty() {
            match self.fetch(End::Back) {
                Ok(page) => self.back = page.into_iter().rev().collect(),
                Err(error) => return Some(self.end_with(error)),
            }
        }
        let pair = self.back.pop_back().or_else(|| self.front.pop_back());
        pair.map(Ok)
    }
}
