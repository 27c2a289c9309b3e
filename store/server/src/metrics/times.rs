//! The server's own histograms.

use std::sync::Arc;

use super::histogram::{
    DEFRAGMENT_SECONDS, DISK_SECONDS, HASH_SECONDS, Histogram, LEASE_SECONDS, MEMORY_SECONDS,
};

/// Durations of operations, and the times to live of leases.
#[derive(Debug)]
pub(crate) struct Times {
    /// Time of Defragment.
    pub(crate) defragmentations: Histogram,
    /// Time of Hash.
    pub(crate) hashes: Histogram,
    /// Time of HashKV.
    pub(crate) hashes_at_revision: Histogram,
    /// Time of the log's flushes.
    pub(crate) flushes: Arc<Histogram>,
    /// Time of ranges that were answered.
    pub(crate) ranges: Histogram,
    /// Time of ranges that were refused.
    pub(crate) ranges_failed: Histogram,
    /// Times to live of granted leases.
    pub(crate) leases: Histogram,
}

impl Default for Times {
    fn default() -> Times {
        Times {
            defragmentations: Histogram::new(DEFRAGMENT_SECONDS),
            hashes: Histogram::new(HASH_SECONDS),
            hashes_at_revision: Histogram::new(HASH_SECONDS),
            flushes: Arc::new(Histogram::new(DISK_SECONDS)),
            ranges: Histogram::new(MEMORY_SECONDS),
            ranges_failed: Histogram::new(MEMORY_SECONDS),
            leases: Histogram::new(LEASE_SECONDS),
        }
    }
}
