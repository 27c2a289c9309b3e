//! The write-ahead log that is also the value store: segments, groups, group commit, recovery.

mod error;
mod group;
mod log;
mod options;
mod position;
mod status;

pub use error::Error;
pub use group::{Appended, Group, GroupBuffer, Record, RecordBuffer, Tag};
pub use log::{Groups, Log, Notice, Relocation};
pub use options::{Durability, Options, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN, Seal};
pub use position::{Position, SEGMENT_MAX, Sequence};
pub use status::{Recovered, SegmentInfo, SegmentKind, Status};
