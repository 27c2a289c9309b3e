//! A node: the replica on its thread and the handle that request tasks hold.
//!
//! Lock order: none. The inbox has the only lock here, and nobody holds it
//! while doing anything else.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use engine::Engine;
use environment::{Clock, Instant, threads};
use etcd_api::etcdserverpb::alarm_request::AlarmAction;
use etcd_api::etcdserverpb::{AlarmRequest, AlarmType};
use revisions::{Command, Machine, Reader, Response};
use tracing::{error, info, warn};

use crate::inbox::{Arrived, Inbox, Pending, Proposal};
use crate::observer::Observing;
use crate::{Answer, Error, NodeOptions, Replica};

/// What a node says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Raft's term: one more at every start.
    pub term: u64,
    /// Index of the newest batch that was appended.
    pub index: u64,
    /// Index of the newest batch that is applied; at most `index`.
    pub applied_index: u64,
    /// Commands waiting to be evaluated.
    pub waiting: usize,
    /// Leases ended because nobody renewed them, since the start.
    pub leases_expired: u64,
}

/// Written by the replica thread, read by anyone.
#[derive(Debug, Default)]
struct Progress {
    term: AtomicU64,
    index: AtomicU64,
    applied_index: AtomicU64,
    leases_expired: AtomicU64,
}

/// A running node. Cheap to clone; the last clone's drop stops it.
#[derive(Clone, Debug)]
pub struct Node {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    inbox: Arc<Inbox>,
    reader: Reader,
    progress: Arc<Progress>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Node {
    /// Recovers what the directory holds and starts the threads.
    pub fn start(options: NodeOptions) -> Result<Node, Error> {
        let opened = options.clock.now();
        let (machine, reader) = open_machine(&options)?;
        let engine = reader.engine().clone();
        let status = engine.status();
        let replica = Replica::new(machine, status.applied_term, status.applied_index);
        let inbox = Arc::new(Inbox::new(options.queue_bytes_max));
        let notices = Arc::clone(&inbox);
        engine.on_durable(Box::new(move |outcome| {
            notices.persisted(outcome.map_err(|error| error.to_string()));
        }));
        let progress = Arc::new(Progress::default());
        let mut pump = Pump {
            clock: Arc::clone(&options.clock),
            tick: options.tick,
            batch_bytes_max: options.batch_bytes_max,
            inbox: Arc::clone(&inbox),
            progress: Arc::clone(&progress),
            backlog: VecDeque::new(),
            next_tick: Instant::default(),
            open_bytes: 0,
            no_space_alarm: no_space_alarm(options.machine.member_id),
            engine,
            replica,
            observing: Observing {
                observer: options.observer,
                clock: Arc::clone(&options.clock),
                sweep_began: None,
            },
        };
        pump.publish();
        let latch = PanicLatch(Arc::clone(&inbox));
        let run = move || {
            let _latch = latch;
            pump.run();
        };
        let thread = threads::spawn("replica", run)
            .map_err(|error| Error::Storage(format!("cannot start a thread: {error}")))?;
        info!(
            directory = %options.directory.display(),
            revision = reader.revision(),
            took = ?options.clock.now().saturating_since(opened),
            "recovered"
        );
        let shared = Shared {
            inbox,
            reader,
            progress,
            thread: Mutex::new(Some(thread)),
        };
        Ok(Node {
            shared: Arc::new(shared),
        })
    }

    /// Queues a command. It is evaluated, made durable and applied before the
    /// answer comes; dropping the [`Pending`] does not take it back.
    pub fn propose(&self, command: Command) -> Result<Pending, Error> {
        self.shared.inbox.propose(command)
    }

    /// [`Node::propose`], and the answer.
    pub async fn execute(&self, command: Command) -> Result<Response, Error> {
        self.propose(command)?.await
    }

    /// Returns once a read of [`Node::reader`] sees every write that was
    /// acknowledged before this call. Alone, that is at once: a write is
    /// acknowledged only after it is applied here.
    pub async fn read_index(&self) -> Result<(), Error> {
        match self.shared.inbox.closed() {
            Some(Error::Stopped) => Err(Error::Stopped),
            _ => Ok(()),
        }
    }

    /// Reads: ranges, leases, hashes, watches.
    pub fn reader(&self) -> &Reader {
        &self.shared.reader
    }

    /// Why writes are refused, if they are: stopping, or a failed log.
    pub fn refuses_writes(&self) -> Option<Error> {
        self.shared.inbox.closed()
    }

    /// Raft's term: in the header of every answer, so it costs one load.
    pub fn term(&self) -> u64 {
        self.shared.progress.term.load(Ordering::Relaxed)
    }

    /// Term and indexes.
    pub fn status(&self) -> Status {
        let progress = &self.shared.progress;
        Status {
            term: progress.term.load(Ordering::Relaxed),
            applied_index: progress.applied_index.load(Ordering::Relaxed),
            index: progress.index.load(Ordering::Relaxed),
            waiting: self.shared.inbox.waiting(),
            leases_expired: progress.leases_expired.load(Ordering::Relaxed),
        }
    }

    /// Reclaims all garbage now. Reads go on; writes wait for it.
    pub async fn defragment(&self) -> Result<(), Error> {
        self.shared
            .inbox
            .defragment()
            .await
            .unwrap_or(Err(Error::Stopped))
    }

    /// Finishes what is under way, closes the log, lets the directory go and
    /// ends the threads. Readers that are left are told so.
    pub fn stop(&self) {
        self.shared.stop();
    }
}

impl Shared {
    fn stop(&self) {
        self.inbox.stop();
        let thread = self
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(thread) = thread
            && thread.join().is_err()
        {
            error!("the replica thread panicked; what it had acknowledged is in the log");
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.stop();
    }
}

fn open_machine(options: &NodeOptions) -> Result<(Machine, Reader), Error> {
    Machine::open(
        Arc::clone(&options.disk),
        &options.directory,
        options.machine.clone(),
        Arc::clone(&options.clock),
    )
    .map_err(|error| Error::Storage(error.to_string()))
}

/// A broken invariant ends the replica thread; nobody may wait for it then.
struct PanicLatch(Arc<Inbox>);

impl Drop for PanicLatch {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let what = "the replica thread has panicked, restart the node";
            self.0.close(Error::Storage(what.into()));
            // Nobody will: their senders go, and with them their patience.
            drop(self.0.take(Duration::ZERO));
        }
    }
}

