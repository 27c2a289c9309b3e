//! One scrape: everything, under etcd's names where etcd has one.

use super::grpc::MethodMetrics;
use super::text::Page;
use super::{Counter, absent, process};
use crate::backend::Backend;
use crate::config::{AutoCompaction, Durability};
use crate::methods::Method;

/// The page that `/metrics` answers.
pub(crate) fn exposition(backend: &Backend) -> String {
    let mut page = Page::default();
    server(&mut page, backend);
    proposals(&mut page, backend);
    storage(&mut page, backend);
    operations(&mut page, backend);
    watches_and_leases(&mut page, backend);
    calls(&mut page, backend);
    durations(&mut page, backend);
    checks(&mut page, backend);
    own(&mut page, backend);
    process::write(&mut page);
    absent::write(&mut page);
    page.into_text()
}

fn server(page: &mut Page, backend: &Backend) {
    let leads = u64::from(backend.leader() == backend.identity.member);
    page.gauge("etcd_server_has_leader", "Whether a leader exists.", leads);
    page.gauge("etcd_server_is_leader", "Whether this member leads.", leads);
    page.counter(
        "etcd_server_leader_changes_seen_total",
        "Changes of the leader seen.",
        1,
    );
    page.counter(
        "etcd_server_health_success",
        "Health checks that passed.",
        backend.metrics.health_success.get(),
    );
    page.counter(
        "etcd_server_health_failures",
        "Health checks that failed.",
        backend.metrics.health_failures.get(),
    );
    let labelled = |page: &mut Page, name: &str, help: &str, label: &str, text: &str| {
        page.family(name, "gauge", help);
        page.sample(name, &[(label, text)], 1);
    };
    let version = etcd_api::ETCD_VERSION;
    labelled(
        page,
        "etcd_server_version",
        "etcd's release spoken.",
        "server_version",
        version,
    );
    let cluster = etcd_api::CLUSTER_VERSION.trim_end_matches(".0");
    labelled(
        page,
        "etcd_cluster_version",
        "Version agreed on.",
        "cluster_version",
        cluster,
    );
    let id = format!("{:x}", backend.identity.member);
    labelled(page, "etcd_server_id", "This member.", "server_id", &id);
    labelled(
        page,
        "etcd_server_go_version",
        "etcd's label; here the language.",
        "server_go_version",
        "rust",
    );
    let version = env!("CARGO_PKG_VERSION");
    labelled(
        page,
        "inkstone_version",
        "Inkstone's release.",
        "version",
        version,
    );
}

fn proposals(page: &mut Page, backend: &Backend) {
    let status = backend.node.status();
    page.gauge(
        "etcd_server_proposals_committed_total",
        "Newest committed index.",
        status.index,
    );
    page.gauge(
        "etcd_server_proposals_applied_total",
        "Newest applied index.",
        status.applied_index,
    );
    page.gauge(
        "etcd_server_proposals_pending",
        "Commands waiting.",
        status.waiting,
    );
    page.counter(
        "etcd_server_proposals_failed_total",
        "Proposals that failed.",
        backend.metrics.proposals_failed.get(),
    );
}

