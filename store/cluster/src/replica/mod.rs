//! One member without threads, clock or network: the state machine, the log, the
//! consensus, and the requests that wait for them.
//!
//! ```text
//!   propose ──► open batch ──seal──► sealed ──► log, peers ──► committed ──► applied ──► answered
//!   (leader)    (evaluated)          (one at most)
//!   propose ──► forwarded to the leader ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─► answer, applied ──► answered
//!   (follower)
//!   read ─────► a round of confirmation ─────────────────────► index applied ────► answered
//! ```
//!
//! Inputs: [`Replica::propose`], [`Replica::read`], [`Replica::receive`],
//! [`Replica::tick`], [`Replica::persisted`], and [`Replica::run`], which carries
//! out the consequences of the other inputs and appends to the log. Output:
//! [`Replica::take_output`]. The same object runs in production and in
//! simulation.
//!
//! Invariants: batches are applied in the order of the log; an answer leaves
//! only after every batch that its evaluation could see is applied here, even
//! when the command itself wrote nothing; nothing is evaluated before the
//! leader has applied its own term's first entry; a leader that loses its
//! leadership drops what it has evaluated and not proposed.

mod again;
mod answer;
mod append_round;
mod apply;
mod batch;
mod commit;
mod damage;
mod forward;
mod health;
mod heard;
mod incoming;
mod lead;
mod leases;
mod outgoing;
mod promise;
mod receive;
mod removal;
mod returning;
mod room;
mod rounds;
mod settle;
mod transfer;
mod unchanged;

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use engine::{Commitment, Engine, Sequence};
use environment::{Clock, Disk, Instant};
use peers::Seldom;
use raft::eraftpb::MessageType;
use revisions::{Command, LeaseAnswer, Machine, Reader};

use crate::identity_files::{RemovalFile, refuse_removed};
use crate::peer_message::PeerMessage;
use crate::raft::consensus::{Consensus, Elections, Retention};
use crate::reads::Reads;
use crate::repair::with_others_help;
use crate::{CommandLimits, Error, Mutant, ReadAsker, ReadLease, ReadMode, Sender};

pub use answer::{Answer, Asker, Told};
pub use leases::LeaseAsker;

pub(crate) use incoming::Waker;

use again::Again;
use append_round::AppendRound;
use commit::Commit;
use forward::{Forwarded, Held};
use heard::Heard;
use incoming::Incoming;
use lead::Lead;
use leases::LeaseQuestions;
use outgoing::Outgoing;
use promise::Promise;
use removal::Leaving;
use returning::{Life, Lives, Returning};
use room::Alarming;
use rounds::Rounds;
use transfer::Transfer;
use unchanged::Unchanged;

/// Options of a replica.
#[derive(Debug)]
pub struct ReplicaOptions {
    /// The state machine's and the engine's options, with this member's id and the
    /// members of a new cluster.
    pub machine: revisions::Options,
    /// Time between two ticks of the consensus.
    pub heartbeat_interval: Duration,
    /// A member that has received nothing from a leader for this time may stand for election.
    pub election_timeout: Duration,
    /// Changes of the membership are refused while too few members are up.
    pub strict_reconfiguration: bool,
    /// Entries kept in the log for members that are behind.
    pub entries_kept_max: usize,
    /// The same limit in bytes; the smaller of the two holds.
    pub bytes_kept_max: u64,
    /// Approximate size of the pieces in which a snapshot is sent.
    pub snapshot_piece_bytes: usize,
    /// How a leader confirms that it still leads before it serves a read.
    pub read_mode: ReadMode,
    /// Limits on commands that other members forward to this one.
    pub command_limits: CommandLimits,
    /// Identifies the current start of the kernel, if it is known. With
    /// [`engine::Durability::Os`], a member that was not closed and finds a different value
    /// than in its last life may have lost the end of its log.
    pub boot: Option<String>,
    /// If the end of the log may be lost, the member takes what is left for the whole log
    /// and votes at once. An operator sets this, for one start.
    pub accept_lost_tail: bool,
    /// Seed of this member's randomness, such as its election delay between one and two
    /// election timeouts.
    pub seed: u64,
    /// A rule that this replica breaks, to test that the simulation detects it.
    #[doc(hidden)]
    pub mutant: Option<Mutant>,
}

