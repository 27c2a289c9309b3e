//! Garbage collection of the log: releasing segments to the disk.
//!
//! ```text
//!   victim segment      a3 ✗ c7 ✗ ✗ ✗ b2 ✗
//!                        └────┐ │ ┌────┘
//!   sorted segment           a3 b2 c7             key order, own segment
//!   index                    swapped by the writer, where unchanged
//!   checkpoint               points only into the new segment
//!   victim                   released
//! ```
//!
//! A segment without live records is released without copying. Others are
//! worth it when enough of them is garbage; their survivors go to sorted
//! segments, never back into the hot log. A segment of the log with history that
//! is not compacted is left alone (a watch may read it), except by
//! `defragment`.
//!
//! A crash at any step loses nothing: until the checkpoint the old places
//! stand, and a sorted segment that nothing points into is dead.

use crate::Error;
use crate::apply::Index;
use crate::directory;
use crate::live::SegmentLife;
use crate::moves::{Moves, Slice};
use crate::parts::Parts;
use crate::read::Records;
use crate::record::is_key_version;
use crate::record_pointer::RecordPointer;
use crate::trees::{OF_VERSIONS, VersionEntry};
use ordered_index::IndexEntry;
use std::collections::{BTreeSet, VecDeque};
use std::ops::Bound;
use std::time::Duration;
use value_log::{Record, Relocation, SegmentInfo, SegmentKind};

/// Entries looked at under one pin.
const SLICE_ENTRIES: usize = 4096;
/// Survivors collected under one pin, before they are copied.
const SLICE_SURVIVORS: usize = 256;
/// Segments' worth of survivors in one round: bounds the memory of its list of moves.
const ROUND_SEGMENTS: u64 = 4;
/// Bytes copied between two pauses.
const PAUSE_BYTES: u64 = 1 << 20;
/// Defragmentation leaves segments alone that are at least this full.
const FULL_PERCENT: u64 = 95;

/// Which segments to empty.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) victims: BTreeSet<u32>,
    /// Whether releasing segments that are dead already is worth a checkpoint.
    pub(crate) pays: bool,
}

struct Candidate {
    id: u32,
    live_bytes: u64,
    used_bytes: u64,
}

impl Plan {
    /// The cheapest victims, when emptying them is worth a checkpoint.
    pub(crate) fn worthwhile(parts: &Parts, index: &Index) -> Plan {
        let percent = parts.options.reclaim_live_percent_max;
        let horizon = index.compacted;
        let candidates = candidates(&parts.records, index, |kind, life| {
            kind == SegmentKind::Sorted || life.last_main < horizon
        });
        let index_bytes = parts.records.index.index_bytes();
        let worth = index_bytes.max(parts.options.log.segment_bytes);
        let mut round = ReclaimRound::new(parts);
        for candidate in candidates {
            if candidate.live_bytes * 100 <= candidate.used_bytes * percent {
                round.add(&candidate);
            }
        }
        if round.garbage_bytes < worth {
            Plan::default()
        } else {
            round.end()
        }
    }

    /// A round of everything below segment `until` that has garbage, but for the
    /// segments in `done`.
    pub(crate) fn everything(
        parts: &Parts,
        index: &Index,
        until: u32,
        done: &BTreeSet<u32>,
    ) -> Plan {
        let mut round = ReclaimRound::new(parts);
        for candidate in candidates(&parts.records, index, |_, _| true) {
            let garbage = candidate.live_bytes * 100 < candidate.used_bytes * FULL_PERCENT;
            if garbage && candidate.id < until && !done.contains(&candidate.id) {
                round.add(&candidate);
            }
        }
        round.end()
    }
}

