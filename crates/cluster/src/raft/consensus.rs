//! The Raft library and the log it writes to, without clock, network or thread.
//!
//! ```text
//!   propose, step, tick ──► library ──ready──► messages (a leader's go at once)
//!                              ▲               entries, hard state ──► log
//!                              │                                        │ flush
//!   committed entries ◄────────┴──────────── persisted(sequence) ◄──────┘
//!                                               └──► messages that promise something
//! ```
//!
//! Invariants: what a message promises (a vote, that entries are held) is on
//! stable storage before the message leaves; entries are handed out in order,
//! each once, when a majority and this member's own log have them on stable
//! storage. The leader's own flush runs beside the followers'.

use std::collections::VecDeque;

use engine::{Appended, Batch, Body, Engine, Entry, HardState, Recovered, Sequence};
use raft::eraftpb::{self, ConfState, Message, MessageType};
use raft::{Config, RawNode, ReadOnlyOption, StateRole};

use super::doubt::Compared;
use super::entry::{configuration_change, to_raft};
use super::log_lines;
use super::plausible;
use super::room::NotTaken;
use super::view::View;
use crate::awaited::Awaited;
use crate::{Error, Mutant};

/// Largest append to a peer, in bytes; a single entry may be larger.
const APPEND_BYTES_MAX: u64 = 1 << 20;
/// Appends on their way to a peer.
const APPENDS_IN_FLIGHT_MAX: usize = 256;
/// Entries of the leader that no majority has yet, in bytes.
const UNCOMMITTED_BYTES_MAX: u64 = 256 << 20;
/// Bytes of entries remembered for peers.
const CACHED_BYTES_MAX: u64 = 16 << 20;

/// How a member takes part in elections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Elections {
    /// Who this is; never 0.
    pub member_id: u64,
    /// Ticks without word from a leader before this member stands for election:
    /// its own number, drawn from `election_ticks` to twice that, so that
    /// members rarely stand at once.
    pub patience_ticks: usize,
    /// The shortest patience of any member.
    pub election_ticks: usize,
    /// Ticks between a leader's heartbeats.
    pub heartbeat_ticks: usize,
}

/// How much of the log is kept for members that are behind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Retention {
    pub entries_max: usize,
    pub bytes_max: u64,
}

/// While a member is sent a snapshot, and until it has caught up, so many times
/// more is kept: else it would need the next snapshot by then.
const KEPT_FOR_SNAPSHOTS_TIMES: u32 = 16;

/// An entry in the log that is not applied.
#[derive(Debug)]
pub(crate) struct Pending {
    pub batch: Batch,
    pub appended: Appended,
    pub changes_configuration: bool,
}

/// What became of the last inputs.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// To be sent now. Those may be lost, doubled and late.
    pub messages: Vec<Message>,
    /// To be applied, in this order.
    pub committed: Vec<Pending>,
    /// Rounds of reads that are confirmed, and the index each may read at.
    pub reads: Vec<(u64, u64)>,
}

/// A ready whose writes are not all on stable storage.
#[derive(Debug)]
pub(super) struct Unpersisted {
    number: u64,
    /// The last frame it depends on.
    sequence: Sequence,
    /// It enters a term, votes, or changes the configuration.
    binds: bool,
    /// Index and term of the last entry that was written.
    last: Option<(u64, u64)>,
    messages: Vec<Message>,
}

/// One member's part in the consensus.
pub(crate) struct Consensus {
    pub(super) node: RawNode<View>,
    pub(super) engine: Engine,
    pub(super) pending: VecDeque<Pending>,
    /// What was just proposed, so that it need not be decoded again.
    pub(super) proposed: Option<(Batch, Body)>,
    pub(super) unpersisted: VecDeque<Unpersisted>,
    /// As the library has it now, and as it was last written.
    pub(super) hard_state: HardState,
    pub(super) written: HardState,
    pub(super) appended: Sequence,
    pub(super) durable: Sequence,
    retention: Retention,
    /// What went along with the last entry that was sent to everyone, or alone.
    commit_told: u64,
    /// Why the last entries that came were not taken.
    pub(super) not_taken: Option<NotTaken>,
    /// Entries that the library has taken and the log has not, in bytes of log at most.
    pub(super) unwritten_bytes: u64,
    pub(super) compared: Compared,
    /// Committed, by this member's own count as a leader.
    pub(super) counted: u64,
    pub mutant: Option<Mutant>,
    pub(super) writes_itself: bool,
}

