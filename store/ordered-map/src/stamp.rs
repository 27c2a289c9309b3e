//! By what a directory is known as a map's.
//!
//! The first entry of the log is a state record of this kind, and each checkpoint carries
//! the same bytes (docs/formats/ordered-map.md). Neither is what a member of a cluster
//! writes, so neither opens what the other wrote.

use bytes::Bytes;
use engine::{Batch, Change, HardState, Recovered, Replayed};

/// Of state records. Those of members begin at 1.
const KIND: u8 = b'm';
/// What the record and the checkpoints say; the number is the version of the format.
pub(crate) const STAMP: &[u8] = b"ordered-map 1";
/// Of any version.
const ANY_STAMP: &[u8] = b"ordered-map ";

/// Of all entries: there are no elections here.
pub(crate) const TERM: u64 = 1;

/// The entry that makes an empty log a map's.
pub(crate) fn first_batch() -> Batch {
    Batch {
        term: TERM,
        index: 1,
        changes: vec![Change::State {
            kind: KIND,
            payload: Bytes::from_static(STAMP),
        }],
    }
}

/// Written with it: a member, which takes only what is committed, then finds the entry
/// committed and refuses it. Without, all of the map would be entries that it may replace.
pub(crate) fn hard_state() -> HardState {
    HardState {
        term: TERM,
        vote: 0,
        commit: 1,
    }
}

/// Looks at what an opening replays.
#[derive(Debug, Default)]
pub(crate) struct Inspector {
    stamped: bool,
    foreign: Option<String>,
}

impl Inspector {
    pub(crate) fn see(&mut self, replayed: &Replayed<'_>) -> Result<(), engine::Error> {
        let outcome = match replayed {
            Replayed::Checkpoint(state) => self.see_stamp(state),
            Replayed::Batch(batch) => {
                let mut changes = batch.changes.iter();
                changes.try_for_each(|change| self.see_change(batch.index, change))
            }
        };
        outcome.map_err(|what| {
            self.foreign = Some(what.clone());
            engine::Error::Replay(what)
        })
    }

    /// Why the directory could not be opened, where it is another's.
    pub(crate) fn foreign(&self) -> Option<String> {
        self.foreign.clone()
    }

    /// Whether the directory that was opened is a map's already, and not a new one. An
    /// error says what it is else.
    pub(crate) fn is_stamped(&self, recovered: &Recovered) -> Result<bool, String> {
        if !self.stamped && recovered.hard_state != HardState::default() {
            return Err("it is a member's that waits for its first snapshot".into());
        }
        Ok(self.stamped)
    }

    fn see_change(&mut self, entry: u64, change: &Change) -> Result<(), String> {
        match change {
            Change::State {
                kind: KIND,
                payload,
            } => self.see_stamp(payload),
            Change::State { kind, .. } => Err(format!(
                "entry {entry} of its log has a record of kind {kind}, as crate inkstone and \
                 inkstone serve write them"
            )),
            Change::Key(_) if self.stamped => Ok(()),
            Change::Key(_) => Err(format!("entry {entry} of its log has keys and no stamp")),
        }
    }

    fn see_stamp(&mut self, bytes: &[u8]) -> Result<(), String> {
        if bytes == STAMP {
            self.stamped = true;
            return Ok(());
        }
        match bytes.strip_prefix(ANY_STAMP) {
            Some(version) => Err(format!(
                "its format is version {} of an ordered map's, and this program knows version 1",
                version.escape_ascii()
            )),
            None => Err("what it keeps beside keys is another program's".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(replayed: &Replayed<'_>) -> String {
        let mut inspector = Inspector::default();
        inspector.see(replayed).unwrap_err();
        inspector.foreign().unwrap()
    }

    #[test]
    fn a_newer_version_says_so() {
        let said = said(&Replayed::Checkpoint(b"ordered-map 2"));
        assert!(said.contains("version 2 "), "{said}");
    }

    #[test]
    fn what_has_no_stamp_is_anothers() {
        assert!(said(&Replayed::Checkpoint(b"")).contains("another program's"));
        let mut batch = first_batch();
        batch.changes[0] = Change::State {
            kind: 6,
            payload: Bytes::new(),
        };
        assert!(said(&Replayed::Batch(&batch)).contains("kind 6"));
    }

    #[test]
    fn a_member_that_has_only_promised_is_a_member() {
        let mut recovered = Recovered::default();
        assert_eq!(Inspector::default().is_stamped(&recovered), Ok(false));
        recovered.hard_state.term = 7;
        Inspector::default().is_stamped(&recovered).unwrap_err();
    }
}
