//! Bytes of a snapshot's pieces. The page: `docs/formats/snapshot.md`.
//!
//! ```text
//! piece   0  8  "INKSNAP\0"           head     0  u64 index
//!         8  u32 version 1                     8  u64 term
//!        12  u32 kind                         16  i64 revision
//!        16  u64 snapshot's id                24  i64 compacted
//!        24  u64 number, from 0       foot     0  u64 versions
//!        32  u32 CRC of the piece              8  u64 hidden versions
//!            before, 0 for the first          16  u64 bytes of the state blob
//!        36  u32 payload length
//!        40  u32 CRC32C of 0..40      state    the blob, in parts
//!            and the payload          versions, hidden
//!        44  u32 zero                          key versions: header (48 bytes, as
//!        48      payload                       in the log) and kv, one by one
//! ```
//!
//! Order: head, state*, versions*, hidden*, foot. All little-endian.

use super::SnapshotInfo;
use crate::format::{u32_at, u64_at};
use value_log::crc32c_of as crc;

pub(crate) const MAGIC: [u8; 8] = *b"INKSNAP\0";
pub(crate) const VERSION: u32 = 1;
/// Bytes before a piece's payload.
pub(crate) const ENVELOPE_BYTES: usize = 48;
const CHECKED_BYTES: usize = 40;

/// What a piece holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Head = 1,
    State = 2,
    Versions = 3,
    Hidden = 4,
    Foot = 5,
}

impl Kind {
    fn from_code(code: u32) -> Option<Kind> {
        let all = [
            Kind::Head,
            Kind::State,
            Kind::Versions,
            Kind::Hidden,
            Kind::Foot,
        ];
        all.into_iter().find(|kind| *kind as u32 == code)
    }
}

/// What surrounds a piece's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Envelope {
    pub(crate) kind: Kind,
    pub(crate) id: u64,
    pub(crate) number: u64,
    /// Checksum of the piece before.
    pub(crate) previous_crc: u32,
}

/// What does not fit, and where in the piece.
pub(crate) type Misfit = (usize, String);

impl Envelope {
    /// Fills in the first bytes of `piece`, which were left free; returns its
    /// checksum.
    pub(crate) fn seal(&self, piece: &mut [u8]) -> u32 {
        let payload_bytes = piece.len() - ENVELOPE_BYTES;
        let length = u32::try_from(payload_bytes).expect("a version is shorter than a segment");
        piece[0..8].copy_from_slice(&MAGIC);
        piece[8..12].copy_from_slice(&VERSION.to_le_bytes());
        piece[12..16].copy_from_slice(&(self.kind as u32).to_le_bytes());
        piece[16..24].copy_from_slice(&self.id.to_le_bytes());
        piece[24..32].copy_from_slice(&self.number.to_le_bytes());
        piece[32..36].copy_from_slice(&self.previous_crc.to_le_bytes());
        piece[36..40].copy_from_slice(&length.to_le_bytes());
        let crc = crc(&[&piece[..CHECKED_BYTES], &piece[ENVELOPE_BYTES..]]);
        piece[40..44].copy_from_slice(&crc.to_le_bytes());
        piece[44..48].fill(0);
        crc
    }

    /// Reads the envelope and checks the whole piece; also returns its checksum.
    pub(crate) fn open(piece: &[u8]) -> Result<(Envelope, u32), Misfit> {
        let misfit = |at, what: &str| Err((at, what.to_owned()));
        if piece.len() < ENVELOPE_BYTES {
            return misfit(piece.len(), "it ends within its envelope");
        }
        if piece[..8] != MAGIC {
            return misfit(0, "it does not start like a piece of a snapshot");
        }
        match u32_at(piece, 8) {
            VERSION => {}
            other => {
                let what = format!("it has version {other}, this program reads {VERSION}");
                return Err((8, what));
            }
        }
        let payload_bytes = piece.len() - ENVELOPE_BYTES;
        let length = u32_at(piece, 36);
        if length as usize != payload_bytes {
            let what = format!("it says {length} bytes follow, and {payload_bytes} do");
            return Err((36, what));
        }
        let expected = u32_at(piece, 40);
        let zero = u32_at(piece, 44);
        if crc(&[&piece[..CHECKED_BYTES], &piece[ENVELOPE_BYTES..]]) != expected || zero != 0 {
            return misfit(40, "it fails its checksum");
        }
        let Some(kind) = Kind::from_code(u32_at(piece, 12)) else {
            return Err((12, format!("unknown kind {}", u32_at(piece, 12))));
        };
        let envelope = Envelope {
            kind,
            id: u64_at(piece, 16),
            number: u64_at(piece, 24),
            previous_crc: u32_at(piece, 32),
        };
        Ok((envelope, expected))
    }
}

pub(crate) const HEAD_BYTES: usize = 32;

