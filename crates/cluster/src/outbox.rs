//! The way to the other members.

use std::fmt::Debug;

use revisions::Members;

use crate::{PeerMessage, Sender};

/// Takes messages to other members. It must not wait; what it cannot send, it
/// drops.
pub trait Outbox: Debug + Send + Sync {
    /// Sends each message to the member in front of it. Returns to whom nothing
    /// can be sent at present.
    fn send(&self, messages: Vec<(u64, PeerMessage)>) -> Vec<u64>;

    /// Who belongs to the cluster, and where they are: at the start, and after
    /// each change.
    fn set_members(&self, members: &Members);

    /// Runs a snapshot's sender until it is over. Dropping it ends the transfer,
    /// which is tried again later.
    fn carry(&self, snapshot: Sender);
}

/// There are no others.
#[derive(Debug)]
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
