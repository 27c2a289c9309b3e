//! The replica's inbox, a queue of requests, messages and notices of the flush thread.
//!
//! Its mutex is held for a push or a swap, never during work or a wait. A push wakes the
//! replica after the unlock, and only if the replica sleeps; all requests that a runtime
//! reads in one turn cause one wake-up (`wake_batcher.rs`). The replica takes everything at once,
//! and the proposals become its next batch. An input for which the replica need not be
//! woken (`awaited.rs`) stays here until another one arrives or the sleep ends. A proposal that is queued
//! quietly stays until its caller announces it, or runs the replica itself.

use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use revisions::{Command, LeaseRequest, LeaseResponse, Response};
use tokio::sync::{Notify, oneshot};
use tokio::task::yield_now;
use tokio::time::{Instant, Sleep, sleep};
use value_log::Sequence;

use crate::awaited::CanWait;
use crate::lock::lock;
use crate::replica::{MemberProgress, ReplySender};
use crate::wake_batcher::{Pending, Sleeper, wake_after_turn};
use crate::{Error, PeerMessage};

/// Limit on the messages of other members that wait in the inbox.
const MESSAGES_MAX: usize = 4096;
/// Limit on their bytes on the wire. A message is accepted as long as fewer bytes wait, so
/// the last one may exceed the limit.
const MESSAGES_BYTES_MAX: usize = 64 << 20;
/// When this many messages are held, each further one wakes the replica. Else a member that sends too many
/// questions could fill the inbox, and messages of others would be dropped.
const HELD_MESSAGES_MAX: usize = 64;

/// A command, with the channel for its answer.
#[derive(Debug)]
pub(crate) struct Proposal {
    pub command: Command,
    pub answer: ReplySender<Response>,
}

/// Everything that has arrived since the replica took from the inbox last.
#[derive(Debug, Default)]
pub(crate) struct Arrived {
    /// In order of arrival.
    pub proposals: Vec<Proposal>,
    /// The newest notice of the flush thread. A later one replaces an earlier one, because
    /// a sequence covers all sequences before it.
    pub persisted: Option<Result<Sequence, String>>,
    /// Messages of other members with their sender, in order of arrival.
    pub messages: Vec<(u64, PeerMessage)>,
    pub messages_bytes: usize,
    /// Callers that want to read everything that is committed now.
    pub reads: Vec<ReplySender<()>>,
    /// Requests that only the leader can answer.
    pub leases: Vec<(LeaseRequest, ReplySender<LeaseResponse>)>,
    /// Members that are to lead, each with the caller that asks for it.
    pub transfers: Vec<(u64, ReplySender<()>)>,
    /// Callers that ask how far the members are.
    pub progress: Vec<ReplySender<Vec<MemberProgress>>>,
    /// Callers that want garbage reclaimed now.
    pub defragment: Vec<ReplySender<()>>,
    /// Another member says that this one was removed from the cluster.
    pub removal_reported: bool,
    /// An import has progressed, or a sweep may: the replica has to check for work.
    pub woken: bool,
    /// The node stops; no more proposals are accepted.
    pub stop: bool,
}

impl Arrived {
    /// Whether one of the commands may keep the replica at work for long.
    pub fn may_take_long(&self) -> bool {
        let proposed = self.proposals.iter().map(|proposal| &proposal.command);
        let forwarded = self
            .messages
            .iter()
            .filter_map(|(_, message)| match message {
                PeerMessage::Command { command, .. } => Some(command),
                _ => None,
            });
        proposed.chain(forwarded).any(Command::concerns_many_keys)
    }
}

/// How the replica sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WaitMode {
    /// As a thread, on the condition variable.
    Thread,
    /// As a task of a runtime, on the notification.
    Task,
}