/// What a replica has produced since [`Replica::take_output`] was called last.
#[derive(Debug, Default)]
pub struct Output {
    /// Messages for other members, each with its receiver's id.
    pub messages: Vec<(u64, PeerMessage)>,
    /// Answers to commands of local callers.
    pub answers: Vec<Answer>,
    /// Reads that may be served now, or that have failed.
    pub reads: Vec<(ReadAsker, Result<(), Error>)>,
    /// Answers to local questions about leases.
    pub leases: Vec<Told<LeaseAnswer>>,
    /// Outcomes of transfers of leadership.
    pub moves: Vec<Told<()>>,
    /// Snapshots to be sent; the owner of the replica has to run the senders.
    pub snapshots: Vec<Sender>,
}

/// One member.
pub struct Replica {
    member_id: u64,
    machine: Machine,
    engine: Engine,
    reader: Reader,
    consensus: Consensus,
    clock: Arc<dyn Clock>,
    lead: Lead,
    /// Id of the leader, as far as this member knows; 0 if it knows of none.
    leader: u64,
    heartbeat_interval: Duration,
    next_tick: Instant,
    /// How often this leader sent its heartbeats too late, since the start.
    late_heartbeats: u64,
    /// Time limit of requests that wait in the replica.
    patience: Duration,
    /// Answers of the open batch, in order of evaluation.
    open: Vec<Answer>,
    sealed: VecDeque<batch::Sealed>,
    commit: Commit,
    /// The replica's own commands that wait for room in a batch.
    due: VecDeque<Command>,
    /// Leases that ended because they were not renewed, since the start.
    leases_expired: u64,
    /// Answers of physical compactions that are applied and not swept.
    unswept: Vec<Answer>,
    /// Commands that need no room, from batches that were refused for lack of room, in
    /// order. They are evaluated again.
    spared: VecDeque<Answer>,
    reads: Reads,
    append_round: AppendRound,
    unchanged: Unchanged,
    forwarded: Forwarded,
    again: Again,
    alarming: Alarming,
    held: Held,
    lease_questions: LeaseQuestions,
    /// This member's promise to the leader that it heard last.
    promise: Promise,
    /// The promises of the voters to this member while it leads.
    rounds: Rounds,
    heard: Heard,
    transfer: Transfer,
    strict_reconfiguration: bool,
    command_limits: CommandLimits,
    warnings: Seldom,
    outgoing: Outgoing,
    incoming: Option<Incoming>,
    /// Index and revision of the last snapshot that was installed since the start.
    installed: Option<(u64, i64)>,
    waker: Waker,
    life: Life,
    /// Set while this member may lack entries that it has acknowledged.
    returning: Option<Returning>,
    /// The lives of the other members.
    lives: Lives,
    /// How often other members were asked for damaged values; chooses the next one.
    damage_asked: usize,
    removal_file: RemovalFile,
    /// Set when this member was removed while it led.
    leaving: Option<Leaving>,
    leaving_patience: Duration,
    output: Output,
    mutant: Option<Mutant>,
    /// Set by the first failure of the log; never cleared.
    failed: Option<Error>,
}

impl std::fmt::Debug for Replica {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Replica")
            .field("member_id", &self.member_id)
            .field("lead", &self.lead)
            .field("consensus", &self.consensus)
            .field("outgoing", &self.outgoing)
            .field("incoming", &self.incoming)
            .field("failed", &self.failed)
            .finish_non_exhaustive()
    }
}