fn refusal(error: engine::Error) -> Error {
    Error::Refused(revisions::Error::from(error))
}

fn no_room(error: &engine::Error) -> bool {
    use engine::Error;
    matches!(error, Error::NoSpace { .. } | Error::MemoryLimit { .. })
}

fn no_space_alarm(member_id: u64) -> Command {
    Command::Alarm(AlarmRequest {
        action: AlarmAction::Activate.into(),
        member_id,
        alarm: AlarmType::Nospace.into(),
    })
}

/// The replica thread.
#[derive(Debug)]
struct Pump {
    replica: Replica,
    engine: Engine,
    clock: Arc<dyn Clock>,
    inbox: Arc<Inbox>,
    progress: Arc<Progress>,
    /// Taken from the inbox, not yet evaluated: what did not fit the batch.
    backlog: VecDeque<Proposal>,
    /// Bytes of the commands in the open batch.
    open_bytes: usize,
    /// Raises the alarm NOSPACE in this member's name.
    no_space_alarm: Command,
    batch_bytes_max: usize,
    tick: Duration,
    next_tick: Instant,
    observing: Observing,
}

impl Pump {
    fn run(&mut self) {
        loop {
            let arrived = self.arrivals();
            let stop = arrived.stop;
            self.step(arrived);
            if stop {
                break;
            }
        }
        self.finish();
    }

    /// What has come, waiting only when there is nothing to evaluate and
    /// nothing to sweep.
    fn arrivals(&self) -> Arrived {
        let evaluates = !self.backlog.is_empty() && !self.batch_is_full();
        let patience = if evaluates || self.replica.is_sweeping() {
            Duration::ZERO
        } else {
            self.tick
        };
        self.inbox.take(patience)
    }

    fn batch_is_full(&self) -> bool {
        self.open_bytes >= self.batch_bytes_max || self.replica.batch_is_full()
    }

    fn step(&mut self, arrived: Arrived) {
        self.backlog.extend(arrived.proposals);
        self.evaluate();
        let answers = match arrived.persisted {
            Some(Ok(sequence)) => self.replica.persisted(sequence),
            Some(Err(reason)) => return self.fail(reason),
            None => Vec::new(),
        };
        // The device first: it works while the answers are given.
        self.append();
        // Whoever has an answer and asks for the status sees what it tells of.
        self.publish();
        answers.into_iter().for_each(Answer::give);
        self.tick();
        for answer in arrived.defragment {
            let _ = answer.send(self.defragment());
        }
        self.publish();
    }

