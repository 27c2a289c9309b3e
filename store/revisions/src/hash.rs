//! HashKV: one number for everything a store holds, equal to etcd's.
//!
//! ```text
//!   CRC32C( "key" ‖ for each version in revision order: row key ‖ KeyValue )
//!   row key = main u64 BE ‖ '_' ‖ sub u64 BE ‖ 't' if it is a deletion
//! ```
//!
//! The engine chooses the versions (`versions_in_revision_order`), because it knows which ones
//! compaction has left.
//!
//! After a compaction to a revision its hash is another one, unless the earlier hash was kept
//! (`compacted.rs`).

mod compacted;

use crc_fast::{CrcAlgorithm, Digest};
use engine::{KeyChange, Versions};
use etcd_api::Error as Refusal;

use crate::Error;

pub(crate) use compacted::CompactedHashes;

/// The name of etcd's bucket, hashed first.
const BUCKET: &[u8] = b"key";

/// The answer of HashKV.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyValueHash {
    pub hash: u32,
    /// The newest compaction when the hash was taken; -1 before the first.
    pub compact_revision: i64,
    /// The revision that was hashed.
    pub hash_revision: i64,
    /// The newest revision when the hash was taken, for the header.
    pub revision: i64,
}

impl KeyValueHash {
    /// The hash of a state without versions.
    pub(crate) fn of_nothing(revision: i64, compacted: i64, newest: i64) -> KeyValueHash {
        KeyValueHash {
            hash: sum(bucket()),
            compact_revision: compacted,
            hash_revision: revision,
            revision: newest,
        }
    }

    /// The hash of these keys and of the other state, which is encoded.
    pub(crate) fn with_state(&self, state: &[u8]) -> u32 {
        let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
        digest.update(&self.hash.to_le_bytes());
        digest.update(state);
        sum(digest)
    }
}

/// A digest of the bucket's name.
fn bucket() -> Digest {
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    digest.update(BUCKET);
    digest
}

/// Hashes these versions; stops with an error when `goes_on` returns false.
pub(crate) fn hash_versions(
    versions: Versions,
    hash_revision: i64,
    goes_on: impl Fn() -> bool,
) -> Result<KeyValueHash, Error> {
    let (compact_revision, revision) = (versions.compacted(), versions.revision());
    let mut digest = bucket();
    for version in versions {
        if !goes_on() {
            return Err(Refusal::Stopped.into());
        }
        let version = version?;
        let main = version.revision.main;
        assert!(
            main <= hash_revision,
            "{main} is not of revision {hash_revision}"
        );
        hash_version(&mut digest, &version);
    }
    Ok(KeyValueHash {
        hash: sum(digest),
        compact_revision,
        hash_revision,
        revision,
    })
}

fn hash_version(digest: &mut Digest, version: &KeyChange) {
    digest.update(&version.revision.main.to_be_bytes());
    digest.update(b"_");
    digest.update(&version.revision.sub.to_be_bytes());
    if version.tombstone {
        digest.update(b"t");
    }
    digest.update(&version.kv);
}

fn sum(digest: Digest) -> u32 {
    u32::try_from(digest.finalize()).expect("a CRC of 32 bits")
}
