//! What a node is started with.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use environment::real::{RealClock, RealDisk};
use environment::{Clock, Disk};

use crate::{CommandLimits, Flushing, Observer, ReadMode, ReplicaOptions};

/// Small beside the pauses that a member's disk makes, large beside a message.
const SNAPSHOT_PIECE_BYTES: usize = 256 << 10;

/// The part of the quota that entries kept for members that are behind may have.
const KEPT_PART_OF_QUOTA: u64 = 8;

/// How a [`crate::Node`] is started.
///
/// ```no_run
/// let mut options = cluster::NodeOptions::new("data");
/// options.queue_bytes_max = 16 << 20;
/// let node = cluster::Node::start(options)?;
/// # Ok::<(), cluster::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// Everything this node keeps lives here; made when missing.
    pub directory: PathBuf,
    /// The state machine's and the engine's options.
    pub machine: revisions::Options,
    /// Bytes of commands that may wait to be evaluated; beyond them proposals
    /// are refused with [`crate::Error::TooManyRequests`]. A single command
    /// is always let in.
    pub queue_bytes_max: usize,
    /// Bytes of commands that one batch may hold. Larger batches share a
    /// flush among more commands but make each of them wait longer.
    pub batch_bytes_max: usize,
    /// Between two heartbeats of a leader, and between two looks at leases and
    /// upkeep when nothing else happens.
    pub heartbeat_interval: Duration,
    /// Without word from a leader for so long, members stand for election; at
    /// least twice the heartbeat interval.
    pub election_timeout: Duration,
    /// Changes of the membership are refused while too few members are up (etcd's
    /// `--strict-reconfig-check`).
    pub strict_reconfiguration: bool,
    /// Entries kept in the log for members that are behind (etcd's
    /// `--snapshot-catchup-entries`): one that is farther behind gets a snapshot.
    pub entries_kept_max: usize,
    /// The same in bytes, whichever is less. They count against the quota, of which they
    /// are an eighth at most: else deleting and defragmenting would give no room back.
    pub bytes_kept_max: u64,
    /// How a leader makes sure of its lead before a linearizable read.
    pub read_mode: ReadMode,
    /// What a leader holds the commands of other members to.
    pub command_limits: CommandLimits,
    /// With [`engine::Durability::Os`]: flushes behind the answers (majority memory).
    /// `None`: when the kernel likes, and when a segment is full.
    pub flushing: Option<Flushing>,
    /// What tells this start of the kernel from others, if that is known: a member that
    /// acknowledges before it flushes may have lost the end of its log where it finds
    /// another one.
    pub boot: Option<String>,
    /// For one start, when somebody has decided so: where the end of the log may be
    /// lost, what is left here is all there is. Other members' acknowledged writes may
    /// be lost with it.
    pub accept_lost_tail: bool,
    /// Draws this member's own patience before an election; `None`: the kernel
    /// does.
    pub seed: Option<u64>,
    /// Where the bytes go.
    pub disk: Arc<dyn Disk>,
    /// Where time comes from.
    pub clock: Arc<dyn Clock>,
    /// Who counts what happens, if anyone.
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
        NodeOptions {
            directory: directory.into(),
            machine,
            queue_bytes_max: 64 << 20,
            batch_bytes_max: 4 << 20,
            heartbeat_interval: Duration::from_millis(100),
            election_timeout: Duration::from_secs(1),
            strict_reconfiguration: true,
            entries_kept_max: 5000,
            bytes_kept_max: 64 << 20,
            read_mode: ReadMode::default(),
            command_limits: CommandLimits::default(),
            flushing: None,
            boot: environment::real::boot_id(),
            accept_lost_tail: false,
            seed: None,
            disk: Arc::new(RealDisk),
            clock: Arc::new(RealClock),
            observer: None,
        }
    }

    pub(crate) fn replica(&self, seed: u64) -> ReplicaOptions {
        ReplicaOptions {
            machine: self.machine.clone(),
            heartbeat_interval: self.heartbeat_interval,
            election_timeout: self.election_timeout,
            strict_reconfiguration: self.strict_reconfiguration,
            entries_kept_max: self.entries_kept_max,
            bytes_kept_max: self.bytes_kept_max.min(self.quota_part()),
            snapshot_piece_bytes: SNAPSHOT_PIECE_BYTES,
            read_mode: self.read_mode,
            command_limits: self.command_limits,
            boot: self.boot.clone(),
            accept_lost_tail: self.accept_lost_tail,
            seed,
            mutant: crate::mutant::OF_THIS_BUILD,
        }
    }

    /// What entries that are kept may have of the quota.
    fn quota_part(&self) -> u64 {
        let quota_bytes = self.machine.quota_bytes.unwrap_or(u64::MAX);
        quota_bytes / KEPT_PART_OF_QUOTA
    }

    /// After so long nobody waits for a leader or an answer any more: etcd's
    /// request timeout.
    pub(crate) fn patience(&self) -> Duration {
        Duration::from_secs(5) + self.election_timeout * 2
    }
}
