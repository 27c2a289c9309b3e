//! What a caller may choose.

use environment::Clock;
use environment::real::RealClock;
use std::sync::Arc;
pub use value_log::{Durability, Options as LogOptions, Worker};

/// What decides that a batch is committed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Commitment {
    /// This log alone: every batch in it is committed as soon as it is there. For logs in which
    /// no batch ever overrules another.
    #[default]
    Alone,
    /// This log, which is the last of what was a quorum: it may have batches that others
    /// overrule, and what it ends with is committed.
    SoleVoter,
    /// A quorum of logs: an opening applies only what the last hard state calls
    /// committed and returns the rest ([`crate::Recovered::unapplied`]).
    Quorum,
}

/// How an engine behaves; the default is durable and fits one etcd-sized node.
#[derive(Clone, Debug)]
pub struct Options {
    /// Options of the log. Free space that puts never touch ([`LogOptions::reserve_bytes`]) is
    /// room for checkpoints and reclaim when the disk is full; on a small file system it is
    /// less, a sixteenth of its size. The engine itself chooses [`LogOptions::seal`] and
    /// [`LogOptions::shows_damaged_groups`]; checkpoints and reclaim have the log's
    /// [`LogOptions::worker`].
    pub log: LogOptions,
    /// Largest batch, headers of its records included and deletions not:
    /// with deletions it may fill a segment.
    pub batch_bytes_max: u64,
    /// Bytes of log after which a checkpoint is due, or one and a half times the size of the
    /// last checkpoint where that is more. Bounds what a restart replays: the default
    /// to about a second of work.
    pub checkpoint_bytes: u64,
    /// Limit of the index's memory; beyond it puts are refused.
    pub memory_bytes_max: u64,
    /// Reclaim copies the survivors of a sealed segment if its live share is at most this
    /// many percent.
    pub reclaim_live_percent_max: u64,
    /// Garbage is left alone while it takes less than this many percent of the live bytes, and
    /// less than the disk has available. In any case it is left alone until it takes a
    /// segment, and the bytes of the index. The more is left alone, the emptier are the segments
    /// that are emptied in the end, and the less is copied.
    pub garbage_percent_max: u64,
    /// Rate limit of reclaim's copying and of checkpoints.
    pub background_bytes_per_second: u64,
    /// Clock of the rate limit and of the pauses after failed upkeep.
    pub clock: Arc<dyn Clock>,
    pub commitment: Commitment,
    /// Whether the hash of the state is kept ([`crate::StateHash`]).
    pub state_hash: bool,
    /// Whether the store is read in the past. If not, as with stores that use
    /// [`Applier::apply_and_compact`](crate::Applier::apply_and_compact), an opening compacts to the
    /// last revision: it loads no version that a later one has replaced,
    /// [`Recovered::entries`](crate::Recovered::entries) is empty, and the caller is shown less
    /// ([`crate::Replayed`]). Only with [`Commitment::Alone`].
    pub keeps_history: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            log: LogOptions::default(),
            batch_bytes_max: 32 << 20,
            checkpoint_bytes: 128 << 20,
            memory_bytes_max: u64::MAX,
            reclaim_live_percent_max: 50,
            garbage_percent_max: 0,
            background_bytes_per_second: 64 << 20,
            clock: Arc::new(RealClock),
            commitment: Commitment::Alone,
            state_hash: true,
            keeps_history: true,
        }
    }
}
