//! Many versions for a caller that looks at each and keeps none: their bytes are not copied.
//!
//! ```text
//!   list       k1  k2  k3  k4 ... │ k900 ...      a page; then a portion after the other
//!   hints      portion: to the device, if it is not cached; the next 32: to the processor
//!   look       k1: where it is in memory, k2, k3 ...
//! ```
//!
//! A look is a shortcut only. If anything is wrong with it (the record's segment was released, it
//! is damaged or of another version), the version is read by the rules of `read.rs`.

use crate::Error;
use crate::read::Records;
use crate::read_all::PREFETCHED_RECORDS;
use crate::read_portion::{PortionLimits, ReadPortion};
use crate::record::kv_in;
use crate::record_pointer::RecordPointer;
use crate::{End, range as versions};
use std::collections::VecDeque;
use std::ops::{ControlFlow, Range};
use value_log::Position;

/// Memory for as many versions, with keys of this length, is taken at once.
const EXPECTED_MAX: usize = 64;
const EXPECTED_KEY_BYTES: usize = 16;
/// While a portion is looked at, the device reads up to this many portions behind it, fewer if they are long.
const PORTIONS_AHEAD: usize = 2;

/// Looks at the versions of a range, page by page; made by [`crate::Engine::looks`].
#[derive(Debug)]
pub struct Looks<'e> {
    records: &'e Records,
    looks: value_log::Looks<'e>,
    /// The keys of the page, one after the other.
    keys: Vec<u8>,
    listed: Vec<Listed>,
    /// The range has no version behind the page.
    ends_range: bool,
    /// Versions of the page that were looked at.
    looked_at: usize,
    /// [`ReadPortion::device_bytes`] of the portions that were looked at, on all pages of a walk.
    walked_bytes: u64,
    /// The caller is expected to look at the whole page.
    is_page: bool,
    /// Portions that were announced to the device, up to the last one that is not looked at in whole.
    announced: VecDeque<Announced>,
    /// Of the next portion.
    limits: PortionLimits,
    /// The device has to read some of the portion that was announced last, [`Looks::last`].
    waits: bool,
    last: ReadPortion,
    /// Places of the portion that is being announced.
    places: Vec<(Position, usize)>,
}

/// Versions of the page that the device reads together.
#[derive(Clone, Copy, Debug)]
struct Announced {
    /// Where it ends in the page.
    end: usize,
    /// [`ReadPortion::device_bytes`].
    bytes: u64,
}

/// A version of the page.
#[derive(Clone, Copy, Debug)]
struct Listed {
    /// Where its key ends in `keys`.
    key_end: usize,
    main: i64,
    pointer: RecordPointer,
}

/// A version that is looked at.
#[derive(Clone, Copy, Debug)]
pub struct Looked<'l> {
    /// The key.
    pub key: &'l [u8],
    /// Main revision that wrote it.
    pub main: i64,
    /// The encoded `KeyValue`.
    pub kv: &'l [u8],
}

