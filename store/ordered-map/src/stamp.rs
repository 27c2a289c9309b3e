//! By what a directory is known as a map's.
//!
//! The first entry of the log is a state record of this kind, and each checkpoint carries
//! the same bytes (docs/formats/ordered-map.md). Neither is what a member of a cluster
//! writes, so neither opens what the other wrote.

use bytes::Bytes;
use engine::{Batch, Change, HardState, Headers, Recovered, Replayed};

use crate::compression::Compression;

/// Of state records. Those of members begin at 1.
const KIND: u8 = b'm';
/// Stamps of all versions begin with this.
const ANY_STAMP: &[u8] = b"ordered-map ";

/// Of all entries: there are no elections here.
pub(crate) const TERM: u64 = 1;

/// Versions of the format of a map. It keeps the one that it was made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    One,
    /// Its key versions have short headers.
    Two,
    /// Its values may be compressed as well.
    Three,
}

impl Format {
    /// That of new maps.
    pub(crate) const NEWEST: Format = Format::Three;

    /// The record and the checkpoints say this.
    pub(crate) fn stamp(self) -> &'static [u8] {
        match self {
            Format::One => b"ordered-map 1",
            Format::Two => b"ordered-map 2",
            Format::Three => b"ordered-map 3",
        }
    }

    pub(crate) fn headers(self) -> Headers {
        match self {
            Format::One => Headers::Long,
            Format::Two | Format::Three => Headers::Short,
        }
    }

    /// How values are stored in such a map.
    pub(crate) fn compression(self, wished: Compression) -> Compression {
        match self {
            Format::One | Format::Two => Compression::None,
            Format::Three => wished,
        }
    }

    fn of_stamp(bytes: &[u8]) -> Option<Format> {
        let known = [Format::One, Format::Two, Format::Three];
        known.into_iter().find(|format| format.stamp() == bytes)
    }
}

/// The entry that makes an empty log a map's.
pub(crate) fn first_batch(format: Format) -> Batch {
    Batch {
        term: TERM,
        index: 1,
        changes: vec![Change::State {
            kind: KIND,
            payload: Bytes::from_static(format.stamp()),
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
    format: Option<Format>,
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

    /// The version of the map in the directory that was opened; `None` if it is a new one. An
    /// error says what it is else.
    pub(crate) fn format(&self, recovered: &Recovered) -> Result<Option<Format>, String> {
        if self.format.is_none() && recovered.hard_state != HardState::default() {
            return Err("it is a member's that waits for its first snapshot".into());
        }
        Ok(self.format)
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
            Change::Key(_) if self.format.is_some() => Ok(()),
            Change::Key(_) => Err(format!("entry {entry} of its log has keys and no stamp")),
        }
    }

    fn see_stamp(&mut self, bytes: &[u8]) -> Result<(), String> {
        if let Some(format) = Format::of_stamp(bytes) {
            let before = self.format.replace(format);
            return match before.is_none_or(|before| before == format) {
                true => Ok(()),
                false => Err("it says to be of two versions of an ordered map's format".into()),
            };
        }
        match bytes.strip_prefix(ANY_STAMP) {
            Some(version) => Err(format!(
                "its format is version {} of an ordered map's, and this program knows versions 1 \
                 to 3",
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
        let said = said(&Replayed::Checkpoint(b"ordered-map 4"));
        assert!(said.contains("version 4 "), "{said}");
    }

    #[test]
    fn a_directory_of_two_versions_is_refused() {
        let mut inspector = Inspector::default();
        inspector
            .see(&Replayed::Checkpoint(b"ordered-map 1"))
            .unwrap();
        inspector
            .see(&Replayed::Batch(&first_batch(Format::One)))
            .unwrap();
        inspector
            .see(&Replayed::Batch(&first_batch(Format::Two)))
            .unwrap_err();
        let said = inspector.foreign().unwrap();
        assert!(said.contains("two versions"), "{said}");
    }

    #[test]
    fn what_has_no_stamp_is_anothers() {
        assert!(said(&Replayed::Checkpoint(b"")).contains("another program's"));
        let mut batch = first_batch(Format::NEWEST);
        batch.changes[0] = Change::State {
            kind: 6,
            payload: Bytes::new(),
        };
        assert!(said(&Replayed::Batch(&batch)).contains("kind 6"));
    }

    #[test]
    fn a_member_that_has_only_promised_is_a_member() {
        let mut recovered = Recovered::default();
        assert_eq!(Inspector::default().format(&recovered), Ok(None));
        recovered.hard_state.term = 7;
        Inspector::default().format(&recovered).unwrap_err();
    }
}