#[derive(Debug, Default)]
struct InboxState {
    arrived: Arrived,
    /// Something in `arrived` cannot wait.
    matters: bool,
    /// Bytes of the proposals that are not evaluated, in the inbox or taken from it; at most
    /// `bytes_max`, unless it is a single proposal.
    waiting_bytes: usize,
    /// The number of these proposals.
    waiting: usize,
    /// Set while the replica sleeps and needs a wake-up.
    asleep: Option<WaitMode>,
    /// The inputs for which the sleeping replica is not woken.
    can_wait: CanWait,
    /// Set once; proposals are refused from then on.
    closed: Option<Error>,
    /// Set once; the inbox is soon not read any more.
    stopped: bool,
    /// A thread is at work, and will check the inbox again before it ends.
    attended: bool,
}

/// The replica's inbox.
#[derive(Debug)]
pub(crate) struct Inbox {
    queue: Arc<Queue>,
    bytes_max: usize,
}

#[derive(Debug, Default)]
struct Queue {
    state: Mutex<InboxState>,
    arrival: Condvar,
    /// The counterpart of `arrival` for a task.
    bell: Notify,
}

impl InboxState {
    fn take(&mut self) -> Arrived {
        self.matters = false;
        std::mem::take(&mut self.arrived)
    }

    /// Prepares a sleep, unless something has arrived that cannot wait.
    fn begin_sleep(&mut self, mode: WaitMode, can_wait: CanWait) -> bool {
        let sleeps = self.arrived.is_empty() || can_wait.reads && self.arrived.is_of_reads();
        if sleeps {
            self.asleep = Some(mode);
            self.can_wait = can_wait;
            self.matters = false;
        }
        sleeps
    }

    fn end_sleep(&mut self) {
        self.asleep = None;
        self.can_wait = CanWait::default();
    }
}

impl Sleeper for Queue {
    fn wake(&self) {
        let mut state = lock(&self.state);
        // The inputs may have been taken before this wake-up came. Then the replica sleeps
        // again, waits for later inputs that matter, and must be left asleep.
        if state.arrived.is_empty() || !state.matters {
            return;
        }
        let mode = state.asleep.take();
        drop(state);
        match mode {
            Some(WaitMode::Thread) => self.arrival.notify_one(),
            Some(WaitMode::Task) => self.bell.notify_one(),
            None => {}
        }
    }
}

impl Inbox {
    pub fn new(bytes_max: usize) -> Inbox {
        assert!(bytes_max > 0, "a queue without room takes no proposal");
        Inbox {
            queue: Arc::default(),
            bytes_max,
        }
    }

