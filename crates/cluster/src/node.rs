//! A node: the replica on its thread and the handle that request tasks hold.
//!
//! Lock order: none. The inbox has the only lock here, and nobody holds it
//! while doing anything else.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use engine::Worker;
use environment::randomness::Random;
use environment::{Instant, threads};
use etcd_api::Error as Refusal;
use etcd_api::etcdserverpb::{
    LeaseKeepAliveRequest, LeaseTimeToLiveRequest, LeaseTimeToLiveResponse,
};
use revisions::{Command, LeaseAnswer, LeaseQuestion, Reader, Response, WatchHub};
use tokio::sync::watch;
use tracing::{error, info};

use crate::flushing::{Flusher, Unflushed, Window};
use crate::heart::Heart;
use crate::inbox::{Inbox, Pending};
use crate::outbox::{Nowhere, Outbox};
use crate::pump::{Desk, Progress, Pump};
use crate::transport::{Traffic, Transport};
use crate::{Error, Network, NodeOptions, ReadLease, Replica};

/// What a node says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Raft's term: one more at every start.
    pub term: u64,
    /// Who leads, as far as this member knows; 0: nobody.
    pub leader: u64,
    /// Index of the newest batch that was appended.
    pub index: u64,
    /// Index of the newest batch that is applied; at most `index`.
    pub applied_index: u64,
    /// Commands waiting to be evaluated.
    pub waiting: usize,
    /// Leaders seen since the start: each that came, and one that came again
    /// after there was none.
    pub leader_changes: u64,
    /// Leases ended because nobody renewed them, since the start.
    pub leases_expired: u64,
    /// The power failed or files were damaged, and this member may lack what it had acknowledged: it does
    /// not vote until it has it back.
    pub returning: bool,
    /// Times that this member's heartbeats, as a leader, came later than twice their
    /// interval, since the start.
    pub late_heartbeats: u64,
    /// Rounds of reads that were repeated because no answer came, since the start.
    pub lost_read_rounds: u64,
    /// Reads that were given up because nobody confirmed them, since the start.
    pub reads_given_up: u64,
    /// A snapshot of another member is being taken in.
    pub importing: bool,
    /// The disk is full: the leader's entries are not taken, and writes that come here
    /// are refused.
    pub full: bool,
}

