//! The options of a node.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use environment::real::{RealClock, RealDisk};
use environment::{Clock, Disk};

use crate::{CommandLimits, Flushing, Observer, ReadMode, ReplicaOptions, Scrubbing};

/// Small compared to a member's pauses for its disk, large compared to a message.
const SNAPSHOT_PIECE_BYTES: usize = 256 << 10;

/// Entries that are kept for members that are behind may take this part of the quota.
const KEPT_PART_OF_QUOTA: u64 = 8;

/// Options of a [`crate::Node`].
///
/// ```no_run
/// let mut options = cluster::NodeOptions::new("data");
/// options.queue_bytes_max = 16 << 20;
/// let node = cluster::Node::start(options)?;
/// # Ok::<(), cluster::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// The data directory; it is created if it does not exist.
    pub directory: PathBuf,
    /// Options of the replica: the state machine's, the log's, and those of consensus.
    pub replica: ReplicaOptions,
    /// Bytes of commands that may wait to be evaluated. A command above this limit is refused
    /// with [`crate::Error::TooManyRequests`], unless no other one waits.
    pub queue_bytes_max: usize,
    /// Bytes of commands that one batch may hold. Larger batches share a
    /// flush among more commands but make each of them wait longer.
    pub batch_bytes_max: usize,
    /// With [`engine::Durability::Os`]: when entries are flushed in the background (majority
    /// memory). With `None`, the kernel decides, and a segment is flushed when it is full.
    pub flushing: Option<Flushing>,
    /// How the log and the index are verified in the background; `None`: not at all.
    pub scrubbing: Option<Scrubbing>,
    /// Seed of this member's randomness, such as its delay before an election; `None` takes
    /// one from the kernel.
    pub seed: Option<u64>,
    /// The disk of the data directory.
    pub disk: Arc<dyn Disk>,
    /// The source of time.
    pub clock: Arc<dyn Clock>,
    /// Receives events for metrics.
    pub observer: Option<Arc<dyn Observer>>,
}

impl NodeOptions {
    /// The defaults: a cluster of one, durable, real disk, real clock.
    pub fn new(directory: impl Into<PathBuf>) -> NodeOptions {
        let member_id = 1;
        let machine = revisions::Options {
            member_id,
            initial_members: vec![revisions::Member {
                id: member_id,
                ..revisions::Member::default()
            }],
            ..revisions::Options::default()
        };
        let replica = ReplicaOptions {
            machine,
            heartbeat_interval: Duration::from_millis(100),
            election_timeout: Duration::from_secs(1),
            strict_reconfiguration: true,
            entries_kept_max: 5000,
            bytes_kept_max: 64 << 20,
            snapshot_piece_bytes: SNAPSHOT_PIECE_BYTES,
            read_mode: ReadMode::default(),
            command_limits: CommandLimits::default(),
            boot: environment::real::boot_id(),
            accept_lost_tail: false,
            seed: 0,
            compares_states: true,
            mutant: crate::mutant::OF_THIS_BUILD,
        };
        NodeOptions {
            directory: directory.into(),
            replica,
            queue_bytes_max: 64 << 20,
            batch_bytes_max: 4 << 20,
            flushing: None,
            scrubbing: None,
            seed: None,
            disk: Arc::new(RealDisk),
            clock: Arc::new(RealClock),
            observer: None,
        }
    }

    /// The replica's options with a seed. Kept entries count against the quota and may take an
    /// eighth of it at most: otherwise deleting and defragmenting would free no room.
    pub(crate) fn replica(&self, seed: u64) -> ReplicaOptions {
        ReplicaOptions {
            seed,
            bytes_kept_max: self.replica.bytes_kept_max.min(self.quota_part()),
            ..self.replica.clone()
        }
    }

    /// Bytes of the quota that kept entries may take.
    fn quota_part(&self) -> u64 {
        let quota_bytes = self.replica.machine.quota_bytes.unwrap_or(u64::MAX);
        quota_bytes / KEPT_PART_OF_QUOTA
    }
}
