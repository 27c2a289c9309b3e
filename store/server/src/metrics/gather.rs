//! One scrape: all metrics, under etcd's name if etcd has the metric.
//!
//! A metric of one number is a row of a table: kind, name, meaning, value. Metrics
//! with labels or buckets are written by [`super::labelled`].

use engine::Status;

use super::text::Page;
use super::{Metrics, absent, labelled, process};
use crate::backend::Backend;
use crate::config::Durability;

/// A metric of one number.
struct Row {
    kind: &'static str,
    name: &'static str,
    help: &'static str,
    value: f64,
}

fn gauge(name: &'static str, help: &'static str, value: impl Number) -> Row {
    Row {
        kind: "gauge",
        name,
        help,
        value: value.number(),
    }
}

fn counter(name: &'static str, help: &'static str, value: impl Number) -> Row {
    Row {
        kind: "counter",
        name,
        help,
        value: value.number(),
    }
}

/// Prometheus knows one type of number: `f64`.
trait Number {
    fn number(self) -> f64;
}

macro_rules! numbers {
    ($($kind:ty),*) => {
        $(impl Number for $kind {
            fn number(self) -> f64 {
                self as f64
            }
        })*
    };
}

numbers!(u64, i64, usize);

impl Number for f64 {
    fn number(self) -> f64 {
        self
    }
}

impl Number for bool {
    fn number(self) -> f64 {
        f64::from(u8::from(self))
    }
}

impl Number for &super::Counter {
    fn number(self) -> f64 {
        self.get() as f64
    }
}

/// The text of the page `/metrics`.
pub(crate) fn exposition(backend: &Backend) -> String {
    let mut page = Page::default();
    let status = backend.reader().engine().status();
    let tables = [
        server(backend),
        members(backend),
        storage(&status),
        compaction(&status, backend),
        log(&status),
        unflushed(&status, backend),
        operations(&backend.metrics),
        watches(backend),
        leases(backend),
    ];
    for row in tables.into_iter().flatten() {
        page.family(row.name, row.kind, row.help);
        page.sample(row.name, &[], row.value);
    }
    labelled::write(&mut page, backend);
    process::write(&mut page);
    absent::write(&mut page);
    page.into_text()
}

#[rustfmt::skip]
fn server(backend: &Backend) -> Vec<Row> {
    let (status, metrics, config) = (backend.node.status(), &backend.metrics, &backend.config);
    let leader = backend.leader();
    vec![
        gauge("etcd_server_has_leader", "Whether a leader exists.", leader != 0),
        gauge("etcd_server_is_leader", "Whether this member leads.", leader == backend.identity.member),
        gauge("etcd_server_is_learner", "Whether this member is a learner, which has no vote.", backend.is_learner()),
        counter("etcd_server_leader_changes_seen_total", "Changes of the leader seen.", status.leader_changes),
        gauge("etcd_server_proposals_committed_total", "Newest committed index.", status.index),
        gauge("etcd_server_proposals_applied_total", "Newest applied index.", status.applied_index),
        gauge("etcd_server_proposals_pending", "Commands that wait for their outcome.", status.waiting),
        counter("etcd_server_proposals_failed_total", "Proposals that failed.", &metrics.proposals_failed),
        gauge("etcd_server_quota_backend_bytes", "Bytes the store may use.", config.node.replica.machine.quota_bytes.unwrap_or(0)),
        counter("etcd_server_health_success", "Health checks that passed.", &metrics.health_success),
        counter("etcd_server_health_failures", "Health checks that failed.", &metrics.health_failures),
        counter("etcd_network_client_grpc_received_bytes_total", "Bytes from clients.", &metrics.received_bytes),
        counter("etcd_network_client_grpc_sent_bytes_total", "Bytes to clients.", &metrics.sent_bytes),
        gauge("etcd_disk_defrag_inflight", "Defragmentations under way.", &metrics.defragmenting),
        gauge("etcd_debugging_auth_revision", "Revision of users and roles.", 1u64),
        gauge("inkstone_connections", "Open connections.", &metrics.connections),
        counter("inkstone_long_turns_total", "Times that one call held its core for more than 5 ms.", metrics.long_turns.count()),
        gauge("inkstone_read_lease", "1: this member leads and holds a read lease, so its reads ask no other member.", backend.node.has_read_lease()),
        gauge("inkstone_durable", "1: a write is answered once it is on the device; 0: once it is in the page cache.", config.durability == Durability::Durable),
        gauge("inkstone_returning", "1: after a power failure or damaged files, this member does not vote until it has again every entry that it had acknowledged.", status.rejoining),
    ]
}

/// Metrics about this member's part in the cluster.
#[rustfmt::skip]
fn members(backend: &Backend) -> Vec<Row> {
    let status = backend.node.status();
    vec![
        counter("etcd_server_heartbeat_send_failures_total", "Heartbeats that this member sent as leader later than twice their interval.", status.late_heartbeats),
        counter("etcd_server_slow_read_indexes_total", "Rounds of reads that were repeated because no answer came.", status.lost_read_rounds),
        counter("etcd_server_read_indexes_failed_total", "Reads that were given up because no majority confirmed the leader.", status.reads_given_up),
        counter("etcd_server_learner_promote_successes", "Learners that were given a vote through this member.", &backend.metrics.promotions),
        gauge("etcd_server_snapshot_apply_in_progress_total", "1: a snapshot of another member is being imported.", status.importing),
        gauge("inkstone_takes_no_entries", "1: this member has no room for the leader's entries and falls behind.", status.full),
    ]
}

