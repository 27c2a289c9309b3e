//! Rules that a member can break on purpose, to test that the simulation detects it.

use engine::{Batch, Change};

/// A rule that a replica breaks. Only the simulation and a build for tests choose one; a node
/// has no option for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// A member acknowledges entries and votes before they are flushed.
    AcknowledgesBeforeTheFlush,
    /// A member that starts accepts torn frames.
    AcceptsATornTail,
    /// A member does not write down votes and terms.
    ForgetsItsVote,
    /// A leader serves reads without asking whether it still leads.
    ReadsWithoutConfirmation,
    /// A leader renews leases without asking whether it still leads.
    RenewsWithoutConfirmation,
    /// A new leader serves before its term's first entry is applied.
    LeadsBeforeItsFirstEntry,
    /// A leader answers commands that change nothing without confirming that it still leads.
    AnswersWithoutAnEntry,
    /// A member installs a snapshot over a newer state.
    InstallsOverNewerEntries,
    /// A member does not apply some entries.
    SkipsAnEntry,
    /// A member applies some entries with a changed byte in a value.
    AppliesAnotherValue,
    /// A voter drops its promise to the leader when it restarts.
    VotesAtOnceAfterARestart,
    /// A leader counts its lease on reads from the answer to a round, not from its sending.
    LeaseFromTheReceiveTime,
    /// A leader reads under its lease although followers may show newer entries.
    LeaseBehindFollowers,
    /// A leader still reads under its lease after it began to hand leadership over.
    KeepsItsLeaseInATransfer,
    /// A member uses the same numbers for its questions in each incarnation, and takes an answer to
    /// an earlier incarnation for its own.
    NumbersFromOneInEachIncarnation,
    /// A member that may have lost the end of its log votes and stands for election at once.
    VotesWhileRejoining,
    /// A leader still relies on what a member's former incarnation has confirmed.
    KeepsItsMatch,
}

/// Changes the last byte of the first version in a batch, as a fault of the memory would.
pub(crate) fn change_a_value(batch: &mut Batch) {
    let keys = batch.changes.iter_mut().find_map(|change| match change {
        Change::Key(key) => Some(key),
        Change::State { .. } => None,
    });
    if let Some(key) = keys {
        let mut bytes = key.kv.to_vec();
        if let Some(last) = bytes.last_mut() {
            *last ^= 1;
        }
        key.kv = bytes.into();
    }
}

/// The rule that every node of this build breaks: none, unless the compiler got
/// `--cfg inkstone_broken_reads`. No flag, variable or file enables it in a program that was
/// built without it. `cargo trials faults --broken` builds such a program, to test that its
/// checks detect it.
pub(crate) const OF_THIS_BUILD: Option<Mutant> = if cfg!(inkstone_broken_reads) {
    Some(Mutant::ReadsWithoutConfirmation)
} else {
    None
};
