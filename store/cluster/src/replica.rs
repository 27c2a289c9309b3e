//! One member without threads, clock or network: the state machine, the log, the
//! consensus, and the requests that wait for them.
//!
//! ```text
//!   propose ──► open batch ──seal──► in flight ──► log, peers ──► committed ──► applied ──► answered
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
//! ```text
//!   Replica ─┬─ core        what all roles share: state machine, log, consensus, clock, output
//!            ├─ role        what only a leader has; dropped with the role. What waited in it
//!            │              is collected in one place (`Replica::end_role`), to be answered
//!            ├─ requests    what waits in every role: batches in flight, reads, forwarded
//!            │              commands, requests about leases, transfers of leadership
//!            ├─ vote_lease, leader_lease   what this member has promised to a leader, and what
//!            │              voters have promised to this one
//!            ├─ room, damage   whether the log has room; damaged values that wait for a repair
//!            ├─ agreement   the comparison of the members' states
//!            ├─ rejoin      what a member does that may lack the tail of its log
//!            └─ snapshots   sending them, receiving one
//! ```
//!
//! Invariants: batches are applied in the order of the log; an answer leaves
//! only after every batch that its evaluation could see is applied here, even
//! when the command itself wrote nothing; nothing is evaluated before the
//! leader has applied its own term's first entry; a leader that loses its
//! leadership drops what it has evaluated and not proposed.

mod agreement;
mod answer;
mod append_round;
mod commit_broadcast;
mod damage;
mod forwards;
mod held;
mod leader;
mod leader_lease;
mod leases;
mod membership;
mod messages;
mod options;
mod progress;
mod reads;
mod rejoin;
mod removal;
mod replica_core;
mod requests;
mod retries;
mod role;
mod room;
mod snapshot_receive;
mod snapshot_send;
mod status;
mod transfer;
mod vote_lease;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use engine::{Commitment, Sequence};
use environment::{Clock, Disk, Instant};
use peers::LimitedWarnings;
use raft::StateRole;
use revisions::{Command, LeaseRequest, Machine};

use crate::awaited::{Awaited, CanWait};
use crate::identity_files::{RemovalFile, refuse_removed};
use crate::peer_message::PeerMessage;
use crate::raft::consensus::{Consensus, ReadyResults};
use crate::raft::log_writer::AppendedEntry;
use crate::repair::with_others_help;
use crate::{EntryId, Error, Mutant, ReadLease, mutant};

pub use agreement::Agreements;
pub use answer::{Replies, Reply, ReplySender};
pub use options::ReplicaOptions;
pub use progress::MemberProgress;
pub use replica_core::Output;
pub use snapshot_receive::Installed;

pub(crate) use snapshot_receive::Waker;

use agreement::Agreement;
use answer::{Answer, Requester, leader_changed, timeout};
use commit_broadcast::CommitBroadcast;
use damage::DamageRepair;
use leader::Leader;
use leader_lease::LeaderLease;
use leases::LeaseRequester;
use reads::ReadRequester;
use rejoin::{Incarnation, Rejoin};
use replica_core::Core;
use requests::{Requests, end_read};
use retries::{Asked, Retry};
use role::{Leaving, Role};
use room::Room;
use snapshot_receive::SnapshotReceiving;
use snapshot_send::SnapshotSending;
use vote_lease::VoteLease;

/// One member.
pub struct Replica {
    core: Core,
    role: Role,
    requests: Requests,
    /// The promises of the voters to this member while it leads.
    leader_lease: LeaderLease,
    /// This member's promise to the leader that it heard last.
    vote_lease: VoteLease,
    rejoin: Rejoin,
    sending: SnapshotSending,
    receiving: SnapshotReceiving,
    room: Room,
    damage: DamageRepair,
    agreement: Agreement,
    removal_file: RemovalFile,
    /// When the consensus gets its next tick.
    next_tick: Instant,
    /// How often this leader sent its heartbeats too late, since the start.
    late_heartbeats: u64,
}

