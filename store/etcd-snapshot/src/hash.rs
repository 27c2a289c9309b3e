//! HashKV of a file: the number that a running etcd, and Inkstone, answer for the same keys.
//!
//! Of versions that a compaction may remove, only those count that it keeps: the newest of each key
//! at the hashed revision. If no key exists there, all count that are left; a key that the
//! transaction of the hashed revision itself deleted and put again does not count for that. (etcd's
//! `server/storage/mvcc/hash.go` and `key_index.go`)
//!
//! Memory grows with the keys that exist, if the file was compacted.

use std::collections::{HashMap, HashSet};

use bolt::DatabaseFile;
use crc_fast::{CrcAlgorithm, Digest};

use crate::entries::each_of_required;
use crate::row::{self, RowKey};
use crate::{Error, meta};

/// Revision of a store without any change.
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

/// Keys that exist at a revision.
#[derive(Default)]
struct Existing {
    /// With the newest version of each.
    newest: HashMap<Box<[u8]>, (i64, i64)>,
    /// Keys that the newest transaction has deleted.
    deleted: HashSet<Box<[u8]>>,
    /// Revision of that transaction.
    last: i64,
}

impl Existing {
    fn apply(&mut self, row: RowKey, key: &[u8]) {
        if row.main != self.last {
            self.deleted.clear();
            self.last = row.main;
        }
        if row.is_deletion {
            self.newest.remove(key);
            self.deleted.insert(key.into());
            return;
        }
        let version = (row.main, row.sub);
        match self.newest.get_mut(key) {
            Some(known) => *known = version,
            None => drop(self.newest.insert(key.into(), version)),
        }
    }

    /// Whether a key exists that the transaction of revision `at` has not deleted and put again.
    fn any_exists(&self, at: i64) -> bool {
        let is_new = |key: &[u8]| self.last == at && self.deleted.contains(key);
        self.newest.keys().any(|key| !is_new(key))
    }
}

/// Computes HashKV at a revision; 0 is the newest. `progress` gets the bytes of rows as they are
/// read, all of them twice.
pub fn hash(
    file: &DatabaseFile,
    revision: i64,
    mut progress: impl FnMut(u64),
) -> Result<FileHash, Error> {
    let compacted = meta::read(file)?.compacted;
    let (at, kept) = surveyed(file, revision, compacted, &mut progress)?;
    let any_exists = kept.any_exists(at);
    Ok(FileHash {
        hash: digest(file, at, compacted, any_exists.then_some(&kept), progress)?,
        hash_revision: at,
        compact_revision: compacted,
    })
}

/// HashKV at a revision, as a store with the same keys answers it that is compacted at `compacted`, which
/// may be behind the file's own compaction. `None` if no key exists at the revision, and the file has
/// versions that such a store may have removed already: its answer depends on whether it has.
pub fn hash_as_compacted(
    file: &DatabaseFile,
    revision: i64,
    compacted: i64,
    mut progress: impl FnMut(u64),
) -> Result<Option<u32>, Error> {
    let own = meta::read(file)?.compacted;
    if compacted < own {
        let asked = compacted;
        let compacted = own;
        return Err(Error::Compacted { asked, compacted });
    }
    let (at, kept) = surveyed(file, revision, compacted, &mut progress)?;
    let any_exists = kept.any_exists(at);
    if !any_exists && compacted > own {
        return Ok(None);
    }
    digest(file, at, compacted, any_exists.then_some(&kept), progress).map(Some)
}

/// The revision to hash, and the keys that exist there.
fn surveyed(
    file: &DatabaseFile,
    revision: i64,
    compacted: i64,
    progress: &mut impl FnMut(u64),
) -> Result<(i64, Existing), Error> {
    if revision > 0 && revision < compacted {
        let asked = revision;
        return Err(Error::Compacted { asked, compacted });
    }
    let asked = if revision == 0 { i64::MAX } else { revision };
    let (newest, kept) = survey(file, asked, compacted, progress)?;
    if revision > newest {
        let asked = revision;
        return Err(Error::Future { asked, newest });
    }
    Ok((if revision == 0 { newest } else { revision }, kept))
}

/// Hashes the rows up to `at`; of those up to the compaction only the newest of the keys in `kept`, if
/// any key exists.
fn digest(
    file: &DatabaseFile,
    at: i64,
    compacted: i64,
    kept: Option<&Existing>,
    mut progress: impl FnMut(u64),
) -> Result<u32, Error> {
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    digest.update(row::BUCKET.as_bytes());
    each_of_required(file, row::BUCKET, |key, value| {
        progress((key.len() + value.len()) as u64);
        let row = RowKey::decode(&key)?;
        if row.main > at {
            return Ok(());
        }
        if let Some(kept) = kept.filter(|_| row.main <= compacted) {
            let name = row::key_of(&key, value.clone())?;
            if kept.newest.get(&name[..]) != Some(&(row.main, row.sub)) {
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
    Ok(u32::try_from(digest.finalize()).expect("a CRC of 32 bits"))
}

/// The file's newest revision, and the keys that exist at revision `at`. Before the first compaction
/// nothing was removed, and no key is looked at.
fn survey(
    file: &DatabaseFile,
    at: i64,
    compacted: i64,
    progress: &mut impl FnMut(u64),
) -> Result<(i64, Existing), Error> {
    let (mut last, mut existing) = (compacted.max(FIRST_REVISION), Existing::default());
    each_of_required(file, row::BUCKET, |key, value| {
        progress((key.len() + value.len()) as u64);
        let row = RowKey::decode(&key)?;
        last = last.max(row.main);
        if compacted >= 0 && row.main <= at {
            existing.apply(row, &row::key_of(&key, value)?);
        }
        Ok(())
    })?;
    Ok((last, existing))
}
