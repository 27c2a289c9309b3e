//! The versions of a file by key, as an index is filled: keys ascend, and the newest version of a key
//! comes first.
//!
//! ```text
//!   rows, by revision ──► 56 bytes and the key of each ──► sorted ──► read again, one by one
//! ```

use std::cmp::Reverse;

use bolt::{Bucket, DatabaseFile, EntryReader, Place};
use bytes::Bytes;
use etcd_api::EncodedKeyValue;

use crate::Error;
use crate::row::{self, RowKey};

/// Revision of a store without any change.
const FIRST_REVISION: i64 = 1;

/// The versions of a file that its compaction keeps.
#[derive(Debug)]
pub struct SortedVersions<'f> {
    file: &'f DatabaseFile,
    bucket: Bucket,
    /// All keys, one behind the other.
    keys: Vec<u8>,
    /// By key, the newest first. Of what one transaction did to a key, the last.
    versions: Vec<SortedRow>,
    /// Versions that a later change of the same transaction replaced, by revision.
    hidden: Vec<SortedRow>,
    revision: i64,
}

/// A version that is looked up again.
#[derive(Clone, Copy, Debug)]
struct SortedRow {
    key_at: usize,
    key_bytes: usize,
    row: RowKey,
    lease: i64,
    place: Place,
}

/// A version with its key and its encoded `mvccpb.KeyValue`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileVersion {
    pub row: RowKey,
    pub key: Bytes,
    pub kv: Bytes,
    /// Revision of the key's creation; 0 for a deletion.
    pub created: i64,
    /// Versions since then; 0 for a deletion.
    pub version: i64,
    /// Lease that the key is attached to; 0: none.
    pub lease: i64,
}

