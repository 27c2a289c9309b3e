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

mod copy;
mod stretches;
mod survivors;
mod walk;

pub(crate) use survivors::copy;
pub(crate) use walk::{KeyOrderWalk, WalkPlace, WalkRound};

use crate::apply::Index;
use crate::directory;
use crate::live::SegmentLife;
use crate::parts::Parts;
use crate::read::Records;
use std::collections::BTreeSet;
use value_log::{Position, SegmentInfo, SegmentKind};

/// Segments' worth of survivors in one round: bounds the memory of its list of moves.
pub(crate) const ROUND_SEGMENTS: u64 = 4;
/// Once garbage is collected that was left alone, this part of it goes.
const COLLECTED_PART: u64 = 4;
/// Defragmentation leaves segments alone that are at least this full.
const FULL_PERCENT: u64 = 95;
/// A sorted segment has its first block and a header of a frame besides its records.
const HEADERS_BYTES: u64 = 8 << 10;

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
    is_sorted: bool,
}

impl Candidate {
    fn garbage_bytes(&self) -> u64 {
        self.used_bytes.saturating_sub(self.live_bytes)
    }

    /// Whether at most this much of it is alive.
    fn is_at_most(&self, live_percent: u64) -> bool {
        self.live_bytes * 100 <= self.used_bytes * live_percent
    }

    fn is_full(&self) -> bool {
        self.live_bytes * 100 >= self.used_bytes * FULL_PERCENT
    }

    /// Whether it would be full with more of the same records.
    fn is_dense(&self) -> bool {
        let bytes = self.used_bytes.saturating_sub(HEADERS_BYTES);
        self.is_sorted && self.live_bytes > 0 && self.live_bytes * 100 >= bytes * FULL_PERCENT
    }
}

/// The segments that are not worth copying: those that are full, and a sorted one that is not because it is
/// so small. Several of these are worth it, because their records fill one.
fn full_segments(candidates: &[Candidate]) -> BTreeSet<u32> {
    let (full, others): (Vec<_>, Vec<_>) = candidates.iter().partition(|it| it.is_full());
    let mut dense = others.iter().filter(|it| it.is_dense());
    let small = dense.next().filter(|_| dense.next().is_none());
    full.iter().chain(small).map(|it| it.id).collect()
}

impl Plan {
    /// The emptiest segments, when there is more garbage than is left alone, and emptying them
    /// is worth a checkpoint. The log from `kept_from` on stays, so emptying its segments would
    /// release nothing. The segments of `walk` are left to it.
    pub(crate) fn worthwhile(
        parts: &Parts,
        index: &Index,
        kept_from: Option<Position>,
        walk: Option<&KeyOrderWalk>,
    ) -> Plan {
        let horizon = index.compacted;
        let is_kept = |id| kept_from.is_some_and(|position| id >= position.segment());
        let is_walked = |id| walk.is_some_and(|walk| walk.segments().contains(&id));
        let candidates = candidates(&parts.records, index, |segment, life| {
            !is_walked(segment.id)
                && (segment.kind == SegmentKind::Sorted
                    || (life.last_main < horizon && !is_kept(segment.id)))
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
        let is_left = |id: u32| id < until && !done.contains(&id);
        let candidates = candidates(&parts.records, index, |it, _| is_left(it.id));
        let full = full_segments(&candidates);
        for candidate in candidates {
            if !full.contains(&candidate.id) {
                // A segment that does not fit is for the next round.
                round.add(&candidate);
            }
        }
        round.end()
    }
}

/// Sealed segments with applied batches and without damage, the emptiest first.
fn candidates(
    records: &Records,
    index: &Index,
    allowed: impl Fn(&SegmentInfo, SegmentLife) -> bool,
) -> Vec<Candidate> {
    let spoiled = records.damage.spoiled.lock().clone();
    let mut candidates = sealed_segments(records, index, |segment, life| {
        !spoiled.contains(&segment.id) && allowed(segment, life)
    });
    candidates.sort_by_key(|candidate| candidate.live_bytes);
    candidates
}

/// Sealed segments with applied batches only that nothing points into.
pub(crate) fn empty_segments(records: &Records, index: &Index) -> impl Iterator<Item = u32> {
    let empty = sealed_segments(records, index, |_, life| life.live_bytes == 0);
    empty.into_iter().map(|candidate| candidate.id)
}

/// Sealed segments with applied batches only.
fn sealed_segments(
    records: &Records,
    index: &Index,
    allowed: impl Fn(&SegmentInfo, SegmentLife) -> bool,
) -> Vec<Candidate> {
    let live = records.log_view.accounting.live.lock();
    let applied = |segment: &SegmentInfo| {
        segment.kind == SegmentKind::Sorted || segment.last_tag.index <= index.applied_index
    };
    // A sorted segment that is being filled is not accounted for yet.
    let is_known = |segment: &SegmentInfo| segment.kind == SegmentKind::Log || live.has(segment.id);
    let infos = records.log_view.log.segments();
    let sealed = infos
        .iter()
        .filter(|segment| segment.sealed && applied(segment) && is_known(segment));
    sealed
        .filter(|segment| allowed(segment, live.of(segment.id)))
        .map(|segment| Candidate {
            id: segment.id,
            live_bytes: live.of(segment.id).live_bytes,
            used_bytes: segment.used_bytes,
            is_sorted: segment.kind == SegmentKind::Sorted,
        })
        .collect()
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
pub(crate) fn usable_bytes(segment_bytes: u64) -> u64 {
    segment_bytes - segment_bytes / 32
}
