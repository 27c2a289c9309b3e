//! What a file is, in five numbers.

use std::collections::HashSet;

use bolt::DatabaseFile;
use crc_fast::{CrcAlgorithm, Digest};

use crate::row::{self, RowKey};
use crate::{Error, meta};

/// The numbers of `etcdutl snapshot status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileStatus {
    /// CRC-32C over names, keys and values of all buckets.
    pub hash: u32,
    /// The newest revision; 0 without any.
    pub revision: i64,
    /// Keys that exist at that revision.
    pub keys: u64,
    /// Bytes of all pages, free ones included.
    pub size_bytes: u64,
    /// Version of the format; empty before etcd 3.6.
    pub version: String,
}

/// Checks every page of a file and reads every entry. `progress` gets the bytes of entries as they
/// are read, all of them twice. Memory grows with the keys that exist.
pub fn status(file: &DatabaseFile, mut progress: impl FnMut(u64)) -> Result<FileStatus, Error> {
    file.check(&mut progress)?;
    let mut tally = Tally::default();
    for bucket in file.buckets()? {
        tally.bucket(&bucket.name);
        for entry in file.entries(&bucket) {
            let (key, value) = entry?;
            tally.entry(&key, &value);
            progress((key.len() + value.len()) as u64);
            if bucket.name == row::BUCKET {
                let revision = RowKey::decode(&key)?;
                tally.count(revision, &row::key_of(&key, value)?);
            }
        }
    }
    Ok(tally.status(file.size_bytes(), meta::read(file)?.version))
}

/// The numbers of a file, as its entries are read or written.
#[derive(Debug)]
pub(crate) struct Tally {
    digest: Digest,
    /// Keys that exist.
    keys: HashSet<Box<[u8]>>,
    revision: i64,
}

impl Default for Tally {
    fn default() -> Tally {
        Tally {
            digest: Digest::new(CrcAlgorithm::Crc32Iscsi),
            keys: HashSet::new(),
            revision: 0,
        }
    }
}

impl Tally {
    pub fn bucket(&mut self, name: &[u8]) {
        self.digest.update(name);
    }

    pub fn entry(&mut self, key: &[u8], value: &[u8]) {
        self.digest.update(key);
        self.digest.update(value);
    }

    /// Counts a row of a key.
    pub fn count(&mut self, row: RowKey, key: &[u8]) {
        match row.is_deletion {
            true => self.keys.remove(key),
            false => self.keys.insert(key.into()),
        };
        self.revision = row.main;
    }

    pub fn status(self, size_bytes: u64, version: String) -> FileStatus {
        FileStatus {
            hash: u32::try_from(self.digest.finalize()).expect("a CRC of 32 bits"),
            revision: self.revision,
            keys: self.keys.len() as u64,
            size_bytes,
            version,
        }
    }
}
