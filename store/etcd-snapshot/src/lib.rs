//! What etcd's database files hold: those of `etcdctl snapshot save`, and `member/snap/db` of an
//! etcd that has stopped.
//!
//! ```text
//!   bucket `key`    revision ──► version of a key, or its deletion     (row)
//!   bucket `meta`   revisions of compactions, version of the format   (meta)
//!                        │
//!                        ├──► FileStatus    what `etcdutl snapshot status` prints
//!                        └──► FileHash  etcd's HashKV of the file, at any revision it still has
//!   other buckets   leases, members, users, roles, alarms            (state)
//!
//!   FileState, versions ──► SnapshotPlan ──► a file, from its first byte to its SHA-256    (write)
//! ```
//!
//! Source: etcd 3.7's `server/storage/schema`, `server/storage/mvcc`, `etcdutl/snapshot`.
//!
//! ```no_run
//! let file = etcd_snapshot::open("backup.db".as_ref(), false, |_, _| ())?;
//! let status = etcd_snapshot::status(&file, |_| ())?;
//! println!("revision {} with {} keys", status.revision, status.keys);
//! # Ok::<(), etcd_snapshot::Error>(())
//! ```

mod entries;
mod error;
mod hash;
mod meta;
mod row;
mod sorted;
mod state;
mod status;
mod write;

use std::path::Path;

use bolt::{Checksum, DatabaseFile};

pub use error::Error;
pub use hash::{FileHash, hash, hash_as_compacted};
pub use row::{RowKey, rows};
pub use sorted::{FileVersion, SortedVersions};
pub use state::{FileState, LeaseRecord};
pub use status::{FileStatus, status};
pub use write::{FileRow, SUM_BYTES, SnapshotPlan};

/// Opens a file. Refuses one that is not what `etcdctl snapshot save` wrote, unless
/// `skips_hash_check`. `progress` gets the bytes that were read for that, and how many there are.
pub fn open(
    path: &Path,
    skips_hash_check: bool,
    progress: impl FnMut(u64, u64),
) -> Result<DatabaseFile, Error> {
    let file = DatabaseFile::open(path)?;
    if !skips_hash_check && file.checksum(progress)? == Checksum::Broken {
        return Err(Error::Changed(path.to_owned()));
    }
    Ok(file)
}
