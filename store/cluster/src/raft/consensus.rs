//! The Raft library and the log it writes to, without clock, network or thread.
//!
//! ```text
//!   propose, step, tick ──► library ──ready──► messages (a leader's go at once)
//!                              ▲               entries, hard state ──► log
//!                              │                                        │ flush
//!   committed entries ◄────────┴──────────── persisted(sequence) ◄──────┘
//!                                               └──► votes and acknowledgements
//! ```
//!
//! Invariants: what a message promises (a vote, that the member has entries) is on stable
//! storage before the message is sent. Entries are handed out in order, each once, when a
//! majority and this member's own log have them on stable storage. The leader's own flush
//! runs in parallel with the followers' flushes.

use std::collections::VecDeque;

use engine::{Batch, Body, Engine, Entry, Recovered, Sequence};
use environment::randomness::Random;
use raft::eraftpb::{
    ConfChangeSingle, ConfChangeType, ConfChangeV2, ConfState, Message, MessageType,
};
use raft::{Config, RawNode, ReadOnlyOption, Ready, StateRole};

use super::entry::{configuration_change, to_raft};
use super::log_lines;
use super::log_writer::{AppendedEntry, LogWriter};
use super::lost_tail::Compared;
use super::plausible;
use super::room::LogRoom;
use super::view::View;
use crate::awaited::Awaited;
use crate::{EntryId, Error, Mutant, ReplicaOptions};

/// Largest append to a peer, in bytes; a single entry may be larger.
const APPEND_BYTES_MAX: u64 = 1 << 20;
/// Appends that may be in flight to a peer.
const APPENDS_IN_FLIGHT_MAX: usize = 256;
/// Limit on the leader's entries that are not committed, in bytes.
const UNCOMMITTED_BYTES_MAX: u64 = 256 << 20;
/// Bytes of entries that are kept in memory to be sent to peers.
const CACHED_BYTES_MAX: u64 = 16 << 20;

/// Factor on the limits of what is kept in the log while a member receives a snapshot and until it has
/// caught up. Otherwise the log might drop the entries behind the snapshot, and the member
/// would need another one.
const KEPT_FOR_SNAPSHOTS_TIMES: u32 = 16;

/// A round of reads that a majority has confirmed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConfirmedRead {
    pub round: u64,
    /// The reads may be served when the entry of this index is applied.
    pub index: u64,
}

/// Effects of the last inputs, for the replica to carry out.
#[derive(Debug, Default)]
pub(crate) struct ReadyResults {
    /// Messages to be sent now. The network may lose, double and delay them.
    pub messages: Vec<Message>,
    /// Entries to be applied, in this order.
    pub committed: Vec<AppendedEntry>,
    pub reads: Vec<ConfirmedRead>,
}

/// A ready of the Raft library with writes that are not all on stable storage.
#[derive(Debug)]
pub(super) struct Unpersisted {
    number: u64,
    /// Sequence of the last frame that the ready depends on.
    sequence: Sequence,
    /// The ready enters a term, votes, or changes the configuration.
    binds: bool,
    /// The ready's last entry.
    last: Option<EntryId>,
    messages: Vec<Message>,
}

/// One member's part in the consensus.
pub(crate) struct Consensus {
    pub(crate) node: RawNode<View>,
    pub(crate) log: LogWriter,
    unpersisted: VecDeque<Unpersisted>,
    /// Entries that are kept for members that are behind.
    entries_kept_max: usize,
    /// Their size; the smaller of the two limits holds.
    bytes_kept_max: u64,
    /// The commit index that was sent to the followers last, with an entry or alone.
    pub(crate) commit_sent: u64,
    pub(super) room: LogRoom,
    pub(super) compared: Compared,
    /// The last commit index that this member determined itself, as a leader.
    counted: u64,
    pub(super) mutant: Option<Mutant>,
    /// The replica itself writes what it appends, see `Replica::write_itself`.
    pub(crate) writes_itself: bool,
}

