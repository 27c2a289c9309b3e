//! From a version to its bytes.
//!
//! A version is looked up in the index first and read from its segment later,
//! and in between reclaim may move the record and give the segment back. So a
//! read that fails, or finds another revision, asks the index again: a new
//! place means try there; no place, compacted; the same place, real damage.

use crate::damage::damage_in;
use crate::engine::Shared;
use crate::format::{KEY_HEADER_BYTES, KIND_KEY, KeyHeader};
use crate::place::Place;
use crate::record::{self, Lineage, unreadable};
use crate::trees::Known;
use crate::{Error, Snapshot, Stored, Version, trees};
use bytes::Bytes;
use ordered_index::Snapshot as Trees;
use value_log::Position;

/// How often a record may move under one read.
const MOVES_MAX: usize = 16;

impl Shared {
    pub(crate) fn read(&self, version: &Version) -> Result<Stored, Error> {
        self.read_version(&version.key, version.main, version.place)
    }

    /// The version of `key` that `snapshot` shows at revision `at`. The snapshot is dropped
    /// before the disk is read, because it holds memory back.
    pub(crate) fn fetch(
        &self,
        snapshot: Snapshot,
        key: &[u8],
        at: i64,
    ) -> Result<Option<Stored>, Error> {
        let Some(known) = snapshot.visible(key, at) else {
            return Ok(None);
        };
        drop(snapshot);
        self.read_version(key, known.main, known.place).map(Some)
    }

    /// The lineage of the version of `key` that `snapshot` shows at revision `at`.
    pub(crate) fn lineage(
        &self,
        snapshot: &Snapshot,
        key: &[u8],
        at: i64,
    ) -> Result<Option<Lineage>, Error> {
        let Some(known) = snapshot.visible(key, at) else {
            return Ok(None);
        };
        self.lineage_at(key, known.main, known.place).map(Some)
    }

    /// The lineage of the version of `key` written at `main`. If its record fails its
    /// checksum, what is left of the record may still prove it.
    pub(crate) fn lineage_at(&self, key: &[u8], main: i64, place: Place) -> Result<Lineage, Error> {
        let find = |trees: &Trees| trees::find(trees, key, main);
        let read = |place| {
            self.header_at(place, main).or_else(|error| {
                let left = damage_in(&error).and_then(|_| self.salvage_header(key, main, place));
                left.ok_or(error)
            })
        };
        let header = self
            .follow(place, main, find, read)
            .map_err(|error| self.of_version(error, key, main))?;
        assert!(
            !header.tombstone,
            "the index gave a tombstone as live: {header:?}"
        );
        Ok(header.into())
    }

    fn read_version(&self, key: &[u8], main: i64, place: Place) -> Result<Stored, Error> {
        let find = |trees: &Trees| trees::find(trees, key, main);
        let read = |place| {
            self.read_at(place, main).or_else(|error| {
                let left = damage_in(&error).and_then(|_| self.salvage_record(key, main, place));
                let stored = left.and_then(|payload| Stored::decode(KIND_KEY, &payload).ok());
                stored.ok_or(error)
            })
        };
        self.follow(place, main, find, read)
            .map_err(|error| self.of_version(error, key, main))
    }

    /// Header and kv of the version that was at `place`; `find` looks it up
    /// again.
    pub(crate) fn record(
        &self,
        place: Place,
        main: i64,
        find: impl Fn(&Trees) -> Option<Known>,
    ) -> Result<Bytes, Error> {
        let read = |place| self.record_at(place, main);
        let (payload, stored) = self.follow(place, main, find, read)?;
        Ok(payload.slice(..KEY_HEADER_BYTES + stored.kv.len()))
    }

    /// Reads the version that was at `place`, wherever it is by now.
    fn follow<T>(
        &self,
        mut place: Place,
        main: i64,
        find: impl Fn(&Trees) -> Option<Known>,
        read: impl Fn(Place) -> Result<T, Error>,
    ) -> Result<T, Error> {
        for _ in 0..MOVES_MAX {
            let error = match read(place) {
                Ok(found) => return Ok(found),
                Err(error) => error,
            };
            place = self.place_now(&find, main, place)?.ok_or(error)?;
        }
        read(place)
    }

    /// Where the version is now; `None` when it is still where it was.
    fn place_now(
        &self,
        find: impl Fn(&Trees) -> Option<Known>,
        main: i64,
        before: Place,
    ) -> Result<Option<Place>, Error> {
        let trees = self.reader.pin();
        match find(&trees) {
            Some(known) => Ok(Some(known.place).filter(|&place| place != before)),
            None => Err(Error::Compacted {
                asked: main,
                compacted: trees::compacted(&trees),
            }),
        }
    }

    /// The record at `place`, if it is the one written at `main`.
    pub(crate) fn read_at(&self, place: Place, main: i64) -> Result<Stored, Error> {
        Ok(self.record_at(place, main)?.1)
    }

    /// The same with all its bytes.
    fn record_at(&self, place: Place, main: i64) -> Result<(Bytes, Stored), Error> {
        let position = place.position();
        let record = self.log.read(position, place.record_bytes() as usize);
        self.check_open()?;
        let record = record?;
        let stored = Stored::decode(record.kind, &record.payload)
            .map_err(|what| unreadable(position, what))?;
        check_revision(position, stored.revision.main, main)?;
        Ok((record.payload, stored))
    }

    /// The same without key and value.
    fn header_at(&self, place: Place, main: i64) -> Result<KeyHeader, Error> {
        let position = place.position();
        let length = place.record_bytes() as usize;
        let header = self.log.look_at(position, length, record::header_in);
        self.check_open()?;
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
