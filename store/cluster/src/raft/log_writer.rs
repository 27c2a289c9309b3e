//! Writes the library's entries and hard states as frames of the log.
//!
//! ```text
//!   ready ──► entries ──► a frame each, the last one with the hard state
//!         └─► a hard state alone ──► a frame of its own
//!   an entry of an index that exists ──► that one and all behind it are overruled
//! ```
//!
//! Invariants: `pending` holds the entries of the log that are not handed out to be applied,
//! in order and without a gap; `written` is the hard state of the newest frame that has one;
//! `durable ≤ appended` unless a later frame than this writer's was flushed too.

use std::collections::VecDeque;

use engine::{Appended, Batch, Body, Engine, Entry, HardState, Sequence};
use raft::Ready;
use raft::eraftpb;

use super::entry::{configuration_change, records_of};
use super::view::View;
use crate::{Error, Mutant};

/// An entry in the log that is not handed out to be applied.
#[derive(Debug)]
pub(crate) struct AppendedEntry {
    pub batch: Batch,
    pub appended: Appended,
    pub changes_configuration: bool,
}

/// The log as the consensus writes it.
pub(crate) struct LogWriter {
    pub engine: Engine,
    pub pending: VecDeque<AppendedEntry>,
    /// The last proposal, so that it need not be decoded from its entry.
    pub proposed: Option<(Batch, Body)>,
    /// The hard state as the library has it now.
    hard_state: HardState,
    /// The hard state as it was written last.
    written: HardState,
    pub appended: Sequence,
    durable: Sequence,
    mutant: Option<Mutant>,
}

impl LogWriter {
    /// A writer of a log that recovery has read, which ends with `state`.
    pub fn new(
        engine: Engine,
        pending: VecDeque<AppendedEntry>,
        state: HardState,
        mutant: Option<Mutant>,
    ) -> LogWriter {
        let durable = engine.durable();
        LogWriter {
            engine,
            pending,
            proposed: None,
            hard_state: state,
            written: state,
            appended: durable,
            durable,
            mutant,
        }
    }

    /// Sequence of the last frame, if it is not on stable storage yet.
    pub fn unflushed(&self) -> Option<Sequence> {
        (self.durable < self.appended).then_some(self.appended)
    }

    /// The last sequence that counts as being on stable storage.
    pub fn stable(&self) -> Sequence {
        match self.mutant {
            Some(Mutant::AcknowledgesBeforeTheFlush) => self.appended,
            _ => self.durable,
        }
    }

    /// The term, if it is on stable storage; otherwise 0.
    pub fn stable_term(&self) -> u64 {
        match self.unflushed() {
            None => self.written.term,
            Some(_) => 0,
        }
    }

    /// Notes that the log is on stable storage up to `sequence`; returns whether that is new.
    pub fn persisted(&mut self, sequence: Sequence) -> bool {
        let more = self.durable < sequence;
        self.durable = self.durable.max(sequence);
        more
    }

    /// Writes what was appended, on this thread; returns whether more is on stable storage than
    /// before. A failure is reported by the engine's notice, as on other logs.
    pub fn write_own(&mut self) -> bool {
        self.engine.work();
        self.persisted(self.engine.durable())
    }

    /// Notes a commit index that the library has reported outside of a ready.
    pub fn note_commit(&mut self, commit: Option<u64>) {
        self.hard_state.commit = commit.unwrap_or(self.hard_state.commit);
    }

    /// Writes the entries and the hard state of a ready. Returns whether they enter a term,
    /// vote, or change the configuration.
    pub fn write(&mut self, view: &mut View, ready: &mut Ready) -> Result<bool, Error> {
        let before = (self.written.term, self.written.vote);
        if let Some(state) = ready.hs() {
            self.hard_state = HardState {
                term: state.term,
                vote: state.vote,
                commit: state.commit,
            };
        }
        let must_sync = ready.must_sync();
        let mut entries = ready.take_entries().into_iter().peekable();
        if self.mutant == Some(Mutant::ForgetsItsVote) {
            self.written = self.hard_state;
        } else if entries.peek().is_none() && must_sync {
            self.write_hard_state()?;
        }
        let mut changes_configuration = false;
        while let Some(entry) = entries.next() {
            let state = (entries.peek().is_none() && self.hard_state != self.written)
                .then_some(self.hard_state);
            changes_configuration |= self.append(view, &entry, state)?;
        }
        Ok(changes_configuration || before != (self.written.term, self.written.vote))
    }