impl std::fmt::Debug for Consensus {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Consensus")
            .field("role", &self.node.raft.state)
            .field("last", &self.node.store().last())
            .field("progress", &self.node.raft.prs().iter().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

impl Consensus {
    /// Starts from what recovery found. `members` is the configuration as of the applied index.
    pub fn start(
        member_id: u64,
        options: &ReplicaOptions,
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
            applied,
            ..config(member_id, options)
        };
        let node = RawNode::new(&config, view, &log_lines::logger()).map_err(refused)?;
        let unapplied = std::mem::take(&mut recovered.unapplied);
        let pending = unapplied.into_iter().map(|entry| AppendedEntry {
            changes_configuration: configuration_change(&entry.body).is_some(),
            batch: entry.batch,
            appended: entry.appended,
        });
        Ok(Consensus {
            node,
            log: LogWriter::new(engine, pending.collect(), state, options.mutant),
            unpersisted: VecDeque::new(),
            entries_kept_max: options.entries_kept_max,
            bytes_kept_max: options.bytes_kept_max,
            commit_sent: 0,
            room: LogRoom::default(),
            compared: Compared::default(),
            counted: 0,
            mutant: options.mutant,
            writes_itself: false,
        })
    }

    /// Stands for election at once.
    pub fn campaign(&mut self) -> Result<(), Error> {
        self.node.campaign().map_err(refused)
    }

    /// Handles a message of a peer that carries no snapshot. Fails where the library would
    /// panic: the leader counts on entries that this member lacks, or has others in their place.
    pub fn receive(&mut self, mut message: Message) -> Result<(), Error> {
        match message.get_msg_type() {
            MessageType::MsgHeartbeat => self.check_heartbeat(&mut message)?,
            MessageType::MsgAppend => self.check_committed(&message)?,
            _ => {}
        }
        if self.waits() {
            self.receive_waiting(message);
        } else if !self.is_stale_request(&message)
            && self.room.has_room_for(&self.log.engine, &mut message)
        {
            self.step(message);
            self.note_counted();
        }
        Ok(())
    }

    /// Passes a message to the library. A message that the library refuses is dropped, as the
    /// network might have done.
    pub fn step(&mut self, message: Message) {
        let kind = message.get_msg_type();
        if let Err(error) = self.node.step(message) {
            tracing::debug!(%error, ?kind, "a message was dropped");
        }
        self.mend_progress();
    }

    /// Repairs the next index of peers: after a late rejection, raft-rs 0.7 might send entries
    /// that the peer has confirmed already (tikv/raft-rs#557).
    fn mend_progress(&mut self) {
        if self.node.raft.state == StateRole::Leader {
            for (_, progress) in self.node.raft.mut_prs().iter_mut() {
                progress.next_idx = progress.next_idx.max(progress.matched + 1);
            }
        }
    }

    /// Proposes the next entry at the leader, with the term and index of [`Consensus::next`].
    /// Fails if the library refuses it.
    pub fn propose(&mut self, batch: Batch, body: Body) -> Result<(), Error> {
        let entry = EntryId::new(batch.term, batch.index);
        assert_eq!(entry, self.next(), "the next entry");
        let message = Message {
            msg_type: MessageType::MsgPropose,
            from: self.node.raft.id,
            entries: vec![to_raft(0, 0, &body)].into(),
            ..Message::default()
        };
        self.log.proposed = Some((batch, body));
        let outcome = self.node.step(message).map_err(refused);
        match outcome {
            Ok(()) => self.commit_sent = self.node.raft.raft_log.committed,
            Err(_) => self.log.proposed = None,
        }
        outcome
    }

    /// The acknowledgements that a leader's last entry needs before it can be applied; an empty
    /// list if it is applied already. `None` if other messages may be of use now.
    pub fn awaited(&self) -> Option<Awaited> {
        let raft = &self.node.raft;
        let (term, index) = (raft.term, raft.raft_log.last_index());
        let owes_messages = self.unpersisted.iter().any(|it| !it.messages.is_empty());
        if raft.state != StateRole::Leader || raft.prs().is_singleton() || owes_messages {
            return None;
        }
        let mut awaited = Awaited {
            term,
            index,
            ..Awaited::default()
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
        awaited.own = self.log.unflushed();
        awaited.silent = members.voters;
        awaited.silent.retain(|id| *id != raft.id);
        let voters_beside = awaited.silent.len();
        awaited.silent.retain(|id| !confirmed(id));
        let confirmed_beside = voters_beside - awaited.silent.len();
        awaited.others = (majority - 1).saturating_sub(confirmed_beside);
        awaited.others_alone = majority.saturating_sub(confirmed_beside);
        (awaited.own.is_some() || awaited.others > 0).then_some(awaited)
    }

    /// Whether this leader has a commit index that it has not sent to the followers. The next
    /// entry carries it; without one, [`Consensus::send_commit`] sends it.
    pub fn owes_commit(&self) -> bool {
        let raft = &self.node.raft;
        let leads_others = raft.state == StateRole::Leader && !raft.prs().is_singleton();
        leads_others && raft.raft_log.committed > self.commit_sent
    }

    /// Sends the commit index to the followers.
    pub fn send_commit(&mut self) {
        self.node.raft.bcast_append();
        self.commit_sent = self.node.raft.raft_log.committed;
    }

    /// The next entry that this member would propose.
    pub fn next(&self) -> EntryId {
        let raft = &self.node.raft;
        EntryId::new(raft.term, raft.raft_log.last_index() + 1)
    }

    /// The log's last entry.
    pub fn end(&self) -> EntryId {
        let log = &self.node.raft.raft_log;
        EntryId::new(log.last_term(), log.last_index())
    }

    /// Fails with the reason if no correct member sends `message`.
    pub fn check_plausible(&self, message: &Message) -> Result<(), String> {
        plausible::check(&self.node.raft, message)
    }

    /// Starts a round of heartbeats that confirms this member's leadership.
    pub fn read_index(&mut self, round: u64) {
        self.node.read_index(round.to_le_bytes().to_vec());
    }

    /// Processes every ready of the library: writes entries, releases messages, and collects
    /// the results.
    pub fn advance(&mut self, results: &mut ReadyResults) -> Result<(), Error> {
        loop {
            let released = self.release(results)?;
            if !self.node.has_ready() {
                if released {
                    continue;
                }
                self.room.note_written();
                return Ok(());
            }
            let mut ready = self.node.ready();
            results.messages.extend(ready.take_messages());
            results
                .reads
                .extend(ready.take_read_states().iter().filter_map(confirmed_read));
            let restored =
                (!ready.snapshot().is_empty()).then(|| ready.snapshot().get_metadata().index);
            assert!(
                restored.is_none_or(|index| index + 1 == self.node.store().first()),
                "the library gets only snapshots that are installed"
            );
            let last = ready.entries().last();
            let last = last.map(|it| EntryId::new(it.term, it.index));
            let binds = self.log.write(self.node.mut_store(), &mut ready)?;
            for entry in ready.take_committed_entries() {
                results.committed.push(self.log.take_pending(&entry));
            }
            let (at_once, later) = self.part(ready.take_persisted_messages());
            results.messages.extend(at_once);
            if !binds && later.is_empty() && self.writes_at_once() {
                assert!(restored.is_none(), "a leader restores no snapshot");
                self.advance_at_once(ready, results);
                continue;
            }
            self.unpersisted.push_back(Unpersisted {
                number: ready.number(),
                sequence: self.log.appended,
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

    /// Reports to the library which readies are on stable storage, and releases their messages;
    /// returns whether there was one. A vote, a term or a change of the configuration is on
    /// the device before any member gets a message about it, even if the log acknowledges
    /// entries that are only in the page cache.
    fn release(&mut self, results: &mut ReadyResults) -> Result<bool, Error> {
        let mut last = None;
        while self
            .unpersisted
            .front()
            .is_some_and(|first| first.sequence <= self.log.stable())
        {
            let first = self.unpersisted.pop_front().expect("just seen");
            if first.binds {
                self.log.engine.flush()?;
            }
            if let Some(entry) = first.last {
                self.note_persisted_without_progress(entry);
            }
            results.messages.extend(first.messages);
            last = Some(first.number);
        }
        if let Some(number) = last {
            self.node.on_persist_ready(number);
            self.note_counted();
        }
        Ok(last.is_some())
    }

    /// Splits messages into those that can be sent at once and those that wait for a flush. An
    /// answer to a heartbeat promises nothing but its term, and is sent at once if the term is
    /// on stable storage.
    fn part(&self, messages: Vec<Message>) -> (Vec<Message>, Vec<Message>) {
        let stable_term = self.log.stable_term();
        messages.into_iter().partition(|message| {
            message.get_msg_type() == MessageType::MsgHeartbeatResponse
                && message.term <= stable_term
        })
    }

    /// Whether an entry of more than `changes_max` changes is not applied.
    pub fn has_a_batch_above(&self, changes_max: usize) -> bool {
        self.log
            .pending
            .iter()
            .any(|it| it.batch.changes.len() > changes_max)
    }

    /// Notes that the entry is applied. A change of the configuration takes effect now. `body`
    /// is the entry's records if it changes the configuration.
    pub fn applied(&mut self, index: u64, body: Option<&Body>) -> Result<(), Error> {
        if let Some(change) = body.and_then(configuration_change) {
            let members = self.node.apply_conf_change(&change).map_err(refused)?;
            self.node.mut_store().conf_state = members;
        }
        self.node.advance_apply_to(index);
        Ok(())
    }

    /// The records of an entry that is in the log.
    pub fn body(&self, index: u64) -> Result<Body, Error> {
        let view = self.node.store();
        let entry = view.entry(index).expect("the log has it");
        Ok(self.log.engine.body(entry)?)
    }

    /// The library's state.
    pub fn raft(&self) -> &raft::Raft<View> {
        &self.node.raft
    }

    /// Drops old entries that are applied, beyond the retention limits; entries from
    /// `needed_from` on are kept longer. Returns the oldest entry that is kept for members that
    /// are behind; none if the cluster has no other member.
    pub fn trim(&mut self, applied: u64, needed_from: u64) -> Option<Entry> {
        let alone = self.node.raft.prs().iter().count() <= 1;
        let bytes_max = self.bytes_kept_max;
        let entries_max = if alone { 0 } else { self.entries_kept_max };
        let view = self.node.mut_store();
        view.trim(
            applied.min(needed_from.saturating_sub(1)),
            entries_max,
            bytes_max,
        );
        let times = KEPT_FOR_SNAPSHOTS_TIMES;
        view.trim(
            applied,
            self.entries_kept_max * times as usize,
            bytes_max * u64::from(times),
        );
        view.entry(view.first()).copied().filter(|_| !alone)
    }

    /// Writes what was appended, if this member writes itself, is the only voter and leads, and
    /// no earlier ready waits. Returns whether everything is written.
    fn writes_at_once(&mut self) -> bool {
        let raft = &self.node.raft;
        let leads = raft.state == StateRole::Leader && raft.promotable();
        let alone = leads && raft.prs().is_singleton();
        if !self.writes_itself || !alone || !self.unpersisted.is_empty() {
            return false;
        }
        self.write_own();
        self.log.unflushed().is_none()
    }

    /// Completes a ready that is written: a leader that is the only voter has committed its
    /// entries with that.
    fn advance_at_once(&mut self, ready: Ready, results: &mut ReadyResults) {
        let mut light = self.node.advance_append(ready);
        self.note_counted();
        self.log.note_commit(light.commit_index());
        results.messages.extend(light.take_messages());
        for entry in light.take_committed_entries() {
            results.committed.push(self.log.take_pending(&entry));
        }
    }

    /// Writes what was appended, if this member writes itself; returns whether more is on stable
    /// storage than before. A failure is reported by the engine's notice, as on other logs.
    pub fn write_own(&mut self) -> bool {
        if !self.writes_itself {
            return false;
        }
        self.log.write_own()
    }

    /// Whether this member, as a leader, determined itself that the entry is committed. Then it
    /// is possible that no other member knows of the commit.
    pub fn committed_itself(&self, index: u64) -> bool {
        index <= self.counted
    }

    /// Notes the leader's commit index. To be called after every step that may raise it.
    fn note_counted(&mut self) {
        let raft = &self.node.raft;
        if raft.state == StateRole::Leader {
            self.counted = raft.raft_log.committed;
        }
    }

    /// Puts on stable storage that a change of the configuration is committed. This must precede
    /// the entry's apply: from then on readers see the change, and connections of a removed
    /// member are refused. That member ends for good, and its vote could be needed to find out
    /// again that the entry is committed.
    pub fn remember_before_it_shows(&mut self, entry: &AppendedEntry) -> Result<(), Error> {
        if !entry.changes_configuration {
            return Ok(());
        }
        let index = entry.batch.index;
        let change = configuration_change(&self.body(index)?);
        match change {
            Some(change) if self.is_remembered_at_once(index, &change) => {
                self.log.remember_commit(index)
            }
            _ => Ok(()),
        }
    }

    /// Whether the commit of this change must be on stable storage at once. The exception is a
    /// leader that has itself determined that its own removal is committed: it stays until
    /// others know, and if it restarts before that, it still has a vote to find out with.
    fn is_remembered_at_once(&self, index: u64, change: &ConfChangeV2) -> bool {
        let own = |it: &ConfChangeSingle| {
            it.get_change_type() == ConfChangeType::RemoveNode && it.node_id == self.node.raft.id
        };
        !(self.committed_itself(index) && change.changes.iter().any(own))
    }

    /// Notes in the library's log, at a leader that is not a member any more, that entries up to
    /// `last` are on stable storage. On its own the library would look for the leader among the
    /// members and panic; it does not look if the log has nothing new to note.
    fn note_persisted_without_progress(&mut self, last: EntryId) {
        let raft = &mut self.node.raft;
        if raft.state == StateRole::Leader && raft.prs().get(raft.id).is_none() {
            raft.raft_log.maybe_persist(last.index, last.term);
        }
    }

    /// Whether the message's entries fit into one segment together with those that were accepted
    /// and are not written yet. The check for room covers one segment only.
    pub fn takes_before_writing(&self, message: &Message) -> bool {
        self.room.takes_before_writing(&self.log.engine, message)
    }

    /// Whether the last entries, or the last snapshot, found no room here.
    pub fn is_full(&self) -> bool {
        self.room.is_full()
    }

    /// If the last entries found no room, checks again. Fails if there is still none, with the
    /// reason if it is known.
    pub fn check_room_again(&mut self) -> Result<(), Option<engine::Error>> {
        self.room.check_again(&self.log.engine)
    }
}

/// The configuration of the Raft library.
fn config(member_id: u64, options: &ReplicaOptions) -> Config {
    let heartbeat = options.heartbeat_interval.as_nanos().max(1);
    let ticks = options
        .election_timeout
        .as_nanos()
        .div_ceil(heartbeat)
        .max(2) as usize;
    // Ticks without a message of a leader before this member stands for election. Each member
    // draws its own number, so that members rarely stand at the same time. The first tick may
    // come right after a leader's message. One more tick makes sure that at least the election
    // timeout has passed.
    let mut random = Random::from_seed(options.seed);
    let patience_ticks = ticks + 1 + random.below(ticks as u64) as usize;
    Config {
        id: member_id,
        election_tick: ticks,
        heartbeat_tick: 1,
        min_election_tick: patience_ticks,
        max_election_tick: patience_ticks + 1,
        max_size_per_msg: APPEND_BYTES_MAX,
        max_inflight_msgs: APPENDS_IN_FLIGHT_MAX,
        check_quorum: true,
        pre_vote: true,
        read_only_option: ReadOnlyOption::Safe,
        // One entry holds many commands already, so batched appends gain nothing; and
        // version 0.7 may add entries to a message that do not follow the entries in it.
        batch_append: false,
        max_uncommitted_size: UNCOMMITTED_BYTES_MAX,
        // See `Consensus::owes_commit`.
        skip_bcast_commit: true,
        ..Config::default()
    }
}

fn confirmed_read(state: &raft::ReadState) -> Option<ConfirmedRead> {
    let round = state.request_ctx.as_slice().try_into().ok()?;
    Some(ConfirmedRead {
        round: u64::from_le_bytes(round),
        index: state.index,
    })
}

fn refused(error: raft::Error) -> Error {
    Error::Raft(error.to_string())
}