fn storage(page: &mut Page, backend: &Backend) {
    let status = backend.reader().engine().status();
    let gauge = |page: &mut Page, name, help, value: u64| page.gauge(name, help, value);
    gauge(
        page,
        "etcd_mvcc_db_total_size_in_bytes",
        "Bytes of the log in use or reclaimable.",
        status.log_bytes,
    );
    gauge(
        page,
        "etcd_mvcc_db_total_size_in_use_in_bytes",
        "Bytes of the log in use.",
        status.live_bytes,
    );
    gauge(page, "etcd_debugging_mvcc_keys_total", "Keys.", status.keys);
    page.gauge(
        "etcd_debugging_mvcc_current_revision",
        "Newest revision.",
        status.revision,
    );
    page.gauge(
        "etcd_debugging_mvcc_compact_revision",
        "Compacted revision.",
        status.compacted.max(0),
    );
    let quota = backend.config.quota_bytes.map_or(0.0, |bytes| bytes as f64);
    page.gauge(
        "etcd_server_quota_backend_bytes",
        "Bytes the store may use.",
        quota,
    );
    page.counter(
        "etcd_disk_wal_write_bytes_total",
        "Bytes written to the log.",
        status.bytes_written,
    );
    page.counter(
        "inkstone_log_flushes_total",
        "Flushes of the log's device.",
        status.flushes,
    );
    page.counter(
        "inkstone_log_groups_total",
        "Group frames written.",
        status.groups,
    );
    gauge(
        page,
        "inkstone_log_segments",
        "Segments that hold data.",
        status.segments as u64,
    );
    gauge(
        page,
        "inkstone_log_spare_segments",
        "Segments ready to be written.",
        status.spare_segments as u64,
    );
    gauge(
        page,
        "inkstone_index_bytes",
        "Memory of the index.",
        status.index_bytes,
    );
    gauge(
        page,
        "inkstone_versions",
        "Key versions kept.",
        status.versions,
    );
    page.counter(
        "inkstone_checkpoints_total",
        "Checkpoints written.",
        status.checkpoints,
    );
    page.counter(
        "inkstone_checkpoint_bytes_total",
        "Bytes of checkpoints.",
        status.checkpoint_bytes,
    );
    page.counter(
        "inkstone_relocated_bytes_total",
        "Bytes copied to reclaim space.",
        status.relocated_bytes,
    );
    page.counter(
        "inkstone_released_segments_total",
        "Segments reclaimed.",
        status.released_segments,
    );
    let metrics = &backend.metrics;
    page.histogram(
        "etcd_disk_backend_defrag_duration_seconds",
        "Time of Defragment.",
        &metrics.defragmentations.read(),
    );
    page.gauge(
        "etcd_disk_defrag_inflight",
        "Defragmentations under way.",
        metrics.defragmenting.get(),
    );
    page.histogram(
        "etcd_mvcc_hash_duration_seconds",
        "Time of Hash.",
        &metrics.hashes.read(),
    );
    page.histogram(
        "etcd_mvcc_hash_rev_duration_seconds",
        "Time of HashKV.",
        &metrics.hashes_at_revision.read(),
    );
    page.histogram(
        "etcd_disk_wal_fsync_duration_seconds",
        "Time of the log's flushes.",
        &metrics.flushes.read(),
    );
}

fn operations(page: &mut Page, backend: &Backend) {
    let metrics = &backend.metrics;
    let counter = |page: &mut Page, name: &str, help: &str, value: &Counter| {
        page.counter(name, help, value.get());
    };
    counter(
        page,
        "etcd_mvcc_range_total",
        "Ranges answered.",
        &metrics.ranges,
    );
    counter(page, "etcd_mvcc_put_total", "Puts done.", &metrics.puts);
    counter(
        page,
        "etcd_mvcc_delete_total",
        "Deletions done.",
        &metrics.deletes,
    );
    counter(
        page,
        "etcd_mvcc_txn_total",
        "Transactions done.",
        &metrics.txns,
    );
    counter(
        page,
        "etcd_debugging_mvcc_total_put_size_in_bytes",
        "Bytes of keys and values put.",
        &metrics.put_bytes,
    );
}

fn watches_and_leases(page: &mut Page, backend: &Backend) {
    let metrics = &backend.metrics;
    page.gauge(
        "etcd_debugging_mvcc_watch_stream_total",
        "Watch streams.",
        metrics.watch_streams.get(),
    );
    page.gauge(
        "etcd_debugging_mvcc_watcher_total",
        "Watches.",
        metrics.watchers.get(),
    );
    page.counter(
        "etcd_debugging_mvcc_events_total",
        "Events sent.",
        metrics.watch_events.get(),
    );
    page.counter(
        "etcd_debugging_lease_granted_total",
        "Leases granted.",
        metrics.leases_granted.get(),
    );
    page.counter(
        "etcd_debugging_lease_revoked_total",
        "Leases ended.",
        metrics.leases_revoked.get(),
    );
    page.counter(
        "etcd_debugging_lease_renewed_total",
        "Renewals.",
        metrics.leases_renewed.get(),
    );
}

/// Picks one of a method's counters.
type CounterOf = fn(&MethodMetrics) -> &Counter;