    fn lock(&self) -> MutexGuard<'_, InboxState> {
        lock(&self.queue.state)
    }

    /// Applies `change` to the state and wakes the replica if it sleeps.
    fn put(&self, change: impl FnOnce(&mut InboxState)) {
        self.put_and_wake_if(|state| {
            change(state);
            true
        });
    }

    /// Applies `change` to the state and, if it returns true, wakes the replica if it sleeps.
    fn put_and_wake_if(&self, change: impl FnOnce(&mut InboxState) -> bool) {
        let mut state = self.lock();
        let matters = change(&mut state);
        state.matters |= matters;
        let asleep = state.asleep.is_some() && !state.attended;
        drop(state);
        if matters && asleep {
            wake_after_turn(&self.queue);
        }
    }

    /// Queues a command.
    pub fn propose(&self, command: Command) -> Result<Pending, Error> {
        let mut outcome = Err(Error::Stopped);
        self.put(|state| outcome = self.enqueue(state, command));
        outcome
    }

    /// Queues a command without a wake-up. The caller checks whether another thread carries
    /// it out, and [announces](Inbox::announce) it if none does.
    pub fn propose_quietly(&self, command: Command) -> Result<Pending, Error> {
        self.enqueue(&mut self.lock(), command)
    }

    /// Wakes the replica for what is in the inbox, if it sleeps and no thread at work will
    /// check the inbox again.
    pub fn announce(&self) {
        self.put(|_| ());
    }

    fn enqueue(&self, state: &mut InboxState, command: Command) -> Result<Pending, Error> {
        if let Some(error) = &state.closed {
            return Err(error.clone());
        }
        let bytes = command.size_bytes();
        if state.waiting_bytes > 0 && state.waiting_bytes + bytes > self.bytes_max {
            return Err(Error::TooManyRequests {
                waiting_bytes: state.waiting_bytes,
                bytes_max: self.bytes_max,
            });
        }
        let (answer, pending) = oneshot::channel();
        state.waiting_bytes += bytes;
        state.waiting += 1;
        state.arrived.proposals.push(Proposal { command, answer });
        Ok(Pending(pending))
    }

    /// Takes a notice of the flush thread: everything up to a sequence is on stable storage,
    /// or the log has failed.
    pub fn persisted(&self, outcome: Result<Sequence, String>) {
        self.put_and_wake_if(|state| {
            let can_wait = state.can_wait.persisted(&outcome);
            state.arrived.persisted = Some(outcome);
            !can_wait
        });
    }

    /// Takes a message of another member that had `bytes` bytes on the wire. If the limits are
    /// reached, the message is dropped: the protocol repeats messages.
    pub fn receive(&self, from: u64, message: PeerMessage, bytes: usize) {
        self.put_and_wake_if(|state| {
            let can_wait = state.can_wait.message(from, &message);
            let arrived = &mut state.arrived;
            let can_wait = can_wait && arrived.messages.len() < HELD_MESSAGES_MAX;
            let room = arrived.messages_bytes < MESSAGES_BYTES_MAX;
            if room && arrived.messages.len() < MESSAGES_MAX {
                arrived.messages.push((from, message));
                arrived.messages_bytes += bytes;
            }
            !can_wait
        });
    }

    /// Asks for a read: the answer comes when everything acknowledged by now is applied here.
    pub fn read(&self) -> Pending<()> {
        let (answer, pending) = oneshot::channel();
        self.put_and_wake_if(|state| {
            match &state.closed {
                Some(error) if state.stopped => drop(answer.send(Err(error.clone()))),
                _ => state.arrived.reads.push(answer),
            }
            !state.can_wait.reads
        });
        Pending(pending)
    }

    /// Asks a question about a lease, which only the leader can answer.
    pub fn ask_lease(&self, question: LeaseRequest) -> Pending<LeaseResponse> {
        self.ask(|arrived, caller| arrived.leases.push((question, caller)))
    }

    /// Asks for a transfer of leadership to a member.
    pub fn transfer_leadership(&self, to: u64) -> Pending<()> {
        self.ask(|arrived, caller| arrived.transfers.push((to, caller)))
    }

    /// Asks how far the members are, which only the leader knows.
    pub fn progress(&self) -> Pending<Vec<MemberProgress>> {
        self.ask(|arrived, caller| arrived.progress.push(caller))
    }

    /// Asks for garbage to be reclaimed now.
    pub fn defragment(&self) -> Pending<()> {
        self.ask(|arrived, answer| arrived.defragment.push(answer))
    }

    /// Puts a request into the inbox, or answers it with the error if the inbox is closed.
    fn ask<T>(&self, put: impl FnOnce(&mut Arrived, ReplySender<T>)) -> Pending<T> {
        let (answer, pending) = oneshot::channel();
        self.put(|state| match &state.closed {
            Some(error) => drop(answer.send(Err(error.clone()))),
            None => put(&mut state.arrived, answer),
        });
        Pending(pending)
    }

    /// Notes that another member says that this one was removed.
    pub fn removal_reported(&self) {
        self.put(|state| state.arrived.removal_reported = true);
    }

    /// Makes the replica check for work.
    pub fn wake(&self) {
        self.put(|state| {
            state.arrived.woken = true;
            state.attended = false;
        });
    }

    /// Whether [`Inbox::stop`] was called.
    pub fn is_stopped(&self) -> bool {
        self.lock().stopped
    }

    /// Refuses proposals from now on and asks the replica to end.
    pub fn stop(&self) {
        self.put(|state| {
            state.closed.get_or_insert(Error::Stopped);
            state.stopped = true;
            state.arrived.stop = true;
        });
    }

    /// Refuses proposals from now on, with this reason.
    pub fn close(&self, reason: Error) {
        self.put(|state| {
            state.closed.get_or_insert(reason);
        });
    }

    /// Ends the inbox after the replica has panicked. Waiting callers get an error.
    pub fn give_up(&self) {
        // The thread that was at work does not check the inbox again, so `stop` must wake
        // the replica thread.
        self.end_attendance();
        self.close(Error::Panicked);
        self.stop();
        // No thread will process these inputs. Dropping their channels ends the callers' waits.
        drop(self.take(Duration::ZERO, CanWait::default()));
    }

    /// The reason why proposals are refused, if they are.
    pub fn closed(&self) -> Option<Error> {
        self.lock().closed.clone()
    }

    /// Number of commands that wait to be evaluated.
    pub fn waiting(&self) -> usize {
        self.lock().waiting
    }

    /// Notes that this many of the taken commands, of this many bytes, are evaluated or
    /// refused. Until then they count against the limit of the queue, because the replica may
    /// have to leave them waiting while the device is busy.
    pub fn evaluated(&self, commands: usize, bytes: usize) {
        let mut state = self.lock();
        assert!(
            commands <= state.waiting && bytes <= state.waiting_bytes,
            "{commands} commands of {bytes} bytes are evaluated, and fewer were waiting"
        );
        state.waiting -= commands;
        state.waiting_bytes -= bytes;
    }

    /// Waits up to `patience` while the inbox is empty, and takes nothing from it.
    pub fn wait(&self, patience: Duration) {
        let mut state = self.lock();
        if state.begin_sleep(WaitMode::Thread, CanWait::default()) {
            self.sleep(state, patience).end_sleep();
        }
    }

    /// Notes that the thread at work will not check the inbox again: inputs that arrive from
    /// now on wake the replica.
    pub fn end_attendance(&self) {
        self.lock().attended = false;
    }

    /// Takes everything but the request to stop, for a thread at work that will call this
    /// again. Inputs that arrive wake no thread until this returns `None`, or
    /// [`Inbox::end_attendance`] or [`Inbox::wake`] is called.
    pub fn attend(&self) -> Option<Arrived> {
        let mut state = self.lock();
        let stop = std::mem::take(&mut state.arrived.stop);
        state.attended = !state.arrived.is_empty();
        let arrived = state.attended.then(|| state.take());
        state.arrived.stop = stop;
        state.matters |= stop;
        drop(state);
        if stop && arrived.is_none() {
            self.queue.wake();
        }
        arrived
    }

    /// Takes everything; if nothing is there that cannot wait, waits up to `patience` for such an input first.
    pub fn take(&self, patience: Duration, can_wait: CanWait) -> Arrived {
        let mut state = self.lock();
        if state.begin_sleep(WaitMode::Thread, can_wait) {
            state = self.sleep(state, patience);
            state.end_sleep();
        }
        state.take()
    }

    /// Sleeps as a thread, for which the state is prepared.
    fn sleep<'a>(
        &self,
        state: MutexGuard<'a, InboxState>,
        patience: Duration,
    ) -> MutexGuard<'a, InboxState> {
        let arrival = &self.queue.arrival;
        let slept = arrival.wait_timeout_while(state, patience, |it| it.asleep.is_some());
        slept.unwrap_or_else(PoisonError::into_inner).0
    }

    /// [`Inbox::take`] for a task. Other tasks of the runtime get a turn first, even if the
    /// inbox is not empty.
    pub async fn take_async(
        &self,
        patience: Duration,
        can_wait: CanWait,
        alarm: &mut Alarm,
    ) -> Arrived {
        let until = Instant::now() + patience;
        let sleeps = !patience.is_zero() && self.lock().begin_sleep(WaitMode::Task, can_wait);
        if !sleeps {
            yield_now().await;
        }
        while sleeps && !self.is_woken() && Instant::now() < until {
            alarm.set(until);
            tokio::select! {
                () = self.queue.bell.notified() => {}
                () = alarm.0.as_mut() => {}
            }
        }
        let mut state = self.lock();
        state.end_sleep();
        state.take()
    }

    #[cfg(test)]
    pub fn is_slept_on(&self) -> bool {
        !self.is_woken()
    }

    fn is_woken(&self) -> bool {
        self.lock().asleep.is_none()
    }
}

