//! Metrics of parts of etcd that do not exist here.
//!
//! Dashboards and tests ask for them by name. Their value 0 is true: this server has never
//! rebalanced a bbolt page or saved a snapshot file. The
//! kinds are etcd's, which declares some counters as gauges.

use super::histogram::{
    DISK_SECONDS, Histogram, INDEX_PAUSE_MILLISECONDS, PAUSE_MILLISECONDS, SAVE_SECONDS,
    SNAPSHOT_SECONDS,
};
use super::text::Page;

const COUNTERS: &[&str] = &[
    "etcd_debugging_store_expires_total",
    "etcd_debugging_store_reads_total",
    "etcd_debugging_store_watch_requests_total",
    "etcd_debugging_store_writes_total",
    "etcd_grpc_proxy_events_coalescing_total",
];

const GAUGES: &[&str] = &[
    "etcd_debugging_store_watchers",
    "etcd_grpc_proxy_cache_hits_total",
    "etcd_grpc_proxy_cache_keys_total",
    "etcd_grpc_proxy_cache_misses_total",
    "etcd_grpc_proxy_watchers_coalescing_total",
    "etcd_mvcc_db_open_read_transactions",
];

#[rustfmt::skip]
const HISTOGRAMS: &[(&str, &[f64])] = &[
    ("etcd_debugging_disk_backend_commit_rebalance_duration_seconds", DISK_SECONDS),
    ("etcd_debugging_disk_backend_commit_spill_duration_seconds", DISK_SECONDS),
    ("etcd_debugging_disk_backend_commit_write_duration_seconds", DISK_SECONDS),
    ("etcd_debugging_mvcc_db_compaction_pause_duration_milliseconds", PAUSE_MILLISECONDS),
    ("etcd_debugging_mvcc_index_compaction_pause_duration_milliseconds", INDEX_PAUSE_MILLISECONDS),
    ("etcd_debugging_snap_save_marshalling_duration_seconds", DISK_SECONDS),
    ("etcd_debugging_snap_save_total_duration_seconds", DISK_SECONDS),
    ("etcd_disk_backend_commit_duration_seconds", DISK_SECONDS),
    ("etcd_disk_backend_snapshot_duration_seconds", SNAPSHOT_SECONDS),
    ("etcd_disk_wal_write_duration_seconds", DISK_SECONDS),
    ("etcd_snap_db_fsync_duration_seconds", DISK_SECONDS),
    ("etcd_snap_db_save_total_duration_seconds", SAVE_SECONDS),
    ("etcd_snap_fsync_duration_seconds", DISK_SECONDS),
];

pub(super) fn write(page: &mut Page) {
    const HELP: &str = "Of a part of etcd that Inkstone does not have.";
    for name in COUNTERS {
        page.counter(name, HELP, 0);
    }
    for name in GAUGES {
        page.gauge(name, HELP, 0);
    }
    for (name, bounds) in HISTOGRAMS {
        page.histogram(name, HELP, &Histogram::new(bounds));
    }
}
