//! From a version to its bytes.
//!
//! A version is looked up in the index first and read from its segment later,
//! and in between reclaim may move the record and give the segment back. So a
//! read that fails, or finds another revision, asks the index again: a new
//! place means try there; no place, compacted; the same place, real damage.

use crate::engine::Shared;
use crate::place::Place;
use crate::record::unreadable;
use crate::{Error, Stored, Version, trees};

/// How often a record may move under one read.
const MOVES_MAX: usize = 16;

impl Shared {
    pub(crate) fn read(&self, version: &Version) -> Result<Stored, Error> {
        let mut place = version.place;
        for _ in 0..MOVES_MAX {
            let error = match self.read_at(place, version.main) {
                Ok(stored) => return Ok(stored),
                Err(error) => error,
            };
            place = self.place_now(version, place)?.ok_or(error)?;
        }
        self.read_at(place, version.main)
    }

    /// Where the version is now; `None` when it is still where it was.
    fn place_now(&self, version: &Version, before: Place) -> Result<Option<Place>, Error> {
        let trees = self.reader.pin();
        match trees::find(&trees, &version.key, version.main) {
            Some(known) => Ok(Some(known.place).filter(|&place| place != before)),
            None => Err(Error::Compacted {
                asked: version.main,
                compacted: trees::compacted(&trees),
            }),
        }
    }

    /// The record at `place`, if it is the one written at `main`.
    pub(crate) fn read_at(&self, place: Place, main: i64) -> Result<Stored, Error> {
        let position = place.position();
        let record = self.log.read(position, place.record_bytes() as usize);
        self.check_open()?;
        let record = record?;
        let stored = Stored::decode(record.kind, &record.payload)
            .map_err(|what| unreadable(position, what))?;
        if stored.revision.main != main {
            return Err(unreadable(
                position,
                "it is of another revision than the index says",
            ));
        }
        Ok(stored)
    }
}