/// The timer that ends a task's sleep. It is kept from one sleep to the next and never set
/// to a later time, because setting a timer costs more than an early wake-up now and then.
#[derive(Debug)]
pub(crate) struct Alarm(Pin<Box<Sleep>>);

impl Alarm {
    /// # Panics
    ///
    /// Outside a runtime with a timer.
    pub fn new() -> Alarm {
        Alarm(Box::pin(sleep(Duration::ZERO)))
    }

    /// Makes the timer fire at `until` at the latest.
    fn set(&mut self, until: Instant) {
        if self.0.is_elapsed() || self.0.deadline() > until {
            self.0.as_mut().reset(until);
        }
    }
}

impl Arrived {
    fn is_empty(&self) -> bool {
        self.reads.is_empty() && self.messages.is_empty() && self.is_of_reads()
    }

    /// Whether it is nothing but reads, of this member's clients and of other members, and not too many of these.
    fn is_of_reads(&self) -> bool {
        self.proposals.is_empty()
            && self.persisted.is_none()
            && self.defragment.is_empty()
            && self.messages.len() <= HELD_MESSAGES_MAX
            && self.messages.iter().all(|(_, it)| it.is_read())
            && self.leases.is_empty()
            && self.transfers.is_empty()
            && self.progress.is_empty()
            && !self.removal_reported
            && !self.woken
            && !self.stop
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etcd_api::etcdserverpb::PutRequest;
    use std::thread::JoinHandle;

    /// A thread that sleeps on the inbox, and what it makes of the inputs that end its sleep.
    fn asleep<T: Send + 'static>(
        inbox: &Arc<Inbox>,
        can_wait: CanWait,
        then: impl FnOnce(Arrived) -> T + Send + 'static,
    ) -> JoinHandle<T> {
        let sleeping = Arc::clone(inbox);
        let replica = environment::threads::spawn("replica", move || {
            then(sleeping.take(Duration::from_secs(600), can_wait))
        });
        while !inbox.is_slept_on() {
            std::thread::yield_now();
        }
        replica.unwrap()
    }

