//! The loop that drives the replica: it takes everything from the inbox, runs the replica
//! on it, and hands messages to the peers and answers to the waiting callers.
//!
//! The loop sleeps only on its inbox. It waits for the device in three cases: a frame larger
//! than the log's buffer, a missing next segment, and a change of the configuration. It runs on the replica thread or,
//! under a light load, on the network thread (`driver/inline.rs`). For a member without
//! peers, callers can run its steps on their own threads (`driver/caller_runs.rs`).

mod caller_runs;
mod defragmentations;
mod inline;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

pub(crate) use caller_runs::CallerRuns;
use defragmentations::Defragmentations;
use environment::{Clock, Instant};
use inline::Load;
use revisions::Members;
use tokio::sync::watch;
use tracing::{error, warn};

use crate::awaited::CanWait;
use crate::heartbeat_sender::HeartbeatSender;
use crate::inbox::{Arrived, Inbox, Proposal};
use crate::observer::Observing;
use crate::outbox::{Nowhere, Outbox};
use crate::replica::{Output, Replica};
use crate::status::{PublishedStatus, Status};
use crate::transport::Transport;
use crate::wake_batcher::batched;
use crate::{Error, NodeOptions};

/// Time limit for the work that is left when a node stops: peers may never answer.
const FAREWELL: Duration = Duration::from_millis(500);

/// A proposal that waits for a leader or for room in the batch.
#[derive(Debug)]
struct WaitingProposal {
    proposal: Proposal,
    deadline: Instant,
}

/// Proposals from the inbox that are not evaluated or forwarded yet.
#[derive(Debug)]
struct Backlog {
    waiting: VecDeque<WaitingProposal>,
    /// Bytes of the commands in the open batch.
    open_bytes: usize,
    batch_bytes_max: usize,
    patience: Duration,
}

/// The replica, and everything that its loop needs.
pub(crate) struct Driver {
    replica: Replica,
    clock: Arc<dyn Clock>,
    inbox: Arc<Inbox>,
    outbox: Arc<dyn Outbox>,
    published: Arc<PublishedStatus>,
    /// Sends heartbeats while the replica is at work; none if there is no network.
    heartbeats: Option<Arc<HeartbeatSender>>,
    /// Dropped with the driver, so that its receivers see the end.
    status: watch::Sender<Status>,
    backlog: Backlog,
    tick: Duration,
    observing: Observing,
    defragmentations: Defragmentations,
    closed: bool,
    /// The members that the outbox knows.
    members: Arc<Members>,
    load: Load,
}

impl Driver {
    pub(crate) fn new(
        options: &NodeOptions,
        replica: Replica,
        inbox: Arc<Inbox>,
        transport: Option<&Arc<Transport>>,
        published: Arc<PublishedStatus>,
    ) -> Driver {
        let outbox: Arc<dyn Outbox> = match transport {
            Some(transport) => Arc::clone(transport) as Arc<dyn Outbox>,
            None => Arc::new(Nowhere),
        };
        Driver {
            replica,
            clock: Arc::clone(&options.clock),
            inbox,
            outbox,
            published,
            heartbeats: transport.map(|it| Arc::clone(&it.heartbeats)),
            status: watch::Sender::default(),
            backlog: Backlog {
                waiting: VecDeque::new(),
                open_bytes: 0,
                batch_bytes_max: options.batch_bytes_max,
                patience: options.replica.patience(),
            },
            tick: options.replica.heartbeat_interval,
            observing: Observing {
                observer: options.observer.clone(),
                clock: Arc::clone(&options.clock),
                sweep_began: None,
            },
            defragmentations: Defragmentations::default(),
            closed: false,
            members: Arc::default(),
            load: Load::default(),
        }
    }

    pub(crate) fn status(&self) -> watch::Receiver<Status> {
        self.status.subscribe()
    }

    /// Passes the members of the cluster to the outbox, if they have changed.
    fn update_members(&mut self) {
        let members = self.replica.reader().members();
        if !Arc::ptr_eq(&members, &self.members) {
            self.outbox.set_members(&members);
            self.members = members;
        }
    }