/// Sealed segments with applied batches only, the emptiest first.
fn candidates(
    records: &Records,
    index: &Index,
    allowed: impl Fn(SegmentKind, SegmentLife) -> bool,
) -> Vec<Candidate> {
    let live = records.log_view.accounting.live.lock();
    let applied = |segment: &SegmentInfo| {
        segment.kind == SegmentKind::Sorted || segment.last_tag.index <= index.applied_index
    };
    let infos = records.log_view.log.segments();
    // A sorted segment that is being filled is not accounted for yet.
    let spoiled = records.damage.spoiled.lock().clone();
    let is_known = |segment: &SegmentInfo| {
        let known = segment.kind == SegmentKind::Log || live.has(segment.id);
        known && !spoiled.contains(&segment.id)
    };
    let sealed = infos
        .iter()
        .filter(|segment| segment.sealed && applied(segment) && is_known(segment));
    let mut candidates: Vec<Candidate> = sealed
        .filter(|segment| allowed(segment.kind, live.of(segment.id)))
        .map(|segment| Candidate {
            id: segment.id,
            live_bytes: live.of(segment.id).live_bytes,
            used_bytes: segment.used_bytes,
        })
        .collect();
    candidates.sort_by_key(|candidate| candidate.live_bytes);
    candidates
}

struct ReclaimRound {
    plan: Plan,
    segment_bytes: u64,
    /// There is room for fewer segments of survivors than a round may fill, so the round must
    /// empty more segments than it fills.
    is_short: bool,
    survivor_bytes: u64,
    survivor_bytes_max: u64,
    garbage_bytes: u64,
}

impl ReclaimRound {
    fn new(parts: &Parts) -> ReclaimRound {
        let (log, index) = (&parts.records.log_view.log, &parts.records.index);
        let checkpoint_bytes = directory::checkpoint_bytes(index.index_bytes());
        let room = parts.directory.segments_to_fill(log, checkpoint_bytes);
        let segment_bytes = log.segment_bytes();
        let survivor_bytes_max = ROUND_SEGMENTS.min(room) * usable_bytes(segment_bytes);
        ReclaimRound {
            plan: Plan::default(),
            segment_bytes,
            is_short: room < ROUND_SEGMENTS,
            survivor_bytes: 0,
            survivor_bytes_max,
            garbage_bytes: 0,
        }
    }

    fn add(&mut self, candidate: &Candidate) {
        if self.survivor_bytes + candidate.live_bytes > self.survivor_bytes_max {
            return;
        }
        self.survivor_bytes += candidate.live_bytes;
        self.garbage_bytes += candidate.used_bytes.saturating_sub(candidate.live_bytes);
        if candidate.live_bytes == 0 {
            self.plan.pays = true;
        } else {
            self.plan.victims.insert(candidate.id);
        }
    }

    /// The plan of the round. Where room is short and the copy would fill as many segments as
    /// it empties, nothing is copied.
    fn end(mut self) -> Plan {
        let filled = self
            .survivor_bytes
            .div_ceil(usable_bytes(self.segment_bytes));
        if self.is_short && self.plan.victims.len() as u64 <= filled {
            self.plan.victims.clear();
        }
        self.plan
    }
}

/// Bytes of a segment that survivors can count on: frames have headers, and records do
/// not always fill the last frame.
fn usable_bytes(segment_bytes: u64) -> u64 {
    segment_bytes - segment_bytes / 32
}

/// Copies the survivors of the plan's victims to sorted segments and makes
/// them durable. `throttled`: at the pace of the options.
pub(crate) fn copy(parts: &Parts, plan: Plan, throttled: bool) -> Result<Moves, Error> {
    let records = &parts.records;
    let checkpoint_bytes = directory::checkpoint_bytes(records.index.index_bytes());
    let mut copy = Copy {
        parts,
        victims: &plan.victims,
        relocation: records.log_view.log.relocate(checkpoint_bytes)?,
        moves: VecDeque::new(),
        spoiled: BTreeSet::new(),
        unpaced_bytes: 0,
        throttled,
    };
    for tree in OF_VERSIONS {
        copy.copy_tree(tree)?;
    }
    if records.lifecycle.is_cancelled() {
        // The copies are dropped, without waiting for a flush.
        return Ok(Moves::default());
    }
    let filled = copy.relocation.finish()?;
    let emptied = &plan.victims - &copy.spoiled;
    Ok(Moves::new(copy.moves, filled, emptied))
}

