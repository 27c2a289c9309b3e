//! HashKV of a file: the number that a running etcd, and Inkstone, answer for the same keys.
//!
//! Of versions that a compaction may remove, only those count that it keeps: the newest of each key
//! at the hashed revision. If no key exists there, all count that are left. (etcd's
//! `server/storage/mvcc/hash.go`)

use std::collections::HashMap;

use bolt::DatabaseFile;
use crc_fast::{CrcAlgorithm, Digest};

use crate::row::{self, RowKey};
use crate::{Error, meta};

/// RowKey of a store without any change.
const FIRST_REVISION: i64 = 1;

/// A hash with what it covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileHash {
    pub hash: u32,
    /// The revision that was hashed.
    pub hash_revision: i64,
    /// The newest compaction; -1: none.
    pub compact_revision: i64,
}

/// The newest version of each key at a revision; `None` if it is a deletion.
type Newest = HashMap<Box<[u8]>, Option<(i64, i64)>>;

/// Computes HashKV at a revision; 0 is the newest. `progress` gets the bytes of rows as they are
/// read, all of them twice.
pub fn hash(
    file: &DatabaseFile,
    revision: i64,
    mut progress: impl FnMut(u64),
) -> Result<FileHash, Error> {
    let compacted = meta::read(file)?.compacted;
    if revision > 0 && revision < compacted {
        let asked = revision;
        return Err(Error::Compacted { asked, compacted });
    }
    let asked = if revision == 0 { i64::MAX } else { revision };
    let (newest, kept) = survey(file, asked, compacted, &mut progress)?;
    if revision > newest {
        let asked = revision;
        return Err(Error::Future { asked, newest });
    }
    let at = if revision == 0 { newest } else { revision };
    let any_exists = kept.values().any(Option::is_some);
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    digest.update(row::BUCKET.as_bytes());
    each_row(file, |key, value| {
        progress((key.len() + value.len()) as u64);
        let row = RowKey::decode(&key)?;
        if row.main > at {
            return Ok(());
        }
        if row.main <= compacted && any_exists {
            let name = row::key_of(&key, value.clone())?;
            if kept.get(&name[..]) != Some(&Some((row.main, row.sub))) {
                return Ok(());
            }
        }
        // Releases of etcd differ in whether a compaction removes it.
        if row.main == compacted && row.is_deletion {
            return Ok(());
        }
        digest.update(&key);
        digest.update(&value);
        Ok(())
    })?;
    Ok(FileHash {
        hash: u32::try_from(digest.finalize()).expect("a CRC of 32 bits"),
        hash_revision: at,
        compact_revision: compacted,
    })
}

/// The file's newest revision, and the newest version of each key at revision `at`. Before the
/// first compaction nothing was removed, and no key is looked at.
fn survey(
    file: &DatabaseFile,
    at: i64,
    compacted: i64,
    progress: &mut impl FnMut(u64),
) -> Result<(i64, Newest), Error> {
    let (mut last, mut newest) = (compacted.max(FIRST_REVISION), Newest::new());
    each_row(file, |key, value| {
        progress((key.len() + value.len()) as u64);
        let row = RowKey::decode(&key)?;
        last = last.max(row.main);
        if compacted < 0 || row.main > at {
            return Ok(());
        }
        let version = (!row.is_deletion).then_some((row.main, row.sub));
        let name = row::key_of(&key, value)?;
        match newest.get_mut(&name[..]) {
            Some(known) => *known = version,
            None => drop(newest.insert(name[..].into(), version)),
        }
        Ok(())
    })?;
    Ok((last, newest))
}

fn each_row(
    file: &DatabaseFile,
    mut visit: impl FnMut(bytes::Bytes, bytes::Bytes) -> Result<(), Error>,
) -> Result<(), Error> {
    let bucket = file.bucket(row::BUCKET)?;
    let bucket = bucket.ok_or(Error::NoBucket(row::BUCKET))?;
    for entry in file.entries(&bucket) {
        let (key, value) = entry?;
        visit(key, value)?;
    }
    Ok(())
}
