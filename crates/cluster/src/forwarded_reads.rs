//! What a forwarded command will read, read before the replica gets the command.
//!
//! ```text
//!   network thread ──much to read──► a blocking thread: reads ──┐
//!        └───────────otherwise──────────────────────────────────┴──► inbox
//! ```
//!
//! The member that a client asked has read the same records, but from its own disk. Here
//! the replica would wait for each of them, and every other command with it.

use std::sync::Arc;

use revisions::{Command, READ_BYTES_MAX, Reader, validate};
use tokio::sync::Semaphore;

use crate::PeerMessage;
use crate::inbox::Inbox;

/// Commands that read no more than this go to the replica at once.
const BYTES_AT_ONCE_MAX: u64 = 128 << 10;
/// Commands whose records are read at the same time. More go to the replica unread.
const COMMANDS_MAX: usize = 4;

/// Reads what forwarded commands will need.
pub(crate) struct ForwardedReads {
    reader: Reader,
    inbox: Arc<Inbox>,
    places: Arc<Semaphore>,
}

impl ForwardedReads {
    pub fn new(reader: Reader, inbox: Arc<Inbox>) -> ForwardedReads {
        ForwardedReads {
            reader,
            inbox,
            places: Arc::new(Semaphore::new(COMMANDS_MAX)),
        }
    }

    /// Puts a message of so many bytes into the inbox: at once, or where it is a command
    /// that reads much, when its records are in memory. To be called on the network thread.
    pub fn pass_on(&self, from: u64, message: PeerMessage, bytes: usize) {
        let reads_much = match &message {
            PeerMessage::Command { command, .. } => self.reads_much(command),
            _ => false,
        };
        let place = reads_much.then(|| Arc::clone(&self.places).try_acquire_owned());
        let Some(Ok(place)) = place else {
            return self.inbox.receive(from, message, bytes);
        };
        let (reader, inbox) = (self.reader.clone(), Arc::clone(&self.inbox));
        tokio::task::spawn_blocking(move || {
            if let PeerMessage::Command { command, .. } = &message {
                reader.warm(command, READ_BYTES_MAX);
            }
            inbox.receive(from, message, bytes);
            drop(place);
        });
    }

    /// What is not a valid command is not read for: the replica refuses it.
    fn reads_much(&self, command: &Command) -> bool {
        let is_valid = validate::command(command, usize::MAX).is_ok();
        is_valid && self.reader.reads_above(command, BYTES_AT_ONCE_MAX)
    }
}
