//! From a version to its bytes.
//!
//! A version is looked up in the index first and read from its segment later,
//! and in between reclaim may move the record and release the segment. So a
//! read that fails, or finds another revision, asks the index again: a new
//! place means try there; no place, compacted; the same place, real damage.

use crate::damage::Damage;
use crate::format::KeyHeader;
use crate::lifecycle::Lifecycle;
use crate::log_view::LogView;
use crate::published::Published;
use crate::record::{self, unreadable};
use crate::record_pointer::RecordPointer;
use crate::trees::VersionEntry;
use crate::{Error, KeyChange, Lineage, Snapshot, Version, trees};
use bytes::Bytes;
use ordered_index::Snapshot as Trees;
use value_log::Position;

/// How often a record may move under one read.
const MOVES_MAX: usize = 16;

/// The parts that a read needs: the index says where a record lies, the log has its bytes.
#[derive(Debug)]
pub(crate) struct Records {
    pub(crate) log_view: LogView,
    pub(crate) index: Published,
    pub(crate) damage: Damage,
    /// The last field: the directory is unlocked after the log is closed.
    pub(crate) lifecycle: Lifecycle,
}

impl Records {
    pub(crate) fn read(&self, version: &Version) -> Result<KeyChange, Error> {
        self.read_version(&version.key, version.main, version.pointer)
    }

    /// The version of `key` that `snapshot` shows at revision `at`. The snapshot is dropped
    /// before the disk is read, because it holds memory back.
    pub(crate) fn fetch(
        &self,
        snapshot: Snapshot,
        key: &[u8],
        at: i64,
    ) -> Result<Option<KeyChange>, Error> {
        let version = snapshot.visible(key, at);
        drop(snapshot);
        let read = |version: VersionEntry| self.read_version(key, version.main, version.pointer);
        version.map(read).transpose()
    }

    /// The lineage of the version of `key` that `snapshot` shows at revision `at`.
    pub(crate) fn lineage(
        &self,
        snapshot: &Snapshot,
        key: &[u8],
        at: i64,
    ) -> Result<Option<Lineage>, Error> {
        let read = |version: VersionEntry| self.lineage_at(key, version.main, version.pointer);
        snapshot.visible(key, at).map(read).transpose()
    }

    /// The lineage of the version of `key` written at `main`. If its record fails its
    /// checksum, what is left of the record may still prove it.
    pub(crate) fn lineage_at(
        &self,
        key: &[u8],
        main: i64,
        pointer: RecordPointer,
    ) -> Result<Lineage, Error> {
        let salvage = |pointer| self.salvage_header(key, main, pointer);
        let read = |pointer| self.header_at(pointer, main);
        let header = self.read_or_salvage(key, main, pointer, read, salvage)?;
        assert!(
            !header.tombstone,
            "the index gave a tombstone as live: {header:?}"
        );
        Ok(header.into())
    }

    pub(crate) fn read_version(
        &self,
        key: &[u8],
        main: i64,
        pointer: RecordPointer,
    ) -> Result<KeyChange, Error> {
        let salvage = |pointer| self.salvage_version(key, main, pointer);
        let read = |pointer| self.read_at(pointer, main);
        self.read_or_salvage(key, main, pointer, read, salvage)
    }

    /// Reads a version where it is now; where its bytes are damaged, `salvage` may find it in
    /// what is left.
    fn read_or_salvage<T>(
        &self,
        key: &[u8],
        main: i64,
        pointer: RecordPointer,
        read: impl Fn(RecordPointer) -> Result<T, Error>,
        salvage: impl Fn(RecordPointer) -> Option<T>,
    ) -> Result<T, Error> {
        let find = |trees: &Trees| trees::find(trees, key, main);
        let read = |pointer| {
            read(pointer).or_else(|error| {
                let left = error.damage();
                left.and_then(|_| salvage(pointer)).ok_or(error)
            })
        };
        self.follow(pointer, main, find, read)
            .map_err(|error| self.of_version(error, key, main))
    }

    /// Header (the long one) and kv of the version that was at `pointer`; `find` looks it up
    /// again.
    pub(crate) fn record(
        &self,
        pointer: RecordPointer,
        main: i64,
        find: impl Fn(&Trees) -> Option<VersionEntry>,
    ) -> Result<Bytes, Error> {
        let read = |pointer| self.record_at(pointer, main);
        let (payload, stored) = self.follow(pointer, main, find, read)?;
        Ok(record::with_long_header(payload, &stored))
    }

    /// Reads the version that was at `pointer`, wherever it is by now.
    fn follow<T>(
        &self,
        mut pointer: RecordPointer,
        main: i64,
        find: impl Fn(&Trees) -> Option<VersionEntry>,
        read: impl Fn(RecordPointer) -> Result<T, Error>,
    ) -> Result<T, Error> {
        for _ in 0..MOVES_MAX {
            let error = match read(pointer) {
                Ok(found) => return Ok(found),
                Err(error) => error,
            };
            pointer = self.pointer_now(&find, main, pointer)?.ok_or(error)?;
        }
        read(pointer)
    }

    /// Where the version is now; `None` when it is still where it was.
    fn pointer_now(
        &self,
        find: impl Fn(&Trees) -> Option<VersionEntry>,
        main: i64,
        before: RecordPointer,
    ) -> Result<Option<RecordPointer>, Error> {
        let trees = self.index.reader.pin();
        match find(&trees) {
            Some(version) => Ok(Some(version.pointer).filter(|&pointer| pointer != before)),
            None => Err(Error::Compacted {
                asked: main,
                compacted: trees::compacted(&trees),
            }),
        }
    }

    /// The record at `pointer`, if it is the one written at `main`.
    pub(crate) fn read_at(&self, pointer: RecordPointer, main: i64) -> Result<KeyChange, Error> {
        Ok(self.record_at(pointer, main)?.1)
    }

    /// The same with all its bytes.
    fn record_at(&self, pointer: RecordPointer, main: i64) -> Result<(Bytes, KeyChange), Error> {
        let position = pointer.position();
        let record = self
            .log_view
            .log
            .read(position, pointer.record_bytes() as usize);
        self.lifecycle.check_open()?;
        let record = record?;
        let stored = KeyChange::decode(record.kind, &record.payload)
            .map_err(|what| unreadable(position, what))?;
        check_revision(position, stored.revision.main, main)?;
        Ok((record.payload, stored))
    }

    /// The same without key and value.
    pub(crate) fn header_at(&self, pointer: RecordPointer, main: i64) -> Result<KeyHeader, Error> {
        let position = pointer.position();
        let length = pointer.record_bytes() as usize;
        let header = self
            .log_view
            .log
            .look_at(position, length, record::header_in);
        self.lifecycle.check_open()?;
        let header = header?.map_err(|what| unreadable(position, what))?;
        check_revision(position, header.main as i64, main)?;
        Ok(header)
    }
}

fn check_revision(position: Position, found: i64, expected: i64) -> Result<(), Error> {
    let what = "it is of another revision than the index says";
    if found == expected {
        Ok(())
    } else {
        Err(unreadable(position, what))
    }
}
