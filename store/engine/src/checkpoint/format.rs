//! Bytes of a checkpoint file. The page: `docs/formats/checkpoint.md`.
//!
//! ```text
//! file    0  8  "INKCKPT\0"      block   0  u32 kind
//!         8  u32 version 5               4  u32 payload length
//!        12  u32 CRC32C of 0..12         8  u32 block number, from 0
//!        16  blocks                     12  u32 CRC32C of 0..12 and payload
//!                                       16  payload
//!
//! head    0  u64 applied term    foot    0  u64 entries of CURRENT
//!         8  u64 applied index           8  u64 entries of HISTORY
//!        16  u64 applied frame          16  u64 entries of HIDDEN
//!        24  u64 replay position (0: all)  24  u64 greatest main revision in them
//!        32  i64 revision               32  u64 bytes of the state blob
//!        40  i64 compacted       segment 0  u32 id, u32 zero
//!        48  i64 log floor               8  i64 last main revision
//!        56  u64 term, u64 vote,        16  u64 last index
//!            u64 commit
//!        80  u64 effects since
//!        88  u64 sum of effects
//! state   the blob, in pieces
//! marks   pairs of i64 main, u64 position
//! overruled  pairs of u64 position
//! entries `entries.rs`
//! ```
//!
//! Order of blocks: head, state*, segments, marks*, overruled, entries*, foot. Blocks
//! of entries may alternate between trees. All little-endian; varints are LEB128.

use crate::HardState;
use crate::entry::HARD_STATE_BYTES;
use crate::format::u64_at;
use crate::trees::{EMPTY_REVISION, NEVER_COMPACTED, OF_VERSIONS, VersionEntry};
use ordered_index::IndexEntry;
use std::slice::ChunksExact;
use value_log::Position;

pub(crate) const MAGIC: [u8; 8] = *b"INKCKPT\0";
pub(crate) const VERSION: u32 = 5;
/// The oldest version that is read. Its head ends before the sum of effects.
pub(crate) const VERSION_READ_MIN: u32 = 3;
/// Before it, entries took half as much again, or more.
pub(crate) const VERSION_OF_PACKED_ENTRIES: u32 = 5;
pub(crate) const FILE_HEADER_BYTES: usize = 16;
pub(crate) const BLOCK_HEADER_BYTES: usize = 16;
/// Blocks are closed when they reach this; a long key, or one entry that makes all rows wider, may exceed it.
pub(crate) const BLOCK_BYTES: usize = 64 << 10;
/// No block is longer: a longer length is damage.
pub(crate) const BLOCK_BYTES_MAX: usize = 256 << 20;

/// What a block holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Head = 1,
    State = 2,
    Segments = 3,
    Marks = 4,
    Entries = 5,
    Foot = 6,
    Overruled = 7,
}

impl Kind {
    pub(crate) fn from_code(code: u32) -> Option<Kind> {
        let all = [
            Kind::Head,
            Kind::State,
            Kind::Segments,
            Kind::Marks,
            Kind::Entries,
            Kind::Foot,
            Kind::Overruled,
        ];
        all.into_iter().find(|kind| *kind as u32 == code)
    }
}

/// The moment a checkpoint stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) applied_term: u64,
    pub(crate) applied_index: u64,
    /// Where the frame of the last applied batch starts.
    pub(crate) applied_position: Position,
    /// Frames at or after it are replayed.
    pub(crate) replay_position: Position,
    pub(crate) revision: i64,
    pub(crate) compacted: i64,
    /// From this main revision on the log has every change.
    pub(crate) log_floor: i64,
    /// The newest that was appended then.
    pub(crate) hard_state: HardState,
    /// Index behind which `effects` counts ([`crate::StateHash::since`]).
    pub(crate) effects_since: u64,
    /// Sum over the effects up to the applied index.
    pub(crate) effects: u64,
}

/// Bytes of a head of version 3.
const HEAD_BYTES_WITHOUT_EFFECTS: usize = 56 + HARD_STATE_BYTES;
pub(crate) const HEAD_BYTES: usize = HEAD_BYTES_WITHOUT_EFFECTS + 16;

impl Head {
    /// Nothing written yet. It replays from the oldest segment.
    pub(crate) const EMPTY: Head = Head {
        applied_term: 0,
        applied_index: 0,
        applied_position: Position::NONE,
        replay_position: Position::NONE,
        revision: EMPTY_REVISION,
        compacted: NEVER_COMPACTED,
        log_floor: 0,
        hard_state: HardState {
            term: 0,
            vote: 0,
            commit: 0,
        },
        effects_since: 0,
        effects: 0,
    };

