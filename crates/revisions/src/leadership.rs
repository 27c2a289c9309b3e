//! Who decides: this machine, or one elsewhere whose batches it applies.
//!
//! ```text
//!                 promote (everything in the log is applied)
//!   follows ────────────────────────────────────────────────► leads
//!   decided = applied                             decided runs ahead of applied
//!   leases without deadlines                      leases end in time
//!           ◄────────────────────────────────────────────────
//!                 demote (what is unapplied is forgotten)
//! ```
//!
//! What was sealed before a demotion is in the log: it may be applied later,
//! as anybody's batch, or never.

use std::time::Duration;

use engine::Batch;

use crate::machine::{Machine, OpenBatch, log_bytes_of};

/// A sealed batch that is not applied.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sealed {
    pub term: u64,
    pub index: u64,
    /// About what it takes in the log.
    pub bytes: u64,
    pub changes_configuration: bool,
}

impl Machine {
    /// This machine decides: commands may be evaluated.
    pub fn leads(&self) -> bool {
        self.leading
    }

    /// This machine decides from now on: leases start over with their full time
    /// to live and `extend` on top. The caller promises that everything in the
    /// log is applied: what is decided next, is decided against it.
    ///
    /// A machine whose own log says what is committed leads when it is opened
    /// ([`engine::Commitment::Alone`]); one in a quorum does not.
    pub fn promote(&mut self, extend: Duration) {
        assert!(
            !self.has_unapplied(),
            "promoted with batches under way: {:?}",
            self.sealed
        );
        self.decided = self.shared.decided();
        self.leading = true;
        // Fewer than may be revoked: a pile must not take the whole allowance.
        let per_second = self.shared.options.lease_revocations_per_second / 4 * 3;
        self.shared.applied().lessor.promote(extend, per_second);
    }

    /// This machine decides no longer: leases do not expire here, and
    /// everything unapplied is forgotten. Batches of the new leader follow, and
    /// perhaps some that were sealed here.
    pub fn demote(&mut self) {
        self.leading = false;
        self.shared.applied().lessor.demote();
        self.abandon();
    }

    /// Forgets everything evaluated and not applied. Where one of several
    /// sealed batches is refused by the log, [`Machine::demote`] is due: the
    /// others may still come true.
    pub fn abandon(&mut self) {
        self.overlay.clear();
        self.open = OpenBatch::default();
        self.sealed.clear();
        self.decided = self.shared.decided();
    }

    /// A change of Raft's configuration is evaluated or sealed and not applied.
    /// Raft takes no other until then: an entry that comes too early is emptied.
    pub fn configuration_is_pending(&self) -> bool {
        let sealed = || {
            self.sealed
                .iter()
                .any(|sealed| sealed.changes_configuration)
        };
        self.open_is_membership() || sealed()
    }

    /// Bytes evaluated that the log does not count yet.
    pub(crate) fn unapplied_bytes(&self) -> u64 {
        self.open.bytes() + self.sealed.iter().map(|sealed| sealed.bytes).sum::<u64>()
    }

    /// Something is evaluated or sealed that is not applied.
    pub(crate) fn has_unapplied(&self) -> bool {
        !self.open_is_empty() || !self.sealed.is_empty()
    }

    /// What this machine sealed is applied in the order of sealing; everything
    /// else only where it does not lead, but for entries that say nothing.
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

    /// A batch has been applied: the log counts it from now on. Measuring
    /// would walk all segments; `maintain` does that.
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
