//! A node: the replica on its thread, and the handle that request tasks hold.
//!
//! Lock order: `caller_runs`, then the inbox. No thread calls other code while it holds the
//! inbox.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use engine::Worker;
use environment::randomness::Random;
use environment::{Instant, threads};
use etcd_api::Error as Refusal;
use etcd_api::etcdserverpb::{
    LeaseKeepAliveRequest, LeaseTimeToLiveRequest, LeaseTimeToLiveResponse,
};
use revisions::{Command, KeyValueHash, LeaseRequest, LeaseResponse, Reader, Response, WatchHub};
use tokio::sync::watch;
use tracing::{error, info};

use crate::driver::{CallerRuns, Driver};
use crate::figures_desk::ToldFigures;
use crate::flushing::{Flusher, Unflushed};
use crate::inbox::Inbox;
use crate::lock::lock;
use crate::scrubbing::{ScrubFindings, ScrubThread};
use crate::status::{PublishedStatus, Status};
use crate::transport::{Traffic, Transport};
use crate::wake_batcher::Pending;
use crate::{Error, MemberProgress, Network, NodeOptions, ReadLease, Replica};

/// A running node. Cheap to clone; the last clone's drop stops it.
#[derive(Clone)]
pub struct Node {
    shared: Arc<RunningNode>,
}

impl std::fmt::Debug for Node {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Node").finish_non_exhaustive()
    }
}

struct RunningNode {
    inbox: Arc<Inbox>,
    reader: Reader,
    read_lease: Arc<ReadLease>,
    published: Arc<PublishedStatus>,
    status: watch::Receiver<Status>,
    /// `None` for a node without a network.
    transport: Option<Arc<Transport>>,
    /// `None` unless [`NodeOptions::flushing`] is set.
    flusher: Option<Flusher>,
    /// `None` unless [`NodeOptions::scrubbing`] is set.
    scrubber: Option<ScrubThread>,
    /// Set if callers run the replica on their own threads.
    caller_runs: Option<Arc<CallerRuns>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Node {
    /// Recovers the directory and starts a node without a network. It serves requests when
    /// this returns.
    pub fn start(options: NodeOptions) -> Result<Node, Error> {
        Node::launch(options, None)
    }

    /// Recovers the directory and starts a member of a cluster that communicates over
    /// `network`. The members elect a leader after this returns, when enough of them run.
    ///
    /// To join a cluster that exists: have it add the member
    /// ([`Command::MemberAdd`], as a learner or a voter), then start the member in
    /// an empty directory with the id from the answer, no
    /// [`initial_members`](revisions::Options::initial_members), and the others as
    /// [`Network::contacts`]. The leader sends it a snapshot. Until that is
    /// installed [`Node::reader`] shows an empty store without members, and the
    /// member does not stand for election. It may be stopped or crash at any time, and is
    /// started again in the same way; the options that only joining needs are ignored if the
    /// directory has data.
    ///
    /// A member that the others have removed fails with [`Error::Removed`], here
    /// or in [`Node::refuses_writes`].
    pub fn start_member(options: NodeOptions, network: Network) -> Result<Node, Error> {
        Node::launch(options, Some(network))
    }

    fn launch(mut options: NodeOptions, network: Option<Network>) -> Result<Node, Error> {
        check_flushing(&options)?;
        let opened = options.clock.now();
        let seed = seed(&options, network.is_some())?;
        let log = &mut options.replica.machine.engine.log;
        let callers_run = network.is_none() && log.durability == engine::Durability::Os;
        if callers_run && log.worker == Worker::Threads {
            log.worker = Worker::CallerWithPool;
        }
        let mut replica = Replica::open(
            Arc::clone(&options.disk),
            &options.directory,
            options.replica(seed),
            Arc::clone(&options.clock),
        )?;
        if callers_run {
            replica.write_itself();
        }
        let reader = replica.reader().clone();
        let read_lease = Arc::clone(replica.read_lease());
        let inbox = Arc::new(Inbox::new(options.queue_bytes_max));
        let waking = Arc::clone(&inbox);
        replica.wake_with(Arc::new(move || waking.wake()));
        let flusher = flusher(&options, &reader, &inbox)?;
        report_writes(&reader, &inbox, flusher.as_ref(), callers_run);
        let start = |network| {
            let (id, inbox) = (replica.member_id(), Arc::clone(&inbox));
            Transport::start(network, id, inbox, reader.clone(), &options)
        };
        let transport = network.map(start).transpose()?.map(Arc::new);
        let published = Arc::new(PublishedStatus::default());
        let mut driver = Driver::new(
            &options,
            replica,
            Arc::clone(&inbox),
            transport.as_ref(),
            Arc::clone(&published),
        );
        let status = driver.status();
        driver.elect_alone();
        let (caller_runs, work) = work(driver, callers_run, transport.clone());
        let latch = EndLatch {
            inbox: Arc::clone(&inbox),
            watches: Arc::clone(reader.watch_hub()),
        };
        let run = move || {
            let _latch = latch;
            work();
        };
        let thread = threads::spawn("replica", run).map_err(Error::thread)?;
        info!(
            directory = %options.directory.display(),
            revision = reader.revision(),
            took = ?options.clock.now().saturating_since(opened),
            "the node has recovered its directory"
        );
        let scrub = |scrubbing| {
            let (clock, engine) = (Arc::clone(&options.clock), reader.engine().clone());
            ScrubThread::start(scrubbing, clock, engine)
        };
        let scrubber = options.scrubbing.map(scrub).transpose()?;
        let shared = RunningNode {
            inbox,
            reader,
            read_lease,
            published,
            status,
            transport,
            flusher,
            scrubber,
            caller_runs,
            thread: Mutex::new(Some(thread)),
        };
        Ok(Node {
            shared: Arc::new(shared),
        })
    }

    /// Queues a command. It is evaluated, made durable and applied before its answer is given;
    /// dropping the [`Pending`] does not cancel it.
    pub fn propose(&self, command: Command) -> Result<Pending, Error> {
        self.shared.inbox.propose(command)
    }

    /// Queues a command as [`Node::propose`] does, and waits for its answer.
    pub async fn execute(&self, command: Command) -> Result<Response, Error> {
        self.propose(command)?.await
    }

    /// Carries out a command for a thread outside a runtime, which blocks until the answer is
    /// there. A node without a network that does not wait for the device does the work on the
    /// calling thread.
    pub fn carry_out(&self, command: Command) -> Result<Response, Error> {
        match &self.shared.caller_runs {
            Some(runs) => runs.carry_out(command),
            None => self.propose(command)?.wait(),
        }
    }

    /// Returns once a read of [`Node::reader`] sees every write that was acknowledged before
    /// this call. That is at once at a leader that is the only voter, because a write is
    /// acknowledged only after it is applied there, and at a leader with a lease
    /// ([`crate::ReadMode::Lease`]). The caller must read after this returns.
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
        self.shared.inbox.read().await
    }

