//! The replica's output to the other members.

use revisions::Members;

use crate::{PeerMessage, Sender};

/// Sends messages to other members. It must not block, and drops messages that it cannot
/// send.
pub trait Outbox: Send + Sync {
    /// Sends each message to the member with the id before it. Returns the members to which
    /// nothing can be sent at present.
    fn send(&self, messages: Vec<(u64, PeerMessage)>) -> Vec<u64>;

    /// Takes over the members and their addresses. Called at the start, and after each change.
    fn set_members(&self, members: &Members);

    /// Runs a snapshot's sender until it is over. An implementation may drop the sender: that
    /// ends the transfer, and it is tried again later.
    fn carry(&self, snapshot: Sender);
}

/// The outbox of a node without a network.
pub(crate) struct Nowhere;

impl Outbox for Nowhere {
    fn send(&self, messages: Vec<(u64, PeerMessage)>) -> Vec<u64> {
        messages.into_iter().map(|(to, _)| to).collect()
    }

    fn set_members(&self, _members: &Members) {}

    fn carry(&self, snapshot: Sender) {
        drop(snapshot);
    }
}
