//! Members that break a rule on purpose: whoever watches must notice.

/// A rule that is broken. Only the simulation chooses one, and a build that is
/// broken from the ground up: a node has no option for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// Entries and votes count as stable before they are flushed.
    AcknowledgesBeforeTheFlush,
    /// Whatever begins like a frame counts as one at a start, whole or torn.
    AcceptsATornTail,
    /// Votes and terms are not written down.
    ForgetsItsVote,
    /// A leader serves reads without asking whether it still leads.
    ReadsWithoutConfirmation,
    /// A leader renews leases without asking whether it still leads.
    RenewsWithoutConfirmation,
    /// A new leader serves before its term's first entry is applied.
    LeadsBeforeItsFirstEntry,
    /// What was evaluated and changes nothing is answered without asking anyone.
    AnswersWithoutAnEntry,
    /// A snapshot is installed although what is here is newer.
    InstallsOverNewerEntries,
    /// Now and then an entry is left out.
    SkipsAnEntry,
    /// A restarted voter has forgotten whom it heard a moment ago.
    VotesAtOnceAfterARestart,
    /// A lease on reads counts from the answer to a round, not from its sending.
    LeaseFromTheReceiveTime,
    /// A leader reads under its lease what followers are ahead of.
    LeaseBehindFollowers,
    /// A leader goes on reading under its lease when it has handed the lead over.
    KeepsItsLeaseInATransfer,
    /// An answer to an earlier life's question is taken for one to this life's.
    NumbersFromOneInEachLife,
    /// A member that may have lost the end of its log votes and stands at once.
    VotesWhileReturning,
    /// A leader goes on counting on what a member's former life has confirmed.
    KeepsItsMatch,
}

/// The rule that every node of this build breaks: none, unless the compiler was
/// told `--cfg inkstone_broken_reads`. No flag, variable or file of a program
/// that was built without it brings it back; `cargo xtask faults --broken`
/// builds one to see that it is caught.
pub(crate) const OF_THIS_BUILD: Option<Mutant> = if cfg!(inkstone_broken_reads) {
    Some(Mutant::ReadsWithoutConfirmation)
} else {
    None
};
