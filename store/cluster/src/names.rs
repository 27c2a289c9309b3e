//! The sender and receiver that some messages name besides their connection.

use crate::PeerMessage;

impl PeerMessage {
    /// Whether the message is consistent with its connection from member `from` to member `to`.
    /// Raft's messages name their sender and receiver; all others have no such fields.
    #[must_use]
    pub fn is_in_the_name_of(&self, from: u64, to: u64) -> bool {
        match self {
            PeerMessage::Raft(message) => (message.from, message.to) == (from, to),
            PeerMessage::SnapshotOffer { message, .. } => (message.from, message.to) == (from, to),
            _ => true,
        }
    }
}