    /// Runs a member that is the only voter until it leads, so that the whole log is applied
    /// before the first read, unless the log fails first. Does nothing for other members.
    pub(crate) fn elect_alone(&mut self) {
        self.update_members();
        while self.replica.stands_alone() && self.replica.failure().is_none() {
            self.replica.run();
            if self.replica.leads() {
                break;
            }
            let arrived = self.inbox.take(self.tick, CanWait::default());
            self.step(arrived);
        }
        self.publish();
    }

    /// Runs until the inbox says to stop, and finishes the requests that were taken by then.
    pub(crate) fn run(mut self, connections: Option<&Transport>) {
        loop {
            let carried = self.load.carried.take();
            let arrived = carried
                .unwrap_or_else(|| self.inbox.take(self.idle_for(), self.replica.can_wait()));
            let stop = arrived.stop;
            self.note_load(&arrived);
            self.step(arrived);
            if stop {
                break;
            }
            if let Some(connections) = connections
                && self.may_run_inline()
            {
                self = self.run_inline(connections);
            }
        }
        self.finish();
    }

    /// How long the driver may sleep if no input arrives.
    fn idle_for(&self) -> Duration {
        if self.takes_next()
            || self.replica.has_commands_to_evaluate()
            || self.replica.machine().has_upkeep_to_do()
        {
            return Duration::ZERO;
        }
        let dues = [self.replica.due(), self.replica.reads_due()];
        match dues.into_iter().flatten().min() {
            Some(due) => due.saturating_since(self.clock.now()).min(self.tick),
            None => self.tick,
        }
    }

    /// Whether the replica would take the first of the backlog.
    fn takes_next(&self) -> bool {
        let room = self.backlog.open_bytes < self.backlog.batch_bytes_max;
        let first = self.backlog.waiting.front();
        room && first.is_some_and(|first| self.replica.takes(&first.proposal.command))
    }

    pub(crate) fn step(&mut self, arrived: Arrived) {
        if let Some(heartbeats) = &self.heartbeats {
            heartbeats.begin_work();
        }
        let deadline = self.clock.now() + self.backlog.patience;
        for (from, message) in arrived.messages {
            self.replica.receive(from, message);
        }
        if arrived.removal_reported {
            self.replica.removal_reported();
        }
        if let Some(outcome) = arrived.persisted {
            self.replica.persisted(outcome);
        }
        for caller in arrived.reads {
            self.replica.read(caller);
        }
        for (question, caller) in arrived.leases {
            self.replica.ask_lease(question, caller);
        }
        for (to, caller) in arrived.transfers {
            self.replica.transfer_leadership(to, caller);
        }
        for caller in arrived.progress {
            // A caller that has gone away needs no answer.
            let _ = caller.send(Ok(self.replica.members_progress()));
        }
        let proposals = arrived.proposals.into_iter();
        let waiting = proposals.map(|proposal| WaitingProposal { proposal, deadline });
        self.backlog.waiting.extend(waiting);
        self.replica.tick();
        self.evaluate();
        self.replica.run();
        if self.replica.open_is_empty() {
            self.backlog.open_bytes = 0;
        }
        self.defragmentations.wait(arrived.defragment);
        self.defragmentations.begin(&mut self.replica);
        self.upkeep();
        self.update_members();
        self.close_if_failed();
        self.give_up();
        // A caller that asks for the status after an answer must see the answer's effect.
        self.publish();
        batched(|| self.hand_out());
        if let Some(heartbeats) = &self.heartbeats {
            heartbeats.end_work();
        }
    }

    /// Gives the replica as much of the backlog as it takes, behind older commands that it
    /// has to evaluate again.
    fn evaluate(&mut self) {
        self.replica.reevaluate();
        let (mut commands, mut bytes) = (0, 0);
        while self.takes_next()
            && let Some(WaitingProposal { proposal, .. }) = self.backlog.waiting.pop_front()
        {
            let command_bytes = proposal.command.size_bytes();
            self.backlog.open_bytes += command_bytes;
            commands += 1;
            bytes += command_bytes;
            let began = self.observing.now();
            let done = self.replica.propose(&proposal.command, proposal.answer);
            self.observing.evaluated(&proposal.command, done, began);
        }
        if commands > 0 {
            self.inbox.evaluated(commands, bytes);
        }
    }

