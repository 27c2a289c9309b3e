//! Options for opening a map.

use std::path::PathBuf;
use std::sync::Arc;

use engine::{Durability, Worker};
use environment::real::RealDisk;

use crate::{Compression, Error, Map};

/// Options of a [`Map`].
///
/// ```no_run
/// use ordered_map::{Durability, Options};
///
/// let cache = Options::new("cache")
///     .durability(Durability::Os)
///     .memory_bytes_max(1 << 30)
///     .open()?;
/// # Ok::<(), ordered_map::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    directory: PathBuf,
    engine: engine::Options,
    compression: Compression,
}

impl Options {
    /// Creates the default options for a directory: `Durability::Durable`, segments of 64 MiB.
    pub fn new(directory: impl Into<PathBuf>) -> Options {
        Options {
            directory: directory.into(),
            engine: engine::Options {
                log: engine::LogOptions {
                    // The thread that leads a group writes it: no other thread has to be woken.
                    worker: Worker::CallerWithPool,
                    ..engine::LogOptions::default()
                },
                // About a second of replay (docs/decisions/0042-when-garbage-is-collected.md).
                checkpoint_bytes: 256 << 20,
                garbage_percent_max: 125,
                ..engine::Options::default()
            },
            compression: Compression::default(),
        }
    }

    /// Sets when a write is acknowledged: when it is on stable storage (`Durable`), or when it is
    /// in the page cache (`Os`), which survives the end of the process, even by `kill -9`, but no
    /// loss of power.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Options {
        self.engine.log.set_durability(durability);
        self
    }

    /// Sets the size of a log segment: a power of two from 64 KiB to 128 MiB. The largest batch
    /// must fit into one. Only a new directory takes this option; an existing one keeps its size.
    #[must_use]
    pub fn segment_bytes(mut self, bytes: u64) -> Options {
        self.engine.log.segment_bytes = bytes;
        self
    }

    /// Sets the limit of memory for the index. Puts beyond it fail with [`Error::MemoryLimit`];
    /// reads and deletions continue.
    #[must_use]
    pub fn memory_bytes_max(mut self, bytes: u64) -> Options {
        self.engine.memory_bytes_max = bytes;
        self
    }

    /// Free space of the file system that puts leave alone, for checkpoints and reclaim;
    /// 64 MiB by default.
    #[must_use]
    pub fn reserve_bytes(mut self, bytes: u64) -> Options {
        self.engine.log.reserve_bytes = bytes;
        self
    }

    /// Sets how much room garbage may take before it is collected, in percent of the bytes that
    /// are alive: 125 by default. With less the map takes less of the disk, and the device writes
    /// more. Garbage that takes less than a segment, or than the index in memory, is never collected.
    ///
    /// ```no_run
    /// let small = ordered_map::Options::new("data").garbage_percent_max(20).open()?;
    /// # Ok::<(), ordered_map::Error>(())
    /// ```
    #[must_use]
    pub fn garbage_percent_max(mut self, percent: u64) -> Options {
        self.engine.garbage_percent_max = percent;
        self
    }

    /// Sets how values are stored that are written from now on: as blocks of LZ4 by default, where these are
    /// shorter. Each opening may choose; values that are there stay as they are. A map that was made by a
    /// build without this option compresses none.
    ///
    /// ```no_run
    /// use ordered_map::{Compression, Options};
    ///
    /// let encrypted = Options::new("data").compression(Compression::None).open()?;
    /// # Ok::<(), ordered_map::Error>(())
    /// ```
    #[must_use]
    pub fn compression(mut self, compression: Compression) -> Options {
        self.compression = compression;
        self
    }

    /// Opens the map, creating the directory when it is missing.
    ///
    /// Errors name the file and the remedy: another process has the directory, the files
    /// are damaged or not those of a map, the disk is full.
    pub fn open(self) -> Result<Map, Error> {
        let disk = Arc::new(RealDisk);
        Map::open_on(disk, &self.directory, self.engine, self.compression)
    }
}