pub(crate) fn encode_head(info: &SnapshotInfo) -> Vec<u8> {
    let (revision, compacted) = (info.revision as u64, info.compacted as u64);
    let words = [info.index, info.term, revision, compacted];
    words.map(u64::to_le_bytes).as_flattened().to_vec()
}

/// The moment in a head's payload; refuses what no member can be at.
pub(crate) fn decode_head(id: u64, payload: &[u8]) -> Result<SnapshotInfo, Misfit> {
    if payload.len() != HEAD_BYTES {
        return Err((0, format!("a head of {} bytes", payload.len())));
    }
    let info = SnapshotInfo {
        id,
        index: u64_at(payload, 0),
        term: u64_at(payload, 8),
        revision: u64_at(payload, 16) as i64,
        compacted: u64_at(payload, 24) as i64,
    };
    if info.index == 0 || info.revision < 1 {
        return Err((0, format!("it is of no moment: {info:?}")));
    }
    if info.compacted < -1 || info.compacted > info.revision {
        return Err((24, format!("it is compacted beyond its end: {info:?}")));
    }
    Ok(info)
}

/// The same for the same state in pieces of the same size, on whatever member:
/// pieces of other snapshots are told by it.
pub(crate) fn id_of(head: &[u8], state: &[u8], piece_bytes: usize) -> u64 {
    let moment = crc(&[head, &(piece_bytes as u64).to_le_bytes()]);
    u64::from(moment) << 32 | u64::from(crc(&[state]))
}

/// What all pieces together must add up to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Foot {
    pub(crate) versions: u64,
    pub(crate) hidden: u64,
    pub(crate) state_bytes: u64,
}

pub(crate) const FOOT_BYTES: usize = 24;

impl Foot {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let words = [self.versions, self.hidden, self.state_bytes];
        words.map(u64::to_le_bytes).as_flattened().to_vec()
    }

    pub(crate) fn decode(payload: &[u8]) -> Option<Foot> {
        (payload.len() == FOOT_BYTES).then(|| Foot {
            versions: u64_at(payload, 0),
            hidden: u64_at(payload, 8),
            state_bytes: u64_at(payload, 16),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece() -> Vec<u8> {
        let envelope = Envelope {
            kind: Kind::State,
            id: 0x0102_0304_0506_0708,
            number: 9,
            previous_crc: 0xaabb_ccdd,
        };
        let mut piece = vec![0; ENVELOPE_BYTES];
        piece.extend(b"ink");
        envelope.seal(&mut piece);
        piece
    }

    #[test]
    fn a_piece_lies_byte_for_byte_as_the_page_says() {
        let piece = piece();
        assert_eq!(&piece[..8], b"INKSNAP\0");
        assert_eq!(piece[8..16], [1, 0, 0, 0, 2, 0, 0, 0]);
        assert_eq!(piece[16..24], [8, 7, 6, 5, 4, 3, 2, 1]);
        assert_eq!(piece[24..32], [9, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(piece[32..40], [0xdd, 0xcc, 0xbb, 0xaa, 3, 0, 0, 0]);
        assert_eq!(&piece[44..], b"\0\0\0\0ink");
    }

    #[test]
    fn every_truncation_and_every_flipped_bit_is_refused() {
        let whole = piece();
        assert!(Envelope::open(&whole).is_ok());
        for length in 0..whole.len() {
            assert!(Envelope::open(&whole[..length]).is_err(), "{length}");
        }
        assert!(Envelope::open(&[&whole[..], b"x"].concat()).is_err());
        for bit in 0..whole.len() * 8 {
            let mut damaged = whole.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(Envelope::open(&damaged).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn head_and_foot_come_back_and_odd_ones_are_refused() {
        let info = SnapshotInfo {
            id: 5,
            index: 7,
            term: 2,
            revision: 9,
            compacted: -1,
        };
        let head = encode_head(&info);
        assert_eq!(head[24..], [0xff; 8]);
        assert_eq!(decode_head(5, &head), Ok(info));
        assert!(decode_head(5, &head[1..]).is_err());
        for odd in [
            SnapshotInfo { index: 0, ..info },
            SnapshotInfo {
                revision: 0,
                ..info
            },
            SnapshotInfo {
                compacted: 10,
                ..info
            },
            SnapshotInfo {
                compacted: -2,
                ..info
            },
        ] {
            assert!(decode_head(5, &encode_head(&odd)).is_err(), "{odd:?}");
        }
        let foot = Foot {
            versions: 1,
            hidden: 2,
            state_bytes: 3,
        };
        assert_eq!(foot.encode()[..9], [1, 0, 0, 0, 0, 0, 0, 0, 2]);
        assert_eq!(Foot::decode(&foot.encode()), Some(foot));
        assert_eq!(Foot::decode(&foot.encode()[1..]), None);
    }
}
