//! The engine's files seen from outside, read-only: for `inspect` and `check`.

mod checkpoint;

use std::path::Path;

use bytes::Bytes;
use environment::Disk;

use crate::format::{KIND_HARD_STATE, KIND_STATE, STATE_HEADER_BYTES};
use crate::record::is_key_version;
use crate::{HardState, KeyChange, whole_log};

pub use checkpoint::{
    Checkpoint, CheckpointFile, Damage, Pointer, checkpoints, is_checkpoint_name,
};

/// What a record of the log is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contents {
    /// A version of a key.
    Key(KeyChange),
    /// A state record of the crate above.
    State {
        kind: u8,
        payload_bytes: u64,
    },
    HardState(HardState),
    /// A record that passes its checksum and is none of this version's; why.
    Unreadable(&'static str),
}

/// Whether the files of the log suggest that it holds the whole state, from the first
/// segment to the last, so that a directory without a usable checkpoint is rebuilt from
/// it. An error says what is missing.
pub fn check_log_is_whole(disk: &dyn Disk, directory: &Path) -> Result<(), String> {
    whole_log::beginning(disk, directory).map(drop)
}

/// Reads a record's payload.
pub fn contents(kind: u8, payload: &Bytes) -> Contents {
    match kind {
        _ if is_key_version(kind) => {
            KeyChange::decode(kind, payload).map_or_else(Contents::Unreadable, Contents::Key)
        }
        KIND_STATE if payload.len() >= STATE_HEADER_BYTES => Contents::State {
            kind: payload[0],
            payload_bytes: (payload.len() - STATE_HEADER_BYTES) as u64,
        },
        KIND_STATE => Contents::Unreadable("shorter than its header"),
        KIND_HARD_STATE => HardState::decode(payload).map_or(
            Contents::Unreadable("a hard state of another size"),
            Contents::HardState,
        ),
        _ => Contents::Unreadable("neither a key version nor a record of this version"),
    }
}
