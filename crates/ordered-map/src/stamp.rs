//! By what a directory is known as a map's.
//!
//! The first entry of the log is a state record of this kind, and each checkpoint carries
//! the same bytes (docs/formats/state.md). Neither is what a member of a cluster writes, so
//! neither opens what the other wrote.

use bytes::Bytes;
use engine::{Batch, Change, Replayed};

/// Of state records. Those of members begin at 1.
const KIND: u8 = 0x6d;
/// What the record and the checkpoints say; the number is the version of the format.
pub(crate) const STAMP: &[u8] = b"ordered-map 1";

/// The change that makes an empty log a map's.
pub(crate) fn change() -> Change {
    Change::State {
        kind: KIND,
        payload: Bytes::from_static(STAMP),
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
            Replayed::Checkpoint(state) => self.see_checkpoint(state),
            Replayed::Batch(batch) => self.see_batch(batch),
        };
        outcome.map_err(|what| {
            self.foreign = Some(what.clone());
            engine::Error::Replay(what)
        })
    }

    /// Why the directory is another's.
    pub(crate) fn foreign(self) -> Option<String> {
        self.foreign
    }

    /// It is a map's already.
    pub(crate) fn is_stamped(&self) -> bool {
        self.stamped
    }

    fn see_checkpoint(&mut self, state: &[u8]) -> Result<(), String> {
        match state {
            // Of a directory that nobody has stamped yet.
            [] => Ok(()),
            STAMP => {
                self.stamped = true;
                Ok(())
            }
            _ => Err("its checkpoint is another program's, or a newer version's".into()),
        }
    }

    fn see_batch(&mut self, batch: &Batch) -> Result<(), String> {
        for change in &batch.changes {
            match change {
                Change::State {
                    kind: KIND,
                    payload,
                } if payload == STAMP => self.stamped = true,
                Change::State { kind, .. } => {
                    return Err(format!(
                        "entry {} of its log has a record of kind {kind}, as crate inkstone and \
                         inkstone serve write them, or a newer version",
                        batch.index
                    ));
                }
                Change::Key(_) if self.stamped => {}
                Change::Key(_) => {
                    return Err(format!(
                        "entry {} of its log has keys and no stamp",
                        batch.index
                    ));
                }
            }
        }
        Ok(())
    }
}
