//! Where the replica works: on a thread of its own, or beside the connections.
//!
//! ```text
//!   much to do     requests, flush thread ──► replica thread ◄──► network thread ◄══► others
//!   little to do   requests, flush thread ──────────────────────► network thread ◄══► others
//! ```
//!
//! With little to do, waking threads is most of what a command costs: then what comes
//! in, what becomes of it and what is sent stay on one thread. With much to do, two
//! share the work (docs/decisions/0012-replica-beside-the-connections.md). What may keep the
//! replica at work for long is much: the network thread has heartbeats to send meanwhile
//! (`heart.rs`).

use std::time::Duration;

use tokio::sync::oneshot;

use super::Pump;
use crate::inbox::{Alarm, Arrived};
use crate::transport::Transport;

/// More commands, questions and messages at once are much.
const ARRIVED_MAX: usize = 4;
/// So are more bytes of messages.
const MESSAGES_BYTES_MAX: usize = 4 << 10;
/// So is a batch of more changes, until it is applied.
const CHANGES_MAX: usize = 1000;
/// There is little to do when there was not much for so long.
const CALM_AFTER: Duration = Duration::from_millis(50);

impl Pump {
    /// Looks whether this is much.
    pub(super) fn note_load(&mut self, arrived: &Arrived) {
        let asked = arrived.proposals.len() + arrived.reads.len() + arrived.leases.len();
        let is_much = asked + arrived.messages.len() > ARRIVED_MAX
            || arrived.messages_bytes > MESSAGES_BYTES_MAX
            || arrived.may_take_long()
            || !arrived.defragment.is_empty();
        if is_much {
            self.busy_until = self.clock.now() + CALM_AFTER;
        }
    }

    fn is_calm(&self) -> bool {
        let at_work = self.replica.has_upkeep_to_do()
            || self.replica.is_importing()
            || self.replica.has_a_batch_above(CHANGES_MAX);
        !at_work && self.clock.now() >= self.busy_until
    }

    /// Alone, there is nothing to be near to.
    pub(super) fn may_be_lent(&self) -> bool {
        self.is_calm() && self.replica.failure().is_none() && self.members.iter().nth(1).is_some()
    }

    /// Works beside the connections until there is much to do, or the end.
    pub(super) fn lend(self, connections: &Transport) -> Pump {
        let (back, returned) = oneshot::channel();
        connections.run_beside(async move {
            // The thread that lends it waits for it.
            let _ = back.send(self.run_beside().await);
        });
        let returned = returned.blocking_recv();
        returned.expect("the connections end after the replica, and its panic is this thread's")
    }

    async fn run_beside(mut self) -> Pump {
        let mut alarm = Alarm::new();
        loop {
            let (patience, awaited) = (self.idle_for(), self.replica.awaited());
            let arrived = self.inbox.taken(patience, awaited, &mut alarm).await;
            self.note_load(&arrived);
            if arrived.stop || !self.is_calm() || self.replica.failure().is_some() {
                self.carried = Some(arrived);
                return self;
            }
            self.step(arrived);
        }
    }
}
