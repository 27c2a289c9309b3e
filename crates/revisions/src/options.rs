//! The state machine's options, with etcd's defaults.

use std::time::Duration;

use crate::Member;

/// How a [`crate::Machine`] behaves.
#[derive(Clone, Debug)]
pub struct Options {
    /// The storage underneath.
    pub engine: engine::Options,
    /// Bytes the log may hold before puts are refused with NOSPACE;
    /// `None` = no quota.
    pub quota_bytes: Option<u64>,
    /// Whose name alarms carry that this machine raises.
    pub member_id: u64,
    /// Whom a new directory starts with; every member of a new cluster is given
    /// the same. None: the directory waits to be filled by a cluster that exists.
    /// A directory that holds something ignores them.
    pub initial_members: Vec<Member>,
    /// Learners that a cluster takes at a time.
    pub learners_max: usize,
    /// Shorter leases are lengthened to this.
    pub lease_ttl_min_seconds: i64,
    /// Expired leases handed out by [`crate::Machine::expired`] per second.
    pub lease_revocations_per_second: u32,
    /// An expired lease whose revocation has not come through is handed out
    /// again after this.
    pub lease_revocation_retry: Duration,
    /// Decides the lease ids that the machine picks; `None` = the kernel does.
    pub lease_id_seed: Option<u64>,
    /// Watch streams.
    pub watch: WatchOptions,
}

/// Limits of one watch stream.
#[derive(Clone, Copy, Debug)]
pub struct WatchOptions {
    /// Bytes of events that wait in memory for a slow reader; what comes on
    /// top is read from the log once the reader is back.
    pub queue_bytes_max: usize,
    /// Watchers that asked for it get larger responses in fragments.
    pub response_bytes_max: usize,
    /// The same for all streams together. Beyond it a stream keeps only a small part of its
    /// own bound.
    pub total_queue_bytes_max: usize,
    /// Changes in one revision above which watchers read it from the log instead of being
    /// handed it: handing it out would hold up every command behind it.
    pub large_revision_changes: usize,
    /// Bytes of history read in one go while a watcher catches up.
    pub catch_up_bytes: usize,
    /// Control answers (created, canceled) waiting before
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
            learners_max: 1,
            lease_ttl_min_seconds: 2,
            lease_revocations_per_second: 1000,
            lease_revocation_retry: Duration::from_secs(3),
            lease_id_seed: None,
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