impl<'f> SortedVersions<'f> {
    /// Reads the keys of a file and sorts them. Of versions up to `compacted`, which may be beyond the
    /// file's own compaction, only those stay that the compaction keeps. `progress` gets the bytes of
    /// rows as they are read, and tells whether to go on.
    pub fn read(
        file: &'f DatabaseFile,
        compacted: impl FnOnce(i64) -> i64,
        mut progress: impl FnMut(u64) -> bool,
    ) -> Result<SortedVersions<'f>, Error> {
        let bucket = file.bucket(row::BUCKET)?;
        let bucket = bucket.ok_or(Error::NoBucket(row::BUCKET))?;
        let mut sorted = SortedVersions {
            file,
            keys: Vec::new(),
            versions: Vec::new(),
            hidden: Vec::new(),
            revision: FIRST_REVISION,
            bucket,
        };
        let mut entries = file.entries(&sorted.bucket);
        while let Some(entry) = entries.next_placed() {
            let (place, (row, value)) = entry?;
            if !progress((row.len() + value.len()) as u64) {
                return Err(Error::Interrupted);
            }
            let (row, version) = (RowKey::decode(&row)?, version_of(&row, value)?);
            sorted.revision = sorted.revision.max(row.main);
            if let Some(version) = version {
                sorted.add(&version, place);
            }
        }
        let compacted = compacted(sorted.revision);
        sorted.revision = sorted.revision.max(compacted);
        sorted.sort(compacted);
        Ok(sorted)
    }

    fn add(&mut self, version: &FileVersion, place: Place) {
        self.versions.push(SortedRow {
            key_at: self.keys.len(),
            key_bytes: version.key.len(),
            row: version.row,
            lease: version.lease,
            place,
        });
        self.keys.extend_from_slice(&version.key);
    }

    fn sort(&mut self, compacted: i64) {
        let keys = &self.keys;
        let key = |row: &SortedRow| &keys[row.key_at..row.key_at + row.key_bytes];
        self.versions.sort_unstable_by(|one, other| {
            let newest = |row: &SortedRow| Reverse((row.row.main, row.row.sub));
            key(one)
                .cmp(key(other))
                .then_with(|| newest(one).cmp(&newest(other)))
        });
        let mut last: Option<SortedRow> = None;
        let mut hidden = Vec::new();
        self.versions.retain(|row| {
            let before = last.replace(*row).filter(|before| key(before) == key(row));
            if before.is_some_and(|before| before.row.main == row.row.main) {
                hidden.extend(Some(*row).filter(|row| row.row.main > compacted));
                return false;
            }
            let is_newest_left = before.is_none_or(|before| before.row.main > compacted);
            let stays = !row.row.is_deletion || row.row.main == compacted;
            row.row.main > compacted || (is_newest_left && stays)
        });
        hidden.sort_unstable_by_key(|row| (row.row.main, row.row.sub));
        self.hidden = hidden;
    }

    /// The newest revision of the file, or the compaction if that is newer.
    pub fn revision(&self) -> i64 {
        self.revision
    }

    /// Number of versions.
    pub fn count(&self) -> usize {
        self.versions.len() + self.hidden.len()
    }

    /// Keys that exist at the newest revision with the lease that each is attached to.
    pub fn leased(&self) -> impl Iterator<Item = (&[u8], i64)> {
        let mut last: Option<&[u8]> = None;
        let of_key = self.versions.iter().filter_map(move |row| {
            let key = self.key(row);
            let is_newest = last.replace(key) != Some(key);
            (is_newest && !row.row.is_deletion).then_some((key, row.lease))
        });
        of_key.filter(|(_, lease)| *lease != 0)
    }

    /// All versions by key, and for each key by revision, the newest first.
    pub fn versions(&self) -> impl Iterator<Item = Result<FileVersion, Error>> {
        self.read_again(&self.versions)
    }

    /// Versions that a later change of the same transaction replaced, by revision.
    pub fn hidden(&self) -> impl Iterator<Item = Result<FileVersion, Error>> {
        self.read_again(&self.hidden)
    }

    fn read_again(&self, rows: &[SortedRow]) -> impl Iterator<Item = Result<FileVersion, Error>> {
        let reader = EntryReader::new(self.file, &self.bucket);
        rows.iter().map(move |row| {
            let (stored, value) = reader.entry(row.place)?;
            let changed = || Error::entry(row::BUCKET, &stored, "it has changed while it was read");
            let version = version_of(&stored, value)?.ok_or_else(changed)?;
            match version.row == row.row && version.key == self.key(row) {
                true => Ok(version),
                false => Err(changed()),
            }
        })
    }

    fn key(&self, row: &SortedRow) -> &[u8] {
        &self.keys[row.key_at..row.key_at + row.key_bytes]
    }
}

/// The version of a row; `None` for a row that only raises the revision, as
/// `etcdutl snapshot restore --bump-revision` writes it.
fn version_of(row: &Bytes, value: Bytes) -> Result<Option<FileVersion>, Error> {
    let key = RowKey::decode(row)?;
    if value.is_empty() && !key.is_deletion {
        return Ok(None);
    }
    let encoded = EncodedKeyValue(value);
    let fields = encoded.fields();
    let wrong = |problem: &str| Err(Error::entry(row::BUCKET, row, problem));
    if fields.key.is_empty() {
        return wrong("its key is empty");
    }
    if fields.encode() != encoded {
        return wrong("its value is not encoded as etcd encodes it");
    }
    if !key.is_deletion
        && (fields.mod_revision != key.main
            || !(1..=key.main).contains(&fields.create_revision)
            || fields.version < 1)
    {
        return wrong("the revisions and the version in its value contradict it");
    }
    let (created, version, lease) = match key.is_deletion {
        true => (0, 0, 0),
        false => (fields.create_revision, fields.version, fields.lease),
    };
    Ok(Some(FileVersion {
        row: key,
        key: encoded.0.slice_ref(fields.key),
        created,
        version,
        lease,
        kv: encoded.0.clone(),
    }))
}
