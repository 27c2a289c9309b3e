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
use crate::record::kv_in;
use crate::record_pointer::RecordPointer;
use crate::{End, range as versions};
use std::collections::VecDeque;
use std::ops::{ControlFlow, Range};
use value_log::Position;

/// Memory for as many versions, with keys of this length, is taken at once.
const EXPECTED_MAX: usize = 64;
const EXPECTED_KEY_BYTES: usize = 16;
/// A portion, with the gaps between its records that are read as well, has more bytes than this only if
/// it is one record.
const PORTION_BYTES: u64 = 512 << 10;
/// Places from which a portion's records are read, where records one behind the other are one place:
/// enough to keep a device busy.
const PORTION_PLACES: usize = 256;
/// While a portion is looked at, the device reads up to this many portions behind it, fewer if they are long.
const PORTIONS_AHEAD: usize = 2;
/// A walk that the device delays, and that has looked at as many bytes, is expected to go on: the next page
/// is listed before the present one ends.
const LONG_WALK_BYTES: u64 = 1 << 20;
/// Each version adds as many bytes to a walk.
const WALK_VERSION_BYTES: u64 = 1 << 10;
/// The device reads a gap of as many bytes between two records as well.
const GAP_BYTES_MAX: u64 = 4 << 10;

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
    /// Bytes of the portions that were looked at, on all pages of a walk, and [`WALK_VERSION_BYTES`] for each version.
    walked_bytes: u64,
    /// Portions that were announced to the device, up to the last one that is not looked at in whole.
    announced: VecDeque<Announced>,
    /// Places of the portion that is being announced.
    places: Vec<(Position, usize)>,
}

/// Versions of the page that the device reads together.
#[derive(Clone, Copy, Debug)]
struct Announced {
    /// Where it ends in the page.
    end: usize,
    /// Bytes that are read for it.
    bytes: u64,
    /// Whether the device has to read some of it.
    waits: bool,
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
            announced: VecDeque::new(),
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

    /// Calls `look` with each version of the page, in the order in which they were listed, until one
    /// of these calls breaks. Those in front of a version that cannot be read were looked at before
    /// the error is returned.
    ///
    /// During a call the files of some segments are kept, also if these are released. The directory stays
    /// locked until the end of the page; if the engine is closed, that is an error after at most 32 calls.
    pub fn at_page<T>(
        &mut self,
        look: impl FnMut(Looked<'_>) -> ControlFlow<T>,
    ) -> Result<ControlFlow<T>, Error> {
        self.at_pages(look, |_| ())
    }

    /// [`Looks::at_page`] for page after page: `list_more` lists the next one, and the walk ends when it lists
    /// nothing. It is called when there is nothing left to look at; in a long walk that the device delays, some looks
    /// before.
    pub fn at_pages<T>(
        &mut self,
        mut look: impl FnMut(Looked<'_>) -> ControlFlow<T>,
        mut list_more: impl FnMut(&mut Self),
    ) -> Result<ControlFlow<T>, Error> {
        let _directory = self.records.lifecycle.hold_directory()?;
        (self.looked_at, self.walked_bytes) = (0, 0);
        let end = self.walk(&mut look, &mut list_more);
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
        if !self.announce_portion() {
            list_more(self);
            self.announce_portion();
        }
        while let Some(&portion) = self.announced.front() {
            self.records.lifecycle.check_open()?;
            let group_end = portion.end.min(self.looked_at + PREFETCHED_RECORDS);
            let goes_on = self.at_group(self.looked_at..group_end, look);
            self.looks.pause();
            if let ControlFlow::Break(end) = goes_on? {
                return Ok(ControlFlow::Break(end));
            }
            let versions = (group_end - self.looked_at) as u64;
            self.walked_bytes += versions * WALK_VERSION_BYTES;
            self.looked_at = group_end;
            if group_end == portion.end {
                self.walked_bytes += portion.bytes;
                self.announced.pop_front();
            }
            // Nothing is announced ahead before the first looks, which may be all that are wanted.
            self.announce_ahead(list_more);
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Announces the portion that is looked at next, and those that the device reads beside it.
    fn announce_ahead(&mut self, list_more: &mut impl FnMut(&mut Self)) {
        while self.wants_another_portion() && !self.announce_portion() {
            let is_long = self.walked_bytes >= LONG_WALK_BYTES;
            let waits = self.announced.back().is_none_or(|it| it.waits && is_long);
            if !waits || self.ends_range {
                return;
            }
            list_more(self);
            if !self.announce_portion() {
                return;
            }
        }
    }

    fn wants_another_portion(&self) -> bool {
        let ahead = self.announced.iter().skip(1).map(|it| it.bytes);
        self.announced.len() <= PORTIONS_AHEAD && ahead.sum::<u64>() < PORTION_BYTES
    }

    /// Announces the next portion of the page to the device, and returns whether there is one.
    fn announce_portion(&mut self) -> bool {
        let start = self.announced.back().map_or(self.looked_at, |it| it.end);
        let rest = &self.listed[start..];
        let (length, bytes) = portion(rest.iter().map(|listed| listed.pointer));
        if length == 0 {
            return false;
        }
        self.places.clear();
        let portion = rest[..length].iter();
        self.places.extend(portion.map(|it| it.pointer.place()));
        let waits = match self.announced.is_empty() {
            true => self.looks.announce(&self.places),
            false => self.looks.announce_ahead(&self.places),
        };
        self.looks.pause();
        self.announced.push_back(Announced {
            end: start + length,
            bytes,
            waits,
        });
        true
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

/// How many of these records are announced together, as many as a device reads at once, and the bytes that it
/// reads for them.
fn portion(records: impl Iterator<Item = RecordPointer>) -> (usize, u64) {
    let (mut bytes, mut places) = (0, 0);
    let mut behind: Option<(u32, u64)> = None;
    let mut taken = (0, 0);
    for record in records {
        let (segment, offset) = (record.segment(), record.position().offset());
        let before = behind.filter(|(before, end)| segment == *before && offset >= *end);
        let gap = before.map(|(_, end)| offset - end);
        match gap.filter(|gap| *gap <= GAP_BYTES_MAX) {
            Some(gap) => bytes += gap,
            None => places += 1,
        }
        behind = Some((segment, offset + record.record_bytes()));
        bytes += record.record_bytes();
        let is_full = bytes > PORTION_BYTES || places > PORTION_PLACES;
        if is_full && taken.0 > 0 {
            break;
        }
        taken = (taken.0 + 1, bytes);
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    fn length(records: impl Iterator<Item = (u64, u64)>) -> usize {
        let pointer = |(offset, bytes)| RecordPointer::new(Position::new(3, offset), bytes);
        portion(records.map(pointer)).0
    }

    #[test]
    fn records_in_order_are_announced_by_their_bytes_and_others_by_their_number() {
        let in_order = (0..8_000).map(|number| (4096 + number * 168, 160));
        assert_eq!(length(in_order), (512 << 10) / 168);
        let with_gaps = (0..8_000).map(|number| (4096 + number * 4096, 160));
        assert_eq!(length(with_gaps), 128);
        let scattered = (0..8_000).map(|number| (4096 + number * 7919 % 8000 * 8192, 160));
        assert_eq!(length(scattered), 256);
        assert_eq!(length([(4096, 4 << 20), (8 << 20, 160)].into_iter()), 1);
        assert_eq!(length(std::iter::empty()), 0);
    }
}