impl<'e> Looks<'e> {
    pub(crate) fn new(records: &'e Records) -> Looks<'e> {
        Looks {
            records,
            looks: records.log_view.log.looks(),
            keys: Vec::new(),
            listed: Vec::new(),
            ends_range: false,
            looked_at: 0,
            walked_bytes: 0,
            is_page: true,
            announced: VecDeque::new(),
            limits: PortionLimits::WHOLE,
            waits: !records.log_view.log.seems_cached(),
            last: ReadPortion::default(),
            places: Vec::new(),
        }
    }

    /// Lists the next versions of a range, from one of its ends, as the page: up to `versions_max`,
    /// and none behind the one with which their records have `bytes_max`. During [`Looks::at_pages`], versions
    /// that were not looked at stay in front of these; so do those of an earlier call behind which there were no looks.
    pub fn list(
        &mut self,
        mut range: versions::Range<'_>,
        from: End,
        versions_max: usize,
        bytes_max: u64,
    ) {
        self.drop_looked_at();
        self.ends_range = false;
        let expected = versions_max.min(EXPECTED_MAX);
        self.listed.reserve(expected);
        self.keys.reserve(expected * EXPECTED_KEY_BYTES);
        let (mut versions, mut bytes) = (0, 0);
        while versions < versions_max && bytes < bytes_max {
            let Some(version) = range.next_entry(from, &mut self.keys) else {
                self.ends_range = true;
                break;
            };
            versions += 1;
            bytes += version.pointer.record_bytes();
            self.listed.push(Listed {
                key_end: self.keys.len(),
                main: version.main,
                pointer: version.pointer,
            });
        }
    }

    fn drop_looked_at(&mut self) {
        let (dropped, key_bytes) = (self.looked_at, self.key_start(self.looked_at));
        self.keys.drain(..key_bytes);
        self.listed.drain(..dropped);
        self.listed
            .iter_mut()
            .for_each(|it| it.key_end -= key_bytes);
        self.announced.iter_mut().for_each(|it| it.end -= dropped);
        self.looked_at = 0;
    }

    /// Bytes that the page's records take in the log.
    pub fn log_bytes(&self) -> u64 {
        let bytes = self.listed.iter().map(|it| it.pointer.record_bytes());
        bytes.sum()
    }

    /// The key that was listed last; `None`: the page is empty.
    pub fn last_key(&self) -> Option<&[u8]> {
        let last = self.listed.len().checked_sub(1)?;
        Some(&self.keys[self.key_start(last)..])
    }

    /// Whether the range is known to have no version behind the page, in the direction in which it was listed.
    pub fn ends_range(&self) -> bool {
        self.ends_range
    }

    /// How many bytes of versions to list, for the device to read next; `None` if the last ones that were announced to it
    /// are in memory. Before any was announced, the last answer that another reader got about its records counts.
    pub fn portion_bytes(&self) -> Option<u64> {
        self.waits.then_some(self.limits.in_order_bytes)
    }

    /// Whether the device has to read some of the versions that were announced to it last, and they lie in order, so that it
    /// would read more of them in hardly more time.
    pub fn waits_in_order(&self) -> bool {
        self.waits && self.last.is_in_order()
    }

    /// Calls `look` with each version of the page, in the order in which they were listed, until one
    /// of these calls breaks. Those in front of a version that cannot be read were looked at before
    /// the error is returned.
    ///
    /// During a call the files of some segments are kept, also if these are released. The directory stays
    /// locked until the end of the page; if the engine is closed, that is an error after at most 32 calls.
    pub fn at_page<T>(
        &mut self,
        mut look: impl FnMut(Looked<'_>) -> ControlFlow<T>,
    ) -> Result<ControlFlow<T>, Error> {
        self.begin_walk(true, &mut look, &mut |_| ())
    }

    /// [`Looks::at_page`] for page after page: `list_more` lists the next one, and the walk ends when it lists
    /// nothing. It is called when there is nothing left to look at; in a walk that the device delays, some looks
    /// before. Where [`Looks::at_page`] announces many versions of the page to the device at once, this begins with few.
    pub fn at_pages<T>(
        &mut self,
        mut look: impl FnMut(Looked<'_>) -> ControlFlow<T>,
        mut list_more: impl FnMut(&mut Self),
    ) -> Result<ControlFlow<T>, Error> {
        self.begin_walk(false, &mut look, &mut list_more)
    }

    fn begin_walk<T>(
        &mut self,
        is_page: bool,
        look: &mut impl FnMut(Looked<'_>) -> ControlFlow<T>,
        list_more: &mut impl FnMut(&mut Self),
    ) -> Result<ControlFlow<T>, Error> {
        let _directory = self.records.lifecycle.hold_directory()?;
        (self.looked_at, self.walked_bytes, self.is_page) = (0, 0, is_page);
        self.limits = match is_page {
            true => PortionLimits::WHOLE,
            false => PortionLimits::FIRST,
        };
        let end = self.walk(look, list_more);
        // The page has ended, also where a call has broken: `list` begins another one.
        self.looked_at = self.listed.len();
        self.announced.clear();
        end
    }

    fn walk<T>(
        &mut self,
        look: &mut impl FnMut(Looked<'_>) -> ControlFlow<T>,
        list_more: &mut impl FnMut(&mut Self),
    ) -> Result<ControlFlow<T>, Error> {
        if self.listed.is_empty() {
            list_more(self);
        }
        // Nothing is announced ahead before the first looks, which may be all that are wanted.
        if !self.listed.is_empty() {
            self.announce(self.next_portion());
        }
        while let Some(&portion) = self.announced.front() {
            self.records.lifecycle.check_open()?;
            let group_end = portion.end.min(self.looked_at + PREFETCHED_RECORDS);
            let goes_on = self.at_group(self.looked_at..group_end, look);
            self.looks.pause();
            if let ControlFlow::Break(end) = goes_on? {
                return Ok(ControlFlow::Break(end));
            }
            self.looked_at = group_end;
            if group_end == portion.end {
                self.walked_bytes += portion.bytes;
                self.announced.pop_front();
            }
            if group_end == portion.end || self.is_page {
                self.announce_ahead(list_more);
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Announces the portion that is looked at next, and those that the device reads beside it.
    fn announce_ahead(&mut self, list_more: &mut impl FnMut(&mut Self)) {
        while self.announced.len() <= PORTIONS_AHEAD && self.ahead_bytes() < PortionLimits::BYTES {
            let mut portion = self.next_portion();
            if self.needs_longer_list(portion) {
                list_more(self);
                portion = self.next_portion();
            }
            if portion.records == 0 || !self.is_wanted(portion) {
                return;
            }
            self.announce(portion);
        }
    }

    /// Bytes of the portions behind the one that is looked at.
    fn ahead_bytes(&self) -> u64 {
        self.announced.iter().skip(1).map(|it| it.bytes).sum()
    }

    /// Whether a portion is announced now: one that is looked at next, or that lies in a page; otherwise one that the
    /// caller is expected to reach, having looked at as much.
    fn is_wanted(&self, portion: ReadPortion) -> bool {
        let ahead = self.ahead_bytes() + portion.device_bytes();
        self.announced.is_empty() || self.is_page || ahead <= self.walked_bytes
    }

    /// Whether the next portion may be larger if more is listed. A walk that the device does not delay is listed
    /// further when there is nothing left to look at.
    fn needs_longer_list(&self, next: ReadPortion) -> bool {
        let is_rest = self.announced_end() + next.records == self.listed.len();
        let is_needed = match self.announced.is_empty() {
            true => self.waits || next.records == 0,
            false => self.waits && self.is_wanted(next),
        };
        is_rest && is_needed && !self.ends_range
    }

    /// Where what was announced ends in the page.
    fn announced_end(&self) -> usize {
        self.announced.back().map_or(self.looked_at, |it| it.end)
    }

    /// The next portion of the page; without records behind the last one.
    fn next_portion(&self) -> ReadPortion {
        let rest = self.listed[self.announced_end()..].iter();
        ReadPortion::of(rest.map(|listed| listed.pointer), self.limits)
    }

    /// Announces the next portion of the page to the device.
    fn announce(&mut self, portion: ReadPortion) {
        let start = self.announced_end();
        self.limits = self.limits.behind(self.walked_bytes);
        self.places.clear();
        let records = &self.listed[start..][..portion.records];
        self.places
            .extend(records.iter().map(|it| it.pointer.place()));
        self.waits = match self.announced.is_empty() {
            true => self.looks.announce(&self.places),
            false => self.looks.announce_ahead(&self.places),
        };
        self.looks.pause();
        self.announced.push_back(Announced {
            end: start + portion.records,
            bytes: portion.device_bytes(),
        });
        self.last = portion;
    }

    /// Looks at some versions of the page.
    fn at_group<T>(
        &mut self,
        group: Range<usize>,
        look: &mut impl FnMut(Looked<'_>) -> ControlFlow<T>,
    ) -> Result<ControlFlow<T>, Error> {
        let mut key_start = self.key_start(group.start);
        let listed = &self.listed[group];
        self.looks
            .prefetch(listed.iter().map(|it| it.pointer.place()));
        for (at, this) in listed.iter().enumerate() {
            if let Some(next) = listed.get(at + 1) {
                self.looks.prefetch_rest(next.pointer.place());
            }
            let key = &self.keys[key_start..this.key_end];
            key_start = this.key_end;
            let main = this.main;
            let looked = self.looks.at(this.pointer.place(), |kind, payload| {
                let kv = &payload[kv_in(kind, payload, main)?];
                Some(look(Looked { key, main, kv }))
            });
            let goes_on = match looked {
                Ok(Some(goes_on)) => goes_on,
                _ => {
                    let stored = self.records.read_version(key, main, this.pointer)?;
                    let kv = &stored.kv;
                    look(Looked { key, main, kv })
                }
            };
            if goes_on.is_break() {
                return Ok(goes_on);
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn key_start(&self, number: usize) -> usize {
        match number {
            0 => 0,
            number => self.listed[number - 1].key_end,
        }
    }
}
