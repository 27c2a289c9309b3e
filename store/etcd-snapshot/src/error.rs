//! Errors of reading what a file holds.

use std::path::PathBuf;

/// Why a file is not used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read, or its pages are damaged.
    #[error(transparent)]
    File(#[from] bolt::Error),
    /// The checksum at the end of a saved snapshot does not fit the bytes before it.
    #[error(
        "{}: its SHA-256 does not fit its bytes, so it is not what was saved. Take another copy; \
         or, if only `etcdutl hashkv` has opened it, which changes a file, add --skip-hash-check",
        .0.display()
    )]
    Changed(PathBuf),
    /// The file has no bucket that etcd always makes.
    #[error("it has no bucket {0}: it is a database of bbolt, but not one of etcd 3")]
    NoBucket(&'static str),
    /// An entry of a bucket cannot be etcd's.
    #[error(
        "bucket {bucket}, entry {}: {problem}; take another copy",
        hexadecimal(key)
    )]
    Entry {
        /// Name of the bucket.
        bucket: &'static str,
        /// Key of the entry.
        key: Vec<u8>,
        /// The fault.
        problem: String,
    },
    /// The revision was compacted away.
    #[error("revision {asked} has been compacted: the file has {compacted} and later ones")]
    Compacted {
        /// The revision that was asked for.
        asked: i64,
        /// The newest compaction.
        compacted: i64,
    },
    /// The caller has asked to stop.
    #[error("interrupted")]
    Interrupted,
    /// The revision is newer than the file.
    #[error("revision {asked} is in the future: the file ends at {newest}")]
    Future {
        /// The revision that was asked for.
        asked: i64,
        /// The file's newest revision.
        newest: i64,
    },
}

impl Error {
    pub(crate) fn entry(bucket: &'static str, key: &[u8], problem: impl Into<String>) -> Error {
        Error::Entry {
            bucket,
            key: key.to_owned(),
            problem: problem.into(),
        }
    }
}

/// At most the first 32 bytes: a damaged key may be long.
fn hexadecimal(key: &[u8]) -> String {
    let shown = key.iter().take(32);
    shown.map(|byte| format!("{byte:02x}")).collect()
}