impl Replica {
    /// Recovers the state in the directory. An empty directory begins a cluster of the
    /// members in the options; if the options name no members, the replica waits for a
    /// leader to send a snapshot, and does not stand for election until it has one.
    pub fn open(
        disk: Arc<dyn Disk>,
        directory: &Path,
        mut options: ReplicaOptions,
        clock: Arc<dyn Clock>,
    ) -> Result<Replica, Error> {
        assert_ne!(options.machine.member_id, 0, "0 is not a member's id");
        options.machine.engine.commitment = Commitment::Quorum;
        options.machine.engine.accepts_torn_frames =
            options.mutant == Some(Mutant::AcceptsATornTail);
        let machine = options.machine.clone();
        let open = || {
            let (disk, clock) = (Arc::clone(&disk), Arc::clone(&clock));
            Machine::open(disk, directory, machine.clone(), clock)
        };
        let opened = match open() {
            Err(error) if with_others_help(&error, &*disk, directory, &machine, &clock)? => open(),
            opened => opened,
        };
        let (machine, reader, recovered) = opened.map_err(Error::of_machine)?;
        let engine = reader.engine().clone();
        let members = reader.members();
        let member_id = lead::own_id(options.machine.member_id, &members)?;
        refuse_removed(&*disk, directory, member_id)?;
        let removal_file = RemovalFile::new(Arc::clone(&disk), directory);
        let members = lead::configuration(&members);
        let elections = elections(&options, member_id);
        let first_number = first_number(&options, recovered.opening);
        let opening = recovered.opening;
        let mut life = Life::new(disk, directory, &options, (opening, recovered.clean))?;
        if recovered.rebuilt {
            life.doubt();
        }
        let returning = returning::begin(&options, &life, recovered.hard_state.term);
        let retention = Retention {
            entries_max: options.entries_kept_max,
            bytes_max: options.bytes_kept_max,
        };
        let mut consensus =
            Consensus::start(elections, retention, engine.clone(), recovered, members)?;
        consensus.mutant = options.mutant;
        let now = clock.now();
        let mut promise = Promise::new(options.election_timeout, opening, now);
        if options.mutant == Some(Mutant::VotesAtOnceAfterARestart) {
            promise.forget();
        }
        let published = Arc::new(ReadLease::new(Arc::clone(&clock)));
        let mut replica = Replica {
            member_id,
            machine,
            engine,
            reader,
            consensus,
            clock,
            lead: Lead::No,
            leader: 0,
            heartbeat_interval: options.heartbeat_interval,
            next_tick: now + options.heartbeat_interval,
            late_heartbeats: 0,
            patience: Duration::from_secs(5) + options.election_timeout * 2,
            open: Vec::new(),
            sealed: VecDeque::new(),
            commit: Commit::default(),
            due: VecDeque::new(),
            leases_expired: 0,
            unswept: Vec::new(),
            spared: VecDeque::new(),
            reads: Reads::new(first_number),
            append_round: AppendRound::default(),
            unchanged: Unchanged::default(),
            forwarded: Forwarded::new(first_number),
            again: Again::default(),
            alarming: Alarming::default(),
            held: Held::default(),
            lease_questions: LeaseQuestions::new(first_number),
            promise,
            rounds: Rounds::new(options.read_mode, published),
            heard: Heard::new(options.election_timeout),
            transfer: Transfer::default(),
            strict_reconfiguration: options.strict_reconfiguration,
            command_limits: options.command_limits,
            warnings: Seldom::default(),
            outgoing: Outgoing::new(
                first_number,
                options.snapshot_piece_bytes,
                options.election_timeout,
            ),
            incoming: None,
            installed: None,
            waker: Arc::new(|| {}),
            life,
            returning,
            lives: Lives::new(options.seed.rotate_left(32), options.heartbeat_interval),
            damage_asked: 0,
            removal_file,
            leaving: None,
            leaving_patience: options.election_timeout * 2,
            output: Output::default(),
            mutant: options.mutant,
            failed: None,
        };
        replica.begin_returning()?;
        replica.stand_if_alone()?;
        Ok(replica)
    }

    /// Sets the function that is called when an import has progressed or a sweep can
    /// continue. The owner must then call [`Replica::run`] and [`Replica::upkeep`].
    pub(crate) fn wake_with(&mut self, waker: Waker) {
        let for_sweeps = Arc::clone(&waker);
        self.engine.on_hold_dropped(Box::new(move || for_sweeps()));
        self.waker = waker;
    }

    /// From now on [`Replica::run`] itself writes what it appends and continues with the
    /// result at once. For a log without a writing thread of its own ([`engine::Worker`]).
    pub(crate) fn write_itself(&mut self) {
        self.consensus.write_itself();
    }

