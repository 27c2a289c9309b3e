//! Where request tasks and the flush thread leave word for the replica.
//!
//! One mutex held for a push or a swap, never while anyone works or waits;
//! one wake-up, after the unlock, and only when the replica sleeps; of all requests
//! that a runtime has read in a turn, one (`relay.rs`). The replica takes
//! everything at once: that is what makes the next batch. What it need not be woken for
//! (`awaited.rs`) lies here until something else comes, and what is proposed quietly until
//! whoever did so announces it, or does it.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use revisions::{Command, LeaseAnswer, LeaseQuestion, Response};
use tokio::sync::oneshot::error::TryRecvError;
use tokio::sync::{Notify, oneshot};
use tokio::task::yield_now;
use tokio::time::{Instant, Sleep, sleep};
use value_log::Sequence;

use crate::awaited::Awaited;
use crate::relay::{Reply, Sleeper, rouse_after_turn};
use crate::{Error, PeerMessage};

/// Messages of other members that wait to be looked at.
const MESSAGES_MAX: usize = 4096;
/// Their bytes as they came; one more than that is always let in.
const MESSAGES_BYTES_MAX: usize = 64 << 20;

/// A command on its way, with the place its answer goes to.
#[derive(Debug)]
pub(crate) struct Proposal {
    pub command: Command,
    pub answer: oneshot::Sender<Result<Response, Error>>,
}

/// A command's answer, some time from now: a future, or [`Pending::wait`] for
/// threads outside a runtime.
#[derive(Debug)]
pub struct Pending(Reply<Result<Response, Error>>);

impl Pending {
    /// Waits on this thread. Not for use inside an asynchronous runtime.
    pub fn wait(mut self) -> Result<Response, Error> {
        match self.look() {
            Some(answer) => answer,
            None => self.0.0.blocking_recv().unwrap_or(Err(Error::Stopped)),
        }
    }

    /// The answer, if it is there.
    pub(crate) fn look(&mut self) -> Option<Result<Response, Error>> {
        match self.0.0.try_recv() {
            Ok(answer) => Some(answer),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Closed) => Some(Err(Error::Stopped)),
        }
    }
}

impl Future for Pending {
    type Output = Result<Response, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0)
            .poll(context)
            .map(|received| received.unwrap_or(Err(Error::Stopped)))
    }
}

/// A question about a lease, with the place its answer goes to.
pub(crate) type LeaseInquiry = (LeaseQuestion, oneshot::Sender<Result<LeaseAnswer, Error>>);

/// Everything that arrived since the last look.
#[derive(Debug, Default)]
pub(crate) struct Arrived {
    /// In order of arrival.
    pub proposals: Vec<Proposal>,
    /// The newest word of the flush thread; later ones replace earlier ones
    /// because a sequence covers all before it.
    pub persisted: Option<Result<Sequence, String>>,
    /// Of other members, in order of arrival.
    pub messages: Vec<(u64, PeerMessage)>,
    pub messages_bytes: usize,
    /// Who wants to read what is committed now.
    pub reads: Vec<oneshot::Sender<Result<(), Error>>>,
    /// What only the leader knows.
    pub leases: Vec<LeaseInquiry>,
    /// Callers who want another member to lead.
    pub moves: Vec<(u64, oneshot::Sender<Result<(), Error>>)>,
    /// Callers who want garbage reclaimed now.
    pub defragment: Vec<oneshot::Sender<Result<(), Error>>>,
    /// Another member says that this one was removed from the cluster.
    pub told_of_removal: bool,
    /// An import has got on: there may be something to do.
    pub woken: bool,
    /// No more proposals are taken.
    pub stop: bool,
}

impl Arrived {
    /// Among it is a command that may keep the replica at work for long.
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

/// Where the replica waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bed {
    Thread,
    /// As a task of a runtime.
    Task,
}

#[derive(Debug, Default)]
struct State {
    arrived: Arrived,
    /// Bytes of the proposals that are not evaluated, here or taken; at most
    /// `bytes_max` when one is added to others.
    waiting_bytes: usize,
    /// How many those are.
    waiting: usize,
    /// The replica waits there and wants a wake-up.
    asleep: Option<Bed>,
    /// What it sleeps on at, meanwhile.
    awaited: Option<Awaited>,
    /// Set once; proposals are refused from then on.
    closed: Option<Error>,
    /// Set once; soon nobody looks into the box any more.
    stopped: bool,
    /// Somebody is at work, and looks again before it ends.
    attended: bool,
}

/// The replica's letter box.
#[derive(Debug)]
pub(crate) struct Inbox {
    post: Arc<Post>,
    bytes_max: usize,
}

