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
/// While a portion is looked at, the device reads up to this many portions behind it, fewer if they are long.
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
    /// Versions of the page that were looked at.
    looked_at: usize,
    /// Bytes of the portions that were looked at, on all pages of a walk.
    walked_bytes: u64,
    /// Portions that were announced to the device, up to the last one that is not looked at in whole.
    announced: VecDeque<Announced>,
    /// Of the next portion.
    limits: PortionLimits,
    /// The device has to read some of the portion that was announced last, [`Looks::last`].
    waits: bool,
    last: Portion,
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
            limits: PortionLimits::WHOLE,
            waits: !records.log_view.log.seems_cached(),
            last: Portion::default(),
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

    /// How many bytes of versions the device would read at once behind those that were listed; `None` if the last ones that
    /// were announced to it are in memory. Before the first ones, this tells of those of the reader that asked last.
    pub fn portion_bytes(&self) -> Option<u64> {
        self.waits.then_some(self.limits.bytes)
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
        self.begin_walk(PortionLimits::WHOLE, &mut look, &mut |_| ())
    }

    /// [`Looks::at_page`] for page after page: `list_more` lists the next one, and the walk ends when it lists
    /// nothing. It is called when there is nothing left to look at; in a walk that the device delays, some looks
    /// before. Where [`Looks::at_page`] announces many versions of the page to the device at once, this begins with few.
    pub fn at_pages<T>(
        &mut self,
        mut look: impl FnMut(Looked<'_>) -> ControlFlow<T>,
        mut list_more: impl FnMut(&mut Self),
    ) -> Result<ControlFlow<T>, Error> {
        self.begin_walk(PortionLimits::FIRST, &mut look, &mut list_more)
    }

    fn begin_walk<T>(
        &mut self,
        limits: PortionLimits,
        look: &mut impl FnMut(Looked<'_>) -> ControlFlow<T>,
        list_more: &mut impl FnMut(&mut Self),
    ) -> Result<ControlFlow<T>, Error> {
        let _directory = self.records.lifecycle.hold_directory()?;
        (self.looked_at, self.walked_bytes, self.limits) = (0, 0, limits);
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
        while self.wants_another_portion() {
            if self.wants_longer_list() {
                list_more(self);
            }
            // Of scattered records, those behind a portion are announced when it was begun.
            if !self.announce_portion() || !self.last.is_in_order() {
                return;
            }
        }
    }

    fn wants_another_portion(&self) -> bool {
        let portions = if self.last.is_in_order() { PORTIONS_AHEAD } else { 1 };
        let ahead = self.announced.iter().skip(1).map(|it| it.bytes);
        let ahead: u64 = ahead.sum();
        let is_worth_it = ahead + self.limits.bytes <= self.walked_bytes * 2;
        let has_room = self.announced.len() <= portions && ahead < PortionLimits::WHOLE.bytes;
        self.announced.is_empty() || is_worth_it && has_room
    }

    /// Whether too few versions are listed for the next portion. A walk that the device does not delay is listed further
    /// when there is nothing left to look at.
    fn wants_longer_list(&self) -> bool {
        let rest = &self.listed[self.announced_end()..];
        let is_short = match self.waits {
            true => Portion::of(rest, self.limits).records == rest.len(),
            false => rest.is_empty() && self.announced.is_empty(),
        };
        is_short && !self.ends_range
    }

    /// Where what was announced ends in the page.
    fn announced_end(&self) -> usize {
        self.announced.back().map_or(self.looked_at, |it| it.end)
    }

    /// Announces the next portion of the page to the device, and returns whether there is one.
    fn announce_portion(&mut self) -> bool {
        let start = self.announced_end();
        let portion = Portion::of(&self.listed[start..], self.limits);
        if portion.records == 0 {
            return false;
        }
        self.limits = self.limits.behind(self.walked_bytes);
        self.places.clear();
        let records = &self.listed[start..][..portion.records];
        self.places.extend(records.iter().map(|it| it.pointer.place()));
        self.waits = match self.announced.is_empty() {
            true => self.looks.announce(&self.places),
            false => self.looks.announce_ahead(&self.places),
        };
        self.looks.pause();
        self.announced.push_back(Announced {
            end: start + portion.records,
            bytes: portion.bytes,
        });
        self.last = portion;
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

/// Records that are announced together.
#[derive(Clone, Copy, Debug, Default)]
struct Portion {
    records: usize,
    /// Bytes that the device reads for them, with the gaps between them that it reads as well.
    bytes: u64,
    /// Places from which it reads, where records one behind the other are one place.
    places: usize,
}

impl Portion {
    /// The first of these records, at least one.
    fn of(records: &[Listed], limits: PortionLimits) -> Portion {
        let mut behind: Option<(u32, u64)> = None;
        let (mut taken, mut next) = (Portion::default(), Portion::default());
        for record in records.iter().map(|listed| listed.pointer) {
            let (segment, offset) = (record.segment(), record.position().offset());
            let before = behind.filter(|(before, end)| segment == *before && offset >= *end);
            let gap = before.map(|(_, end)| offset - end);
            match gap.filter(|gap| *gap <= GAP_BYTES_MAX) {
                Some(gap) => next.bytes += gap,
                None => next.places += 1,
            }
            behind = Some((segment, offset + record.record_bytes()));
            next.bytes += record.record_bytes();
            next.records += 1;
            if limits.are_exceeded_by(next) && taken.records > 0 {
                break;
            }
            taken = next;
        }
        taken
    }

    fn is_in_order(&self) -> bool {
        self.places * IN_ORDER_PER_PLACE <= self.records
    }
}

/// Records in order have as many, or more, for each place.
const IN_ORDER_PER_PLACE: usize = 4;

/// How large a portion may be.
#[derive(Clone, Copy, Debug)]
struct PortionLimits {
    places: usize,
    /// [`PortionLimits::RECORDS`] may have more, up to those of [`PortionLimits::WHOLE`], and one record any number.
    bytes: u64,
}

impl PortionLimits {
    const RECORDS: usize = 16;
    /// Of the beginning of a walk, which may be all that is looked at.
    const FIRST: PortionLimits = PortionLimits {
        places: 16,
        bytes: 16 << 10,
    };
    /// A piece that is announced at once.
    const PIECE: u64 = 124 << 10;
    /// Enough to keep a device busy.
    const WHOLE: PortionLimits = PortionLimits {
        places: 256,
        bytes: 512 << 10,
    };

    /// Of the portion behind one of these limits, in a walk that has looked at as many bytes: a quarter of these, so that
    /// little more is read ahead than half of them.
    fn behind(self, walked_bytes: u64) -> PortionLimits {
        let bytes = (self.bytes * 4).min(Self::PIECE);
        PortionLimits {
            places: (self.places * 2).min(Self::WHOLE.places),
            bytes: (walked_bytes / 4).clamp(bytes.max(self.bytes), Self::WHOLE.bytes),
        }
    }

    fn are_exceeded_by(self, portion: Portion) -> bool {
        let has_many_bytes = portion.bytes > self.bytes && portion.records > Self::RECORDS;
        portion.places > self.places || has_many_bytes || portion.bytes > Self::WHOLE.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(records: impl Iterator<Item = (u64, u64)>) -> Vec<Listed> {
        let record = |(offset, bytes)| Listed {
            key_end: 0,
            main: 1,
            pointer: RecordPointer::new(Position::new(3, offset), bytes),
        };
        records.map(record).collect()
    }

    fn in_order(bytes: u64) -> Vec<Listed> {
        listed((0..8_000).map(|number| (4096 + number * bytes, bytes)))
    }

    fn scattered() -> Vec<Listed> {
        listed((0..8_000).map(|number| (4096 + number * 7919 % 8000 * 8192, 160)))
    }

    fn length(records: &[Listed], limits: PortionLimits) -> usize {
        Portion::of(records, limits).records
    }

    #[test]
    fn records_in_order_are_announced_by_their_bytes_and_others_by_their_number() {
        let whole = PortionLimits::WHOLE;
        assert_eq!(length(&in_order(160), whole), (512 << 10) / 160);
        let with_gaps = listed((0..8_000).map(|number| (4096 + number * 4096, 160)));
        assert_eq!(length(&with_gaps, whole), 128);
        assert_eq!(length(&scattered(), whole), 256);
        let long = listed([(4096, 4 << 20), (8 << 20, 160)].into_iter());
        assert_eq!(length(&long, whole), 1);
        assert_eq!(length(&[], whole), 0);
    }

    #[test]
    fn a_walk_begins_with_few_bytes_or_records_and_reads_ahead_a_part_of_what_it_has_seen() {
        let limits = |walked: &[u64]| {
            let begin = PortionLimits::FIRST;
            walked.iter().fold(begin, |it, &bytes| it.behind(bytes))
        };
        // 16, 64, 124 and 512 KiB.
        for (walked, short, longer, apart) in [
            (&[][..], 102, 16, 16),
            (&[0], 409, 16, 32),
            (&[0, 16 << 10], 793, 31, 64),
            (&[0, 0, 1 << 30], 3_276, 128, 128),
            (&[0, 0, 1 << 30, 0], 3_276, 128, 256),
        ] {
            let limits = limits(walked);
            assert_eq!(length(&in_order(160), limits), short, "{walked:?}");
            assert_eq!(length(&in_order(4_096), limits), longer, "{walked:?}");
            assert_eq!(length(&scattered(), limits), apart, "{walked:?}");
        }
    }

    #[test]
    fn records_are_in_order_where_four_of_them_or_more_share_a_place() {
        let is_in_order = |lengths: &[u64]| {
            let mut offset = 4096;
            let records = lengths.iter().flat_map(|&length| {
                offset += 1 << 20;
                let start = offset;
                (0..length).map(move |number| (start + number * 160, 160))
            });
            Portion::of(&listed(records), PortionLimits::WHOLE).is_in_order()
        };
        assert!(is_in_order(&[4]) && is_in_order(&[7, 1]));
        assert!(!is_in_order(&[3]) && !is_in_order(&[6, 1]));
    }
}