    /// Evaluates as much of the backlog as the open batch holds.
    fn evaluate(&mut self) {
        let (mut commands, mut bytes) = (0, 0);
        while !self.batch_is_full()
            && let Some(proposal) = self.backlog.pop_front()
        {
            let command_bytes = proposal.command.size_bytes();
            self.open_bytes += command_bytes;
            commands += 1;
            bytes += command_bytes;
            let began = self.observing.now();
            let done = self
                .replica
                .propose(&proposal.command, Some(proposal.answer));
            self.observing.evaluated(&proposal.command, done, began);
        }
        if commands > 0 {
            self.inbox.evaluated(commands, bytes);
        }
        self.replica.propose_due();
    }

    /// Seals what is open and hands it to the log, if the device is free.
    /// Where that finds no room, everyone shall see it: the alarm NOSPACE is
    /// raised, as when the quota is used up, until someone disarms it.
    fn append(&mut self) {
        let Some(error) = self.append_open() else {
            return;
        };
        let no_room = refusal(error);
        warn!(reason = %no_room, "writes are refused: raising the alarm NOSPACE");
        self.replica.refused_for_want_of_room(&no_room);
        self.replica.propose(&self.no_space_alarm, None);
        self.replica.propose_spared();
        // Without room for these either, the next refusal tries again.
        if let Some(error) = self.append_open() {
            self.replica.refused(&refusal(error));
        }
    }

    /// Where there is no room for the open batch it stays sealed, and what the
    /// replica is told is the caller's part.
    fn append_open(&mut self) -> Option<engine::Error> {
        let Some(batch) = self.replica.seal() else {
            self.forget_open_bytes();
            return None;
        };
        let outcome = self.engine.append(batch);
        self.open_bytes = 0;
        match outcome {
            Ok(appended) => {
                self.replica.appended(appended);
                None
            }
            Err(error) if no_room(&error) => Some(error),
            Err(error) => {
                self.replica.refused(&refusal(error));
                None
            }
        }
    }

    /// Nothing open, nothing counted: answers that wrote nothing have gone.
    fn forget_open_bytes(&mut self) {
        if self.replica.is_idle() {
            self.open_bytes = 0;
        }
    }

    fn tick(&mut self) {
        let now = self.clock.now();
        if now >= self.next_tick {
            self.next_tick = now + self.tick;
            self.replica.tick(now);
            self.append();
        }
        self.observing.sweeping(self.replica.is_sweeping());
        if let Err(error) = self.replica.machine().maintain() {
            // Checkpoint and reclaim can wait: nothing acknowledged depends on them.
            warn!(%error, "upkeep of the log failed; it will be tried again");
        }
        self.observing.sweeping(self.replica.is_sweeping());
        self.replica.swept().into_iter().for_each(Answer::give);
    }

    fn defragment(&mut self) -> Result<(), Error> {
        Ok(self.replica.machine().defragment()?)
    }

    fn publish(&self) {
        let order = Ordering::Relaxed;
        self.progress.term.store(self.replica.term(), order);
        self.progress.index.store(self.replica.index(), order);
        self.progress
            .applied_index
            .store(self.replica.applied_index(), order);
        self.progress
            .leases_expired
            .store(self.replica.leases_expired(), order);
    }

    fn fail(&mut self, reason: String) {
        error!(
            reason,
            "the log has failed; no write is accepted until the next start"
        );
        let error = Error::LogFailed { reason };
        self.inbox.close(error.clone());
        self.replica.fail(&error);
        for proposal in self.backlog.drain(..) {
            self.inbox.evaluated(1, proposal.command.size_bytes());
            let _ = proposal.answer.send(Err(error.clone()));
        }
    }

    /// Lets what was taken come to its end, then closes the log.
    fn finish(&mut self) {
        while !(self.replica.is_idle() && self.backlog.is_empty()) {
            let arrived = self.inbox.take(self.tick);
            self.step(arrived);
        }
        self.replica
            .never_swept()
            .into_iter()
            .for_each(Answer::give);
        if let Err(error) = self.replica.machine().close() {
            error!(%error, "closing the log");
        }
    }
}
