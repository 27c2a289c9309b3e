//! Whether a piece is the one that comes next.
//!
//! Everything but the contents is looked at, before a piece is taken: whole, of
//! this snapshot, the next, behind exactly the one before. What is refused here
//! has changed nothing.

use super::SnapshotInfo;
use super::format::{self, ENVELOPE_BYTES, Envelope, Kind, Misfit};
use crate::Error;

/// What was taken so far.
#[derive(Debug, Default)]
pub(crate) struct Order {
    info: Option<SnapshotInfo>,
    wanted: u64,
    previous_crc: u32,
    /// Of the last piece.
    kind: Option<Kind>,
}

impl Order {
    /// Number of the piece that comes next.
    pub(crate) fn wanted(&self) -> u64 {
        self.wanted
    }

    pub(crate) fn info(&self) -> Option<SnapshotInfo> {
        self.info
    }

    /// Takes note of the next piece; returns what it holds.
    pub(crate) fn accept(&mut self, piece: &[u8]) -> Result<Kind, Error> {
        let number = self.wanted;
        let misfit = |(offset, what): Misfit| Error::Piece {
            number,
            offset: offset as u64,
            what,
        };
        let (envelope, crc) = Envelope::open(piece).map_err(misfit)?;
        self.check(&envelope).map_err(misfit)?;
        if envelope.kind == Kind::Head {
            let head = format::decode_head(envelope.id, &piece[ENVELOPE_BYTES..]);
            self.info = Some(head.map_err(misfit)?);
        }
        self.wanted += 1;
        self.previous_crc = crc;
        self.kind = Some(envelope.kind);
        Ok(envelope.kind)
    }

    fn check(&self, envelope: &Envelope) -> Result<(), Misfit> {
        if let Some(info) = self.info
            && info.id != envelope.id
        {
            let what = format!(
                "it is of snapshot {:016x}, not of {:016x}",
                envelope.id, info.id
            );
            return Err((16, what));
        }
        if envelope.number < self.wanted {
            return Err((
                24,
                format!("piece {} has been taken already", envelope.number),
            ));
        }
        if envelope.number > self.wanted {
            return Err((24, format!("piece {} comes too early", envelope.number)));
        }
        if envelope.previous_crc != self.previous_crc {
            return Err((32, "it does not go on where the piece before ended".into()));
        }
        let follows = match self.kind {
            None => envelope.kind == Kind::Head,
            Some(Kind::Foot) => false,
            Some(before) => envelope.kind >= before && envelope.kind != Kind::Head,
        };
        if !follows {
            let what = format!("a piece of kind {:?} behind {:?}", envelope.kind, self.kind);
            return Err((12, what));
        }
        Ok(())
    }
}
