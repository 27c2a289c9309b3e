//! How far the members are, as their leader knows it.

/// A member and its newest entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberProgress {
    pub member: u64,
    /// Newest entry that the leader knows to be on the member; 0 before it knows of any.
    pub matched_index: u64,
}