    fn during_a_round() -> CanWait {
        CanWait {
            reads: true,
            ..CanWait::default()
        }
    }

    fn put() -> Command {
        Command::Put(PutRequest {
            key: "k".into(),
            value: vec![0; 1000].into(),
            ..Default::default()
        })
    }

    #[test]
    fn commands_that_were_taken_and_not_evaluated_still_fill_the_queue() {
        let inbox = Inbox::new(4000);
        let mut backlog = Vec::new();
        let mut pending = Vec::new();
        for _ in 0..100 {
            pending.extend(inbox.propose(put()).ok());
            backlog.extend(inbox.take(Duration::ZERO, CanWait::default()).proposals);
        }
        assert_eq!((backlog.len(), inbox.waiting()), (3, 3));
        let bytes = backlog.iter().map(|it| it.command.size_bytes()).sum();
        inbox.evaluated(backlog.len(), bytes);
        assert_eq!(inbox.waiting(), 0);
        assert!(inbox.propose(put()).is_ok());
    }

    #[test]
    fn a_late_wake_up_for_taken_inputs_does_not_swallow_the_next_one() {
        let inbox = Arc::new(Inbox::new(4000));
        let replica = asleep(&inbox, CanWait::default(), |arrived| arrived.woken);
        inbox.queue.wake();
        inbox.wake();
        assert!(replica.join().unwrap());
    }

    #[test]
    fn a_quiet_proposal_wakes_the_replica_when_it_is_announced() {
        let inbox = Arc::new(Inbox::new(4000));
        let replica = asleep(&inbox, CanWait::default(), |arrived| {
            arrived.proposals.len()
        });
        let _taken = inbox.propose_quietly(put()).unwrap();
        assert!(inbox.attend().is_some());
        let mut pending = inbox.propose_quietly(put()).unwrap();
        inbox.announce();
        assert!(inbox.lock().asleep.is_some(), "a thread will look again");
        assert!(pending.look().is_none());
        inbox.end_attendance();
        inbox.announce();
        assert_eq!(replica.join().unwrap(), 1);
        let is_dropped = matches!(pending.look(), Some(Err(Error::Stopped)));
        assert!(is_dropped, "the proposal was dropped without an answer");
    }