fn calls(page: &mut Page, backend: &Backend) {
    let grpc = &backend.metrics.grpc;
    let families: [(&str, &str, CounterOf); 3] = [
        ("grpc_server_started_total", "Calls begun.", |method| {
            &method.started
        }),
        (
            "grpc_server_msg_received_total",
            "Messages received.",
            |method| &method.received,
        ),
        ("grpc_server_msg_sent_total", "Messages sent.", |method| {
            &method.sent
        }),
    ];
    for (name, help, counter) in families {
        page.family(name, "counter", help);
        for method in Method::ALL {
            page.sample(name, &labels(*method), counter(grpc.of(*method)).get());
        }
    }
    let name = "grpc_server_handled_total";
    page.family(name, "counter", "Calls ended.");
    for method in Method::ALL {
        for (code, count) in grpc
            .of(*method)
            .each_handled()
            .filter(|(_, count)| *count > 0)
        {
            let [kind, method, service] = labels(*method);
            page.sample(name, &[("grpc_code", code), method, service, kind], count);
        }
    }
    let name = "etcd_server_client_requests_total";
    page.family(name, "counter", "Calls by the version the client speaks.");
    for (version, unary, stream) in backend.metrics.client_versions.each() {
        for (kind, count) in [("unary", unary), ("stream", stream)] {
            if count > 0 {
                page.sample(
                    name,
                    &[("client_api_version", version), ("type", kind)],
                    count,
                );
            }
        }
    }
}

fn durations(page: &mut Page, backend: &Backend) {
    let name = "etcd_server_request_duration_seconds";
    page.family(name, "histogram", "Time from request to answer.");
    for method in Method::ALL {
        let (_, kind, _) = method.about();
        let counters = backend.metrics.grpc.of(*method);
        for (success, times) in [("true", &counters.succeeded), ("false", &counters.failed)] {
            let reading = times.read();
            if reading.count > 0 {
                page.histogram_samples(name, &[("success", success), ("type", kind)], &reading);
            }
        }
    }
}

fn checks(page: &mut Page, backend: &Backend) {
    let name = "etcd_server_healthcheck";
    page.family(name, "gauge", "1: the newest run of a check passed.");
    for (kind, check, runs) in backend.metrics.checks.each() {
        page.sample(
            name,
            &[("name", check), ("type", &kind)],
            u64::from(runs.passed_last()),
        );
    }
    let name = "etcd_server_healthchecks_total";
    page.family(name, "counter", "Runs of the checks.");
    for (kind, check, runs) in backend.metrics.checks.each() {
        for (status, count) in [("success", runs.passed.get()), ("error", runs.failed.get())] {
            page.sample(
                name,
                &[("name", check), ("status", status), ("type", &kind)],
                count,
            );
        }
    }
}

fn labels(method: Method) -> [(&'static str, &'static str); 3] {
    let (service, name, shape) = method.about();
    [
        ("grpc_type", shape.label()),
        ("grpc_method", name),
        ("grpc_service", service),
    ]
}

fn own(page: &mut Page, backend: &Backend) {
    page.counter(
        "etcd_network_client_grpc_received_bytes_total",
        "Bytes from clients.",
        backend.metrics.received_bytes.get(),
    );
    page.counter(
        "etcd_network_client_grpc_sent_bytes_total",
        "Bytes to clients.",
        backend.metrics.sent_bytes.get(),
    );
    page.gauge(
        "inkstone_connections",
        "Open connections.",
        backend.metrics.connections.get(),
    );
    let durable = backend.config.durability == Durability::Durable;
    page.gauge(
        "inkstone_durable",
        "1: answered when on the device; 0: when in the page cache.",
        u64::from(durable),
    );
    let (mode, kept) = match backend.config.auto_compaction {
        None => ("off", 0.0),
        Some(AutoCompaction::Periodic(kept)) => ("periodic", kept.as_secs_f64()),
        Some(AutoCompaction::Revision(kept)) => ("revision", kept as f64),
    };
    let name = "inkstone_auto_compaction_retention";
    page.family(name, "gauge", "History kept: seconds or revisions.");
    page.sample(name, &[("mode", mode)], kept);
}
