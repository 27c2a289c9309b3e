//! One scrape: all metrics, under etcd's name if etcd has the metric.
//!
//! A metric of one number is a row of a table: kind, name, meaning, value. Metrics
//! with labels or buckets are written by [`super::labelled`].

use engine::Status;

use super::text::Page;
use super::{OperationMetrics, absent, labelled, process};
use crate::backend::Backend;
use crate::config::Durability;

/// The text of the page `/metrics`.
pub(crate) fn exposition(backend: &Backend) -> String {
    let mut page = Page::default();
    let status = backend.reader().engine().status();
    server(&mut page, backend);
    members(&mut page, backend);
    storage(&mut page, &status);
    compaction(&mut page, &status, backend);
    damage(&mut page, backend);
    log(&mut page, &status);
    unflushed(&mut page, &status, backend);
    operations(&mut page, &backend.metrics.operations);
    watches(&mut page, backend);
    leases(&mut page, backend);
    labelled::write(&mut page, backend);
    process::write(&mut page);
    absent::write(&mut page);
    page.into_text()
}

#[rustfmt::skip]
fn server(page: &mut Page, backend: &Backend) {
    let (status, metrics, config) = (backend.node.status(), &backend.metrics, &backend.config);
    let leader = backend.leader();
    page.gauge("etcd_server_has_leader", "Whether a leader exists.", u8::from(leader != 0));
    page.gauge("etcd_server_is_leader", "Whether this member leads.", u8::from(leader == backend.identity.member));
    page.gauge("etcd_server_is_learner", "Whether this member is a learner, which has no vote.", u8::from(backend.node.is_learner()));
    page.counter("etcd_server_leader_changes_seen_total", "Changes of the leader seen.", status.leader_changes);
    page.gauge("etcd_server_proposals_committed_total", "Newest committed index.", status.index);
    page.gauge("etcd_server_proposals_applied_total", "Newest applied index.", status.applied_index);
    page.gauge("etcd_server_proposals_pending", "Commands that wait for their outcome.", status.waiting);
    page.counter("etcd_server_proposals_failed_total", "Proposals that failed.", metrics.proposals_failed.get());
    page.gauge("etcd_server_quota_backend_bytes", "Bytes the store may use.", config.node.replica.machine.quota_bytes.unwrap_or(0));
    page.counter("etcd_server_health_success", "Health checks that passed.", metrics.health.passed.get());
    page.counter("etcd_server_health_failures", "Health checks that failed.", metrics.health.failed.get());
    page.counter("etcd_network_client_grpc_received_bytes_total", "Bytes from clients.", metrics.network.received_bytes.get());
    page.counter("etcd_network_client_grpc_sent_bytes_total", "Bytes to clients.", metrics.network.sent_bytes.get());
    page.gauge("etcd_disk_defrag_inflight", "Defragmentations under way.", metrics.defragmenting.get());
    page.gauge("etcd_debugging_auth_revision", "Revision of users and roles.", backend.reader().users().current().revision());
    page.gauge("inkstone_connections", "Open connections.", metrics.connections.get());
    page.counter("etcd_server_slow_apply_total", "Commands that took longer to evaluate than --warning-apply-duration.", backend.evaluations.slow_total.get());
    page.counter("inkstone_long_turns_total", "Times that one call held its core for more than 5 ms.", metrics.long_turns.count());
    page.gauge("inkstone_read_lease", "1: this member leads and holds a read lease, so its reads ask no other member.", u8::from(backend.node.has_read_lease()));
    page.gauge("inkstone_durable", "1: a write is answered once it is on the device; 0: once it is in the page cache.", u8::from(config.durability == Durability::Durable));
    page.gauge("inkstone_returning", "1: after a power failure or damaged files, this member does not vote until it has again every entry that it had acknowledged.", u8::from(status.rejoining));
}

/// Metrics about this member's part in the cluster.
#[rustfmt::skip]
fn members(page: &mut Page, backend: &Backend) {
    let status = backend.node.status();
    page.counter("etcd_server_heartbeat_send_failures_total", "Heartbeats that this member sent as leader later than twice their interval.", status.late_heartbeats);
    page.counter("etcd_server_slow_read_indexes_total", "Rounds of reads that were repeated because no answer came.", status.lost_read_rounds);
    page.counter("etcd_server_read_indexes_failed_total", "Reads that were given up because no majority confirmed the leader.", status.reads_given_up);
    page.counter("etcd_server_learner_promote_successes", "Learners that were given a vote through this member.", backend.metrics.promotions.get());
    page.gauge("etcd_server_snapshot_apply_in_progress_total", "1: a snapshot of another member is being imported.", u8::from(status.importing));
    page.gauge("inkstone_refuses_writes", "1: this member takes no writes until it is restarted, because its log has failed, or because it stops.", u8::from(backend.node.refuses_writes().is_some()));
    page.gauge("inkstone_takes_no_entries", "1: this member has no room for the leader's entries and falls behind.", u8::from(status.full));
}

/// Writes that this member would lose if its power failed now.
#[rustfmt::skip]
fn unflushed(page: &mut Page, status: &Status, backend: &Backend) {
    page.gauge("inkstone_unflushed_bytes", "Bytes acknowledged here and not on the device.", status.log.unflushed_bytes);
    if let Some(unflushed) = backend.node.unflushed() {
        page.gauge("inkstone_unflushed_entries", "Entries acknowledged here and not on the device.", unflushed.entries);
        page.gauge("inkstone_unflushed_age_seconds", "Age of the oldest unflushed entry.", unflushed.age.as_secs_f64());
    }
}

