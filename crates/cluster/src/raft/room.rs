//! Room for what is to be taken.
//!
//! ```text
//!   entries, a snapshot ──room?──► taken, written
//!                           └─no─► dropped; the leader sends them again
//! ```

use raft::eraftpb::Message;

use super::consensus::Consensus;
use super::entry::records_of;

/// Why entries are not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotTaken {
    /// The disk has no room for so many bytes of entries.
    NoRoom { bytes: usize },
    /// It, or the memory, has none for a snapshot.
    NoRoomForSnapshot,
    /// No segment holds one of them.
    TooLarge,
}

impl Consensus {
    /// What the library takes must be written, or this member is lost until it is
    /// started again. On a full disk it takes no entries: the leader sends them
    /// again with every heartbeat, until there is room.
    pub(super) fn has_room_for(&mut self, message: &Message) -> bool {
        if message.entries.is_empty() {
            return true;
        }
        let sizes = message.entries.iter().map(|it| records_of(it).len());
        let largest = sizes.clone().max().unwrap_or(0) as u64;
        let bytes_max = self.engine.batch_log_bytes_max();
        if largest > bytes_max {
            if self.not_taken.replace(NotTaken::TooLarge) != Some(NotTaken::TooLarge) {
                tracing::error!(
                    "an entry of {largest} bytes is not taken, and so none behind it: this \
                     member's log segments hold {bytes_max} at most; start it with the \
                     --segment-bytes of the others, in a new directory"
                );
            }
            return false;
        }
        self.look_for_room(sizes.sum())
    }

    fn look_for_room(&mut self, bytes: usize) -> bool {
        let outcome = self.engine.make_room(bytes);
        let full = matches!(outcome, Err(engine::Error::NoSpace { .. }));
        let before = std::mem::replace(
            &mut self.not_taken,
            full.then_some(NotTaken::NoRoom { bytes }),
        );
        if before.is_some() != full {
            match outcome {
                Err(error) => tracing::warn!(%error, "no entry is taken until there is room"),
                Ok(()) => tracing::info!("there is room for entries again"),
            }
        }
        !full
    }

    /// The last entries that came, or a snapshot, found no room here.
    pub fn is_full(&self) -> bool {
        matches!(
            self.not_taken,
            Some(NotTaken::NoRoom { .. } | NotTaken::NoRoomForSnapshot)
        )
    }

    /// A snapshot found no room.
    pub fn note_no_room_for_snapshot(&mut self) {
        self.not_taken = Some(NotTaken::NoRoomForSnapshot);
    }

    /// The same, and there is no room for them now either.
    pub fn is_still_full(&mut self) -> bool {
        match self.not_taken {
            Some(NotTaken::NoRoom { bytes }) => !self.look_for_room(bytes),
            Some(NotTaken::NoRoomForSnapshot) => true,
            _ => false,
        }
    }
}
