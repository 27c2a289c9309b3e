//! The engine's directory: its disk, its free space, and how much of it releasing garbage needs.
//!
//! Releasing garbage never needs more space than there is. A copy of survivors fills as many
//! segments as there is room for, and only where more segments are emptied than filled. A
//! checkpoint that finds no room takes that of its oldest predecessor, then that of
//! segments made ahead. On a disk that is nearly full no segment is made ahead beyond the
//! next one, and none is sealed for a little garbage.

use crate::Error;
use environment::{Disk, Shortage};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use value_log::Log;

/// The reserve is at most this part of the file system.
const RESERVE_PART: u64 = 16;
/// Size of a checkpoint without its entries, at most.
const CHECKPOINT_BYTES_BESIDE: u64 = 8 << 10;

#[derive(Clone, Debug)]
pub(crate) struct Directory {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) path: PathBuf,
    /// Free space that puts never touch.
    pub(crate) reserve_bytes: u64,
}

/// The reserve of a directory: what is wished, and less on a small file system.
pub(crate) fn reserve_bytes(disk: &dyn Disk, directory: &Path, wished_bytes: u64) -> u64 {
    let part = |total_bytes: u64| total_bytes / RESERVE_PART;
    let space = disk.space(directory);
    space.map_or(wished_bytes, |it| wished_bytes.min(part(it.total_bytes)))
}

/// Size of the next checkpoint, at most: entries in memory are larger than in it.
pub(crate) fn checkpoint_bytes(index_bytes: u64) -> u64 {
    index_bytes + CHECKPOINT_BYTES_BESIDE
}

impl Directory {
    /// The error of a write to a file of the engine's: a full disk differs from other
    /// reasons, as the remedy does.
    pub(crate) fn write_failed(&self, file: &Path, error: io::Error) -> Error {
        match Shortage::of(&error) {
            Some(Shortage::Room) => Error::NoSpace {
                directory: self.path.clone(),
                available_bytes: self.available_bytes(),
                reserve_bytes: self.reserve_bytes,
            },
            _ => Error::disk("write", file)(error),
        }
    }

    /// Refuses where less than `reserve_bytes` are free; `unknown` is the error of a file system
    /// that does not report its free space.
    pub(crate) fn check_available(
        &self,
        reserve_bytes: u64,
        unknown: impl FnOnce(io::Error) -> Error,
    ) -> Result<(), Error> {
        let space = self.disk.space(&self.path).map_err(unknown)?;
        if space.available_bytes >= reserve_bytes {
            return Ok(());
        }
        Err(Error::NoSpace {
            directory: self.path.clone(),
            available_bytes: space.available_bytes,
            reserve_bytes,
        })
    }

    /// Refuses where copies of `needed_bytes` do not fit beside the reserve.
    pub(crate) fn check_room_for_copy(&self, needed_bytes: u64) -> Result<(), Error> {
        let available_bytes = self.available_bytes();
        let needed_bytes = needed_bytes.saturating_add(self.reserve_bytes);
        match available_bytes >= needed_bytes {
            true => Ok(()),
            false => Err(Error::NoRoomForCopy {
                directory: self.path.clone(),
                available_bytes,
                needed_bytes,
            }),
        }
    }

    /// Free space; `u64::MAX` if the system does not report it.
    pub(crate) fn available_bytes(&self) -> u64 {
        let space = self.disk.space(&self.path);
        space.map_or(u64::MAX, |it| it.available_bytes)
    }

    /// Whether the log could not fill another segment and have one ahead, and leave the
    /// reserve alone.
    pub(crate) fn is_low_on_space(&self, segment_bytes: u64) -> bool {
        self.available_bytes() < self.reserve_bytes + 2 * segment_bytes
    }

    /// Segments of the log that survivors may fill, with room left for the checkpoint of
    /// `checkpoint_bytes` that follows.
    pub(crate) fn segments_to_fill(&self, log: &Log, checkpoint_bytes: u64) -> u64 {
        let free_bytes = self.available_bytes();
        let left_bytes = free_bytes.saturating_sub(checkpoint_bytes);
        // The log keeps one, unless that is the only room there is.
        let ready = log.spare_segments() as u64;
        let segments = left_bytes / log.segment_bytes() + ready.saturating_sub(1);
        let has_the_last = ready > 0 && free_bytes >= checkpoint_bytes;
        segments.max(u64::from(has_the_last))
    }
}