    /// A reader of the applied state.
    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    /// Whether a compaction's sweep is under way. Then [`Replica::upkeep`] should be
    /// called without pauses.
    pub fn is_sweeping(&self) -> bool {
        self.machine.is_sweeping()
    }

    /// Whether the next call of [`Replica::upkeep`] can do some work without waiting for
    /// another thread.
    pub fn has_upkeep_to_do(&self) -> bool {
        self.machine.has_upkeep_to_do()
    }

    /// Whether a batch of more than `changes_max` changes is open or waits to be applied.
    pub fn has_a_batch_above(&self, changes_max: usize) -> bool {
        self.machine.open_changes() > changes_max || self.consensus.has_a_batch_above(changes_max)
    }

    /// Makes the next calls of [`Replica::upkeep`] reclaim everything that is garbage now.
    pub fn begin_defragmentation(&mut self) {
        self.machine.begin_defragmentation();
    }

    /// Whether garbage is left that [`Replica::begin_defragmentation`] asked to reclaim; false
    /// after a failed call of [`Replica::upkeep`].
    pub fn is_defragmenting(&self) -> bool {
        self.machine.is_defragmenting()
    }

    pub fn machine(&mut self) -> &mut Machine {
        &mut self.machine
    }

    /// Reports to `asker` when a read of [`Replica::reader`] sees everything that was
    /// acknowledged before this call.
    pub fn read(&mut self, asker: ReadAsker) {
        match self.failed.clone() {
            Some(error) => self.end_read(asker, &error),
            None => self.reads.add(asker, self.clock.now() + self.patience),
        }
    }

    /// Ends a read at a member that has failed and confirms nothing any more. If this
    /// member is the only voter and its log has failed, the read is served: no other member
    /// can have acknowledged more than is applied here.
    fn end_read(&mut self, asker: ReadAsker, error: &Error) {
        let raft = self.consensus.raft();
        let alone = raft.prs().is_singleton() && raft.promotable();
        let outcome = match error {
            Error::LogFailed { .. } if alone => Ok(()),
            _ => Err(error.clone()),
        };
        self.output.reads.push((asker, outcome));
    }

    /// Reports members to which nothing can be sent at present.
    pub fn unreachable(&mut self, members: &[u64]) {
        for &member in members {
            self.consensus.unreachable(member);
        }
    }

    /// Takes the result of a flush: the last sequence that is durable, or why the log failed.
    pub fn persisted(&mut self, outcome: Result<Sequence, String>) {
        match outcome {
            Ok(sequence) => {
                self.consensus.persisted(sequence);
            }
            Err(reason) => self.fail(Error::LogFailed { reason }),
        }
    }

    /// Does what is due by the clock: heartbeats, elections, expiry of leases, and time
    /// limits of requests.
    pub fn tick(&mut self) {
        let now = self.clock.now();
        // A long pause counts as one tick: this member received nothing during the
        // pause because it did not run.
        if now >= self.next_tick {
            // etcd's rule: more than twice the interval has passed since the last heartbeats.
            let late = now > self.next_tick + self.heartbeat_interval;
            self.late_heartbeats += u64::from(late && self.has_followers());
            self.next_tick = now + self.heartbeat_interval;
            if self.failed.is_none() {
                self.tick_consensus(now);
            }
            self.expire_leases(now);
            self.give_up(now);
        }
    }

    fn tick_consensus(&mut self, now: Instant) {
        if self.may_stand() {
            self.consensus.tick();
        } else {
            self.consensus.tick_without_standing();
        }
        self.ask_voters(now);
        self.ask_for_damaged();
    }

    /// Carries out the consequences of the inputs since the last call. A failure ends the
    /// replica, see [`Replica::failure`].
    pub fn run(&mut self) {
        if let Err(error) = self.try_run() {
            // The Raft library counts on what the log has refused here, and so may
            // the messages that were to be sent.
            self.output.messages.clear();
            let reason = error.to_string();
            self.fail(Error::LogFailed { reason });
        }
    }

