//! Many versions for a caller that looks at each and keeps none: their bytes are not copied.
//!
//! ```text
//!   list       k1  k2  k3  k4 ... │ k900 ...      of a page; then a portion after the other
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
/// The device reads as many portions beside the looks at the one in front of them.
const PORTIONS_AHEAD: usize = 2;
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
    /// Where the portions end that are announced to the device and not looked at yet.
    announced: VecDeque<usize>,
    /// Places of the portion that is being announced.
    places: Vec<(Position, usize)>,
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
            announced: VecDeque::new(),
            places: Vec::new(),
        }
    }

    /// Lists the next versions of a range, from one of its ends, as the page: up to `versions_max`,
    /// and none behind the one with which their records have `bytes_max`.
    pub fn list(
        &mut self,
        mut range: versions::Range<'_>,
        from: End,
        versions_max: usize,
        bytes_max: u64,
    ) {
        self.keys.clear();
        self.listed.clear();
        self.ends_range = false;
        self.announced.clear();
        let expected = versions_max.min(EXPECTED_MAX);
        self.listed.reserve(expected);
        self.keys.reserve(expected * EXPECTED_KEY_BYTES);
        let mut bytes = 0;
        while self.listed.len() < versions_max && bytes < bytes_max {
            let Some(version) = range.next_entry(from, &mut self.keys) else {
                self.ends_range = true;
                break;
            };
            bytes += version.pointer.record_bytes();
            self.listed.push(Listed {
                key_end: self.keys.len(),
                main: version.main,
                pointer: version.pointer,
            });
        }
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
        mut look: impl FnMut(Looked<'_>) -> ControlFlow<T>,
    ) -> Result<ControlFlow<T>, Error> {
        let _directory = self.records.lifecycle.hold_directory()?;
        let mut start = 0;
        if self.announced.is_empty() {
            self.announce_portion(start, value_log::Looks::announce);
        }
        while let Some(&end) = self.announced.front() {
            self.records.lifecycle.check_open()?;
            let group_end = end.min(start + PREFETCHED_RECORDS);
            let goes_on = self.at_group(start..group_end, &mut look);
            self.looks.pause();
            if let ControlFlow::Break(end) = goes_on? {
                return Ok(ControlFlow::Break(end));
            }
            start = group_end;
            if start == end {
                self.announced.pop_front();
            }
            // Not before the first looks: these may be all that are wanted.
            self.announce_to(start, 1 + PORTIONS_AHEAD);
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Lets the device read the beginning of the page beside looks at the page in front of it, which another
    /// `Looks` has.
    pub fn announce_ahead(&mut self) {
        self.announce_to(0, PORTIONS_AHEAD);
    }

    /// Announces portions to the device until it has this many, or all of the page, if the versions in front
    /// of `start` were looked at.
    fn announce_to(&mut self, start: usize, portions: usize) {
        let ahead = value_log::Looks::announce_ahead;
        while self.announced.len() < portions && self.announce_portion(start, ahead) {}
    }

    /// Announces the next portion of the page to the device, and returns whether there is one.
    fn announce_portion(
        &mut self,
        start: usize,
        announce: impl FnOnce(&mut value_log::Looks<'e>, &[(Position, usize)]),
    ) -> bool {
        let start = self.announced.back().copied().unwrap_or(start);
        let rest = &self.listed[start..];
        let length = portion_length(rest.iter().map(|listed| listed.pointer));
        if length == 0 {
            return false;
        }
        self.places.clear();
        let portion = rest[..length].iter();
        self.places.extend(portion.map(|it| it.pointer.place()));
        announce(&mut self.looks, &self.places);
        self.looks.pause();
        self.announced.push_back(start + length);
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

/// How many of these records are announced together: as many as a device reads at once.
fn portion_length(records: impl Iterator<Item = RecordPointer>) -> usize {
    let (mut bytes, mut places) = (0, 0);
    let mut behind: Option<(u32, u64)> = None;
    let fits = |record: &RecordPointer| {
        let (segment, offset) = (record.segment(), record.position().offset());
        let before = behind.filter(|(before, end)| segment == *before && offset >= *end);
        let gap = before.map(|(_, end)| offset - end);
        match gap.filter(|gap| *gap <= GAP_BYTES_MAX) {
            Some(gap) => bytes += gap,
            None => places += 1,
        }
        behind = Some((segment, offset + record.record_bytes()));
        bytes += record.record_bytes();
        bytes <= PORTION_BYTES && places <= PORTION_PLACES
    };
    let mut records = records.peekable();
    let is_empty = records.peek().is_none();
    records.take_while(fits).count().max(usize::from(!is_empty))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn length(records: impl Iterator<Item = (u64, u64)>) -> usize {
        let pointer = |(offset, bytes)| RecordPointer::new(Position::new(3, offset), bytes);
        portion_length(records.map(pointer))
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
