//! What a file is, in five numbers.

use std::collections::HashSet;

use bolt::DatabaseFile;
use bytes::Bytes;
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
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    let (mut keys, mut revision) = (HashSet::<Box<[u8]>>::new(), 0);
    for bucket in file.buckets()? {
        digest.update(&bucket.name);
        for entry in file.entries(&bucket) {
            let (key, value) = entry?;
            digest.update(&key);
            digest.update(&value);
            progress((key.len() + value.len()) as u64);
            if bucket.name == row::BUCKET {
                revision = count(&mut keys, &key, value)?;
            }
        }
    }
    Ok(FileStatus {
        hash: u32::try_from(digest.finalize()).expect("a CRC of 32 bits"),
        revision,
        keys: keys.len() as u64,
        size_bytes: file.size_bytes(),
        version: meta::read(file)?.version,
    })
}

/// Counts a row, and returns its revision.
fn count(keys: &mut HashSet<Box<[u8]>>, row: &[u8], value: Bytes) -> Result<i64, Error> {
    let revision = RowKey::decode(row)?;
    let key = row::key_of(row, value)?;
    match revision.is_deletion {
        true => keys.remove(&key[..]),
        false => keys.insert(key[..].into()),
    };
    Ok(revision.main)
}
