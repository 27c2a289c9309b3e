//! The map: one directory, one process, any number of threads.

use std::iter;
use std::ops::RangeBounds;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use environment::Disk;

use crate::bounds::Bounds;
use crate::core::Core;
use crate::snapshot::read;
use crate::upkeep::Upkeep;
use crate::writing::{Edit, Operation};
use crate::{Compression, Error, Options, Range, Snapshot, Status, WriteBatch, pair};

/// An open map. Clones share it. It is closed when the last clone, snapshot and range of it
/// are dropped.
#[derive(Clone, Debug)]
pub struct Map {
    // First, so that upkeep ends before the core is dropped.
    _upkeep: Arc<Upkeep>,
    core: Arc<Core>,
}

impl Map {
    /// Opens the map in `directory`, creating it when it is missing, with the default
    /// [`Options`].
    pub fn open(directory: impl AsRef<Path>) -> Result<Map, Error> {
        Options::new(directory.as_ref()).open()
    }

    pub(crate) fn open_on(
        disk: Arc<dyn Disk>,
        directory: &Path,
        options: engine::Options,
        compression: Compression,
    ) -> Result<Map, Error> {
        let core = Arc::new(Core::open(disk, directory, options, compression)?);
        let upkeep = Upkeep::start(&core).map_err(|error| Error::Thread {
            directory: directory.to_owned(),
            reason: error.to_string(),
        })?;
        Ok(Map {
            _upkeep: Arc::new(upkeep),
            core,
        })
    }

    /// Sets the value of one key. Key and value together may have 32 MiB,
    /// or what fits into a segment if that is less.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<(), Error> {
        let (key, value) = (key.as_ref(), value.as_ref());
        self.core.check_puts(iter::once((key.len(), value.len())))?;
        let pair = pair::encode(key, value, self.core.compression);
        // A clone is kept, so that its memory is freed on this thread, which allocated it.
        let kept = pair.clone();
        let answer = self.core.carry_out(Operation::One(Edit::put(pair)));
        drop(kept);
        answer.map(drop)
    }

    /// Deletes one key; returns whether it existed.
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<bool, Error> {
        let edit = Edit::delete(key.as_ref());
        Ok(self.core.carry_out(Operation::One(edit))? > 0)
    }

    /// Makes all of a batch's changes, or none of them; returns the number of existing keys
    /// that it has deleted. Its puts together have the size limit of one [`Map::put`].
    pub fn write(&self, batch: WriteBatch) -> Result<u64, Error> {
        self.core.check_puts(batch.put_lengths())?;
        let edits = batch.into_edits(self.core.compression);
        self.core.carry_out(Operation::Many(edits))
    }

    /// Returns the value of a key, or `None` if the key does not exist.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Bytes>, Error> {
        let key = key.as_ref();
        loop {
            match read(&self.core.engine, key, i64::MAX) {
                // The version that was looked up was replaced and dropped before it was read.
                Err(Error::Engine(error)) if is_compacted(&error) => {}
                outcome => return outcome,
            }
        }
    }

    /// Iterates over the keys in a range and their values, as they are at this moment:
    /// `map.range("a".."b")`, `map.range::<&str>(..)`.
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Range {
        Range::new(self.snapshot(), Bounds::of(range))
    }

    /// Iterates over the keys that begin with `prefix` and their values, as they are at this
    /// moment.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Range {
        Range::new(self.snapshot(), Bounds::prefix(prefix.as_ref()))
    }

    /// The map as it is at this moment; later writes do not show. Versions that they replace
    /// are kept until the snapshot is dropped.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::new(Arc::clone(&self.core))
    }

    /// Number of keys.
    pub fn len(&self) -> u64 {
        self.core.engine.snapshot().keys()
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Waits until everything that was written is on stable storage, with
    /// [`Durability::Os`](crate::Durability::Os) too.
    pub fn flush(&self) -> Result<(), Error> {
        Ok(self.core.engine.flush()?)
    }

    /// Puts all pairs in the order of their keys and releases all garbage; returns when that is on
    /// the disk. Ranges of values that are not cached then read the disk in order. Reads and writes go
    /// on beside it; what is written during the call may stay where it is.
    ///
    /// Pairs that lie in order stay where they are, so a second call has little to do. So do values of 64 KiB or more
    /// in segments without much garbage, and pairs that cannot be read, which the log of the process
    /// names. All others are copied, without a limit of the rate, and until the end the disk holds them twice:
    /// [`Error::NoRoomForCopy`] if there is no room for that. Whatever the error is, nothing is lost,
    /// the garbage has been released if that was possible, and most of what was copied is not copied
    /// again by the next call.
    ///
    /// Call it after a load in random order, and when few pairs will still be overwritten. A second caller
    /// waits for the first.
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let directory = directory.path();
    /// let map = ordered_map::Map::open(directory)?;
    /// for number in 0..1_000_u64 {
    ///     let key = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    ///     map.put(key, b"value")?;
    /// }
    /// map.compact()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn compact(&self) -> Result<(), Error> {
        self.core.compact()
    }

    /// State and counters of the engine.
    pub fn status(&self) -> Status {
        self.core.engine.status()
    }
}

fn is_compacted(error: &engine::Error) -> bool {
    matches!(error, engine::Error::Compacted { .. })
}
