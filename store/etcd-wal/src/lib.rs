//! Reads the write-ahead log of an etcd that has stopped: `member/wal`.
//!
//! ```text
//!   0000000000000000-0000000000000000.wal   number of the file, index of its first entry
//!   0000000000000001-0000000000002711.wal
//!
//!   file      frames, then zeros up to the size that etcd has reserved
//!   frame     length u64: bits 0 to 55 record bytes, bits 56 to 58 padding bytes, bit 63
//!             whether there is padding; record; padding
//!   record    protobuf: kind, CRC-32C of all data up to here, data               (frame)
//!   data      entry of Raft, hard state, snapshot's index, metadata              (record)
//!   entry     InternalRaftRequest: what a client or a member asked for           (request)
//! ```
//!
//! etcd applies an entry to its database file in memory and writes that file every 100 ms, so an etcd
//! that was killed has entries here that its `member/snap/db` lacks. [`Tail`] is these entries.
//!
//! A file may come from anywhere: lengths, checksums, indexes and their order are checked before
//! they are used. Memory grows with the number of entries of the tail, 32 bytes each, and with the
//! largest record, which may have [`RECORD_BYTES_MAX`].
//!
//! Source: etcd 3.7's `server/storage/wal` and `api/etcdserverpb/raft_internal.proto`.
//!
//! ```no_run
//! // The newest entry that member/snap/db has.
//! let base = etcd_wal::Base { index: 4711, term: 2 };
//! let tail = etcd_wal::Tail::read("default.etcd/member/wal".as_ref(), base)?;
//! for request in tail.requests() {
//!     println!("{}", request?.number());
//! }
//! # Ok::<(), etcd_wal::Error>(())
//! ```

mod error;
mod frame;
mod record;
mod request;
mod tail;

pub use error::Error;
pub use frame::RECORD_BYTES_MAX;
pub use request::{DowngradeInfo, InternalRaftRequest, Request, RequestHeader};
pub use tail::{Base, Tail};
