//! State and counters of a log and its segments.

use crate::{Position, Sequence, Tag};

/// What a segment is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SegmentKind {
    /// A stretch of the log.
    Log = 1,
    /// Survivors of reclaim or a snapshot, written in bulk.
    Sorted = 2,
}

/// One segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentInfo {
    /// Its number, never used twice.
    pub id: u32,
    /// What it is for.
    pub kind: SegmentKind,
    /// Bytes from its start to the end of its last frame.
    pub used_bytes: u64,
    /// Whether nothing is added to it any more.
    pub sealed: bool,
    /// Where its first frame starts.
    pub first: Position,
    /// Tag of its first tagged group (zero when there is none).
    pub first_tag: Tag,
    /// Tag of its last tagged group.
    pub last_tag: Tag,
}

/// Counters and state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Last group that is done (see [`crate::Durability`]).
    pub durable: Sequence,
    /// Last group that was opened for appending.
    pub appended: Sequence,
    /// Device flushes on the commit path since the log was opened.
    pub flushes: u64,
    /// Bytes handed to the disk on the commit path since then.
    pub bytes_written: u64,
    /// Group frames written since then.
    pub groups: u64,
    /// Bytes that are done and not flushed, with [`crate::Durability::Os`].
    pub unflushed_bytes: u64,
    /// Segments ready for use, the next one included.
    pub spare_segments: usize,
    /// Why the log accepts nothing any more.
    pub failed: Option<String>,
}

/// What opening found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// Groups shown to the visitor.
    pub groups: u64,
    /// Number of the last valid frame.
    pub sequence: Sequence,
    /// Tag of the last tagged group seen.
    pub tag: Tag,
    /// Where the log continues.
    pub end: Position,
    /// Generation of this opening.
    pub epoch: u32,
    /// Whether the last user closed the log.
    pub clean: bool,
    /// Bytes of an unfinished group were found behind the end and dropped.
    pub torn: bool,
    /// Size of the segments (the files' own, where there were files).
    pub segment_bytes: u64,
}
