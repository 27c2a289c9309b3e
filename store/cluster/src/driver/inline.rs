//! Chooses the thread on which the driver runs: a thread of its own, or the network thread,
//! inline with the connections.
//!
//! ```text
//!   heavy load     requests, flush thread ──► replica thread ◄──► network thread ◄══► others
//!   light load     requests, flush thread ──────────────────────► network thread ◄══► others
//! ```
//!
//! Under a light load, most of a command's cost is the waking of threads; then one thread
//! receives a message, runs the replica on it and sends the result. Under a heavy load two
//! threads share the work (docs/decisions/0012-replica-on-the-network-thread.md). Work that
//! may keep the replica busy for long counts as a heavy load, because the network thread has
//! to send heartbeats during it (`heartbeat_sender.rs`).

use std::time::Duration;

use environment::Instant;
use tokio::sync::oneshot;

use super::Driver;
use crate::PeerMessage;
use crate::inbox::{Alarm, Arrived};
use crate::transport::Transport;

/// More commands, questions about leases and messages than this at once are a heavy load.
const ARRIVED_MAX: usize = 4;
/// More reads than this at once are a heavy load.
const READS_MAX: usize = 1000;
/// More bytes of messages than this at once are a heavy load.
const MESSAGES_BYTES_MAX: usize = 4 << 10;
/// A batch of more changes than this is a heavy load until it is applied.
const CHANGES_MAX: usize = 1000;
/// The load counts as light when it was not heavy for this time.
const CALM_AFTER: Duration = Duration::from_millis(50);

/// How heavy the load is.
#[derive(Debug, Default)]
pub(super) struct Load {
    /// Until then the load counts as heavy.
    busy_until: Instant,
    /// Input that the network thread took and left to the replica thread.
    pub carried: Option<Arrived>,
}

impl Driver {
    /// Notes whether this input is a heavy load.
    pub(super) fn note_load(&mut self, arrived: &Arrived) {
        // One round serves many reads.
        let is_no_read = |(_, message): &&(u64, PeerMessage)| !message.is_read();
        let messages = arrived.messages.iter().filter(is_no_read).count();
        let counted = arrived.proposals.len() + arrived.leases.len() + messages;
        let is_much = counted > ARRIVED_MAX
            || arrived.reads.len() > READS_MAX
            || arrived.messages_bytes > MESSAGES_BYTES_MAX
            || arrived.may_take_long()
            || !arrived.defragment.is_empty();
        if is_much {
            self.load.busy_until = self.clock.now() + CALM_AFTER;
        }
    }

    fn is_calm(&self) -> bool {
        let at_work = self.replica.machine().has_upkeep_to_do()
            || self.replica.is_importing()
            || self.replica.has_a_batch_above(CHANGES_MAX);
        !at_work && self.clock.now() >= self.load.busy_until
    }

    /// Whether the driver may run on the network thread: the load is light, and the cluster has
    /// other members.
    pub(super) fn may_run_inline(&self) -> bool {
        self.is_calm() && self.replica.failure().is_none() && self.members.iter().nth(1).is_some()
    }

    /// Runs the driver on the network thread until the load is heavy or the driver must end. The
    /// calling thread waits for that.
    pub(super) fn run_inline(self, connections: &Transport) -> Driver {
        let (back, returned) = oneshot::channel();
        connections.spawn(async move {
            // The calling thread waits for the result, so it can always be sent.
            let _ = back.send(self.drive_inline().await);
        });
        let returned = returned.blocking_recv();
        returned.expect("the connections end after the replica, and its panic is this thread's")
    }

    async fn drive_inline(mut self) -> Driver {
        let mut alarm = Alarm::new();
        loop {
            let (patience, can_wait) = (self.idle_for(), self.replica.can_wait());
            let arrived = self.inbox.take_async(patience, can_wait, &mut alarm).await;
            self.note_load(&arrived);
            if arrived.stop || !self.is_calm() || self.replica.failure().is_some() {
                self.load.carried = Some(arrived);
                return self;
            }
            self.step(arrived);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::a_driver;
    use super::*;

    fn with_reads(count: usize) -> Arrived {
        Arrived {
            reads: (0..count).map(|_| oneshot::channel().0).collect(),
            ..Arrived::default()
        }
    }

    fn with_messages(messages: impl Iterator<Item = PeerMessage>) -> Arrived {
        Arrived {
            messages: messages.map(|message| (2, message)).collect(),
            ..Arrived::default()
        }
    }

    #[test]
    fn many_messages_are_a_heavy_load_and_reads_that_share_a_round_are_not() {
        let mut driver = a_driver();
        assert!(driver.is_calm());
        let questions = (0..64).map(|round| PeerMessage::ReadIndex { round });
        for light in [with_reads(READS_MAX), with_messages(questions)] {
            driver.note_load(&light);
            assert!(driver.is_calm());
        }
        let answers = (0..5).map(|round| PeerMessage::ReadAt { round, index: 1 });
        for heavy in [with_reads(READS_MAX + 1), with_messages(answers)] {
            driver.load = Load::default();
            driver.note_load(&heavy);
            assert!(!driver.is_calm());
        }
    }
}
