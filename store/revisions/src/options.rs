//! The state machine's options, with etcd's defaults.

use std::time::Duration;

use crate::Member;

/// Options of a [`crate::Machine`].
#[derive(Clone, Debug)]
pub struct Options {
    pub engine: engine::Options,
    /// Bytes the log may hold before puts are refused with NOSPACE;
    /// `None` = no quota.
    pub quota_bytes: Option<u64>,
    /// Id of this member, which the alarms that this machine raises carry.
    pub member_id: u64,
    /// Members of a new cluster, with which a new directory starts; all of them must be given the
    /// same list. If the list is empty, a new directory waits for a snapshot from an existing
    /// cluster. A directory that is not new ignores the list.
    pub initial_members: Vec<Member>,
    /// At this start, all other members are removed, whatever they hold: they are lost for good.
    pub forces_new_cluster: bool,
    /// Most learners that a cluster can have at a time.
    pub learners_max: usize,
    /// Shorter leases are lengthened to this.
    pub lease_ttl_min_seconds: i64,
    /// Expired leases given out per second, to be revoked.
    pub lease_revocations_per_second: u32,
    /// Delay after which an expired lease is given out again if it has not
    /// been revoked.
    pub lease_revocation_retry: Duration,
    /// Seed of the lease ids that the machine picks; `None` takes a seed from the kernel.
    pub lease_id_seed: Option<u64>,
    /// Whether callers are checked once users are switched on. A program that embeds the store has
    /// no users: it may do everything.
    pub checks_callers: bool,
    /// Whether the hash of a revision is kept when the store is compacted to it, even if no client
    /// waits for the compaction: it reads every version that is hashed.
    pub hash_every_compaction: bool,
    pub watch: WatchOptions,
}

/// Limits of watch streams.
#[derive(Clone, Copy, Debug)]
pub struct WatchOptions {
    /// Bytes of events that wait in memory for a slow client. Further events are read from the
    /// log when the client reads again.
    pub queue_bytes_max: usize,
    /// Size above which a response is split for watches that asked for fragments.
    pub response_bytes_max: usize,
    /// Limit of the queued bytes of all streams together. While it is reached, a stream may
    /// queue only a 16th of its own limit.
    pub total_queue_bytes_max: usize,
    /// Changes in one revision above which watchers read it from the log instead of receiving it
    /// from the hub, which would delay every later command.
    pub large_revision_changes: usize,
    /// Bytes of history that are read in one step while watchers catch up.
    pub catch_up_bytes: usize,
    /// Number of waiting control responses (created, canceled) at which
    /// [`crate::WatchStream::accepts_requests`] blocks.
    pub control_responses_max: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            engine: engine::Options::default(),
            quota_bytes: Some(2 << 30),
            member_id: 0,
            initial_members: Vec::new(),
            forces_new_cluster: false,
            learners_max: 1,
            lease_ttl_min_seconds: 2,
            lease_revocations_per_second: 1000,
            lease_revocation_retry: Duration::from_secs(3),
            lease_id_seed: None,
            checks_callers: false,
            hash_every_compaction: false,
            watch: WatchOptions::default(),
        }
    }
}

impl Default for WatchOptions {
    fn default() -> WatchOptions {
        WatchOptions {
            queue_bytes_max: 1 << 20,
            total_queue_bytes_max: 256 << 20,
            large_revision_changes: 1024,
            // etcd: max-request-bytes and half a MiB on top.
            response_bytes_max: (1 << 20) + (1 << 19) + (1 << 19),
            catch_up_bytes: 256 << 10,
            control_responses_max: 1024,
        }
    }
}