    pub(crate) fn encode(&self) -> Vec<u8> {
        let words = [
            self.applied_term,
            self.applied_index,
            self.applied_position.to_bits(),
            self.replay_position.to_bits(),
            self.revision as u64,
            self.compacted as u64,
            self.log_floor as u64,
        ];
        let words = words.iter().flat_map(|word| word.to_le_bytes());
        let effects = [self.effects_since, self.effects];
        let effects = effects.iter().flat_map(|word| word.to_le_bytes());
        words
            .chain(self.hard_state.encode().into_iter().flatten())
            .chain(effects)
            .collect()
    }

    pub(crate) fn decode(payload: &[u8]) -> Option<Head> {
        let word = |number: usize| u64_at(payload, number * 8);
        let end = HEAD_BYTES_WITHOUT_EFFECTS;
        let hard_state = HardState::decode(payload.get(end - HARD_STATE_BYTES..end)?)?;
        // A sum that was never kept begins with what follows.
        let (effects_since, effects) = match payload.len() - end {
            0 => (word(1), 0),
            16 => (word(10), word(11)),
            _ => return None,
        };
        Some(Head {
            applied_term: word(0),
            applied_index: word(1),
            applied_position: Position::from_bits(word(2)),
            replay_position: Position::from_bits(word(3)),
            revision: word(4) as i64,
            compacted: word(5) as i64,
            log_floor: word(6) as i64,
            hard_state,
            effects_since,
            effects,
        })
    }
}

/// What the whole file must add up to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Foot {
    /// Entries of CURRENT, of HISTORY and of HIDDEN.
    pub(crate) entries: [u64; OF_VERSIONS.len()],
    /// Greatest main revision among them; may exceed the head's.
    pub(crate) last_main: u64,
    pub(crate) state_bytes: u64,
}

pub(crate) const FOOT_BYTES: usize = 40;

impl Foot {
    /// Adds an entry.
    pub(crate) fn count(&mut self, tree: usize, entry: IndexEntry) {
        self.entries[tree] += 1;
        self.last_main = self.last_main.max(VersionEntry::from(entry).main as u64);
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let words = [
            self.entries[0],
            self.entries[1],
            self.entries[2],
            self.last_main,
            self.state_bytes,
        ];
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    pub(crate) fn decode(payload: &[u8]) -> Option<Foot> {
        let word = |number: usize| u64_at(payload, number * 8);
        (payload.len() == FOOT_BYTES).then(|| Foot {
            entries: [word(0), word(1), word(2)],
            last_main: word(3),
            state_bytes: word(4),
        })
    }
}

/// Rows of the tables of segments, of marks and of overruled frames. Fails where the last
/// one is cut off.
pub(crate) fn rows(kind: Kind, payload: &[u8]) -> Result<ChunksExact<'_, u8>, &'static str> {
    let (row_bytes, cut_off) = match kind {
        Kind::Segments => (24, "its table of segments is cut off"),
        Kind::Marks => (16, "its table of marks is cut off"),
        _ => (16, "its table of overruled frames is cut off"),
    };
    match payload.len().is_multiple_of(row_bytes) {
        true => Ok(payload.chunks_exact(row_bytes)),
        false => Err(cut_off),
    }
}

pub(crate) fn put_varint(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Takes a varint off the front.
pub(crate) fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_and_foot_come_back() {
        let head = Head {
            applied_term: 1,
            applied_index: 2,
            applied_position: Position::new(3, 64),
            replay_position: Position::new(4, 0),
            revision: 5,
            compacted: -1,
            log_floor: 7,
            hard_state: HardState {
                term: 8,
                vote: 9,
                commit: 10,
            },
            effects_since: 11,
            effects: 12,
        };
        assert_eq!(head.encode().len(), HEAD_BYTES);
        assert_eq!(head.encode()[40..48], [0xff; 8]);
        assert_eq!(Head::decode(&head.encode()), Some(head));
        let of_version_3 = Head {
            effects_since: head.applied_index,
            effects: 0,
            ..head
        };
        let shorter = &head.encode()[..HEAD_BYTES_WITHOUT_EFFECTS];
        assert_eq!(Head::decode(shorter), Some(of_version_3));
        assert_eq!(Head::decode(&head.encode()[..HEAD_BYTES - 1]), None);
        let foot = Foot {
            entries: [1, 2, 3],
            last_main: 4,
            state_bytes: 5,
        };
        assert_eq!(foot.encode().len(), FOOT_BYTES);
        assert_eq!(Foot::decode(&foot.encode()), Some(foot));
        assert_eq!(Foot::decode(&foot.encode()[1..]), None);
    }

    #[test]
    fn varints_come_back_and_truncated_ones_are_refused() {
        for number in [0, 1, 127, 128, 300, u64::MAX] {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, number);
            assert_eq!(take_varint(&mut &bytes[..]), Some(number));
            assert_eq!(take_varint(&mut &bytes[..bytes.len() - 1]), None);
        }
    }
}
