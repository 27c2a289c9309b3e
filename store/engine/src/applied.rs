//! State that the applying thread owns besides upkeep: the index's writer and the sweep that follows
//! a compaction.

use crate::Batch;
use crate::apply::Index;
use crate::compaction::Sweep;
use crate::parts::Parts;
use crate::trees::NEVER_COMPACTED;
use std::sync::Arc;
use value_log::{Appended, Position, SegmentInfo, SegmentKind};

#[derive(Debug)]
pub(crate) struct Applied {
    pub(crate) parts: Arc<Parts>,
    pub(crate) index: Index,
    /// The sweep that is under way or waits.
    pub(crate) sweep: Option<Sweep>,
    /// Compacted revision of the last finished sweep.
    pub(crate) swept: i64,
}

impl Applied {
    /// The state that an opening has found. Its checkpoint may have been written during a sweep,
    /// so a sweep begins.
    pub(crate) fn recovered(parts: Arc<Parts>, index: Index) -> Applied {
        let compacted = index.compacted;
        Applied {
            parts,
            index,
            sweep: (compacted > NEVER_COMPACTED).then(|| Sweep::new(compacted)),
            swept: NEVER_COMPACTED,
        }
    }

    /// Bytes of log from `then` to the last applied batch; [`Position::NONE`] is the beginning of a
    /// new log, which is in segment 1. Sorted segments, which have numbers in between, are
    /// no part of it.
    pub(crate) fn log_bytes_since(&self, then: Position) -> u64 {
        let behind = then.segment().max(1) + 1..=self.index.applied_position.segment();
        let segments = self.parts.records.log_view.log.segments();
        let is_between = |it: &&SegmentInfo| it.kind == SegmentKind::Log && behind.contains(&it.id);
        self.log_bytes_over(segments.iter().filter(is_between).count() as u64, then)
    }

    /// The same with sorted segments, without a look at any.
    pub(crate) fn log_bytes_at_most_since(&self, then: Position) -> u64 {
        let now = self.index.applied_position.segment();
        self.log_bytes_over(now.saturating_sub(then.segment().max(1)).into(), then)
    }

    /// Bytes from `then` to the last applied batch. That batch is in the last of the `segments` that
    /// follow.
    fn log_bytes_over(&self, segments: u64, then: Position) -> u64 {
        let segment_bytes = self.parts.records.log_view.log.segment_bytes();
        let now = self.index.applied_position;
        (segments * segment_bytes + now.offset()).saturating_sub(then.offset())
    }

    pub(crate) fn apply(&mut self, batch: &Batch, appended: &Appended) {
        self.check_follows(batch, appended);
        let records = &self.parts.records;
        self.index
            .apply(&records.log_view.accounting, batch, appended);
        self.index.publish(records);
    }

    pub(crate) fn apply_and_compact(&mut self, batch: &Batch, appended: &Appended) {
        if self.parts.transfers.holds.hold_back(i64::MAX) {
            self.apply(batch, appended);
            self.compact(self.index.revision);
            return;
        }
        self.check_follows(batch, appended);
        let (index, records) = (&mut self.index, &self.parts.records);
        index.supersede(&records.log_view.accounting, batch, appended);
        index.set_compacted(index.revision);
        index.publish(records);
        if index.kept_versions() > 0 {
            self.begin_sweep();
        }
    }

    fn check_follows(&self, batch: &Batch, appended: &Appended) {
        let expected = self.index.revision + 1;
        if let Some((first, _)) = batch.mains() {
            assert_eq!(
                first, expected,
                "batch {} leaves a gap in the revisions",
                batch.index
            );
        }
        let (last, now) = (self.index.applied_index, batch.index);
        let joins_last = now == last && appended.start == self.index.applied_position;
        assert!(
            now > last || joins_last,
            "batch {} was applied twice",
            batch.index
        );
    }

    pub(crate) fn compact(&mut self, revision: i64) {
        let index = &mut self.index;
        if revision <= index.compacted {
            return;
        }
        assert!(
            revision <= index.revision,
            "compaction to {revision}, beyond the last revision"
        );
        index.set_compacted(revision);
        index.publish(&self.parts.records);
        self.begin_sweep();
    }

    /// Begins a sweep for the compacted revision, unless one has begun: that one is finished
    /// first, or frequent compactions would restart it for ever.
    fn begin_sweep(&mut self) {
        if !self.sweep.as_ref().is_some_and(Sweep::has_begun) {
            self.sweep = Some(Sweep::new(self.index.compacted));
        }
    }

    pub(crate) fn finish_compaction(&mut self) {
        while !self.is_held_back() && self.sweep_a_slice() {}
    }

    /// Whether an export must be dropped before anything is swept.
    fn is_held_back(&self) -> bool {
        let holds = &self.parts.transfers.holds;
        let sweep = self.sweep.as_ref();
        sweep.is_some_and(|sweep| holds.hold_back(sweep.compacted()))
    }

    pub(crate) fn is_sweeping(&self) -> bool {
        self.sweep.is_some() && !self.is_held_back()
    }

    pub(crate) fn swept(&self) -> i64 {
        match self.sweep {
            Some(_) => self.swept,
            None => self.index.compacted,
        }
    }

    /// Sweeps one slice; false when nothing is left, or the sweep is held back.
    pub(crate) fn sweep_a_slice(&mut self) -> bool {
        if self.is_held_back() {
            return false;
        }
        let Some(sweep) = &mut self.sweep else {
            return false;
        };
        let (index, records) = (&mut self.index, &self.parts.records);
        let accounting = &records.log_view.accounting;
        let before = index.kept_versions();
        let done = sweep.step(&mut index.writer, accounting);
        let swept = before - index.kept_versions();
        self.parts.counters.swept_versions.add(swept);
        index.publish(records);
        if done {
            self.swept = sweep.compacted();
            // Compactions since this sweep began get one sweep together, if they left anything
            // to drop.
            let behind = self.swept < index.compacted && index.kept_versions() > 0;
            accounting.creations.lock().forget_through(index.compacted);
            self.sweep = behind.then(|| Sweep::new(index.compacted));
        }
        self.sweep.is_some()
    }
}