    /// Gives a lease its full time again, here or at the leader. Returns its time to live in
    /// seconds, or 0 if there is no such lease. If the lease has run out and is not revoked
    /// yet, waits for the outcome, as etcd does.
    pub async fn renew_lease(&self, id: i64) -> Result<i64, Error> {
        if self.is_alone() {
            match self.reader().lease_keep_alive(id).await {
                Err(revisions::Error::Etcd(Refusal::NotLeader)) => {}
                outcome => return Ok(outcome?),
            }
        }
        let question = LeaseRequest::KeepAlive(LeaseKeepAliveRequest { id });
        match self.shared.inbox.ask_lease(question).await? {
            LeaseResponse::KeepAlive(answer) => Ok(answer.ttl),
            LeaseResponse::TimeToLive(_) => Err(another_answer()),
        }
    }

    /// Returns the remaining and the granted time of a lease, and its keys if the request asks
    /// for them, from here or from the leader. TTL is -1 if there is no such lease.
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
        let question = LeaseRequest::TimeToLive(request);
        match self.shared.inbox.ask_lease(question).await? {
            LeaseResponse::TimeToLive(answer) => Ok(answer),
            LeaseResponse::KeepAlive(_) => Err(another_answer()),
        }
    }

    /// Whether reads here need no other member at present: this member leads, and its lease
    /// holds.
    pub fn has_read_lease(&self) -> bool {
        self.shared.read_lease.holds()
    }

    /// Whether the cluster has removed this member. It is true before any answer leaves that
    /// this member gives because it ends; such an answer may be of a revision that this member
    /// never applies, so its reads no longer count.
    pub fn is_removed(&self) -> bool {
        self.shared.published.is_removed()
    }

    /// Whether this member leads and is the only voter.
    fn is_alone(&self) -> bool {
        self.shared.published.is_alone()
    }

    /// Hands leadership to another member, and returns when that member leads. Fails with
    /// `NotLeader` if this member does not lead, with `BadLeaderTransferee` if the other one
    /// is not a voter, and with `Timeout` if the other one did not become the leader; then
    /// this member still leads.
    pub async fn move_leader(&self, to: u64) -> Result<(), Error> {
        self.shared.inbox.transfer_leadership(to).await
    }

    /// How far the members are; empty unless this member leads.
    pub async fn members_progress(&self) -> Result<Vec<MemberProgress>, Error> {
        self.shared.inbox.progress().await
    }

    /// The reader of ranges, leases, hashes and watches.
    pub fn reader(&self) -> &Reader {
        &self.shared.reader
    }

    /// The reason why writes are refused, if they are: the node stops, its log has failed, or
    /// it was removed.
    pub fn refuses_writes(&self) -> Option<Error> {
        self.shared.inbox.closed()
    }

    /// Since when another member is connected; `None` if it is not, or if this node has no
    /// network.
    pub fn connected_since(&self, member: u64) -> Option<Instant> {
        self.shared.transport.as_ref()?.connected_since(member)
    }

    /// The traffic with another member; `None` if no member has this id, or if this node has
    /// no network.
    pub fn traffic(&self, member: u64) -> Option<Traffic> {
        self.shared.transport.as_ref()?.traffic(member)
    }

    /// Whether this member is a learner, which receives all entries and has no vote. Every
    /// request asks this, so it costs one load.
    pub fn is_learner(&self) -> bool {
        let transport = self.shared.transport.as_ref();
        transport.is_some_and(|transport| transport.is_learner())
    }

    /// Raft's term. The header of every answer has it, so it costs one load.
    pub fn term(&self) -> u64 {
        self.shared.published.term()
    }

    pub fn status(&self) -> Status {
        Status {
            waiting: self.shared.inbox.waiting(),
            ..*self.shared.status.borrow()
        }
    }

    /// The acknowledged entries that a loss of power would take from this member now; `None`
    /// unless [`NodeOptions::flushing`] is set.
    pub fn unflushed(&self) -> Option<Unflushed> {
        let flusher = self.shared.flusher.as_ref();
        flusher.map(|flusher| flusher.window.unflushed())
    }

    /// Findings of the verification of log and index in the background; `None` unless
    /// [`NodeOptions::scrubbing`] is set.
    pub fn scrub_findings(&self) -> Option<ScrubFindings> {
        let scrubber = self.shared.scrubber.as_ref();
        scrubber.map(ScrubThread::findings)
    }

    /// Asks another member for HashKV at a revision (0: its newest). Returns `None` if it cannot
    /// be reached, or if this node has no network. The answer of a member of an older release
    /// never comes: the caller sets a time limit.
    pub async fn hash_kv_of(
        &self,
        member: u64,
        revision: i64,
    ) -> Option<Result<KeyValueHash, revisions::Error>> {
        let transport = self.shared.transport.as_ref()?;
        transport.hash_kv_of(member, revision).await
    }

    /// Sets where this member's figures come from, for members that ask: `gather` encodes them,
    /// in at most 64 KiB, on a blocking thread. Only the first call has an effect, and none for a
    /// node without a network.
    pub fn tell_figures(&self, gather: impl Fn() -> Bytes + Send + Sync + 'static) {
        if let Some(transport) = &self.shared.transport {
            transport.tell_figures(Arc::new(gather));
        }
    }

    /// Asks the other members for their figures, and waits for the answers for `patience` at
    /// most. Returns the newest ones that each member has told; empty for a node without a
    /// network. Members of an older release tell none.
    pub async fn figures_of_others(&self, patience: Duration) -> BTreeMap<u64, ToldFigures> {
        match &self.shared.transport {
            Some(transport) => transport.figures_of_others(patience).await,
            None => BTreeMap::new(),
        }
    }

    /// A channel that reports changes of the leader and the term, and of nothing else in the
    /// status; of several at once, the newest. It closes when the node ends.
    pub fn leadership(&self) -> watch::Receiver<Status> {
        self.shared.status.clone()
    }

    /// Reclaims all that is garbage now, while reads and writes continue.
    pub async fn defragment(&self) -> Result<(), Error> {
        self.shared.inbox.defragment().await
    }

    /// Finishes the requests that were taken, hands leadership to another member if this one
    /// leads, closes the log, releases the directory and ends the threads. Waits for other
    /// members half a second at most. Open watches end, and readers that are still held get an
    /// error for reads that need the log.
    pub fn stop(&self) {
        self.shared.stop();
    }
}

