//! One member without threads, clock or network: the state machine, the log and
//! the consensus, and what people wait for.
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
//! [`Replica::tick`], [`Replica::persisted`], and [`Replica::run`], which does
//! what the inputs brought about and appends to the log. Output:
//! [`Replica::take_output`]. The same object runs in production and in
//! simulation.
//!
//! Invariants: batches are applied in the order of the log; an answer leaves
//! only after every batch that its evaluation could see is applied here, even
//! when the command itself wrote nothing; nothing is evaluated before the
//! leader has applied its own term's first entry, and all that was evaluated
//! and not committed is dropped with the lead.

mod again;
mod answer;
mod append_round;
mod apply;
mod batch;
mod commit;
mod damage;
mod forward;
mod heard;
mod hitches;
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

use crate::peer_message::PeerMessage;
use crate::raft::consensus::{Consensus, Elections, Retention};
use crate::reads::Reads;
use crate::removal_file::{RemovalFile, refuse_removed};
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

/// What a replica is started with.
#[derive(Debug)]
pub struct ReplicaOptions {
    /// The state machine's and the engine's options: who this is, and who
    /// belongs to a new cluster.
    pub machine: revisions::Options,
    /// Between two ticks of the consensus.
    pub heartbeat_interval: Duration,
    /// Without word from a leader for so long, members may stand for election.
    pub election_timeout: Duration,
    /// Changes of the membership are refused while too few members are up.
    pub strict_reconfiguration: bool,
    /// Entries kept in the log for members that are behind.
    pub entries_kept_max: usize,
    /// The same in bytes, whichever is less.
    pub bytes_kept_max: u64,
    /// Bytes of a snapshot's pieces, about.
    pub snapshot_piece_bytes: usize,
    /// How a leader makes sure of its lead before a read.
    pub read_mode: ReadMode,
    /// What commands of other members are held to.
    pub command_limits: CommandLimits,
    /// What tells this start of the kernel from others, if that is known: with
    /// [`engine::Durability::Os`] a member that finds another one may have lost the end
    /// of its log.
    pub boot: Option<String>,
    /// Where the end of the log may be lost, what is left is all there is: for one
    /// start, when somebody has decided so.
    pub accept_lost_tail: bool,
    /// Draws this member's own patience, from one to two election timeouts.
    pub seed: u64,
    /// A rule to break, for the simulation's own tests.
    #[doc(hidden)]
    pub mutant: Option<Mutant>,
}

