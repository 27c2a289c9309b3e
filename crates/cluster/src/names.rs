//! The names that messages say once more.

use crate::PeerMessage;

impl PeerMessage {
    /// Whether a message that says once more which members it is from and for says so
    /// truly. The others say it by their connection alone.
    #[must_use]
    pub fn is_in_the_name_of(&self, from: u64, to: u64) -> bool {
        match self {
            PeerMessage::Raft(message) => (message.from, message.to) == (from, to),
            PeerMessage::SnapshotOffer { message, .. } => (message.from, message.to) == (from, to),
            _ => true,
        }
    }
}