    fn write_hard_state(&mut self) -> Result<(), Error> {
        self.appended = self.engine.append_hard_state(self.hard_state)?;
        self.written = self.hard_state;
        Ok(())
    }

    /// Appends an entry, with the hard state if one is given. Returns whether the entry changes
    /// the configuration.
    fn append(
        &mut self,
        view: &mut View,
        entry: &eraftpb::Entry,
        state: Option<HardState>,
    ) -> Result<bool, Error> {
        self.overrule(view, entry.index);
        let (batch, body) = self.read(entry)?;
        let appended = self.engine.append_entry(&batch, &body, state)?;
        self.written = state.unwrap_or(self.written);
        self.appended = appended.sequence;
        let position = Entry {
            index: entry.index,
            term: entry.term,
            start: appended.start,
            body_bytes: body.bytes().len() as u64,
        };
        let changes_configuration = configuration_change(&body).is_some();
        view.push(position, Some(body));
        self.pending.push_back(AppendedEntry {
            batch,
            appended,
            changes_configuration,
        });
        Ok(changes_configuration)
    }

    /// Overrules the entry of this index and all behind it, if the log has them.
    fn overrule(&mut self, view: &mut View, index: u64) {
        if index > view.last() {
            return;
        }
        if let Some((first, last)) = view.truncate(index) {
            self.engine.overrule(&first, &last);
        }
        let kept = self
            .pending
            .partition_point(|pending| pending.batch.index < index);
        self.pending.truncate(kept);
    }

    /// Decodes an entry into its changes and its records. Uses this member's own proposal if
    /// the entry is that one.
    fn read(&mut self, entry: &eraftpb::Entry) -> Result<(Batch, Body), Error> {
        let proposed = self.proposed.take();
        let own = proposed.filter(|(own, _)| (own.term, own.index) == (entry.term, entry.index));
        if let Some((batch, body)) = own {
            assert_eq!(
                records_of(entry).len(),
                body.bytes().len(),
                "entry {} is what was proposed",
                entry.index
            );
            return Ok((batch, body));
        }
        let body = Body::verified_before(records_of(entry).clone());
        let batch = Batch::decode(entry.term, entry.index, &body)?;
        revisions::check_records(&batch).map_err(Error::of_machine)?;
        Ok((batch, body))
    }

    /// Takes the first pending entry, which the library hands out as this one.
    pub fn take_pending(&mut self, entry: &eraftpb::Entry) -> AppendedEntry {
        let pending = self.pending.pop_front();
        let pending = pending.expect("a committed entry that is stable here is in the log here");
        assert_eq!(
            (pending.batch.term, pending.batch.index),
            (entry.term, entry.index),
            "entries are applied in their order, none twice and none left out"
        );
        pending
    }

    /// Puts on stable storage that the log is committed up to `index`, an entry that changes
    /// the configuration. A removed member ends when it learns of this, and its vote could be
    /// needed to find out again that the entry is committed. So this must precede every
    /// message about it.
    pub fn remember_commit(&mut self, index: u64) -> Result<(), Error> {
        let commit = self.hard_state.commit;
        assert!(
            commit >= index,
            "entry {index} is above the commit index {commit}"
        );
        if self.written.commit < index {
            self.write_hard_state()?;
        }
        self.engine.wait_durable(self.appended)?;
        self.engine.flush()?;
        self.durable = self.durable.max(self.appended);
        Ok(())
    }

    /// Drops everything under way, after a snapshot was installed with this hard state.
    pub fn restart_at(&mut self, installed: HardState) {
        self.proposed = None;
        self.pending.clear();
        self.written = installed;
        // The installation has waited for everything before it.
        self.durable = self.engine.durable();
        let (appended, durable) = (self.appended, self.durable);
        assert!(appended <= durable, "{appended:?} of {durable:?} is lost");
    }
}