#[derive(Debug, Default)]
struct Post {
    state: Mutex<State>,
    arrival: Condvar,
    /// The same for a task.
    bell: Notify,
}

impl Post {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sleeper for Post {
    fn rouse(&self) {
        let mut state = self.lock();
        // What was left may have been taken meanwhile: whoever sleeps again waits
        // for something else, and is still asleep.
        if state.arrived.is_empty() {
            return;
        }
        let bed = state.asleep.take();
        drop(state);
        match bed {
            Some(Bed::Thread) => self.arrival.notify_one(),
            Some(Bed::Task) => self.bell.notify_one(),
            None => {}
        }
    }
}

impl Inbox {
    pub fn new(bytes_max: usize) -> Inbox {
        assert!(bytes_max > 0, "a queue without room takes no proposal");
        Inbox {
            post: Arc::default(),
            bytes_max,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.post.lock()
    }

    /// Puts `change` in and wakes the replica if it sleeps.
    fn leave(&self, change: impl FnOnce(&mut State)) {
        self.leave_and_say(|state| {
            change(state);
            true
        });
    }

    /// The same, if `change` says so.
    fn leave_and_say(&self, change: impl FnOnce(&mut State) -> bool) {
        let mut state = self.lock();
        let matters = change(&mut state);
        let asleep = state.asleep.is_some() && !state.attended;
        drop(state);
        if matters && asleep {
            rouse_after_turn(&self.post);
        }
    }

    /// Queues a command.
    pub fn propose(&self, command: Command) -> Result<Pending, Error> {
        let mut outcome = Err(Error::Stopped);
        self.leave(|state| outcome = self.queue(state, command));
        outcome
    }

    /// The same, and wakes nobody: the caller looks whether somebody does it, and
    /// [announces](Inbox::announce) it if nobody has.
    pub fn propose_quietly(&self, command: Command) -> Result<Pending, Error> {
        self.queue(&mut self.lock(), command)
    }

    /// Wakes the replica for what lies here, if it sleeps and nobody looks again.
    pub fn announce(&self) {
        self.leave(|_| ());
    }

    fn queue(&self, state: &mut State, command: Command) -> Result<Pending, Error> {
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
        Ok(Pending(Reply(pending)))
    }

    /// The flush thread's word: everything up to a sequence is stable, or the
    /// log has failed.
    pub fn persisted(&self, outcome: Result<Sequence, String>) {
        self.leave_and_say(|state| {
            let can_wait = match (&outcome, &mut state.awaited) {
                (Ok(sequence), Some(awaited)) => awaited.persisted(*sequence),
                _ => false,
            };
            state.arrived.persisted = Some(outcome);
            !can_wait
        });
    }

    /// Another member's word, so many bytes long. Where too much waits already it
    /// is dropped: it will be said again.
    pub fn receive(&self, from: u64, message: PeerMessage, bytes: usize) {
        self.leave_and_say(|state| {
            let awaited = state.awaited.as_mut();
            let can_wait = awaited.is_some_and(|it| it.hears(from, &message));
            let arrived = &mut state.arrived;
            let room = arrived.messages_bytes < MESSAGES_BYTES_MAX;
            if room && arrived.messages.len() < MESSAGES_MAX {
                arrived.messages.push((from, message));
                arrived.messages_bytes += bytes;
            }
            !can_wait
        });
    }

    /// Asks when everything acknowledged by now may be read here.
    pub fn read(&self) -> Reply<Result<(), Error>> {
        let (answer, pending) = oneshot::channel();
        self.leave(|state| match &state.closed {
            Some(error) if state.stopped => drop(answer.send(Err(error.clone()))),
            _ => state.arrived.reads.push(answer),
        });
        Reply(pending)
    }

    /// Asks what only the leader knows of a lease.
    pub fn ask_lease(&self, question: LeaseQuestion) -> Reply<Result<LeaseAnswer, Error>> {
        self.ask(|arrived, answer| arrived.leases.push((question, answer)))
    }

    /// Asks for the lead to be handed to a member.
    pub fn move_lead(&self, to: u64) -> Reply<Result<(), Error>> {
        self.ask(|arrived, answer| arrived.moves.push((to, answer)))
    }

    /// Asks for garbage to be reclaimed now.
    pub fn defragment(&self) -> Reply<Result<(), Error>> {
        self.ask(|arrived, answer| arrived.defragment.push(answer))
    }

    /// Leaves a question, unless the inbox is closed.
    fn ask<T>(
        &self,
        put: impl FnOnce(&mut Arrived, oneshot::Sender<Result<T, Error>>),
    ) -> Reply<Result<T, Error>> {
        let (answer, pending) = oneshot::channel();
        self.leave(|state| match &state.closed {
            Some(error) => drop(answer.send(Err(error.clone()))),
            None => put(&mut state.arrived, answer),
        });
        Reply(pending)
    }

    /// Another member says that this one was removed.
    pub fn told_of_removal(&self) {
        self.leave(|state| state.arrived.told_of_removal = true);
    }

    /// The replica shall look what there is to do.
    pub fn wake(&self) {
        self.leave(|state| {
            state.arrived.woken = true;
            state.attended = false;
        });
    }

    /// [`Inbox::stop`] was called.
    pub fn is_stopped(&self) -> bool {
        self.lock().stopped
    }

    /// Refuses proposals from now on and asks the replica to end.
    pub fn stop(&self) {
        self.leave(|state| {
            state.closed.get_or_insert(Error::Stopped);
            state.stopped = true;
            state.arrived.stop = true;
        });
    }

    /// Refuses proposals from now on, with this reason.
    pub fn close(&self, reason: Error) {
        self.leave(|state| {
            state.closed.get_or_insert(reason);
        });
    }

    /// The replica has panicked. Who waits is told so, or that there is no answer.
    pub fn give_up(&self) {
        let what = "the replica has panicked, restart the node";
        // Whoever was at work looks no more, and the thread shall hear of it.
        self.end_attendance();
        self.close(Error::Storage(what.into()));
        self.stop();
        // Nobody will look at them: their senders go, and with them their patience.
        drop(self.take(Duration::ZERO, None));
    }

    /// Why proposals are refused, if they are.
    pub fn closed(&self) -> Option<Error> {
        self.lock().closed.clone()
    }

    /// Commands waiting to be evaluated.
    pub fn waiting(&self) -> usize {
        self.lock().waiting
    }

    /// So many of the commands that were taken wait no more. Until then they
    /// count: the replica may have to let them lie while the device is busy.
    pub fn evaluated(&self, commands: usize, bytes: usize) {
        let mut state = self.lock();
        assert!(
            commands <= state.waiting && bytes <= state.waiting_bytes,
            "{commands} commands of {bytes} bytes are more than wait"
        );
        state.waiting -= commands;
        state.waiting_bytes -= bytes;
    }

    /// Waits up to `patience` while there is nothing. What comes is left there.
    pub fn wait(&self, patience: Duration) {
        let state = self.lock();
        if state.arrived.is_empty() {
            self.sleep(state, patience).asleep = None;
        }
    }

    /// Nobody at work looks again: what comes from now on wakes the replica.
    pub fn end_attendance(&self) {
        self.lock().attended = false;
    }

    /// Takes everything but the wish to stop, for somebody at work who looks again: until
    /// there is nothing, or [`Inbox::end_attendance`] or [`Inbox::wake`] is called, what comes
    /// wakes nobody.
    pub fn attend(&self) -> Option<Arrived> {
        let mut state = self.lock();
        let stop = std::mem::take(&mut state.arrived.stop);
        state.attended = !state.arrived.is_empty();
        let arrived = state.attended.then(|| std::mem::take(&mut state.arrived));
        state.arrived.stop = stop;
        drop(state);
        if stop && arrived.is_none() {
            self.post.rouse();
        }
        arrived
    }

    /// Takes everything, waiting up to `patience` while there is nothing but what
    /// `awaited` says can wait.
    pub fn take(&self, patience: Duration, awaited: Option<Awaited>) -> Arrived {
        let mut state = self.lock();
        if state.arrived.is_empty() {
            state.awaited = awaited;
            state = self.sleep(state, patience);
            state.asleep = None;
            state.awaited = None;
        }
        std::mem::take(&mut state.arrived)
    }

    fn sleep<'a>(
        &self,
        mut state: MutexGuard<'a, State>,
        patience: Duration,
    ) -> MutexGuard<'a, State> {
        state.asleep = Some(Bed::Thread);
        let arrival = &self.post.arrival;
        let slept = arrival.wait_timeout_while(state, patience, |it| it.asleep.is_some());
        slept.unwrap_or_else(PoisonError::into_inner).0
    }

