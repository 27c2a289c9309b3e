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
//! worth it when there is more garbage than the options leave alone; the survivors of the
//! emptiest go to sorted segments, never back into the hot log. The longer garbage is left
//! alone, the emptier these segments are, and the less is copied
//! (docs/decisions/0042-when-garbage-is-collected.md). A segment of the log with history that
//! is not compacted is left alone (a watch may read it), except by `defragment`.
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
use value_log::{Position, Record, Relocation, SegmentInfo, SegmentKind};

/// Entries looked at under one pin.
const SLICE_ENTRIES: usize = 4096;
/// Survivors collected under one pin, before they are copied.
const SLICE_SURVIVORS: usize = 256;
/// Segments' worth of survivors in one round: bounds the memory of its list of moves.
const ROUND_SEGMENTS: u64 = 4;
/// Once garbage is collected that was left alone, this part of it goes.
const COLLECTED_PART: u64 = 4;
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
    /// More segments are to be emptied when these are, before the checkpoint that releases all
    /// of them.
    pub(crate) goes_on: bool,
}

struct Candidate {
    id: u32,
    live_bytes: u64,
    used_bytes: u64,
}

impl Candidate {
    fn garbage_bytes(&self) -> u64 {
        self.used_bytes.saturating_sub(self.live_bytes)
    }

    /// Whether at most this much of it is alive.
    fn is_at_most(&self, live_percent: u64) -> bool {
        self.live_bytes * 100 <= self.used_bytes * live_percent
    }
}

impl Plan {
    /// The emptiest segments, when there is more garbage than is left alone, and emptying them
    /// is worth a checkpoint. The log from `kept_from` on stays, so emptying its segments would
    /// release nothing.
    pub(crate) fn worthwhile(parts: &Parts, index: &Index, kept_from: Option<Position>) -> Plan {
        let horizon = index.compacted;
        let is_kept = |id| kept_from.is_some_and(|position| id >= position.segment());
        let candidates = candidates(&parts.records, index, |segment, life| {
            segment.kind == SegmentKind::Sorted
                || (life.last_main < horizon && !is_kept(segment.id))
        });
        let Some(goal) = Goal::of(parts, &candidates) else {
            return Plan::default();
        };
        let percent_max = parts.options.reclaim_live_percent_max;
        let mut round = ReclaimRound::new(parts);
        for candidate in candidates.iter().filter(|it| it.is_at_most(percent_max)) {
            // Where room is short, what a few segments release may not pay for their survivors.
            if round.garbage_bytes >= goal.most_bytes && !round.is_short {
                break;
            }
            if !round.add(candidate) {
                round.plan.goes_on = round.garbage_bytes < goal.least_bytes;
                break;
            }
        }
        if round.is_short && round.garbage_bytes < goal.worth_bytes {
            return Plan::default();
        }
        round.end()
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
                // A segment that does not fit is for the next round.
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
    allowed: impl Fn(&SegmentInfo, SegmentLife) -> bool,
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
        .filter(|segment| allowed(segment, live.of(segment.id)))
        .map(|segment| Candidate {
            id: segment.id,
            live_bytes: live.of(segment.id).live_bytes,
            used_bytes: segment.used_bytes,
        })
        .collect();
    candidates.sort_by_key(|candidate| candidate.live_bytes);
    candidates
}

/// How many bytes of garbage to collect.
struct Goal {
    /// As many are worth a checkpoint.
    worth_bytes: u64,
    /// Rounds follow each other until as many are collected.
    least_bytes: u64,
    /// When as many are found, other segments get time to become emptier.
    most_bytes: u64,
}

impl Goal {
    /// `None` while there is no more garbage than is left alone, or what can go is not worth a
    /// checkpoint.
    fn of(parts: &Parts, candidates: &[Candidate]) -> Option<Goal> {
        let (options, records) = (&parts.options, &parts.records);
        let segment_bytes = records.log_view.log.segment_bytes();
        let worth_bytes = records.index.index_bytes().max(segment_bytes);
        let garbage_bytes: u64 = candidates.iter().map(Candidate::garbage_bytes).sum();
        let within_reach = candidates
            .iter()
            .filter(|it| it.is_at_most(options.reclaim_live_percent_max));
        let reachable_bytes: u64 = within_reach.map(Candidate::garbage_bytes).sum();
        let is_due = reachable_bytes >= worth_bytes && garbage_bytes >= left_alone_bytes(parts);
        let bytes = worth_bytes.max(garbage_bytes / COLLECTED_PART);
        is_due.then_some(match options.garbage_percent_max {
            0 => Goal {
                worth_bytes,
                least_bytes: worth_bytes,
                most_bytes: u64::MAX,
            },
            _ => Goal {
                worth_bytes,
                least_bytes: bytes,
                most_bytes: bytes,
            },
        })
    }
}

/// Garbage that the options leave alone, and no more than the disk has room besides.
fn left_alone_bytes(parts: &Parts) -> u64 {
    let percent = parts.options.garbage_percent_max;
    if percent == 0 {
        return 0;
    }
    let live_bytes = parts.records.log_view.accounting.live.lock().live_bytes();
    let bytes = live_bytes.saturating_mul(percent) / 100;
    bytes.min(parts.directory.available_bytes())
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

    /// Returns whether the round has room for its survivors.
    fn add(&mut self, candidate: &Candidate) -> bool {
        if self.survivor_bytes + candidate.live_bytes > self.survivor_bytes_max {
            return false;
        }
        self.survivor_bytes += candidate.live_bytes;
        self.garbage_bytes += candidate.garbage_bytes();
        if candidate.live_bytes == 0 {
            self.plan.pays = true;
        } else {
            self.plan.victims.insert(candidate.id);
        }
        true
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
        // Where room is short it is released at once.
        self.plan.goes_on &= !self.is_short && !self.plan.victims.is_empty();
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
