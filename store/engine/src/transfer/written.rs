//! Pieces of a state that no engine has: a store that is filled from a file.
//!
//! The pieces are those that [`super::Export`] would make of the same state, so the receiver checks
//! them in the same way.

use super::SnapshotInfo;
use super::format::{self, ENVELOPE_BYTES, Envelope, Foot, Kind};
use crate::KeyChange;
use crate::record::header_of;
use bytes::Bytes;

/// Makes pieces from versions. The order: all versions ([`PieceWriter::version`]), then all that a
/// later change of the same transaction replaced ([`PieceWriter::hidden`]).
#[derive(Debug)]
pub struct PieceWriter {
    info: SnapshotInfo,
    piece_bytes: usize,
    /// The piece that is being filled, its envelope left free.
    piece: Vec<u8>,
    kind: Kind,
    number: u64,
    previous_crc: u32,
    foot: Foot,
    ready: Vec<Bytes>,
}

impl PieceWriter {
    /// Begins a snapshot of this moment (its id is computed), with the state blob of a checkpoint.
    /// Pieces have about `piece_bytes` bytes.
    pub fn new(mut info: SnapshotInfo, state: &[u8], piece_bytes: usize) -> PieceWriter {
        let piece_bytes = piece_bytes.max(ENVELOPE_BYTES + 1);
        let head = format::encode_head(&info);
        info.id = format::id_of(&head, state, piece_bytes);
        let mut writer = PieceWriter {
            info,
            piece_bytes,
            piece: vec![0; ENVELOPE_BYTES],
            kind: Kind::Head,
            number: 0,
            previous_crc: 0,
            foot: Foot::default(),
            ready: Vec::new(),
        };
        writer.piece.extend(head);
        for part in state.chunks(piece_bytes) {
            writer.begin(Kind::State);
            writer.piece.extend(part);
        }
        writer.foot.state_bytes = state.len() as u64;
        writer
    }

    /// Adds a version. Keys ascend, and the versions of a key fall. The error says why it cannot be
    /// stored.
    pub fn version(&mut self, change: &KeyChange) -> Result<(), String> {
        self.foot.versions += 1;
        self.add(Kind::Versions, change)
    }

    /// Adds a version that its own transaction replaced. Revisions ascend.
    pub fn hidden(&mut self, change: &KeyChange) -> Result<(), String> {
        self.foot.hidden += 1;
        self.add(Kind::Hidden, change)
    }

    /// The pieces that are complete, in order.
    pub fn ready(&mut self) -> std::vec::Drain<'_, Bytes> {
        self.ready.drain(..)
    }

    /// The last pieces.
    pub fn finish(mut self) -> Vec<Bytes> {
        self.begin(Kind::Foot);
        let foot = self.foot.encode();
        self.piece.extend(foot);
        self.end();
        self.ready
    }

    fn add(&mut self, kind: Kind, change: &KeyChange) -> Result<(), String> {
        let header = header_of(change)?.encode();
        let bytes = header.len() + change.kv.len();
        let is_full =
            self.piece.len() > ENVELOPE_BYTES && self.piece.len() + bytes > self.piece_bytes;
        if self.kind != kind || is_full {
            self.begin(kind);
        }
        self.piece.extend(header);
        self.piece.extend_from_slice(&change.kv);
        Ok(())
    }

    /// Ends the present piece, and begins one of this kind.
    fn begin(&mut self, kind: Kind) {
        self.end();
        self.kind = kind;
    }

    fn end(&mut self) {
        let mut piece = std::mem::replace(&mut self.piece, vec![0; ENVELOPE_BYTES]);
        let envelope = Envelope {
            kind: self.kind,
            id: self.info.id,
            number: self.number,
            previous_crc: self.previous_crc,
        };
        self.previous_crc = envelope.seal(&mut piece);
        self.number += 1;
        self.ready.push(piece.into());
    }
}