    /// [`Inbox::take`] for a task. Others get their turn first, however much is here.
    pub async fn taken(
        &self,
        patience: Duration,
        awaited: Option<Awaited>,
        alarm: &mut Alarm,
    ) -> Arrived {
        let until = Instant::now() + patience;
        if patience.is_zero() || !self.lock().arrived.is_empty() {
            yield_now().await;
        } else {
            self.lie_down(awaited);
            while !self.is_roused() && Instant::now() < until {
                alarm.be_set(until);
                tokio::select! {
                    () = self.post.bell.notified() => {}
                    () = alarm.0.as_mut() => {}
                }
            }
        }
        let mut state = self.lock();
        state.asleep = None;
        state.awaited = None;
        std::mem::take(&mut state.arrived)
    }

    fn lie_down(&self, awaited: Option<Awaited>) {
        let mut state = self.lock();
        if state.arrived.is_empty() {
            state.asleep = Some(Bed::Task);
            state.awaited = awaited;
        }
    }

    #[cfg(test)]
    pub fn is_slept_on(&self) -> bool {
        !self.is_roused()
    }

    fn is_roused(&self) -> bool {
        self.lock().asleep.is_none()
    }
}

/// Ends a task's sleep. Kept from one sleep to the next, and never put off: setting a
/// timer costs more than waking for nothing now and then.
#[derive(Debug)]
pub(crate) struct Alarm(Pin<Box<Sleep>>);

