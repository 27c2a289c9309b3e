//! Members that break a rule on purpose: whoever watches must notice.

/// A rule that is broken. Only the simulation chooses one: a node has no option
/// for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// Entries and votes count as stable before they are flushed.
    AcknowledgesBeforeTheFlush,
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
}