struct Copy<'a> {
    parts: &'a Parts,
    victims: &'a BTreeSet<u32>,
    relocation: Relocation,
    moves: VecDeque<Slice>,
    /// Victims with a record that is damaged: they are not emptied.
    spoiled: BTreeSet<u32>,
    unpaced_bytes: u64,
    throttled: bool,
}

impl Copy<'_> {
    fn copy_tree(&mut self, tree: usize) -> Result<(), Error> {
        let mut start = None;
        loop {
            let (survivors, next) = self.survivors(tree, start.as_deref());
            let mut slice = Slice::of_tree(tree);
            for (key, entry) in survivors {
                if let Some(copy) = self.copy_record(entry)? {
                    slice.push(&key, entry, copy);
                }
            }
            self.moves.extend(slice.complete());
            if self.parts.records.lifecycle.is_cancelled() {
                return Ok(());
            }
            match next {
                Some(next) => start = Some(next),
                None => return Ok(()),
            }
        }
    }

    /// Some survivors after `start`, and where to continue; `None` at the end of the tree.
    #[expect(clippy::type_complexity, reason = "a slice and its end")]
    fn survivors(
        &self,
        tree: usize,
        start: Option<&[u8]>,
    ) -> (Vec<(Vec<u8>, IndexEntry)>, Option<Vec<u8>>) {
        let mut survivors = Vec::new();
        let trees = self.parts.records.index.reader.pin();
        let start = start.map_or(Bound::Unbounded, Bound::Excluded);
        let mut cursor = trees.cursor(tree, start, Bound::Unbounded);
        for looked in 1.. {
            let Some((key, entry)) = cursor.next() else {
                break;
            };
            if self
                .victims
                .contains(&VersionEntry::from(entry).pointer.segment())
            {
                survivors.push((key.to_vec(), entry));
            }
            if looked >= SLICE_ENTRIES || survivors.len() >= SLICE_SURVIVORS {
                let next = key.to_vec();
                return (survivors, Some(next));
            }
        }
        (survivors, None)
    }

    /// The entry of the copy; `None` for a damaged record, which stays where it is.
    fn copy_record(&mut self, old: IndexEntry) -> Result<Option<IndexEntry>, Error> {
        let version = VersionEntry::from(old);
        let record_bytes = version.pointer.record_bytes();
        let position = version.pointer.position();
        let record = match self
            .parts
            .records
            .log_view
            .log
            .read(position, record_bytes as usize)
        {
            Ok(record) => record,
            Err(error) => {
                self.pass_over(version, error.into())?;
                return Ok(None);
            }
        };
        let kind = record.kind;
        assert!(is_key_version(kind), "the index points at a key version");
        let position = self.relocation.append(Record {
            kind,
            parts: &[&record.payload],
        })?;
        let new = VersionEntry {
            pointer: RecordPointer::new(position, record_bytes),
            ..version
        }
        .entry();
        self.parts.counters.relocated_bytes.add(record_bytes);
        self.pace(record_bytes);
        Ok(Some(new))
    }

    /// Leaves a damaged record and its segment alone; other errors end the copy.
    fn pass_over(&mut self, version: VersionEntry, error: Error) -> Result<(), Error> {
        if !error.is_damage() {
            return Err(error);
        }
        self.parts.records.keep_segment_of(version);
        self.spoiled.insert(version.pointer.segment());
        Ok(())
    }

    fn pace(&mut self, record_bytes: u64) {
        self.unpaced_bytes += record_bytes;
        if !self.throttled || self.unpaced_bytes < PAUSE_BYTES {
            return;
        }
        let options = &self.parts.options;
        let micros = self.unpaced_bytes * 1_000_000 / options.background_bytes_per_second.max(1);
        options.clock.sleep(Duration::from_micros(micros));
        self.unpaced_bytes = 0;
    }
}