    #[test]
    fn reads_during_a_round_leave_the_replica_asleep_until_another_input() {
        let inbox = Arc::new(Inbox::new(4000));
        let replica = asleep(&inbox, during_a_round(), |arrived| {
            (arrived.reads.len(), arrived.messages.len())
        });
        let _pending = [inbox.read(), inbox.read()];
        inbox.receive(2, PeerMessage::ReadIndex { round: 7 }, 20);
        assert!(inbox.is_slept_on());
        let answer = PeerMessage::ReadAt { round: 1, index: 9 };
        inbox.receive(3, answer, 20);
        assert!(!inbox.is_slept_on());
        assert_eq!(replica.join().unwrap(), (2, 2));
    }

    #[test]
    fn reads_that_came_before_a_sleep_wait_for_the_end_of_a_round_too() {
        let inbox = Arc::new(Inbox::new(4000));
        let _pending = inbox.read();
        // The time of a thread that was woken for this read.
        inbox.queue.wake();
        let replica = asleep(&inbox, during_a_round(), |arrived| {
            (arrived.reads.len(), arrived.woken)
        });
        inbox.queue.wake();
        assert!(inbox.is_slept_on(), "a late wake-up for the read");
        inbox.wake();
        assert_eq!(replica.join().unwrap(), (1, true));
        let _pending = inbox.read();
        let at_once = inbox.take(Duration::from_secs(600), CanWait::default());
        assert_eq!(at_once.reads.len(), 1, "no round is under way");
        let _answered = (inbox.read(), inbox.progress());
        let at_once = inbox.take(Duration::from_secs(600), during_a_round());
        assert_eq!(at_once.reads.len(), 1, "something else is there");
    }

    #[tokio::test]
    async fn reads_during_a_round_leave_a_task_asleep_until_another_input() {
        let inbox = Arc::new(Inbox::new(4000));
        let sleeping = Arc::clone(&inbox);
        let replica = tokio::spawn(async move {
            let (generous, mut alarm) = (Duration::from_secs(600), Alarm::new());
            let arrived = sleeping.take_async(generous, during_a_round(), &mut alarm);
            arrived.await.reads.len()
        });
        while !inbox.is_slept_on() {
            yield_now().await;
        }
        let _pending = inbox.read();
        for _ in 0..10 {
            yield_now().await;
        }
        assert!(inbox.is_slept_on());
        inbox.wake();
        assert!(!inbox.is_slept_on());
        assert_eq!(replica.await.unwrap(), 1);
    }

    #[test]
    fn too_many_questions_of_other_members_wake_the_replica() {
        let inbox = Arc::new(Inbox::new(4000));
        let replica = asleep(&inbox, during_a_round(), |arrived| arrived.messages.len());
        for round in 0..=HELD_MESSAGES_MAX as u64 {
            assert!(inbox.is_slept_on());
            inbox.receive(2, PeerMessage::ReadIndex { round }, 20);
        }
        assert!(!inbox.is_slept_on());
        assert_eq!(replica.join().unwrap(), HELD_MESSAGES_MAX + 1);
    }

    #[test]
    fn members_messages_are_bounded_by_their_bytes_too() {
        let inbox = Inbox::new(4000);
        let taken = || {
            inbox
                .take(Duration::ZERO, CanWait::default())
                .messages
                .len()
        };
        let half = MESSAGES_BYTES_MAX / 2;
        for round in 0..5 {
            inbox.receive(2, PeerMessage::ReadIndex { round }, half);
        }
        assert_eq!(taken(), 2);
        let whole = 2 * MESSAGES_BYTES_MAX;
        inbox.receive(2, PeerMessage::ReadIndex { round: 5 }, whole);
        assert_eq!(taken(), 1);
    }
}