/// What this member would lose if its power failed now.
#[rustfmt::skip]
fn unflushed(status: &Status, backend: &Backend) -> Vec<Row> {
    let mut rows = vec![gauge("inkstone_unflushed_bytes", "Bytes acknowledged here and not on the device.", status.log.unflushed_bytes)];
    if let Some(unflushed) = backend.node.unflushed() {
        rows.push(gauge("inkstone_unflushed_entries", "Entries acknowledged here and not on the device.", unflushed.entries));
        rows.push(gauge("inkstone_unflushed_age_seconds", "Age of the oldest unflushed entry.", unflushed.age.as_secs_f64()));
    }
    rows
}

#[rustfmt::skip]
fn storage(status: &Status) -> Vec<Row> {
    vec![
        gauge("etcd_mvcc_db_total_size_in_bytes", "Bytes of the log in use or reclaimable.", status.log_bytes),
        gauge("etcd_mvcc_db_total_size_in_use_in_bytes", "Bytes of the log in use.", status.live_bytes),
        gauge("etcd_debugging_mvcc_keys_total", "Keys.", status.keys),
        gauge("etcd_debugging_mvcc_current_revision", "Newest revision.", status.revision),
        gauge("inkstone_versions", "Key versions kept.", status.versions),
        gauge("inkstone_index_bytes", "Memory of the index.", status.index_bytes),
    ]
}

#[rustfmt::skip]
fn compaction(status: &Status, backend: &Backend) -> Vec<Row> {
    vec![
        gauge("etcd_debugging_mvcc_compact_revision", "Compacted revision.", status.compacted.max(0)),
        counter("etcd_debugging_mvcc_db_compaction_keys_total", "Key versions dropped after compactions.", status.upkeep.swept_versions),
        gauge("etcd_debugging_mvcc_db_compaction_last", "When the newest sweep after a compaction ended.", &backend.evaluations.swept_at),
    ]
}

#[rustfmt::skip]
fn log(status: &Status) -> Vec<Row> {
    vec![
        gauge("etcd_disk_wal_write_bytes_total", "Bytes written to the log.", status.log.bytes_written),
        counter("inkstone_log_flushes_total", "Flushes of the log's device.", status.log.flushes),
        counter("inkstone_log_groups_total", "Group frames written.", status.log.groups),
        gauge("inkstone_log_segments", "Segments that hold data.", status.segments),
        gauge("inkstone_log_spare_segments", "Segments ready to be written.", status.log.spare_segments),
        counter("inkstone_checkpoints_total", "Checkpoints written.", status.upkeep.checkpoints),
        counter("inkstone_checkpoint_bytes_total", "Bytes of checkpoints.", status.upkeep.checkpoint_bytes),
        counter("inkstone_relocated_bytes_total", "Bytes copied to reclaim space.", status.upkeep.relocated_bytes),
        counter("inkstone_released_segments_total", "Segments reclaimed.", status.upkeep.released_segments),
    ]
}

#[rustfmt::skip]
fn operations(metrics: &Metrics) -> Vec<Row> {
    vec![
        counter("etcd_mvcc_range_total", "Ranges answered.", &metrics.ranges),
        counter("etcd_mvcc_put_total", "Puts done.", &metrics.puts),
        counter("etcd_mvcc_delete_total", "Deletions done.", &metrics.deletes),
        counter("etcd_mvcc_txn_total", "Transactions done.", &metrics.txns),
        gauge("etcd_debugging_mvcc_total_put_size_in_bytes", "Bytes of keys and values put.", &metrics.put_bytes),
    ]
}

#[rustfmt::skip]
fn watches(backend: &Backend) -> Vec<Row> {
    let (metrics, now) = (&backend.metrics, backend.reader().watch_hub().statistics());
    vec![
        gauge("etcd_debugging_mvcc_watch_stream_total", "Watch streams.", &metrics.watch_streams),
        gauge("etcd_debugging_mvcc_watcher_total", "Watches.", &metrics.watchers),
        gauge("etcd_debugging_mvcc_slow_watcher_total", "Watches that are catching up.", now.behind),
        gauge("etcd_debugging_mvcc_pending_events_total", "Events in the queues of streams.", now.queued_events),
        counter("etcd_debugging_mvcc_events_total", "Events sent.", &metrics.watch_events),
    ]
}

#[rustfmt::skip]
fn leases(backend: &Backend) -> Vec<Row> {
    let (metrics, expired) = (&backend.metrics, backend.node.status().leases_expired);
    vec![
        counter("etcd_debugging_lease_granted_total", "Leases granted.", &metrics.leases_granted),
        counter("etcd_debugging_lease_revoked_total", "Leases ended, by a client or by expiry.", metrics.leases_revoked.get() + expired),
        counter("etcd_debugging_server_lease_expired_total", "Leases ended because they were not renewed in time.", expired),
        counter("etcd_debugging_lease_renewed_total", "Renewals.", &metrics.leases_renewed),
    ]
}
