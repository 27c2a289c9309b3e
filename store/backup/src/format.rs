//! Numbers and names of the objects of a backup.
//!
//! ```text
//!   object    header, 128 bytes │ payload, zlib │ SHA-256 of all before, 32 bytes
//!   payload   of a base: an etcd database file      of changes: batches
//!   batch     head, 44 bytes │ leases granted │ leases ended │ hashes │ rows
//! ```
//!
//! All integers are little-endian. docs/formats/backup.md has every byte.

/// The first bytes of each object.
pub const MAGIC: [u8; 8] = *b"INKBACK\n";
/// Version of the format.
pub const VERSION: u16 = 1;
/// Bytes of a header.
pub const HEADER_BYTES: usize = 128;
/// Bytes of the SHA-256 at the end, and of a mark.
pub const SUM_BYTES: usize = 32;
/// Kind of an object that is a whole snapshot.
pub const KIND_BASE: u8 = 1;
/// Kind of an object with the rows of a range of revisions.
pub const KIND_CHANGES: u8 = 2;

/// Bytes of the head of a batch.
pub const BATCH_BYTES: usize = 44;
/// Flag of a batch that lists all leases that exist as granted.
pub const BATCH_LISTS_LEASES: u32 = 1;
/// Bytes of a granted lease: id, seconds.
pub const GRANTED_BYTES: usize = 16;
/// Bytes of an ended lease: id.
pub const ENDED_BYTES: usize = 8;
/// Bytes of a hash of the cluster: revision, compaction, HashKV.
pub const CHECK_BYTES: usize = 20;
/// Bytes of a row before its value: main, sub, flags, length.
pub const ROW_BYTES: usize = 17;
/// Flag of a row that deletes its key.
pub const ROW_DELETES: u8 = 1;

/// The most bytes of a payload of changes before compression that a reader takes into memory.
pub const CHANGES_BYTES_MAX: u64 = 1 << 30;
/// Changes of this many bytes before compression are not merged any more.
pub const SEALED_BYTES: u64 = 16 << 20;

/// Folder of bases in the folder of a history, and the end of their names.
pub const BASES: &str = "bases";
/// Folder of changes in the folder of a history, and the end of their names.
pub const CHANGES: &str = "changes";
