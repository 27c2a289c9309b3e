//! How much disk space giving garbage back needs, and how much there is.
//!
//! Giving back garbage never needs more than there is. A copy of survivors fills as many
//! segments as there is room for, and only where more segments are emptied than filled. A
//! checkpoint that finds no room takes that of its oldest predecessor, then that of
//! segments made ahead. On a disk that is nearly full no segment is made ahead beyond the
//! next one, and none is sealed for a little garbage.

use crate::Error;
use crate::engine::Shared;
use environment::{Disk, Shortage};
use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;
use value_log::SegmentKind;

/// The reserve is at most this part of the file system.
const RESERVE_PART: u64 = 16;
/// What a checkpoint takes beside the index.
const CHECKPOINT_BYTES_BESIDE: u64 = 8 << 10;

/// The reserve of a directory: what is wished, and less on a small file system.
pub(crate) fn reserve_bytes(disk: &dyn Disk, directory: &Path, wished_bytes: u64) -> u64 {
    let part = |total_bytes: u64| total_bytes / RESERVE_PART;
    let space = disk.space(directory);
    space.map_or(wished_bytes, |it| wished_bytes.min(part(it.total_bytes)))
}

impl Shared {
    /// The error of a write to a file of the engine's: a full disk differs from other
    /// reasons, as the remedy does.
    pub(crate) fn write_failed(&self, file: &Path, error: io::Error) -> Error {
        match Shortage::of(&error) {
            Some(Shortage::Room) => Error::NoSpace {
                directory: self.directory.clone(),
                available_bytes: self.available_bytes(),
                reserve_bytes: self.options.reserve_bytes,
            },
            _ => Error::disk("write", file)(error),
        }
    }

    /// Free space; `u64::MAX` if the system does not report it.
    fn available_bytes(&self) -> u64 {
        let space = self.disk.space(&self.directory);
        space.map_or(u64::MAX, |it| it.available_bytes)
    }

    /// Whether the log could not fill another segment and have one ahead, and leave the
    /// reserve alone.
    pub(crate) fn is_low_on_space(&self) -> bool {
        self.available_bytes() < self.options.reserve_bytes + 2 * self.log.segment_bytes()
    }

    /// What the next checkpoint takes, at most: entries in memory are larger than in it.
    pub(crate) fn checkpoint_bytes(&self) -> u64 {
        self.index_bytes.load(Ordering::Relaxed) + CHECKPOINT_BYTES_BESIDE
    }

    /// Segments that survivors may fill, with room left for the checkpoint that follows.
    pub(crate) fn segments_to_fill(&self) -> u64 {
        let free_bytes = self.available_bytes();
        let left_bytes = free_bytes.saturating_sub(self.checkpoint_bytes());
        // The log keeps one, unless that is the only room there is.
        let ready = self.log.spare_segments() as u64;
        let segments = left_bytes / self.log.segment_bytes() + ready.saturating_sub(1);
        let has_the_last = ready > 0 && free_bytes >= self.checkpoint_bytes();
        segments.max(u64::from(has_the_last))
    }

    /// Whether the log's present segment has so much garbage that sealing it, which takes
    /// another one, gives room back.
    pub(crate) fn has_much_garbage_at_the_end(&self) -> bool {
        let live = self.books.live();
        let segments = self.log.segments();
        let active = segments
            .iter()
            .find(|it| it.kind == SegmentKind::Log && !it.sealed);
        active.is_some_and(|it| {
            let garbage_bytes = it.used_bytes.saturating_sub(live.of(it.id).live_bytes);
            garbage_bytes > self.log.segment_bytes() / 2
        })
    }
}