    fn try_run(&mut self) -> Result<(), Error> {
        if self.failed.is_some() {
            return Ok(());
        }
        self.settle()?;
        self.tend_return();
        self.tend_import()?;
        self.tend_transfers();
        self.export_wanted();
        self.watch_quota();
        self.try_again();
        self.evaluate_held();
        self.append()?;
        self.start_transfer();
        self.pass_on_lease_questions();
        self.start_reads();
        self.settle()?;
        if self.pass_on_commit() {
            self.settle()?;
        }
        self.leave()
    }

    fn send_raft(&mut self, mut message: raft::eraftpb::Message) {
        self.stamp(&mut message);
        self.consensus.hold_back(&mut message);
        if message.get_msg_type() == MessageType::MsgSnapshot {
            return self.send_snapshot(message);
        }
        let to = message.to;
        self.output.messages.push((to, PeerMessage::Raft(message)));
    }

    fn breaks(&self, rule: Mutant) -> bool {
        self.mutant == Some(rule)
    }

    /// The error that has ended the replica, if it has ended: it writes nothing any more.
    pub fn failure(&self) -> Option<&Error> {
        self.failed.as_ref()
    }

    /// Does one step of checkpointing, sweeping or reclaim, if one is due.
    pub fn upkeep(&mut self) -> Result<(), Error> {
        let needed_from = self.needed_from();
        let kept = self
            .consensus
            .trim(self.engine.applied_index(), needed_from);
        self.machine.keep_entries(kept.as_ref());
        let outcome = self.machine.maintain();
        self.release_swept();
        outcome.map_err(Error::of_machine)
    }

    /// Takes all messages and answers that have gathered, in order.
    pub fn take_output(&mut self) -> Output {
        self.send_lease_answers();
        std::mem::take(&mut self.output)
    }

    /// Ends the replica because the log has failed or the node stops. Every request that is
    /// not applied, now or later, is answered with the first such error.
    pub fn fail(&mut self, error: Error) {
        let error = self.failed.get_or_insert(error).clone();
        if matches!(error, Error::LogFailed { .. }) {
            self.life.may_lack_its_end();
        }
        self.due.clear();
        let sealed = self.sealed.drain(..).flat_map(|sealed| sealed.answers);
        let waiting = sealed
            .chain(self.open.drain(..))
            .chain(self.spared.drain(..));
        let waiting = waiting.chain(self.forwarded.take_waiting());
        let waiting = waiting.chain(self.held.take_all());
        let waiting = waiting.chain(self.unchanged.take_all());
        let failed: Vec<Answer> = waiting.map(|answer| answer.failed(&error)).collect();
        self.output.answers.extend(failed);
        let asking = self.take_forwarded().into_iter();
        for to in asking.chain(self.again.take_all()) {
            let failed = Answer::new(to, Err(error.clone()));
            self.output.answers.push(failed);
        }
        self.fail_lease_questions(&error);
        for answer in self.transfer.take_waiting() {
            self.output.moves.push((answer, Err(error.clone())));
        }
        for asker in self.reads.take_all() {
            self.end_read(asker, &error);
        }
        self.end_transfers("the member has stopped");
        self.incoming = None;
        // No lease is renewed or revoked here any more; `demote` reports that to the waiters.
        self.lead = Lead::No;
        self.rounds.withdraw();
        self.machine.demote();
    }
}

/// The number below this life's questions to other members. No other life of this
/// member uses the same numbers.
fn first_number(options: &ReplicaOptions, opening: u32) -> u64 {
    if options.mutant == Some(Mutant::NumbersFromOneInEachLife) {
        return 0;
    }
    u64::from(opening) << 32
}

fn elections(options: &ReplicaOptions, member_id: u64) -> Elections {
    let heartbeat = options.heartbeat_interval.as_nanos().max(1);
    let ticks = options
        .election_timeout
        .as_nanos()
        .div_ceil(heartbeat)
        .max(2) as usize;
    let mut random = environment::randomness::Random::from_seed(options.seed);
    Elections {
        member_id,
        // The first tick may come right after a leader's message. One more tick makes
        // sure that at least the election timeout has passed.
        patience_ticks: ticks + 1 + random.below(ticks as u64) as usize,
        election_ticks: ticks,
        heartbeat_ticks: 1,
    }
}

#[cfg(test)]
mod heard_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod waiting_tests;
