//! The sender's side.
//!
//! ```text
//!   starts   0 head   1 state   2 a..   3 f..   4 k (versions below 7) ...
//!                                       ▲ seek(3)
//! ```
//!
//! The export remembers where each piece began, so that a broken stream can continue
//! with any piece; a piece made again has the same bytes.

use super::format::{self, ENVELOPE_BYTES, Envelope, Foot, Kind};
use super::holds::Hold;
use super::walk::{FoundVersion, From, Walk};
use super::{Piece, SnapshotInfo};
use crate::Error;
use crate::apply::Index;
use crate::parts::Parts;
use crate::trees::{self, HIDDEN, VersionEntry};
use bytes::Bytes;
use std::sync::Arc;

/// Everything that was applied at one moment, piece by piece: an iterator that
/// reads the disk. While it lives, sweeps of compactions that came after it began wait.
#[derive(Debug)]
pub struct Export {
    parts: Arc<Parts>,
    _hold: Hold,
    /// Generation of the engine's state that it exports.
    generation: u64,
    info: SnapshotInfo,
    state: Bytes,
    piece_bytes: usize,
    /// About how many bytes all pieces have together.
    bytes: u64,
    /// Starts of the pieces that were given, and of the next one.
    starts: Vec<Start>,
    /// The piece that comes next.
    number: u64,
    /// Stands where that piece starts; `None`: it is made when it is needed.
    walk: Option<Walk>,
}

/// Where a piece starts, and what came before it.
#[derive(Clone, Debug)]
struct Start {
    at: At,
    previous_crc: u32,
    before: Foot,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum At {
    Head,
    State { offset: usize },
    Walk(From),
    Foot,
    End,
}

/// A piece that is being filled, and where the next one starts.
struct Filled {
    kind: Kind,
    bytes: Vec<u8>,
    next: At,
    after: Foot,
}

impl Export {
    /// The moment that it is a snapshot of.
    pub fn info(&self) -> SnapshotInfo {
        self.info
    }

    /// About how many bytes all pieces have together.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Number of the piece that comes next.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Continues with a piece that was given before, or with the next one. A piece
    /// has the same bytes each time.
    pub fn seek(&mut self, number: u64) -> Result<(), Error> {
        if number >= self.starts.len() as u64 {
            return Err(Error::ExportOver { number });
        }
        if number != self.number {
            self.walk = None;
            self.number = number;
        }
        Ok(())
    }

    fn make(&mut self) -> Result<Option<Piece>, Error> {
        let start = self.starts[self.number as usize].clone();
        let Some(filled) = self.fill(start.at, start.before)? else {
            return Ok(None);
        };
        self.check_generation()?;
        let (number, last) = (self.number, filled.next == At::End);
        let envelope = Envelope {
            kind: filled.kind,
            id: self.info.id,
            number,
            previous_crc: start.previous_crc,
        };
        let mut bytes = filled.bytes;
        let previous_crc = envelope.seal(&mut bytes);
        self.number += 1;
        if self.number == self.starts.len() as u64 {
            self.starts.push(Start {
                at: filled.next,
                previous_crc,
                before: filled.after,
            });
        }
        let bytes = bytes.into();
        Ok(Some(Piece {
            number,
            last,
            bytes,
        }))
    }

    /// `None` at the end.
    fn fill(&mut self, at: At, before: Foot) -> Result<Option<Filled>, Error> {
        let state_at = |offset| At::State { offset };
        let filled = match at {
            At::Head => self.filled(Kind::Head, &format::encode_head(&self.info), state_at(0)),
            At::State { offset } if offset < self.state.len() => {
                let end = self.state.len().min(offset + self.piece_bytes);
                let mut filled = self.filled(Kind::State, &self.state[offset..end], state_at(end));
                filled.after.state_bytes = end as u64;
                filled
            }
            At::State { .. } => return self.fill(At::Walk(From::first_version()), before),
            At::Walk(from) => return self.fill_with_versions(from, before),
            At::Foot => self.filled(Kind::Foot, &before.encode(), At::End),
            At::End => return Ok(None),
        };
        Ok(Some(filled))
    }

    fn filled(&self, kind: Kind, payload: &[u8], next: At) -> Filled {
        let mut bytes = vec![0; ENVELOPE_BYTES];
        bytes.extend(payload);
        Filled {
            kind,
            bytes,
            next,
            after: self.starts[self.number as usize].before,
        }
    }

