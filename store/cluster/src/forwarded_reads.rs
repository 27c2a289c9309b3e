//! Reads the records that a forwarded command needs before the replica gets the command.
//!
//! ```text
//!   network thread ──needs many bytes──► a blocking thread: reads ──┐
//!        └───────────otherwise──────────────────────────────────────┴──► inbox
//! ```
//!
//! The member that received the command has read the same records, but from its own disk.
//! Without this, the leader's replica would wait for its disk during the evaluation, and
//! delay every other command.

use std::sync::Arc;

use revisions::{Command, READ_BYTES_MAX, Reader, validate};
use tokio::sync::Semaphore;

use crate::PeerMessage;
use crate::inbox::Inbox;

/// Commands that read no more than this go to the replica at once.
const BYTES_AT_ONCE_MAX: u64 = 128 << 10;
/// Most commands for which records are read at the same time. Any further command goes to
/// the replica unread.
const COMMANDS_MAX: usize = 4;

/// Reads the records that forwarded commands need.
pub(crate) struct ForwardedReads {
    reader: Reader,
    inbox: Arc<Inbox>,
    permits: Arc<Semaphore>,
}

impl ForwardedReads {
    pub fn new(reader: Reader, inbox: Arc<Inbox>) -> ForwardedReads {
        ForwardedReads {
            reader,
            inbox,
            permits: Arc::new(Semaphore::new(COMMANDS_MAX)),
        }
    }

    /// Puts a message that had `bytes` bytes on the wire into the inbox: at once, or, if it is a command that reads many bytes, when its records are in memory. To be called
    /// on the network thread.
    pub fn pass_on(&self, from: u64, message: PeerMessage, bytes: usize) {
        let reads_much = match &message {
            PeerMessage::Command { command, .. } => self.reads_much(command),
            _ => false,
        };
        let permit = reads_much.then(|| Arc::clone(&self.permits).try_acquire_owned());
        let Some(Ok(permit)) = permit else {
            return self.inbox.receive(from, message, bytes);
        };
        let (reader, inbox) = (self.reader.clone(), Arc::clone(&self.inbox));
        tokio::task::spawn_blocking(move || {
            if let PeerMessage::Command { command, .. } = &message {
                reader.warm(command, READ_BYTES_MAX);
            }
            inbox.receive(from, message, bytes);
            drop(permit);
        });
    }

    /// Whether a command reads many bytes. False for an invalid one, which the replica refuses.
    fn reads_much(&self, command: &Command) -> bool {
        let is_valid = validate::command(command, usize::MAX).is_ok();
        is_valid && self.reader.reads_above(command, BYTES_AT_ONCE_MAX)
    }
}
