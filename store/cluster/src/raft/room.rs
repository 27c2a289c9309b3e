//! Checks that the log has room for entries before the library accepts them.
//!
//! ```text
//!   entries, a snapshot ──room?──► accepted, written
//!                           └─no─► dropped; the leader sends them again
//! ```

use engine::Engine;
use raft::eraftpb::Message;
use value_log::Log;

use super::entry::records_of;

/// Why entries or a snapshot are not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NotTaken {
    /// The log has no room for this many bytes of entries.
    NoRoom { bytes: usize },
    /// The disk or the memory has no room for a snapshot.
    NoRoomForSnapshot,
    /// An entry is larger than a segment can hold.
    TooLarge,
}

/// Bytes of an entry's frame besides its records.
const FRAME_BYTES_BESIDE: u64 = Log::FRAME_HEADER_BYTES;
/// Most bytes that the log leaves unused before a frame.
const GAP_BYTES_MAX: u64 = 4096;

/// The room of the log for entries of the leader.
#[derive(Debug, Default)]
pub(super) struct LogRoom {
    /// Why the last entries or the last snapshot were not accepted, if so.
    not_taken: Option<NotTaken>,
    /// Upper bound of the bytes in the log of entries that the library has accepted and the
    /// log has not.
    unwritten_bytes: u64,
}

impl LogRoom {
    /// Whether the log has room for the message's entries. Entries that the library accepts must
    /// be written, or this member fails until its next start. If the log finds no room (a full
    /// disk, a quota, no descriptor for another segment), the message is dropped; the leader
    /// sends the entries again with every heartbeat until there is room. Entries that do not
    /// fit into one segment are cut off the message.
    pub fn has_room_for(&mut self, engine: &Engine, message: &mut Message) -> bool {
        if message.entries.is_empty() {
            return true;
        }
        let bytes_max = engine.batch_log_bytes_max();
        let largest = message.entries.iter().map(|it| records_of(it).len()).max();
        let largest = largest.unwrap_or(0) as u64;
        if largest > bytes_max {
            if self.not_taken.replace(NotTaken::TooLarge) != Some(NotTaken::TooLarge) {
                tracing::error!(
                    "this member cannot store an entry of {largest} bytes, nor any entry behind \
                     it: its log segments hold at most {bytes_max} bytes; start it with the \
                     --segment-bytes of the other members, in a new directory"
                );
            }
            return false;
        }
        let (entries, bytes) = fitting(message, bytes_max);
        message.entries.truncate(entries);
        // For a single entry the log itself computes how much room it takes.
        let is_alone = entries == 1 && self.unwritten_bytes == 0;
        let wanted = if is_alone {
            largest
        } else {
            self.unwritten_bytes + bytes
        };
        let has_room = self.look_for_room(engine, wanted as usize).is_ok();
        if has_room {
            self.unwritten_bytes += bytes;
        }
        has_room
    }

    /// Whether the message's entries fit into one segment together with those that were accepted
    /// and are not written yet. The check for room covers one segment only.
    pub fn takes_before_writing(&self, engine: &Engine, message: &Message) -> bool {
        let bytes_max = engine.batch_log_bytes_max();
        let (_, bytes) = fitting(message, bytes_max);
        self.unwritten_bytes == 0 || self.unwritten_bytes + bytes <= bytes_max
    }

    /// Notes that all entries that the library has accepted are written.
    pub fn note_written(&mut self) {
        self.unwritten_bytes = 0;
    }

    fn look_for_room(&mut self, engine: &Engine, bytes: usize) -> Result<(), engine::Error> {
        let outcome = engine.make_room(bytes);
        // Any other error of the log appears again at the write.
        let full = outcome.as_ref().is_err_and(engine::Error::is_shortage);
        let before = std::mem::replace(
            &mut self.not_taken,
            full.then_some(NotTaken::NoRoom { bytes }),
        );
        if before.is_some() != full {
            match &outcome {
                Err(error) => {
                    tracing::warn!(%error, "this member accepts no entries until there is room")
                }
                Ok(()) => tracing::info!("there is room for entries again"),
            }
        }
        if full { outcome } else { Ok(()) }
    }

    /// Whether the last entries, or the last snapshot, found no room here.
    pub fn is_full(&self) -> bool {
        matches!(
            self.not_taken,
            Some(NotTaken::NoRoom { .. } | NotTaken::NoRoomForSnapshot)
        )
    }

    /// Notes that a snapshot is installed, which has replaced the log.
    pub fn note_room_for_snapshot(&mut self) {
        self.not_taken = None;
    }

    /// Notes that a snapshot found no room.
    pub fn note_no_room_for_snapshot(&mut self) {
        self.not_taken = Some(NotTaken::NoRoomForSnapshot);
    }

    /// If the last entries found no room, checks again. Fails if there is still none, with the
    /// reason if it is known.
    pub fn check_again(&mut self, engine: &Engine) -> Result<(), Option<engine::Error>> {
        match self.not_taken {
            Some(NotTaken::NoRoom { bytes }) => self.look_for_room(engine, bytes).map_err(Some),
            Some(NotTaken::NoRoomForSnapshot) => Err(None),
            _ => Ok(()),
        }
    }
}

/// The number of the message's entries that one segment certainly holds, at least one, and
/// an upper bound of the bytes that they take.
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
