//! How a map is opened.

use std::path::PathBuf;
use std::sync::Arc;

use engine::{Durability, Worker};
use environment::real::RealDisk;

use crate::{Error, Map};

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
}

impl Options {
    /// The defaults, for this directory: durable, 64 MiB segments.
    pub fn new(directory: impl Into<PathBuf>) -> Options {
        Options {
            directory: directory.into(),
            engine: engine::Options {
                // Whoever leads a group writes it: no thread has to be woken for that.
                worker: Worker::CallerAndMaker,
                ..engine::Options::default()
            },
        }
    }

    /// When a write is acknowledged: on stable storage (`Durable`), or in the page cache
    /// (`Os`), which survives this process, also by kill -9, but not a loss of power.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Options {
        self.engine.durability = durability;
        self
    }

    /// Size of a log segment: a power of two from 64 KiB to 128 MiB. The largest batch must
    /// fit into one. Counts for new directories only.
    #[must_use]
    pub fn segment_bytes(mut self, bytes: u64) -> Options {
        self.engine.segment_bytes = bytes;
        self
    }

    /// Memory that keys may use; beyond it puts are refused, reads and deletions go on.
    #[must_use]
    pub fn memory_bytes_max(mut self, bytes: u64) -> Options {
        self.engine.memory_bytes_max = bytes;
        self
    }

    /// Free space of the file system that puts leave alone, for checkpoints and reclaim;
    /// 64 MiB unless said.
    #[must_use]
    pub fn reserve_bytes(mut self, bytes: u64) -> Options {
        self.engine.reserve_bytes = bytes;
        self
    }

    /// Opens the map, making the directory when it is missing.
    ///
    /// Errors name the file and the remedy: another process has the directory, the files
    /// are damaged or not a map's, the disk is full.
    pub fn open(self) -> Result<Map, Error> {
        Map::with(Arc::new(RealDisk), &self.directory, self.engine)
    }
}