impl std::fmt::Debug for Consensus {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Consensus")
            .field("role", &self.node.raft.state)
            .field("hard_state", &self.hard_state)
            .field("last", &self.node.store().last())
            .field("pending", &self.pending.len())
            .field("progress", &self.node.raft.prs().iter().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

impl Consensus {
    /// Goes on with what recovery found. `members` as of the applied index.
    pub fn start(
        elections: Elections,
        retention: Retention,
        engine: Engine,
        mut recovered: Recovered,
        members: ConfState,
    ) -> Result<Consensus, Error> {
        let applied = recovered.applied_index;
        let view = View::new(engine.clone(), &recovered, members, CACHED_BYTES_MAX);
        let state = recovered.hard_state;
        plausible::check_own_term(state.term)?;
        assert!(
            applied <= state.commit && state.commit <= view.last(),
            "{state:?} of a log that ends with entry {} and is applied up to {applied}",
            view.last()
        );
        let config = Config {
            id: elections.member_id,
            election_tick: elections.election_ticks,
            heartbeat_tick: elections.heartbeat_ticks,
            min_election_tick: elections.patience_ticks,
            max_election_tick: elections.patience_ticks + 1,
            applied,
            max_size_per_msg: APPEND_BYTES_MAX,
            max_inflight_msgs: APPENDS_IN_FLIGHT_MAX,
            check_quorum: true,
            pre_vote: true,
            read_only_option: ReadOnlyOption::Safe,
            // Of no use with one entry for many commands, and in 0.7 it may put
            // entries into a message that says it goes on elsewhere.
            batch_append: false,
            max_uncommitted_size: UNCOMMITTED_BYTES_MAX,
            // See `Consensus::owes_commit`.
            skip_bcast_commit: true,
            ..Config::default()
        };
        let node = RawNode::new(&config, view, &log_lines::logger()).map_err(refused)?;
        let unapplied = std::mem::take(&mut recovered.unapplied);
        let pending = unapplied.into_iter().map(|entry| Pending {
            changes_configuration: configuration_change(&entry.body).is_some(),
            batch: entry.batch,
            appended: entry.appended,
        });
        let durable = engine.durable();
        Ok(Consensus {
            node,
            engine,
            pending: pending.collect(),
            proposed: None,
            unpersisted: VecDeque::new(),
            hard_state: state,
            written: state,
            appended: durable,
            durable,
            commit_told: 0,
            not_taken: None,
            unwritten_bytes: 0,
            compared: Compared::default(),
            counted: 0,
            retention,
            mutant: None,
            writes_itself: false,
        })
    }

    /// A unit of time has passed.
    pub fn tick(&mut self) {
        self.node.tick();
    }

    /// Stands for election at once: alone in the cluster, or asked to.
    pub fn campaign(&mut self) -> Result<(), Error> {
        self.node.campaign().map_err(refused)
    }

    /// A message of a peer, but for snapshots. Fails where the library would panic:
    /// the leader counts on entries that are not here, or has others.
    pub fn receive(&mut self, mut message: Message) -> Result<(), Error> {
        match message.get_msg_type() {
            MessageType::MsgHeartbeat => self.check_heartbeat(&mut message)?,
            MessageType::MsgAppend => self.check_committed(&message)?,
            _ => {}
        }
        if self.waits() {
            self.receive_waiting(message);
        } else if !self.is_stale_request(&message) && self.has_room_for(&mut message) {
            self.step(message);
            self.note_counted();
        }
        Ok(())
    }

    /// What fits is taken; the rest is dropped, as the network might have done.
    pub fn step(&mut self, message: Message) {
        let kind = message.get_msg_type();
        if let Err(error) = self.node.step(message) {
            tracing::debug!(%error, ?kind, "a message was dropped");
        }
        self.mend_progress();
    }

    /// After a peer's late rejection raft-rs 0.7 may be about to send what the
    /// peer has confirmed already (tikv/raft-rs#557).
    fn mend_progress(&mut self) {
        if self.node.raft.state == StateRole::Leader {
            for (_, progress) in self.node.raft.mut_prs().iter_mut() {
                progress.next_idx = progress.next_idx.max(progress.matched + 1);
            }
        }
    }

    /// Proposes the next entry: on the leader, of [`Consensus::next`]. Refused
    /// when the library will not have it now.
    pub fn propose(&mut self, batch: Batch, body: Body) -> Result<(), Error> {
        assert_eq!((batch.term, batch.index), self.next(), "the next entry");
        let mut message = Message::default();
        message.set_msg_type(MessageType::MsgPropose);
        message.from = self.node.raft.id;
        let entry = to_raft(0, 0, &body);
        message.mut_entries().push(entry);
        self.proposed = Some((batch, body));
        let outcome = self.node.step(message).map_err(refused);
        match outcome {
            Ok(()) => self.commit_told = self.node.raft.raft_log.committed,
            Err(_) => self.proposed = None,
        }
        outcome
    }

    /// What a leader's last entry needs before it can be applied, or that it needs
    /// nothing any more; `None` where there may be more to do than that.
    pub fn awaited(&self) -> Option<Awaited> {
        let raft = &self.node.raft;
        let (term, index) = (raft.term, raft.raft_log.last_index());
        let speaks = self.unpersisted.iter().any(|it| !it.messages.is_empty());
        if raft.state != StateRole::Leader || raft.prs().is_singleton() || speaks {
            return None;
        }
        let mut awaited = Awaited {
            term,
            index,
            own: None,
            others: 0,
            others_alone: 0,
            silent: Vec::new(),
        };
        if raft.raft_log.applied() >= index {
            return Some(awaited);
        }
        let members = raft.prs().conf().to_conf_state();
        if !members.voters_outgoing.is_empty() || !members.voters.contains(&raft.id) {
            return None;
        }
        let majority = members.voters.len() / 2 + 1;
        let confirmed = |id: &u64| raft.prs().get(*id).is_some_and(|it| it.matched >= index);
        awaited.own = (self.durable < self.appended).then_some(self.appended);
        awaited.silent = members.voters;
        awaited.silent.retain(|id| *id != raft.id);
        let voters_beside = awaited.silent.len();
        awaited.silent.retain(|id| !confirmed(id));
        let confirmed_beside = voters_beside - awaited.silent.len();
        awaited.others = (majority - 1).saturating_sub(confirmed_beside);
        awaited.others_alone = majority.saturating_sub(confirmed_beside);
        (awaited.own.is_some() || awaited.others > 0).then_some(awaited)
    }

    /// The leader knows of entries to be committed what the others have not been
    /// told. The next entry tells them; without one, [`Consensus::tell_commit`].
    pub fn owes_commit(&self) -> bool {
        let raft = &self.node.raft;
        let leads_others = raft.state == StateRole::Leader && !raft.prs().is_singleton();
        leads_others && raft.raft_log.committed > self.commit_told
    }

    /// Up to where the others have been told.
    pub fn commit_told(&self) -> u64 {
        self.commit_told
    }

    /// Tells the others how far the log is committed.
    pub fn tell_commit(&mut self) {
        self.node.raft.bcast_append();
        self.commit_told = self.node.raft.raft_log.committed;
    }

    /// Term and index of the next entry this member would propose.
    pub fn next(&self) -> (u64, u64) {
        (
            self.node.raft.term,
            self.node.raft.raft_log.last_index() + 1,
        )
    }

    /// Asks for a round of leadership confirmation.
    pub fn read_index(&mut self, round: u64) {
        self.node.read_index(round.to_le_bytes().to_vec());
    }

    /// Nothing can be sent to a member at present: it is asked how far it is
    /// before it gets more.
    pub fn unreachable(&mut self, member: u64) {
        self.node.report_unreachable(member);
    }

    /// The log is on stable storage up to here; false when that is nothing new.
    pub fn persisted(&mut self, sequence: Sequence) -> bool {
        let more = self.durable < sequence;
        self.durable = self.durable.max(sequence);
        more
    }

    /// Carries out everything the last inputs brought about.
    pub fn advance(&mut self, progress: &mut Progress) -> Result<(), Error> {
        loop {
            let released = self.release(progress)?;
            if !self.node.has_ready() {
                if released {
                    continue;
                }
                self.unwritten_bytes = 0;
                return Ok(());
            }
            let mut ready = self.node.ready();
            progress.messages.extend(ready.take_messages());
            progress
                .reads
                .extend(ready.take_read_states().iter().filter_map(round_of));
            let restored =
                (!ready.snapshot().is_empty()).then(|| ready.snapshot().get_metadata().index);
            assert!(
                restored.is_none_or(|index| index + 1 == self.node.store().first()),
                "Raft is handed only what is installed"
            );
            let last = ready.entries().last().map(|it| (it.index, it.term));
            let binds = self.write(&mut ready)?;
            for entry in ready.take_committed_entries() {
                progress.committed.push(self.take_pending(&entry));
            }
            let (at_once, later) = self.part(ready.take_persisted_messages());
            progress.messages.extend(at_once);
            if !binds && later.is_empty() && self.writes_at_once() {
                assert!(restored.is_none(), "a leader restores nothing");
                self.advance_at_once(ready, progress);
                continue;
            }
            self.unpersisted.push_back(Unpersisted {
                number: ready.number(),
                sequence: self.appended,
                binds,
                last,
                messages: later,
            });
            self.node.advance_append_async(ready);
            if let Some(index) = restored {
                self.skip_to(index);
            }
        }
    }

    /// Tells the library what is on stable storage by now; false when that is
    /// nothing new. A vote, a term or a change of the configuration is on the device
    /// before anyone hears of it, whatever the log is content with for entries.
    fn release(&mut self, progress: &mut Progress) -> Result<bool, Error> {
        let mut last = None;
        while self
            .unpersisted
            .front()
            .is_some_and(|first| first.sequence <= self.stable())
        {
            let first = self.unpersisted.pop_front().expect("just seen");
            if first.binds {
                self.engine.settle()?;
            }
            if let Some(entry) = first.last {
                self.note_persisted_without_progress(entry);
            }
            progress.messages.extend(first.messages);
            last = Some(first.number);
        }
        if let Some(number) = last {
            self.node.on_persist_ready(number);
            self.note_counted();
        }
        Ok(last.is_some())
    }

    /// What counts as being on stable storage.
    fn stable(&self) -> Sequence {
        match self.mutant {
            Some(Mutant::AcknowledgesBeforeTheFlush) => self.appended,
            _ => self.durable,
        }
    }

    /// An answer to a heartbeat promises nothing but its term: where that is
    /// on stable storage, it waits for no flush.
    fn part(&self, messages: Vec<Message>) -> (Vec<Message>, Vec<Message>) {
        let stable_term = if self.appended <= self.durable {
            self.written.term
        } else {
            0
        };
        messages.into_iter().partition(|message| {
            message.get_msg_type() == MessageType::MsgHeartbeatResponse
                && message.term <= stable_term
        })
    }

    /// An entry of more changes than this is not applied.
    pub fn has_a_batch_above(&self, changes_max: usize) -> bool {
        let mut pending = self.pending.iter();
        pending.any(|it| it.batch.changes.len() > changes_max)
    }

    pub(super) fn take_pending(&mut self, entry: &eraftpb::Entry) -> Pending {
        let pending = self.pending.pop_front();
        let pending = pending.expect("what is committed and stable here is in the log here");
        assert_eq!(
            (pending.batch.term, pending.batch.index),
            (entry.term, entry.index),
            "entries are applied in their order, none twice and none left out"
        );
        pending
    }

    /// The entry is applied. What it does to the configuration comes true now.
    pub fn applied(&mut self, index: u64, body: Option<&Body>) -> Result<(), Error> {
        if let Some(change) = body.and_then(configuration_change) {
            let members = self.node.apply_conf_change(&change).map_err(refused)?;
            self.node.mut_store().set_conf_state(members);
        }
        self.node.advance_apply_to(index);
        Ok(())
    }

    /// That a change of the configuration is committed must not be forgotten: a
    /// member that is removed goes, and with it a vote that would be needed to
    /// find out again. So it is on stable storage before anything of it leaves.
    pub(super) fn remember_commit(&mut self, index: u64) -> Result<(), Error> {
        assert!(self.hard_state.commit >= index, "{self:?}");
        if self.written.commit < index {
            self.appended = self.engine.append_hard_state(self.hard_state)?;
            self.written = self.hard_state;
        }
        self.engine.wait_durable(self.appended)?;
        self.engine.settle()?;
        self.durable = self.durable.max(self.appended);
        Ok(())
    }

    /// The records of an entry that is in the log.
    pub fn body(&self, index: u64) -> Result<Body, Error> {
        let view = self.node.store();
        let entry = view.entry(index).expect("the log has it");
        Ok(self.engine.body(entry)?)
    }

    /// Where the whole cluster stands, in the library's words.
    pub fn raft(&self) -> &raft::Raft<View> {
        &self.node.raft
    }

    /// Lets go of old entries that are applied; what is behind `needed_from` stays
    /// longer. Returns the oldest that is kept, for members that are behind; alone
    /// in the cluster, there are none.
    pub fn trim(&mut self, applied: u64, needed_from: u64) -> Option<Entry> {
        let alone = self.node.raft.prs().iter().count() <= 1;
        let Retention {
            entries_max,
            bytes_max,
        } = self.retention;
        let entries_max = if alone { 0 } else { entries_max };
        let view = self.node.mut_store();
        view.trim(
            applied.min(needed_from.saturating_sub(1)),
            entries_max,
            bytes_max,
        );
        let times = KEPT_FOR_SNAPSHOTS_TIMES;
        view.trim(
            applied,
            self.retention.entries_max * times as usize,
            bytes_max * u64::from(times),
        );
        view.entry(view.first()).copied().filter(|_| !alone)
    }

    /// Hands the lead to a peer.
    pub fn transfer(&mut self, to: u64) {
        self.node.transfer_leader(to);
    }
}

fn round_of(state: &raft::ReadState) -> Option<(u64, u64)> {
    let round = state.request_ctx.as_slice().try_into().ok()?;
    Some((u64::from_le_bytes(round), state.index))
}

fn refused(error: raft::Error) -> Error {
    Error::Raft(error.to_string())
}