#[rustfmt::skip]
fn storage(page: &mut Page, status: &Status) {
    page.gauge("etcd_mvcc_db_total_size_in_bytes", "Bytes of the log in use or reclaimable.", status.log_bytes);
    page.gauge("etcd_mvcc_db_total_size_in_use_in_bytes", "Bytes of the log in use.", status.live_bytes);
    page.gauge("etcd_debugging_mvcc_keys_total", "Keys.", status.keys);
    page.gauge("etcd_debugging_mvcc_current_revision", "Newest revision.", status.revision);
    page.gauge("inkstone_versions", "Key versions kept.", status.versions);
    page.gauge("inkstone_index_bytes", "Memory of the index.", status.index_bytes);
}

#[rustfmt::skip]
fn compaction(page: &mut Page, status: &Status, backend: &Backend) {
    page.gauge("etcd_debugging_mvcc_compact_revision", "Compacted revision.", status.compacted.max(0));
    page.counter("etcd_debugging_mvcc_db_compaction_keys_total", "Key versions dropped after compactions.", status.upkeep.swept_versions);
    page.gauge("etcd_debugging_mvcc_db_compaction_last", "When the newest sweep after a compaction ended.", backend.evaluations.swept_at.get());
}

/// Findings of comparing the members' states and of verifying the log.
#[rustfmt::skip]
fn damage(page: &mut Page, backend: &Backend) {
    let (found, engine) = (backend.node.status().agreements, backend.reader().engine());
    page.counter("inkstone_state_comparisons_total", "Comparisons of another member's state with this leader's that found the same.", found.agreed);
    page.counter("inkstone_state_differences_total", "Comparisons of another member's state with this leader's that found another one.", found.differed);
    page.counter("inkstone_corrupt_alarms_total", "Alarms CORRUPT that this member asked for because states differ.", found.alarms);
    page.gauge("inkstone_damaged_values", "Damaged values that no other member has sent yet.", engine.damaged_versions().len());
    if let Some(found) = backend.node.scrub_findings() {
        page.counter("inkstone_scrubbed_bytes_total", "Bytes of sealed segments verified in the background.", found.bytes);
        page.counter("inkstone_scrub_rounds_total", "Rounds over all sealed segments.", found.rounds);
        page.counter("inkstone_scrub_damaged_total", "Damaged places found in sealed segments.", found.damaged);
        page.counter("inkstone_scrub_rewritten_total", "Damaged frames written again from the page cache.", found.rewritten);
        page.counter("inkstone_key_walks_total", "Walks over the keys in memory that found what was applied.", found.sound_walks);
        page.counter("inkstone_key_walks_failed_total", "Walks over the keys in memory that found something else.", found.spoiled_walks);
        page.counter("inkstone_key_entries_corrected_total", "Entries of keys that had changed in memory and were corrected from their records.", found.corrected_entries);
    }
}

#[rustfmt::skip]
fn log(page: &mut Page, status: &Status) {
    page.gauge("etcd_disk_wal_write_bytes_total", "Bytes written to the log.", status.log.bytes_written);
    page.counter("inkstone_log_flushes_total", "Flushes of the log's device.", status.log.flushes);
    page.counter("inkstone_log_groups_total", "Group frames written.", status.log.groups);
    page.gauge("inkstone_log_segments", "Segments that hold data.", status.segments);
    page.gauge("inkstone_log_spare_segments", "Segments ready to be written.", status.log.spare_segments);
    page.counter("inkstone_checkpoints_total", "Checkpoints written.", status.upkeep.checkpoints);
    page.counter("inkstone_checkpoint_bytes_total", "Bytes of checkpoints.", status.upkeep.checkpoint_bytes);
    page.counter("inkstone_relocated_bytes_total", "Bytes copied to reclaim space.", status.upkeep.relocated_bytes);
    page.counter("inkstone_released_segments_total", "Segments reclaimed.", status.upkeep.released_segments);
}

#[rustfmt::skip]
fn operations(page: &mut Page, operations: &OperationMetrics) {
    page.counter("etcd_mvcc_range_total", "Ranges answered.", operations.ranges.get());
    page.counter("etcd_mvcc_put_total", "Puts done.", operations.puts.get());
    page.counter("etcd_mvcc_delete_total", "Deletions done.", operations.deletes.get());
    page.counter("etcd_mvcc_txn_total", "Transactions done.", operations.txns.get());
    page.gauge("etcd_debugging_mvcc_total_put_size_in_bytes", "Bytes of keys and values put.", operations.put_bytes.get());
}

#[rustfmt::skip]
fn watches(page: &mut Page, backend: &Backend) {
    let (metrics, now) = (&backend.metrics.watches, backend.reader().watch_hub().statistics());
    page.gauge("etcd_debugging_mvcc_watch_stream_total", "Watch streams.", metrics.streams.get());
    page.gauge("etcd_debugging_mvcc_watcher_total", "Watches.", metrics.live.get());
    page.gauge("etcd_debugging_mvcc_slow_watcher_total", "Watches that are catching up.", now.behind);
    page.gauge("etcd_debugging_mvcc_pending_events_total", "Events in the queues of streams.", now.queued_events);
    page.counter("etcd_debugging_mvcc_events_total", "Events sent.", metrics.events.get());
}

#[rustfmt::skip]
fn leases(page: &mut Page, backend: &Backend) {
    let (metrics, expired) = (&backend.metrics.leases, backend.node.status().leases_expired);
    page.counter("etcd_debugging_lease_granted_total", "Leases granted.", metrics.granted.get());
    page.counter("etcd_debugging_lease_revoked_total", "Leases ended, by a client or by expiry.", metrics.revoked.get() + expired);
    page.counter("etcd_debugging_server_lease_expired_total", "Leases ended because they were not renewed in time.", expired);
    page.counter("etcd_debugging_lease_renewed_total", "Renewals.", metrics.renewed.get());
}
