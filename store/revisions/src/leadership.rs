//! Leading and following: this machine evaluates commands, or it applies the batches of a leader.
//!
//! ```text
//!                 promote (everything in the log is applied)
//!   follows ────────────────────────────────────────────────► leads
//!   decided = applied                             decided runs ahead of applied
//!   leases without deadlines                      leases end in time
//!           ◄────────────────────────────────────────────────
//!                 demote (unapplied effects are dropped)
//! ```
//!
//! Batches that were sealed before a demotion are in the log. They may be applied later, like the
//! batches of another leader, or never.

use std::time::Duration;

use engine::Batch;

use crate::machine::Machine;
use crate::open_batch::{OpenBatch, log_bytes_of};

impl Machine {
    /// Returns whether this machine leads, so that commands may be evaluated.
    pub fn leads(&self) -> bool {
        self.leading
    }

    /// Makes this machine the leader: each lease gets its full time to live and `extend` on top.
    /// The caller must have applied everything in the log, because the next command is evaluated
    /// against the applied state.
    ///
    /// A machine that commits its entries without a quorum ([`engine::Commitment::Alone`])
    /// leads from its opening on; a machine in a quorum does not.
    pub fn promote(&mut self, extend: Duration) {
        assert!(
            !self.has_unapplied(),
            "promoted with batches under way: {:?}",
            self.sealed
        );
        self.decided = self.shared.decided();
        self.leading = true;
        // Fewer per second than may be revoked, so that these leases do not use the whole
        // allowance.
        let per_second = self.shared.options.lease_revocations_per_second / 4 * 3;
        self.shared.applied().lessor.promote(extend, per_second);
    }

    /// Makes this machine a follower: leases do not expire here any more, and all unapplied
    /// effects are dropped. The next batches to apply are those of the new leader, and perhaps
    /// some that were sealed here.
    pub fn demote(&mut self) {
        self.leading = false;
        self.shared.applied().lessor.demote();
        self.abandon();
    }

    /// Drops all effects that are evaluated and not applied. If the log refuses one of several
    /// sealed batches, the caller must use [`Machine::demote`] instead, because the others may
    /// still be committed.
    pub fn abandon(&mut self) {
        self.overlay.clear();
        self.open = OpenBatch::default();
        self.sealed.clear();
        self.decided = self.shared.decided();
    }

    /// Returns whether a change of Raft's configuration is evaluated or sealed and not applied.
    /// Until it is applied, Raft replaces another such change by an empty entry.
    pub fn configuration_is_pending(&self) -> bool {
        let sealed = || {
            self.sealed
                .iter()
                .any(|sealed| sealed.changes_configuration)
        };
        self.open_is_membership() || sealed()
    }

    /// Log bytes of the evaluated batches that the used bytes do not include yet.
    pub(crate) fn unapplied_bytes(&self) -> u64 {
        self.open.bytes() + self.sealed.iter().map(|sealed| sealed.bytes).sum::<u64>()
    }

    /// Returns whether any effect is evaluated or sealed and not applied.
    pub(crate) fn has_unapplied(&self) -> bool {
        !self.open_is_empty() || !self.sealed.is_empty()
    }

    /// Checks that sealed batches are applied in the order of sealing, and that other batches are
    /// applied only while this machine does not lead, except empty ones.
    pub(crate) fn check_order(&self, batch: &Batch) {
        let expected = self.sealed.front();
        let sealed =
            expected.is_some_and(|sealed| (sealed.term, sealed.index) == (batch.term, batch.index));
        assert!(
            sealed || !self.leading || batch.changes.is_empty(),
            "batch {} of term {} was not decided here, where {expected:?} is next",
            batch.index,
            batch.term
        );
        assert!(
            !(sealed && batch.changes.is_empty()),
            "batch {} was decided here and came back empty",
            batch.index
        );
        let newest = batch.mains().map_or(0, |(_, last)| last);
        assert!(
            !self.leading || newest <= self.decided.revision,
            "revision {newest} is applied but was never decided here"
        );
    }

    /// Adds an applied batch to the used bytes. Measuring them would visit all segments;
    /// `maintain` does that now and then.
    pub(crate) fn count_applied(&mut self, batch: &Batch) {
        let own = self.sealed.front().filter(|it| it.index == batch.index);
        let own = own.copied();
        if own.is_some() {
            self.sealed.pop_front();
        }
        let bytes = own.map_or_else(|| log_bytes_of(batch), |sealed| sealed.bytes);
        self.shared.count_used(bytes);
        if !self.leading {
            self.decided = self.shared.decided();
        }
    }
}
