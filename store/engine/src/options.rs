//! What a caller may choose.

use environment::Clock;
use environment::real::RealClock;
use std::sync::Arc;
pub use value_log::{Durability, Worker};

/// What decides that a batch is committed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Commitment {
    /// This log alone: every batch in it is committed.
    #[default]
    Alone,
    /// A quorum of logs: an opening applies only what the last hard state calls
    /// committed and returns the rest ([`crate::Recovered::unapplied`]).
    Quorum,
}

/// How an engine behaves; the default is durable and fits one etcd-sized node.
#[derive(Clone, Debug)]
pub struct Options {
    /// Size of a log segment: a power of two, 64 KiB to 128 MiB.
    pub segment_bytes: u64,
    /// Zero-written segments kept ready.
    pub spare_segments: usize,
    /// What "durable" means.
    pub durability: Durability,
    /// Largest batch, headers of its records included and deletions not:
    /// with deletions it may fill a segment.
    pub batch_bytes_max: u64,
    /// Free space on the file system that puts never touch: room for
    /// checkpoints and reclaim when the disk is full. On a small file system it is
    /// less, a sixteenth of its size.
    pub reserve_bytes: u64,
    /// Bytes of log after which a checkpoint is due, or the size of the last
    /// checkpoint where that is more. Bounds what a restart replays: the default
    /// to about a second of work.
    pub checkpoint_bytes: u64,
    /// Limit of the index's memory; beyond it puts are refused.
    pub memory_bytes_max: u64,
    /// Reclaim copies the survivors of a sealed segment if its live share is at most this
    /// many percent.
    pub reclaim_live_percent_max: u64,
    /// Rate limit of reclaim's copying and of checkpoints.
    pub background_bytes_per_second: u64,
    /// Clock of the rate limit and of the pauses after failed upkeep.
    pub clock: Arc<dyn Clock>,
    /// Random number that marks a new log's frames as its own; `None`: drawn from the kernel.
    pub log_salt: Option<u64>,
    pub commitment: Commitment,
    /// Threads that do the work of the log, of checkpoints and of reclaim.
    pub worker: Worker,
    /// See [`value_log::Options::accepts_torn_frames`].
    #[doc(hidden)]
    pub accepts_torn_frames: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            segment_bytes: 64 << 20,
            spare_segments: 2,
            durability: Durability::Durable,
            batch_bytes_max: 32 << 20,
            reserve_bytes: 64 << 20,
            checkpoint_bytes: 128 << 20,
            memory_bytes_max: u64::MAX,
            reclaim_live_percent_max: 50,
            background_bytes_per_second: 64 << 20,
            clock: Arc::new(RealClock),
            log_salt: None,
            commitment: Commitment::Alone,
            worker: Worker::Threads,
            accepts_torn_frames: false,
        }
    }
}