impl Alarm {
    /// Within a runtime.
    pub fn new() -> Alarm {
        Alarm(Box::pin(sleep(Duration::ZERO)))
    }

    /// It goes off at `until` at the latest.
    fn be_set(&mut self, until: Instant) {
        if self.0.is_elapsed() || self.0.deadline() > until {
            self.0.as_mut().reset(until);
        }
    }
}

impl Arrived {
    fn is_empty(&self) -> bool {
        self.proposals.is_empty()
            && self.persisted.is_none()
            && self.defragment.is_empty()
            && self.messages.is_empty()
            && self.reads.is_empty()
            && self.leases.is_empty()
            && self.moves.is_empty()
            && !self.told_of_removal
            && !self.woken
            && !self.stop
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etcd_api::etcdserverpb::PutRequest;

    fn put() -> Command {
        Command::Put(PutRequest {
            key: "k".into(),
            value: vec![0; 1000].into(),
            ..Default::default()
        })
    }

    #[test]
    fn what_was_taken_and_not_evaluated_still_fills_the_queue() {
        let inbox = Inbox::new(4000);
        let mut backlog = Vec::new();
        let mut pending = Vec::new();
        for _ in 0..100 {
            pending.extend(inbox.propose(put()).ok());
            backlog.extend(inbox.take(Duration::ZERO, None).proposals);
        }
        assert_eq!((backlog.len(), inbox.waiting()), (3, 3));
        let bytes = backlog.iter().map(|it| it.command.size_bytes()).sum();
        inbox.evaluated(backlog.len(), bytes);
        assert_eq!(inbox.waiting(), 0);
        assert!(inbox.propose(put()).is_ok());
    }

    #[test]
    fn a_late_rouse_leaves_the_sleeper_to_be_woken() {
        let inbox = Arc::new(Inbox::new(4000));
        let sleeping = Arc::clone(&inbox);
        let replica = environment::threads::spawn("replica", move || {
            let generous = Duration::from_secs(600);
            sleeping.take(generous, None).woken
        });
        while !inbox.is_slept_on() {
            std::thread::yield_now();
        }
        inbox.post.rouse();
        inbox.wake();
        assert!(replica.unwrap().join().unwrap());
    }

    #[test]
    fn what_came_quietly_waits_to_be_announced() {
        let inbox = Arc::new(Inbox::new(4000));
        let sleeping = Arc::clone(&inbox);
        let replica = environment::threads::spawn("replica", move || {
            let generous = Duration::from_secs(600);
            sleeping.take(generous, None).proposals.len()
        });
        while !inbox.is_slept_on() {
            std::thread::yield_now();
        }
        let _taken = inbox.propose_quietly(put()).unwrap();
        assert!(inbox.attend().is_some());
        let mut pending = inbox.propose_quietly(put()).unwrap();
        inbox.announce();
        assert!(inbox.lock().asleep.is_some(), "somebody looks again");
        assert!(pending.look().is_none());
        inbox.end_attendance();
        inbox.announce();
        assert_eq!(replica.unwrap().join().unwrap(), 1);
        let nobody = matches!(pending.look(), Some(Err(Error::Stopped)));
        assert!(nobody, "it was dropped unanswered");
    }

    #[test]
    fn members_messages_are_bounded_by_their_bytes_too() {
        let inbox = Inbox::new(4000);
        let half = MESSAGES_BYTES_MAX / 2;
        for round in 0..5 {
            inbox.receive(2, PeerMessage::ReadIndex { round }, half);
        }
        assert_eq!(inbox.take(Duration::ZERO, None).messages.len(), 2);
        inbox.receive(
            2,
            PeerMessage::ReadIndex { round: 5 },
            2 * MESSAGES_BYTES_MAX,
        );
        assert_eq!(inbox.take(Duration::ZERO, None).messages.len(), 1);
    }
}