impl RunningNode {
    fn stop(&self) {
        if let Some(scrubber) = &self.scrubber {
            scrubber.stop();
        }
        self.inbox.stop();
        let mut thread = lock(&self.thread);
        if let Some(thread) = thread.take()
            && thread.join().is_err()
        {
            error!("the replica thread panicked; what it had acknowledged is in the log");
        }
        // Held until here: another thread that stops the node must not end the connections
        // while the replica runs on their thread.
        drop(thread);
        if let Some(flusher) = &self.flusher {
            flusher.stop();
        }
        if let Some(transport) = &self.transport {
            transport.stop();
        }
    }
}

impl Drop for RunningNode {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Refuses flushing in the background if writes are flushed before their answers, and a
/// limit of 0 entries.
fn check_flushing(options: &NodeOptions) -> Result<(), Error> {
    let durable = options.replica.machine.engine.log.durability == engine::Durability::Durable;
    match options.flushing {
        Some(_) if durable => Err(Error::InvalidOptions(
            "`flushing` is for `Durability::Os`: leave it out, or choose that".into(),
        )),
        Some(flushing) if flushing.entries_max == 0 => Err(Error::InvalidOptions(
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
    let start = |policy| {
        let (clock, engine) = (Arc::clone(&options.clock), reader.engine().clone());
        Flusher::start(policy, clock, engine, Arc::clone(inbox))
    };
    options.flushing.map(start).transpose()
}

/// Reports what the log has written to the inbox and to the flusher. A replica that writes
/// itself knows what it has written, and hears only of failures.
fn report_writes(
    reader: &Reader,
    inbox: &Arc<Inbox>,
    flusher: Option<&Flusher>,
    writes_itself: bool,
) {
    let inbox = Arc::clone(inbox);
    let window = flusher.map(|flusher| Arc::clone(&flusher.window));
    reader.engine().on_durable(Box::new(move |outcome| {
        if let (Ok(sequence), Some(window)) = (&outcome, &window) {
            window.written(*sequence);
        }
        if !writes_itself || outcome.is_err() {
            inbox.persisted(outcome.map_err(|error| error.to_string()));
        }
    }));
}

/// The work of the replica thread; and the handle with which callers run the replica
/// themselves, if they do.
fn work(
    driver: Driver,
    callers_run: bool,
    connections: Option<Arc<Transport>>,
) -> (Option<Arc<CallerRuns>>, Box<dyn FnOnce() + Send>) {
    if !callers_run {
        return (None, Box::new(move || driver.run(connections.as_deref())));
    }
    let runs = Arc::new(CallerRuns::new(driver));
    let desk = Arc::clone(&runs);
    (Some(desk), Box::new(move || runs.run()))
}

/// The seed of the member's randomness. It has to differ between the members of a cluster:
/// members with the same election delay would stand for election at the same time.
fn seed(options: &NodeOptions, has_others: bool) -> Result<u64, Error> {
    match options.seed {
        Some(seed) => Ok(seed),
        None if !has_others => Ok(0),
        None => match Random::from_system() {
            Ok(mut random) => Ok(random.next_u64()),
            Err(error) => Err(Error::System(format!(
                "no randomness from the kernel ({error}); set `seed`, differently on each member"
            ))),
        },
    }
}

fn another_answer() -> Error {
    Error::Raft("the leader has answered another question; run the same release everywhere".into())
}

/// Ends the watches when the replica thread ends. If the thread has panicked, it also ends
/// the inbox, so that no caller waits for it.
struct EndLatch {
    inbox: Arc<Inbox>,
    watches: Arc<WatchHub>,
}

impl Drop for EndLatch {
    fn drop(&mut self) {
        self.watches.close();
        if std::thread::panicking() {
            self.inbox.give_up();
        }
    }
}
