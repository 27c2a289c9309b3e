//! Records, and what the data of the kinds is.

use bytes::Bytes;
use prost::Message;

pub(crate) const METADATA: i64 = 1;
pub(crate) const ENTRY: i64 = 2;
pub(crate) const HARD_STATE: i64 = 3;
/// The checksum of the file before, at the beginning of each file.
pub(crate) const CRC: i64 = 4;
pub(crate) const SNAPSHOT: i64 = 5;

/// `walpb.Record`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct LoggedRecord {
    #[prost(int64, tag = "1")]
    pub kind: i64,
    /// CRC-32C of the data of all records up to this one.
    #[prost(uint32, tag = "2")]
    pub crc: u32,
    #[prost(bytes = "bytes", optional, tag = "3")]
    pub data: Option<Bytes>,
}

/// `etcdserverpb.Metadata`: the owner of the log.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(crate) struct Owner {
    /// The member's id.
    #[prost(uint64, tag = "1")]
    pub member: u64,
    #[prost(uint64, tag = "2")]
    pub cluster: u64,
}

/// `walpb.Snapshot` without the members: an entry up to which the database file has everything.
#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct SnapshotMark {
    #[prost(uint64, tag = "1")]
    pub index: u64,
}

/// `raftpb.HardState`.
#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct LoggedState {
    #[prost(uint64, tag = "1")]
    pub term: u64,
    #[prost(uint64, tag = "2")]
    pub vote: u64,
    #[prost(uint64, tag = "3")]
    pub commit: u64,
}

/// `raftpb.Entry`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct LoggedEntry {
    #[prost(int32, tag = "1")]
    pub kind: i32,
    #[prost(uint64, tag = "2")]
    pub term: u64,
    #[prost(uint64, tag = "3")]
    pub index: u64,
    #[prost(bytes = "bytes", optional, tag = "4")]
    pub data: Option<Bytes>,
}

impl LoggedEntry {
    /// Whether it holds a request; the others change Raft's configuration.
    pub fn is_request(&self) -> bool {
        self.kind == 0
    }
}