impl std::fmt::Debug for Replica {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Replica")
            .field("member_id", &self.core.member_id)
            .field("role", &self.role)
            .field("consensus", &self.core.consensus)
            .field("failed", &self.core.failed)
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
        assert!(options.snapshot_piece_bytes > 0, "pieces have bytes");
        options.machine.engine.commitment = Commitment::Quorum;
        options.machine.engine.log.accepts_torn_frames =
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
        let members = reader.members();
        let member_id = membership::own_id(options.machine.member_id, &members)?;
        refuse_removed(&*disk, directory, member_id)?;
        let removal_file = RemovalFile::new(Arc::clone(&disk), directory);
        let opening = recovered.opening;
        let incarnation = Incarnation::new(disk, directory, &options, &recovered)?;
        let rejoin = Rejoin::new(&options, incarnation, recovered.hard_state.term);
        let consensus = Consensus::start(
            member_id,
            &options,
            reader.engine().clone(),
            recovered,
            membership::configuration(&members),
        )?;
        let now = clock.now();
        let next_tick = now + options.heartbeat_interval;
        let mut vote_lease = VoteLease::new(options.election_timeout, opening, now);
        if options.mutant == Some(Mutant::VotesAtOnceAfterARestart) {
            vote_lease.forget();
        }
        let published = Arc::new(ReadLease::new(Arc::clone(&clock)));
        let first_number = options.first_number(opening);
        let core = Core {
            member_id,
            machine,
            reader,
            consensus,
            clock,
            options,
            leader: 0,
            last_heard: BTreeMap::new(),
            output: Output::default(),
            unswept: Vec::new(),
            commit: CommitBroadcast::default(),
            commit_awaited: 0,
            leases_expired: 0,
            failed: None,
            warnings: LimitedWarnings::default(),
        };
        let mut replica = Replica {
            core,
            role: Role::Follower,
            requests: Requests::new(first_number),
            leader_lease: LeaderLease::new(published),
            vote_lease,
            rejoin,
            sending: SnapshotSending::new(first_number),
            receiving: SnapshotReceiving::default(),
            room: Room::default(),
            damage: DamageRepair::default(),
            agreement: Agreement::default(),
            removal_file,
            next_tick,
            late_heartbeats: 0,
        };
        replica.rejoin.begin(&mut replica.core)?;
        if replica.core.voters() == [member_id] {
            replica.core.consensus.campaign()?;
        }
        Ok(replica)
    }

    /// Sets the function that is called when an import has progressed or a sweep can
    /// continue. The owner must then call [`Replica::run`] and [`Replica::upkeep`].
    pub(crate) fn wake_with(&mut self, waker: Waker) {
        let for_sweeps = Arc::clone(&waker);
        let engine = self.core.engine();
        engine.on_hold_dropped(Box::new(move || for_sweeps()));
        self.receiving.waker = Some(waker);
    }

    /// From now on [`Replica::run`] itself writes what it appends and continues with the
    /// result at once. For a log without a writing thread of its own ([`engine::Worker`]).
    pub(crate) fn write_itself(&mut self) {
        self.core.consensus.writes_itself = true;
    }

    /// Whether [`Replica::propose`] can take the command now: a leader is known, and if
    /// this member leads, its open batch has room. True also after a failure, when
    /// [`Replica::propose`] answers with the error.
    pub fn takes(&self, command: &Command) -> bool {
        if self.core.failed.is_some() {
            return true;
        }
        match self.role.leader() {
            Some(leader) => leader.takes(&self.core, command),
            None => self.core.leader != 0,
        }
    }

    /// Evaluates a command into the open batch, or forwards it to the leader. Returns false
    /// if it was refused at once.
    ///
    /// # Panics
    ///
    /// If [`Replica::takes`] returns false.
    pub fn propose(&mut self, command: &Command, to: ReplySender<revisions::Response>) -> bool {
        let to = Requester::Local(to);
        if let Some(error) = &self.core.failed {
            let error = error.clone();
            self.core.send_error(to, error);
            return false;
        }
        assert!(
            self.takes(command),
            "the caller has asked `takes`, and this command cannot be taken now: {command:?}"
        );
        self.evaluate_or_forward(command, to)
    }

    fn evaluate_or_forward(&mut self, command: &Command, to: Requester) -> bool {
        let (core, requests) = (&mut self.core, &mut self.requests);
        if let Role::Leader(leader) = &mut self.role {
            return leader.evaluate(core, requests, command, to);
        }
        let forwards = &mut requests.forwards;
        if let Some(refused) = self.room.refusal(core, forwards, command) {
            core.send_error(to, refused);
            return false;
        }
        forwards.send(core, command, to);
        true
    }

    /// Evaluates commands again that need no room and were in a batch that was refused for lack
    /// of room.
    pub fn reevaluate(&mut self) {
        if let Role::Leader(leader) = &mut self.role {
            leader.reevaluate(&mut self.core, &mut self.requests);
        }
    }

    /// Reports to `requester` when a read of [`Replica::reader`] sees everything that was
    /// acknowledged before this call.
    pub fn read(&mut self, requester: ReplySender<()>) {
        self.add_read(ReadRequester::Local(requester));
    }

    fn add_read(&mut self, requester: ReadRequester) {
        match self.core.failed.clone() {
            Some(error) => end_read(&mut self.core, requester, &error),
            None => self.requests.reads.add(requester, self.core.deadline()),
        }
    }

    /// Takes a question about a lease. The leader, here or at another member, answers it.
    pub fn ask_lease(
        &mut self,
        question: LeaseRequest,
        requester: ReplySender<revisions::LeaseResponse>,
    ) {
        let requester = LeaseRequester::Local(requester);
        let leases = &mut self.requests.leases;
        match self.core.failed.clone() {
            Some(error) => leases.answer(&mut self.core, requester, Err(error)),
            None => leases.ask(&self.core, question, requester),
        }
    }

    /// The members and how far they are; empty unless this member leads.
    pub fn members_progress(&self) -> Vec<MemberProgress> {
        if !self.core.holds_leadership() {
            return Vec::new();
        }
        let members = self.core.raft().prs().iter();
        let progress = members.map(|(&member, progress)| MemberProgress {
            member,
            matched_index: progress.matched,
        });
        progress.collect()
    }

    /// Hands leadership to member `to`, and answers when that member leads or the transfer has
    /// failed.
    pub fn transfer_leadership(&mut self, to: u64, caller: ReplySender<()>) {
        let core = &mut self.core;
        let leader = match (&core.failed, &mut self.role) {
            (Some(error), _) => {
                let error = error.clone();
                return core.reply(caller, Err(error));
            }
            (None, Role::Leader(leader)) if core.is_raft_leader() => leader,
            (None, _) => {
                let refused = Error::Refused(etcd_api::Error::NotLeader.into());
                return core.reply(caller, Err(refused));
            }
        };
        match transfer::is_needed(core, to) {
            Ok(true) => {
                leader.successor = Some(to);
                self.requests.transfers.wait(core, to, caller);
            }
            outcome => core.reply(caller, outcome.map(|_| ())),
        }
    }

    /// Begins to hand leadership to another voter, before this member stops: to the one with
    /// most of the log of those that sent a message lately. To be called until
    /// [`Replica::is_handed_over`] is true.
    pub fn hand_over(&mut self) {
        if let Role::Leader(leader) = &mut self.role {
            leader.hand_over(&self.core);
        }
    }

    /// Reports members to which nothing can be sent at present.
    pub fn unreachable(&mut self, members: &[u64]) {
        for &member in members {
            self.core.consensus.node.report_unreachable(member);
        }
    }

    /// Takes the result of a flush: the last sequence that is durable, or why the log failed.
    pub fn persisted(&mut self, outcome: Result<Sequence, String>) {
        match outcome {
            Ok(sequence) => {
                self.core.consensus.log.persisted(sequence);
            }
            Err(reason) => self.fail(Error::LogFailed { reason }),
        }
    }

    /// Does what is due by the clock: heartbeats, elections, expiry of leases, and time
    /// limits of requests.
    pub fn tick(&mut self) {
        let now = self.core.now();
        let interval = self.core.options.heartbeat_interval;
        // A long pause counts as one tick: this member received nothing during the
        // pause because it did not run.
        if now < self.next_tick {
            return;
        }
        // etcd's rule: more than twice the interval has passed since the last heartbeats.
        let late = now > self.next_tick + interval;
        self.late_heartbeats += u64::from(late && self.has_followers());
        self.next_tick = now + interval;
        if self.core.failed.is_none() {
            self.tick_consensus(now);
            self.compare_states();
        }
        if let Role::Leader(leader) = &mut self.role {
            leader.expire_leases(&mut self.core, now);
        }
        self.end_late(now);
    }

    fn tick_consensus(&mut self, now: Instant) {
        if self.rejoin.may_stand(&self.core) {
            self.core.consensus.node.tick();
        } else {
            self.core.consensus.tick_without_standing();
        }
        self.rejoin.ask_voters(&mut self.core, now);
        self.damage.ask(&mut self.core);
    }

    /// Compares the states of the members, and raises alarms for those that differ.
    fn compare_states(&mut self) {
        let leads = self.has_followers();
        for alarm in self.agreement.tick(&mut self.core, leads) {
            // An alarm that cannot be raised now is raised later: its reason stays.
            if self.takes(&alarm) {
                self.evaluate_or_forward(&alarm, Requester::Internal);
            }
        }
    }

    /// Answers every request that has reached its time limit.
    fn end_late(&mut self, now: Instant) {
        let unchanged = self.requests.end_late(&mut self.core, now);
        if let Role::Leader(leader) = &mut self.role {
            for read in unchanged {
                leader.fail_unchanged(&mut self.core, read, &timeout());
            }
        }
    }

    /// Carries out the consequences of the inputs since the last call. A failure ends the
    /// replica, see [`Replica::failure`].
    pub fn run(&mut self) {
        if let Err(error) = self.try_run() {
            // The Raft library counts on what the log has refused here, and so may
            // the messages that were to be sent.
            self.core.output.messages.clear();
            let reason = error.to_string();
            self.fail(Error::LogFailed { reason });
        }
    }

    fn try_run(&mut self) -> Result<(), Error> {
        if self.core.failed.is_some() {
            return Ok(());
        }
        self.process_ready()?;
        self.rejoin.tend(&self.core);
        self.tend_import()?;
        self.sending.tend(&mut self.core);
        self.sending.export_wanted(&mut self.core);
        let forwards = &mut self.requests.forwards;
        let leads = self.role.is_leader();
        self.room.watch_quota(&mut self.core, leads, forwards);
        self.try_again();
        if let Role::Leader(leader) = &mut self.role {
            leader.evaluate_held(&mut self.core, &mut self.requests);
            leader.append(&mut self.core, &mut self.requests, &mut self.room)?;
            leader.start_transfer(&mut self.core);
        }
        if !self.role.is_catching_up() {
            let Requests { leases, reads, .. } = &mut self.requests;
            leases.pass_on(&mut self.core, self.role.is_ready(), reads);
        }
        self.start_reads();
        self.process_ready()?;
        self.agreement.answer_if_reached(&mut self.core);
        if self.core.send_commit_if_due() {
            self.process_ready()?;
        }
        self.leave()
    }

    /// Processes what the consensus has ready, until it has no more: sends messages, applies
    /// entries, confirms reads.
    fn process_ready(&mut self) -> Result<(), Error> {
        loop {
            self.process_written()?;
            if !self.core.consensus.write_own() {
                self.leader_lease.publish(&self.core, self.role.is_ready());
                return Ok(());
            }
        }
    }

    fn process_written(&mut self) -> Result<(), Error> {
        loop {
            let mut results = ReadyResults::default();
            self.core.consensus.advance(&mut results)?;
            let more = !results.committed.is_empty();
            for message in results.messages {
                self.send_raft(message);
            }
            for committed in results.committed {
                self.core.consensus.remember_before_it_shows(&committed)?;
                self.apply(committed)?;
            }
            for read in results.reads {
                self.requests.reads.confirm(read.round, read.index);
            }
            self.observe_role();
            self.release_reads();
            self.requests.leases.retry_run_out(&mut self.core);
            if !more {
                return Ok(());
            }
        }
    }

    /// Applies a committed entry, and releases the answers that waited for it.
    fn apply(&mut self, mut committed: AppendedEntry) -> Result<(), Error> {
        let core = &mut self.core;
        let index = committed.batch.index;
        if core.breaks(Mutant::AppliesAnotherValue) && index.is_multiple_of(16) {
            mutant::change_a_value(&mut committed.batch);
        }
        let entry = EntryId::new(committed.batch.term, index);
        let body = match committed.changes_configuration {
            true => Some(core.consensus.body(index)?),
            false => None,
        };
        self.room.has_written |= committed.batch.keys().any(|change| !change.tombstone);
        if !core.breaks(Mutant::SkipsAnEntry) || !index.is_multiple_of(64) {
            core.machine.apply(committed.batch, committed.appended);
        }
        core.consensus.applied(index, body.as_ref())?;
        if body.is_some() {
            self.leader_lease.restart(core.now());
        }
        self.answer_in_flight(entry);
        self.requests.forwards.release(&mut self.core, index);
        if body.is_some() {
            self.look_for_removals(index);
        }
        Ok(())
    }

    /// Answers the commands of the batches in flight that are applied with this entry, or that
    /// another leader's entry has replaced.
    fn answer_in_flight(&mut self, applied: EntryId) {
        let Requests {
            in_flight, reads, ..
        } = &mut self.requests;
        let is_due = |it: &requests::InFlight| it.entry.index <= applied.index;
        while in_flight.front().is_some_and(is_due) {
            let batch = in_flight.pop_front().expect("just seen");
            if batch.entry == applied {
                let took = self.core.now().saturating_since(batch.proposed);
                let leader = self.role.leader_mut();
                let round = leader.and_then(|it| it.append_round.applied(applied, took));
                if let Some(round) = round {
                    reads.confirm(round, applied.index);
                }
                self.core.give(batch.answers, applied.index);
            } else {
                self.core.fail_answers(batch.answers, &leader_changed());
            }
        }
    }

    /// Sends the answers to reads that waited for an applied index.
    fn release_reads(&mut self) {
        let applied = self.core.engine().applied_index();
        for read in self.requests.reads.take_ready(applied) {
            let index = read.index;
            match read.waiting.requester {
                ReadRequester::Member { member, round } => {
                    self.core.send(member, PeerMessage::ReadAt { round, index });
                    self.core.await_commit(index);
                }
                ReadRequester::Unchanged(read) => {
                    if let Role::Leader(leader) = &mut self.role {
                        leader.confirm_unchanged(&mut self.core, read);
                    }
                }
                ReadRequester::Lease(number) => {
                    let leases = &mut self.requests.leases;
                    leases.answer_question(&mut self.core, number);
                }
                ReadRequester::Local(to) => self.core.reply(to, Ok(())),
            }
        }
    }

    /// Takes over from Raft which member leads, and acts on a change.
    fn observe_role(&mut self) {
        let raft = self.core.raft();
        let stays = !self.role.is_leaving();
        let leads = stays && raft.state == StateRole::Leader;
        let leader = if stays { raft.leader_id } else { 0 };
        let (term, last) = (raft.term, raft.raft_log.last_index());
        match &mut self.role {
            Role::Follower if leads => {
                let first = EntryId { term, index: last };
                self.role = Role::Leader(Box::new(Leader::new(first)));
            }
            Role::Leader(leader) if leads => leader.note_term(term, last),
            Role::Leader(_) => self.step_down(),
            Role::Follower | Role::Leaving(_) => {}
        }
        if let Role::Leader(leader) = &mut self.role {
            leader.become_ready(&mut self.core);
        }
        if leader != self.core.leader {
            self.core.leader = leader;
            self.requests.reads.restart();
            self.requests.forwards.doubt(&self.core);
            self.requests.leases.restart();
        }
        let transferee = self.role.transferee(&self.core);
        let transfers = &mut self.requests.transfers;
        transfers.answer(&mut self.core, transferee);
    }

    /// Ends this member's leadership. Commands that were not proposed are dropped and
    /// answered so. Batches that were proposed may still be committed, and are answered when
    /// that is known.
    fn step_down(&mut self) {
        let waiting = self.end_role(Role::Follower);
        self.core.fail_answers(waiting, &leader_changed());
    }

    /// Ends this member's role, and begins `next`. Returns what waited in the former role, for
    /// the caller to answer.
    #[must_use]
    fn end_role(&mut self, next: Role) -> Vec<Answer> {
        // This must precede any vote of this member for another.
        self.leader_lease.withdraw();
        self.core.commit = CommitBroadcast::default();
        // No lease is renewed or revoked here any more; this reports that to the waiters.
        self.core.machine.demote();
        std::mem::replace(&mut self.role, next).into_waiting()
    }

    /// Tries the commands again that the current leader, or this member, can carry out.
    fn try_again(&mut self) {
        let mut at = 0;
        while let Some(retry) = self.requests.forwards.retries.waiting.get(at) {
            if let Role::Leader(leader) = &mut self.role
                && leader.must_hand_over_before(&self.core, &retry.command)
            {
                // The other member has not become the leader yet.
                leader.hand_over(&self.core);
                at += 1;
                continue;
            }
            let has_refused = retry.asked == Asked::now(&self.core) && !self.role.is_leader();
            if has_refused || !self.takes(&retry.command) {
                at += 1;
                continue;
            }
            let Retry {
                to,
                command,
                deadline,
                asked: _,
            } = self.requests.forwards.retries.take(at);
            let (core, requests) = (&mut self.core, &mut self.requests);
            if let Role::Leader(leader) = &mut self.role {
                leader.evaluate(core, requests, &command, to);
            } else {
                requests.forwards.send_until(core, &command, to, deadline);
            }
        }
    }

    /// Starts a round of reads, if reads wait and a leader is known.
    fn start_reads(&mut self) {
        let fresh = self
            .role
            .leader_mut()
            .and_then(|it| it.append_round.take_fresh());
        let core = &mut self.core;
        let ready = self.role.is_ready();
        let other_leads = core.leader != 0 && core.leader != core.member_id;
        if !ready && !other_leads || self.requests.reads.is_idle() {
            return;
        }
        let Some(round) = self.requests.reads.start_round(core.now()) else {
            return;
        };
        // Whether this leader may serve reads without asking the other members.
        let may_read =
            self.leader_lease.holds(core, ready) || core.breaks(Mutant::ReadsWithoutConfirmation);
        match &mut self.role {
            Role::Leader(leader) if leader.is_ready() => {
                if may_read {
                    self.requests.reads.confirm(round, core.committed());
                } else if let Some(entry) = fresh {
                    leader.append_round.start(round, entry);
                } else {
                    core.consensus.read_index(round);
                }
            }
            _ => core.send_to_leader(PeerMessage::ReadIndex { round }),
        }
    }

    /// Checks the progress of an import; installs the snapshot when it is complete.
    fn tend_import(&mut self) -> Result<(), Error> {
        if !self.receiving.is_complete(&mut self.core) {
            return Ok(());
        }
        // The results of earlier messages precede the installation.
        self.process_ready()?;
        if let Some(installed) = self.receiving.finish(&mut self.core)? {
            self.requests.end_in_flight(&mut self.core);
            let forwards = &mut self.requests.forwards;
            forwards.release(&mut self.core, installed.index);
        }
        Ok(())
    }

    /// The inputs for which this member need not be woken.
    pub(crate) fn can_wait(&self) -> CanWait {
        CanWait {
            acknowledgements: self.awaited(),
            reads: self.core.failed.is_none() && self.reads_due().is_some(),
        }
    }

    /// The acknowledgements that do not complete anything, so that a leader need not be
    /// woken for them; none if this member must see every message.
    fn awaited(&self) -> Option<Awaited> {
        let leader = self.role.leader().filter(|_| self.core.failed.is_none())?;
        let takes_commands = leader.is_ready() && !leader.is_transferring(&self.core);
        takes_commands.then(|| self.core.consensus.awaited())?
    }

    /// When [`Replica::run`] must be called even if no input arrives.
    pub fn due(&self) -> Option<Instant> {
        self.core.commit.due
    }

    /// When the round of reads that is under way counts as lost, and [`Replica::run`] must be called.
    pub fn reads_due(&self) -> Option<Instant> {
        self.requests.reads.round_ends()
    }

    /// Does one step of checkpointing, sweeping or reclaim, if one is due.
    pub fn upkeep(&mut self) -> Result<(), Error> {
        let core = &mut self.core;
        let needed_from = self.sending.needed_from(core);
        let applied = core.engine().applied_index();
        let kept = core.consensus.trim(applied, needed_from);
        core.machine.keep_entries(kept.as_ref());
        let outcome = core.machine.maintain();
        core.release_swept();
        outcome.map_err(Error::of_machine)
    }

    /// Sends the answers of physical compactions that are not swept when the member stops. The
    /// next start finishes their sweeps.
    pub fn release_never_swept(&mut self) {
        for answer in std::mem::take(&mut self.core.unswept) {
            self.core.send_answer(answer);
        }
    }

    /// Takes all messages and answers that have gathered, in order.
    pub fn take_output(&mut self) -> Output {
        self.requests.leases.send_answers(&mut self.core);
        std::mem::take(&mut self.core.output)
    }

    pub fn machine(&self) -> &Machine {
        &self.core.machine
    }

    pub fn machine_mut(&mut self) -> &mut Machine {
        &mut self.core.machine
    }

    /// Ends this member because another member says that it was removed.
    pub fn removal_reported(&mut self) {
        if self.core.failed.is_none() {
            removal::record(&self.removal_file, self.core.member_id);
            self.fail_removed();
        }
    }

    fn fail_removed(&mut self) {
        if self.core.failed.is_some() {
            return;
        }
        if let Role::Leaving(leaving) = &self.role {
            removal::record_own(&mut self.core, leaving);
        }
        tracing::warn!("this member was removed from its cluster");
        self.core.leader = 0;
        removal::answer_known_outcomes(&mut self.core, &mut self.requests.forwards);
        self.fail(Error::Removed {
            member: self.core.member_id,
        });
    }

    /// Checks whether the change of configuration in entry `index` has removed this member,
    /// or the leader that a local client wanted to remove.
    fn look_for_removals(&mut self, index: u64) {
        let core = &mut self.core;
        removal::answer_for_removed_leaders(core, &mut self.requests.forwards);
        if self.role.is_leaving() || !core.reader.is_removed(core.member_id) {
            return;
        }
        if !core.consensus.committed_itself(index) {
            self.fail_removed();
            return;
        }
        let leaving = Leaving {
            index,
            until: core.now() + core.options.election_timeout * 2,
        };
        let waiting = self.end_role(Role::Leaving(leaving));
        self.core.fail_answers(waiting, &leader_changed());
    }

    /// Hands leadership over and ends this removed leader, once the other members know of
    /// its removal.
    fn leave(&mut self) -> Result<(), Error> {
        let Role::Leaving(leaving) = &self.role else {
            return Ok(());
        };
        if !self.core.is_raft_leader() || !removal::enough_voters_know(&self.core, leaving) {
            return Ok(());
        }
        if let Some(successor) = membership::successor(&self.core) {
            self.core.consensus.node.transfer_leader(successor);
            self.process_ready()?;
        }
        self.fail_removed();
        Ok(())
    }

    /// Ends the replica because the log has failed or the node stops. Every request that is
    /// not applied, now or later, is answered with the first such error.
    pub fn fail(&mut self, error: Error) {
        let error = self.core.failed.get_or_insert(error).clone();
        if matches!(error, Error::LogFailed { .. }) {
            self.rejoin.incarnation.record_failed_flush();
        }
        self.requests.end(&mut self.core, &error);
        for answer in self.end_role(Role::Follower) {
            self.core.end_request(answer.requester, &error);
        }
        self.sending
            .end_all(&mut self.core, "the member has stopped");
        self.receiving.incoming = None;
    }
}

#[cfg(test)]
mod liveness_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod waiting_tests;
