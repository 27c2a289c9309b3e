//! The write-ahead log that is also the value store: segments, groups, group commit, recovery.

mod buffer;
mod committer;
mod directory;
mod doorbell;
mod error;
mod format;
mod frame;
mod group;
mod groups;
pub mod inspect;
mod ledger;
#[cfg(test)]
mod ledger_tests;
mod log;
mod open;
mod options;
mod position;
mod producer;
mod progress;
mod reader;
mod record;
mod recovery;
mod release;
mod relocation;
mod segment;
mod shared;
mod status;
mod supply;
mod sync;
mod window;

pub use error::Error;
pub use group::{Appended, Group, GroupBuffer, Record, RecordBuffer, Tag};
pub use groups::Groups;
pub use log::{Log, Notice};
pub use options::{Durability, Options, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN, Seal};
pub use position::{Position, SEGMENT_MAX, Sequence};
pub use relocation::Relocation;
pub use status::{Recovered, SegmentInfo, SegmentKind, Status};
