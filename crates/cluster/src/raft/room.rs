//! Room for what is to be taken.
//!
//! ```text
//!   entries, a snapshot ──room?──► taken, written
//!                           └─no─► dropped; the leader sends them again
//! ```

use raft::eraftpb::Message;
use value_log::Log;

use super::consensus::Consensus;
use super::entry::records_of;

/// Why entries are not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotTaken {
    /// The log has no room for so many bytes of entries.
    NoRoom { bytes: usize },
    /// It, or the memory, has none for a snapshot.
    NoRoomForSnapshot,
    /// No segment holds one of them.
    TooLarge,
}

/// Bytes of an entry's frame beside its records, and at most so much before it.
const FRAME_BYTES_BESIDE: u64 = Log::FRAME_HEADER_BYTES;
const GAP_BYTES_MAX: u64 = 4096;

impl Consensus {
    /// What the library takes must be written, or this member is lost until it is
    /// started again. Where the log finds no room (a full disk, a quota, no descriptor
    /// for another segment) it takes no entries: the leader sends them again with every
    /// heartbeat, until there is room. Of more than a segment holds it takes a part.
    pub(super) fn has_room_for(&mut self, message: &mut Message) -> bool {
        if message.entries.is_empty() {
            return true;
        }
        let bytes_max = self.engine.batch_log_bytes_max();
        let largest = message.entries.iter().map(|it| records_of(it).len()).max();
        let largest = largest.unwrap_or(0) as u64;
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
        let (entries, bytes) = fitting(message, bytes_max);
        message.entries.truncate(entries);
        // Of one entry alone the log knows how much it takes.
        let is_alone = entries == 1 && self.unwritten_bytes == 0;
        let wanted = if is_alone {
            largest
        } else {
            self.unwritten_bytes + bytes
        };
        let has_room = self.look_for_room(wanted as usize).is_ok();
        if has_room {
            self.unwritten_bytes += bytes;
        }
        has_room
    }

    /// Whether the message's entries and those that were taken and are not written yet
    /// fit into one segment: room is looked for in one only.
    pub fn takes_before_writing(&self, message: &Message) -> bool {
        let bytes_max = self.engine.batch_log_bytes_max();
        let (_, bytes) = fitting(message, bytes_max);
        self.unwritten_bytes == 0 || self.unwritten_bytes + bytes <= bytes_max
    }

    fn look_for_room(&mut self, bytes: usize) -> Result<(), engine::Error> {
        let outcome = self.engine.make_room(bytes);
        // A log that has failed says so to the write.
        let full = outcome.as_ref().is_err_and(engine::Error::is_shortage);
        let before = std::mem::replace(
            &mut self.not_taken,
            full.then_some(NotTaken::NoRoom { bytes }),
        );
        if before.is_some() != full {
            match &outcome {
                Err(error) => tracing::warn!(%error, "no entry is taken until there is room"),
                Ok(()) => tracing::info!("there is room for entries again"),
            }
        }
        if full { outcome } else { Ok(()) }
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

    /// Where the last entries found no room, looks again: an error where there is none
    /// now either, with the reason if that is known.
    pub fn check_room_again(&mut self) -> Result<(), Option<engine::Error>> {
        match self.not_taken {
            Some(NotTaken::NoRoom { bytes }) => self.look_for_room(bytes).map_err(Some),
            Some(NotTaken::NoRoomForSnapshot) => Err(None),
            _ => Ok(()),
        }
    }
}

/// How many of the message's entries one segment holds for certain, at least one, and
/// the bytes that they take at most.
fn fitting(message: &Message, bytes_max: u64) -> (usize, u64) {
    let (mut entries, mut bytes) = (0, 0);
    for entry in &message.entries {
        let frame = FRAME_BYTES_BESIDE + records_of(entry).len() as u64;
        let with_gap = frame + frame.min(GAP_BYTES_MAX);
        if entries > 0 && bytes + with_gap > bytes_max {
            break;
        }
        (entries, bytes) = (entries + 1, bytes + with_gap);
    }
    (entries, bytes)
}