/// What a replica has to say.
#[derive(Debug, Default)]
pub struct Output {
    /// To other members.
    pub messages: Vec<(u64, PeerMessage)>,
    /// To those who asked.
    pub answers: Vec<Answer>,
    /// Reads that may be served now, or never.
    pub reads: Vec<(ReadAsker, Result<(), Error>)>,
    /// What is known of leases.
    pub leases: Vec<Told<LeaseAnswer>>,
    /// How the lead's moves went.
    pub moves: Vec<Told<()>>,
    /// Snapshots to be sent: somebody has to run them.
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
    /// Who leads, as far as this member knows; 0: nobody.
    leader: u64,
    heartbeat_interval: Duration,
    next_tick: Instant,
    /// Times that a leader's heartbeats came later than they should, since the start.
    late_heartbeats: u64,
    /// After so long nobody waits any more.
    patience: Duration,
    /// Answers of the open batch, in order of evaluation.
    open: Vec<Answer>,
    sealed: VecDeque<batch::Sealed>,
    commit: Commit,
    /// The replica's own commands that wait for room in a batch.
    due: VecDeque<Command>,
    /// Leases ended because nobody renewed them, since the start.
    leases_expired: u64,
    /// Of physical compactions that are applied and not swept.
    unswept: Vec<Answer>,
    /// Of batches refused for want of room: what needs none, in order.
    spared: VecDeque<Answer>,
    reads: Reads,
    append_round: AppendRound,
    /// What was evaluated and changes nothing.
    unchanged: Unchanged,
    forwarded: Forwarded,
    again: Again,
    alarming: Alarming,
    held: Held,
    lease_questions: LeaseQuestions,
    /// To leaders that were heard.
    promise: Promise,
    /// Of voters, to this member.
    rounds: Rounds,
    heard: Heard,
    transfer: Transfer,
    strict_reconfiguration: bool,
    command_limits: CommandLimits,
    warnings: Seldom,
    outgoing: Outgoing,
    incoming: Option<Incoming>,
    /// Index and revision of the last snapshot that was installed in this life.
    installed: Option<(u64, i64)>,
    waker: Waker,
    life: Life,
    /// This member may lack what it has acknowledged.
    returning: Option<Returning>,
    /// Of the other members.
    lives: Lives,
    /// Times that other members were asked for damaged values: whose turn it is.
    damage_asked: usize,
    removal_file: RemovalFile,
    /// This member was removed while it led.
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
    /// Recovers what the directory holds. A directory that holds nothing begins
    /// a cluster of the members in the options; without any, it waits for a leader
    /// to send a snapshot, and does not stand for election until it has one.
    pub fn open(
        disk: Arc<dyn Disk>,
        directory: &Path,
        mut options: ReplicaOptions,
        clock: Arc<dyn Clock>,
    ) -> Result<Replica, Error> {
        assert_ne!(options.machine.member_id, 0, "0 is nobody's id");
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
        let (machine, reader, recovered) =
            opened.map_err(|error| Error::Storage(error.to_string()))?;
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

    /// Whom to tell that an import has got on, or that a sweep may:
    /// [`Replica::run`] and [`Replica::upkeep`] want to be called then.
    pub(crate) fn wake_with(&mut self, waker: Waker) {
        let for_sweeps = Arc::clone(&waker);
        self.engine.on_let_go(Box::new(move || for_sweeps()));
        self.waker = waker;
    }

    /// From now on [`Replica::run`] writes what it appends, on a log that its callers
    /// work for, and goes on with that at once.
    pub(crate) fn write_itself(&mut self) {
        self.consensus.write_itself();
    }

    /// Reads of what is applied.
    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    /// Whether a compaction's sweep is under way: steps of upkeep should follow
    /// each other.
    pub fn is_sweeping(&self) -> bool {
        self.machine.is_sweeping()
    }

    /// Whether the next step of upkeep gets on with something, and need not wait
    /// for a thread to end.
    pub fn has_upkeep_to_do(&self) -> bool {
        self.machine.has_upkeep_to_do()
    }

    /// A batch of more changes than this is evaluated or waits to be applied.
    pub fn has_a_batch_above(&self, changes_max: usize) -> bool {
        self.machine.open_changes() > changes_max || self.consensus.has_a_batch_above(changes_max)
    }

    /// Has the steps of upkeep reclaim all that is garbage at this moment.
    pub fn begin_defragmentation(&mut self) {
        self.machine.begin_defragmentation();
    }

    /// Whether such garbage is left; false after a step that has failed.
    pub fn is_defragmenting(&self) -> bool {
        self.machine.is_defragmenting()
    }

    /// The state machine.
    pub fn machine(&mut self) -> &mut Machine {
        &mut self.machine
    }

    /// Wants to know when a read of [`Replica::reader`] sees everything that
    /// was acknowledged before this.
    pub fn read(&mut self, asker: ReadAsker) {
        match self.failed.clone() {
            Some(error) => self.end_read(asker, &error),
            None => self.reads.add(asker, self.clock.now() + self.patience),
        }
    }

    /// A read at a member that has failed: nothing will be confirmed any more. Where
    /// nobody else votes, nobody has acknowledged more than is applied here.
    fn end_read(&mut self, asker: ReadAsker, error: &Error) {
        let raft = self.consensus.raft();
        let alone = raft.prs().is_singleton() && raft.promotable();
        let outcome = match error {
            Error::LogFailed { .. } if alone => Ok(()),
            _ => Err(error.clone()),
        };
        self.output.reads.push((asker, outcome));
    }

    /// Nothing can be sent to these members at present.
    pub fn unreachable(&mut self, members: &[u64]) {
        for &member in members {
            self.consensus.unreachable(member);
        }
    }

    /// The flush thread's word.
    pub fn persisted(&mut self, outcome: Result<Sequence, String>) {
        match outcome {
            Ok(sequence) => {
                self.consensus.persisted(sequence);
            }
            Err(reason) => self.fail(Error::LogFailed { reason }),
        }
    }

    /// Looks at the clock: heartbeats, elections, leases, patience.
    pub fn tick(&mut self) {
        let now = self.clock.now();
        // A long pause is one tick, not many: nobody was heard meanwhile
        // because nobody listened.
        if now >= self.next_tick {
            // As etcd counts it: twice the interval since the last ones, and more.
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
        self.ask_around(now);
        self.ask_for_damaged();
    }

    /// Does what the inputs have brought about.
    pub fn run(&mut self) {
        if let Err(error) = self.try_run() {
            // What the log refuses here was promised to the library. What is to be
            // sent may count on it.
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

    /// Why nothing is written any more, if that is so.
    pub fn failure(&self) -> Option<&Error> {
        self.failed.as_ref()
    }

    /// A step of checkpointing, sweeping and reclaim, when due.
    pub fn upkeep(&mut self) -> Result<(), Error> {
        let needed_from = self.needed_from();
        let kept = self
            .consensus
            .trim(self.engine.applied_index(), needed_from);
        self.machine.keep_entries(kept.as_ref());
        let outcome = self.machine.maintain();
        self.release_swept();
        outcome.map_err(|error| Error::Storage(error.to_string()))
    }

    /// What is to be sent and answered, in order.
    pub fn take_output(&mut self) -> Output {
        self.send_lease_answers();
        std::mem::take(&mut self.output)
    }

    /// The log has failed, or the node stops: nothing that is not applied will
    /// be answered with anything but `error`, now or later.
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
        // Nobody will be renewed or revoked here: who waits for it is told.
        self.lead = Lead::No;
        self.rounds.withdraw();
        self.machine.demote();
    }
}

/// Questions to other members are numbered from here: no other life's are.
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
        // The first tick may follow a leader's word at once: with one more, at
        // least the election timeout has passed.
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
