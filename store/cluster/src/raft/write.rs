//! Writes the library's entries and hard states as frames of the log.
//!
//! ```text
//!   ready ──► entries ──► a frame each, the last one with the hard state
//!         └─► a hard state alone ──► a frame of its own
//!   an entry of an index that exists ──► that one and all behind it are overruled
//! ```

use engine::{Batch, Body, Entry, HardState};
use raft::Ready;
use raft::eraftpb;

use super::consensus::{Consensus, Pending};
use super::entry::{configuration_change, records_of};
use crate::{Error, Mutant};

impl Consensus {
    /// Writes the entries and the hard state of a ready. Returns whether they enter a term,
    /// vote, or change the configuration.
    pub(super) fn write(&mut self, ready: &mut Ready) -> Result<bool, Error> {
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
            self.appended = self.engine.append_hard_state(self.hard_state)?;
            self.written = self.hard_state;
        }
        let mut changes_configuration = false;
        while let Some(entry) = entries.next() {
            let state = (entries.peek().is_none() && self.hard_state != self.written)
                .then_some(self.hard_state);
            changes_configuration |= self.append(&entry, state)?;
        }
        Ok(changes_configuration || before != (self.written.term, self.written.vote))
    }

    /// Appends an entry, with the hard state if one is given. Returns whether the entry changes
    /// the configuration.
    fn append(&mut self, entry: &eraftpb::Entry, state: Option<HardState>) -> Result<bool, Error> {
        self.overrule(entry.index);
        let (batch, body) = self.read(entry)?;
        let appended = self.engine.append_entry(&batch, &body, state)?;
        self.written = state.unwrap_or(self.written);
        self.appended = appended.sequence;
        let place = Entry {
            index: entry.index,
            term: entry.term,
            start: appended.start,
            body_bytes: body.bytes().len() as u64,
        };
        let changes_configuration = configuration_change(&body).is_some();
        self.node.mut_store().append(place, body);
        self.pending.push_back(Pending {
            batch,
            appended,
            changes_configuration,
        });
        Ok(changes_configuration)
    }

    /// Overrules the entry of this index and all behind it, if the log has them.
    fn overrule(&mut self, index: u64) {
        if index > self.node.store().last() {
            return;
        }
        if let Some((first, last)) = self.node.mut_store().truncate(index) {
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
        let own =
            proposed.filter(|(batch, _)| (batch.term, batch.index) == (entry.term, entry.index));
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
}