/// Who leads in which term, as far as a member knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leadership {
    /// Raft's term.
    pub term: u64,
    /// The leader's id; 0: nobody, or nobody known.
    pub leader: u64,
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
    read_lease: Arc<ReadLease>,
    progress: Arc<Progress>,
    leadership: watch::Receiver<Leadership>,
    /// `None` for a node alone.
    transport: Option<Arc<Transport>>,
    /// `None` where nothing is flushed behind the answers.
    flusher: Option<Flusher>,
    /// Where callers work with the replica by themselves.
    desk: Option<Arc<Desk>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Node {
    /// Recovers what the directory holds and starts the threads: a node alone,
    /// which serves when this returns.
    pub fn start(options: NodeOptions) -> Result<Node, Error> {
        Node::launch(options, None)
    }

    /// The same for a member of a cluster that meets over `network`. A leader
    /// is found after this returns, when enough members are there.
    ///
    /// To join a cluster that exists: have it add the member
    /// ([`Command::MemberAdd`], as a learner or a voter), then start the member in
    /// an empty directory with the id from the answer, no
    /// [`initial_members`](revisions::Options::initial_members), and the others as
    /// [`Network::contacts`]. The leader sends it a snapshot. Until that is
    /// installed [`Node::reader`] shows an empty store without members, and the
    /// member does not stand for election. It may be stopped or crash at any time,
    /// and is started again in the same way; a directory that holds something
    /// ignores what only joining needs.
    ///
    /// A member that the others have removed fails with [`Error::Removed`], here
    /// or in [`Node::refuses_writes`].
    pub fn start_member(options: NodeOptions, network: Network) -> Result<Node, Error> {
        Node::launch(options, Some(network))
    }

    fn launch(mut options: NodeOptions, network: Option<Network>) -> Result<Node, Error> {
        check_flushing(&options)?;
        let engine = &mut options.machine.engine;
        let has_desk = network.is_none() && engine.durability == engine::Durability::Os;
        if has_desk && engine.worker == Worker::Threads {
            engine.worker = Worker::CallerAndMaker;
        }
        let opened = options.clock.now();
        let mut replica = Replica::open(
            Arc::clone(&options.disk),
            &options.directory,
            options.replica(seed(&options, network.is_some())?),
            Arc::clone(&options.clock),
        )?;
        let reader = replica.reader().clone();
        let read_lease = Arc::clone(replica.read_lease());
        let inbox = Arc::new(Inbox::new(options.queue_bytes_max));
        let notices = Arc::clone(&inbox);
        let flusher = flusher(&options, &reader, &inbox)?;
        let written = flusher.as_ref().map(Flusher::window).cloned();
        reader.engine().on_durable(Box::new(move |outcome| {
            if let (Ok(sequence), Some(window)) = (&outcome, &written) {
                window.written(*sequence);
            }
            // A replica that writes itself has seen what it has written.
            if !has_desk || outcome.is_err() {
                notices.persisted(outcome.map_err(|error| error.to_string()));
            }
        }));
        if has_desk {
            replica.write_itself();
        }
        let waking = Arc::clone(&inbox);
        replica.wake_with(Arc::new(move || waking.wake()));
        let progress = Arc::new(Progress::default());
        let (for_pump, told) = (Arc::clone(&inbox), Arc::clone(&progress));
        let heart = Arc::new(Heart::new(
            Arc::clone(&options.clock),
            options.heartbeat_interval,
            options.election_timeout,
        ));
        let transport = match network {
            Some(network) => {
                let incoming = Arc::clone(&inbox);
                let transport = Transport::start(
                    network,
                    replica.member_id(),
                    incoming,
                    Arc::clone(&heart),
                    reader.clone(),
                    Arc::clone(&options.clock),
                )?;
                Some(Arc::new(transport))
            }
            None => None,
        };
        let outbox: Arc<dyn Outbox> = match &transport {
            Some(transport) => Arc::clone(transport) as Arc<dyn Outbox>,
            None => Arc::new(Nowhere),
        };
        let mut pump = Pump::new(&options, replica, for_pump, outbox, told);
        if transport.is_some() {
            pump.set_heart(heart);
        }
        let leadership = pump.leadership();
        pump.settle_alone();
        let latch = LastWord {
            inbox: Arc::clone(&inbox),
            watches: Arc::clone(reader.watch_hub()),
        };
        let mut desk = None;
        let work: Box<dyn FnOnce() + Send> = if has_desk {
            let at = Arc::new(Desk::new(pump, Arc::clone(reader.watch_hub())));
            desk = Some(Arc::clone(&at));
            Box::new(move || at.run())
        } else {
            let connections = transport.clone();
            Box::new(move || pump.run(connections.as_deref()))
        };
        let run = move || {
            let _latch = latch;
            work();
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
            read_lease,
            progress,
            leadership,
            transport,
            flusher,
            desk,
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

    /// The same for a thread outside a runtime, which waits; a node alone that waits for
    /// no device works on that thread.
    pub fn carry_out(&self, command: Command) -> Result<Response, Error> {
        match &self.shared.desk {
            Some(desk) => desk.carry_out(command),
            None => self.propose(command)?.wait(),
        }
    }

    /// Returns once a read of [`Node::reader`] sees every write that was
    /// acknowledged before this call. Alone, that is at once: a write is
    /// acknowledged only after it is applied here; and at a leader under its lease
    /// ([`crate::ReadMode::Lease`]). What is read must be looked at afterwards.
    pub async fn read_index(&self) -> Result<(), Error> {
        if self.is_alone() {
            return match self.shared.inbox.closed() {
                Some(Error::Stopped) => Err(Error::Stopped),
                _ => Ok(()),
            };
        }
        if self.has_read_lease() {
            return Ok(());
        }
        self.shared
            .inbox
            .read()
            .await
            .unwrap_or(Err(Error::Stopped))
    }

    /// Gives a lease its full time again: here, or at the leader. Returns its
    /// time to live in seconds; 0: there is no such lease. A lease that has run
    /// out and is not revoked yet: waits for the outcome, as etcd does.
    pub async fn renew_lease(&self, id: i64) -> Result<i64, Error> {
        if self.is_alone() {
            match self.reader().lease_keep_alive(id).await {
                Err(revisions::Error::Etcd(Refusal::NotLeader)) => {}
                outcome => return Ok(outcome?),
            }
        }
        let question = LeaseQuestion::KeepAlive(LeaseKeepAliveRequest { id });
        match self.ask_lease(question).await? {
            LeaseAnswer::KeepAlive(answer) => Ok(answer.ttl),
            LeaseAnswer::TimeToLive(_) => Err(another_answer()),
        }
    }

    /// Remaining and granted time of a lease, its keys if asked for: from here,
    /// or from the leader. TTL -1: there is no such lease.
    pub async fn lease_time_to_live(
        &self,
        request: LeaseTimeToLiveRequest,
    ) -> Result<LeaseTimeToLiveResponse, Error> {
        if self.is_alone() {
            match self.reader().lease_time_to_live(&request) {
                Err(revisions::Error::Etcd(Refusal::NotLeader)) => {}
                outcome => return Ok(outcome?),
            }
        }
        match self.ask_lease(LeaseQuestion::TimeToLive(request)).await? {
            LeaseAnswer::TimeToLive(answer) => Ok(answer),
            LeaseAnswer::KeepAlive(_) => Err(another_answer()),
        }
    }

    async fn ask_lease(&self, question: LeaseQuestion) -> Result<LeaseAnswer, Error> {
        let answer = self.shared.inbox.ask_lease(question);
        answer.await.unwrap_or(Err(Error::Stopped))
    }

    /// Reads here ask nobody at present: this member leads, and its lease holds.
    pub fn has_read_lease(&self) -> bool {
        self.shared.read_lease.holds()
    }

    /// This member leads and nobody else votes.
    fn is_alone(&self) -> bool {
        self.shared.progress.alone.load(Ordering::Acquire)
    }

    /// Hands the lead to another member, and returns when that leads. Refused
    /// with `NotLeader` where this member does not lead, and with
    /// `BadLeaderTransferee` where the other has no vote; `Timeout`: it has not
    /// taken the lead, and this member goes on.
    pub async fn move_leader(&self, to: u64) -> Result<(), Error> {
        let answer = self.shared.inbox.move_lead(to);
        answer.await.unwrap_or(Err(Error::Stopped))
    }

    /// Reads: ranges, leases, hashes, watches.
    pub fn reader(&self) -> &Reader {
        &self.shared.reader
    }

    /// Why writes are refused, if they are: stopping, or a failed log.
    pub fn refuses_writes(&self) -> Option<Error> {
        self.shared.inbox.closed()
    }

    /// Since when another member is connected; `None`: it is not, or this one is
    /// alone.
    pub fn connected_since(&self, member: u64) -> Option<Instant> {
        self.shared.transport.as_ref()?.connected_since(member)
    }

    /// What went to another member and came from it; `None`: there is none of that
    /// id, or this one is alone.
    pub fn traffic(&self, member: u64) -> Option<Traffic> {
        self.shared.transport.as_ref()?.traffic(member)
    }

    /// This member receives everything and votes on nothing. Asked by every
    /// request, so it costs one load.
    pub fn is_learner(&self) -> bool {
        let transport = self.shared.transport.as_ref();
        transport.is_some_and(|transport| transport.is_learner())
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
            leader: progress.leader.load(Ordering::Relaxed),
            applied_index: progress.applied_index.load(Ordering::Relaxed),
            index: progress.index.load(Ordering::Relaxed),
            waiting: self.shared.inbox.waiting(),
            leader_changes: progress.leader_changes.load(Ordering::Relaxed),
            leases_expired: progress.leases_expired.load(Ordering::Relaxed),
            returning: progress.returning.load(Ordering::Relaxed),
            late_heartbeats: progress.late_heartbeats.load(Ordering::Relaxed),
            lost_read_rounds: progress.lost_read_rounds.load(Ordering::Relaxed),
            reads_given_up: progress.reads_given_up.load(Ordering::Relaxed),
            importing: progress.importing.load(Ordering::Relaxed),
            full: progress.full.load(Ordering::Relaxed),
        }
    }

    /// What a loss of power would take from this member now; `None` where nothing is
    /// flushed behind the answers.
    pub fn unflushed(&self) -> Option<Unflushed> {
        let flusher = self.shared.flusher.as_ref();
        flusher.map(|flusher| flusher.window().unflushed())
    }

    /// Tells of each change of who leads, the newest if several come at once. It
    /// ends when the node does.
    pub fn leadership(&self) -> watch::Receiver<Leadership> {
        self.shared.leadership.clone()
    }

    /// Reclaims all that is garbage now. Reads and writes go on meanwhile.
    pub async fn defragment(&self) -> Result<(), Error> {
        self.shared
            .inbox
            .defragment()
            .await
            .unwrap_or(Err(Error::Stopped))
    }

    /// Finishes what is under way, hands the lead to another member if this one
    /// has it, closes the log, lets the directory go and ends the threads. Waits
    /// for other members half a second at most. Readers that are left are told so.
    pub fn stop(&self) {
        self.shared.stop();
    }
}

impl Shared {
    fn stop(&self) {
        self.inbox.stop();
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(thread) = thread.take()
            && thread.join().is_err()
        {
            error!("the replica thread panicked; what it had acknowledged is in the log");
        }
        // Held until here: whoever else stops the node must not end the connections
        // that the replica works beside.
        drop(thread);
        if let Some(flusher) = &self.flusher {
            flusher.stop();
        }
        if let Some(transport) = &self.transport {
            transport.stop();
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.stop();
    }
}

/// What is on the device when it is answered needs no flush behind the answer.
fn check_flushing(options: &NodeOptions) -> Result<(), Error> {
    let durable = options.machine.engine.durability == engine::Durability::Durable;
    match options.flushing {
        Some(_) if durable => Err(Error::Storage(
            "`flushing` is for `Durability::Os`: leave it out, or choose that".into(),
        )),
        Some(flushing) if flushing.entries_max == 0 => Err(Error::Storage(
            "`flushing.entries_max` is 0: write 1 or more".into(),
        )),
        _ => Ok(()),
    }
}

fn flusher(
    options: &NodeOptions,
    reader: &Reader,
    inbox: &Arc<Inbox>,
) -> Result<Option<Flusher>, Error> {
    let Some(policy) = options.flushing else {
        return Ok(None);
    };
    let engine = reader.engine().clone();
    let window = Window::new(policy, Arc::clone(&options.clock), engine.durable());
    Flusher::start(Arc::new(window), engine, Arc::clone(inbox)).map(Some)
}

/// Members whose patience is the same stand for election together.
fn seed(options: &NodeOptions, has_others: bool) -> Result<u64, Error> {
    match options.seed {
        Some(seed) => Ok(seed),
        None if !has_others => Ok(0),
        None => match Random::from_system() {
            Ok(mut random) => Ok(random.next_u64()),
            Err(error) => Err(Error::Storage(format!(
                "no randomness from the kernel ({error}); set `seed`, differently on each member"
            ))),
        },
    }
}

fn another_answer() -> Error {
    Error::Raft("the leader has answered another question; run the same release everywhere".into())
}

/// Spoken when the replica thread ends: nothing will be told to watches any
/// more. A broken invariant ends it, too; then nobody may wait for it.
struct LastWord {
    inbox: Arc<Inbox>,
    watches: Arc<WatchHub>,
}

impl Drop for LastWord {
    fn drop(&mut self) {
        self.watches.close();
        if std::thread::panicking() {
            self.inbox.give_up();
        }
    }
}
