//! The way to the other members.

use std::fmt::Debug;

use crate::PeerMessage;

/// Takes messages to other members. It must not wait; what it cannot send, it
/// drops.
pub trait Outbox: Debug + Send + Sync {
    /// Sends each message to the member in front of it.
    fn send(&self, messages: Vec<(u64, PeerMessage)>);
}

/// There are no others.
#[derive(Debug)]
pub(crate) struct Nowhere;

impl Outbox for Nowhere {
    fn send(&self, _messages: Vec<(u64, PeerMessage)>) {}
}