    fn hand_out(&mut self) {
        let Output {
            messages,
            replies,
            snapshots,
        } = self.replica.take_output();
        if !messages.is_empty() {
            if let Some(heartbeats) = &self.heartbeats {
                heartbeats.note_sent(&messages);
            }
            let unreachable = self.outbox.send(messages);
            self.replica.unreachable(&unreachable);
        }
        replies.send();
        for snapshot in snapshots {
            self.outbox.carry(snapshot);
        }
    }

    fn upkeep(&mut self) {
        self.observing
            .sweeping(self.replica.machine().is_sweeping());
        let outcome = self.replica.upkeep();
        if let Err(error) = &outcome {
            // Checkpoint and reclaim can be late: no acknowledged write depends on them.
            warn!(%error, "upkeep of the log failed; it will be tried again");
        }
        self.observing
            .sweeping(self.replica.machine().is_sweeping());
        self.defragmentations.answer(&self.replica, outcome);
    }

    /// Answers proposals that have waited too long for a leader or for room with a timeout.
    fn give_up(&mut self) {
        let now = self.clock.now();
        let is_late = |first: &WaitingProposal| now >= first.deadline;
        while self.backlog.waiting.front().is_some_and(is_late) {
            let late = self.backlog.waiting.pop_front().expect("just seen");
            self.refuse(
                late.proposal,
                Error::Refused(etcd_api::Error::Timeout.into()),
            );
        }
    }

    fn refuse(&mut self, proposal: Proposal, error: Error) {
        self.inbox.evaluated(1, proposal.command.size_bytes());
        let _ = proposal.answer.send(Err(error));
    }

    /// Publishes the replica's state to other threads.
    fn publish(&self) {
        let (replica, published) = (&self.replica, &self.published);
        if let Some(heartbeats) = &self.heartbeats {
            heartbeats.set_role(replica.term(), replica.leader(), replica.member_id());
        }
        published.publish(replica, &self.status);
    }

    /// If the replica has failed, refuses the backlog and all later proposals.
    fn close_if_failed(&mut self) {
        let Some(failure) = self.replica.failure().filter(|_| !self.closed) else {
            return;
        };
        let failure = failure.clone();
        if !matches!(failure, Error::Stopped) {
            error!(reason = %failure, "no write is accepted until the next start");
        }
        self.closed = true;
        self.inbox.close(failure.clone());
        for waiting in std::mem::take(&mut self.backlog.waiting) {
            self.refuse(waiting.proposal, failure.clone());
        }
    }

    /// Whether everything is done that must precede the end. `led` says that this member has
    /// led during [`Driver::finish`].
    fn may_end(&self, led: bool) -> bool {
        let idle = self.replica.is_idle() && self.backlog.waiting.is_empty();
        idle && (!led || self.replica.is_handed_over())
    }

    /// Finishes the requests that were taken and hands leadership over, as far as the time
    /// limit allows; then closes the log.
    fn finish(&mut self) {
        let deadline = self.clock.now() + FAREWELL;
        let mut arrived = Arrived::default();
        let mut led = self.replica.holds_leadership();
        while !self.may_end(led) && self.clock.now() < deadline {
            if self.backlog.waiting.is_empty() {
                self.replica.hand_over();
            }
            self.step(arrived);
            led |= self.replica.holds_leadership();
            if self.may_end(led) {
                break;
            }
            arrived = self.inbox.take(self.tick.min(FAREWELL), CanWait::default());
        }
        self.replica.release_never_swept();
        let is_sound = self.replica.failure().is_none();
        self.replica.fail(Error::Stopped);
        self.close_if_failed();
        self.publish();
        self.hand_out();
        if is_sound && let Err(error) = self.replica.machine_mut().checkpoint_for_opening() {
            warn!(%error, "the next start replays the log: no checkpoint was written at the end");
        }
        if let Err(error) = self.replica.machine_mut().close() {
            error!(%error, "the log could not be closed");
        }
    }
}

#[cfg(test)]
mod tests;