    fn fill_with_versions(&mut self, from: From, before: Foot) -> Result<Option<Filled>, Error> {
        let kind = match from {
            From::Version { .. } => Kind::Versions,
            From::Hidden { .. } => Kind::Hidden,
        };
        let mut filled = self.filled(kind, &[], At::End);
        let last = self.take_versions(from, &mut filled)?;
        let end = match kind {
            Kind::Versions => At::Walk(From::first_hidden()),
            _ => At::Foot,
        };
        let Some(last) = last else {
            return self.fill(end, before);
        };
        let at_end = self.walk.as_ref().is_some_and(Walk::is_at_end);
        filled.next = if at_end { end } else { At::Walk(last) };
        if at_end {
            self.walk = None;
        }
        Ok(Some(filled))
    }

    /// Adds versions until the piece is full. Returns where the next piece continues;
    /// `None` when there was no version.
    fn take_versions(&mut self, from: From, filled: &mut Filled) -> Result<Option<From>, Error> {
        let info = self.info;
        let mut walk = self.walk.take().unwrap_or_else(|| Walk::new(info, from));
        let mut last = None;
        loop {
            let Some(found) = walk.front() else {
                if walk.is_at_end() {
                    break;
                }
                walk.look(&self.parts.records.index.snapshot());
                self.check_generation()?;
                continue;
            };
            let record = self.read(filled.kind, found)?;
            let is_empty = filled.bytes.len() == ENVELOPE_BYTES;
            if !is_empty && filled.bytes.len() + record.len() > self.piece_bytes {
                break;
            }
            filled.bytes.extend(&record);
            last = Some(behind(filled.kind, found));
            match filled.kind {
                Kind::Hidden => filled.after.hidden += 1,
                _ => filled.after.versions += 1,
            }
            walk.pass();
        }
        self.walk = Some(walk);
        Ok(last)
    }

    /// Header and kv of a version.
    fn read(&self, kind: Kind, found: &FoundVersion) -> Result<Bytes, Error> {
        let records = &self.parts.records;
        let VersionEntry { main, pointer, .. } = found.version;
        let read = match kind {
            Kind::Hidden => records.record(pointer, main, |trees| {
                trees.get(HIDDEN, &found.key).map(VersionEntry::from)
            }),
            _ => records
                .record(pointer, main, |trees| trees::find(trees, &found.key, main))
                .map_err(|error| records.of_version(error, &found.key, main)),
        };
        // Where a snapshot was installed, this state is gone.
        read.or_else(|error| self.check_generation().and(Err(error)))
    }

    fn check_generation(&self) -> Result<(), Error> {
        if self.parts.records.index.generation() == self.generation {
            return Ok(());
        }
        let number = self.number;
        Err(Error::ExportOver { number })
    }
}

/// Where a walk that has passed `found` continues.
fn behind(kind: Kind, found: &FoundVersion) -> From {
    let key = found.key.clone();
    match kind {
        Kind::Hidden => From::Hidden { after: key },
        _ => From::Version {
            key,
            below: found.version.main,
        },
    }
}

impl Iterator for Export {
    type Item = Result<Piece, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let made = self.make();
        if made.is_err() {
            // It may have passed versions that are in no piece.
            self.walk = None;
        }
        made.transpose()
    }
}

impl Export {
    pub(crate) fn begin(
        parts: &Arc<Parts>,
        index: &Index,
        state: Vec<u8>,
        piece_bytes: usize,
    ) -> Export {
        let records = &parts.records;
        let mut info = SnapshotInfo {
            id: 0,
            index: index.applied_index,
            term: index.applied_term,
            revision: index.revision,
            compacted: index.compacted,
        };
        let piece_bytes = piece_bytes.max(ENVELOPE_BYTES);
        info.id = format::id_of(&format::encode_head(&info), &state, piece_bytes);
        let bytes = records.log_view.accounting.live.lock().live_bytes() + state.len() as u64;
        let start = Start {
            at: At::Head,
            previous_crc: 0,
            before: Foot::default(),
        };
        Export {
            parts: Arc::clone(parts),
            _hold: parts.transfers.holds.hold(info.compacted),
            generation: records.index.generation(),
            info,
            state: state.into(),
            piece_bytes,
            bytes,
            starts: vec![start],
            number: 0,
            walk: None,
        }
    }
}
