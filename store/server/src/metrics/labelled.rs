//! Metrics with labels or buckets.

use cluster::Traffic;

use super::Counter;
use super::grpc::MethodMetrics;
use super::histogram::Histogram;
use super::text::Page;
use crate::backend::Backend;
use crate::config::AutoCompaction;
use crate::methods::Method;

pub(super) fn write(page: &mut Page, backend: &Backend) {
    facts(page, backend);
    peers(page, backend);
    durations(page, backend);
    calls(page, backend);
    handled(page, backend);
    clients(page, backend);
    request_durations(page, backend);
    evaluations(page, backend);
    ranges(page, backend);
    if backend.config.http.metrics_extensive {
        handling(page, backend);
    }
    checks(page, backend);
    scrapes(page, backend);
}

/// Gauges that are always 1 and carry their fact in a label.
fn facts(page: &mut Page, backend: &Backend) {
    let id = format!("{:x}", backend.identity.member);
    // etcd shows the agreed version without its last step.
    let cluster = etcd_api::CLUSTER_VERSION.trim_end_matches(".0");
    for (name, label, text) in [
        (
            "etcd_server_version",
            "server_version",
            etcd_api::ETCD_VERSION,
        ),
        ("etcd_cluster_version", "cluster_version", cluster),
        ("etcd_server_id", "server_id", &id),
        ("etcd_server_go_version", "server_go_version", "rust"),
        ("inkstone_version", "version", env!("CARGO_PKG_VERSION")),
    ] {
        page.family(name, "gauge", "Always 1; the value is in the label.");
        page.sample(name, &[(label, text)], 1);
    }
    let (mode, kept) = match backend.config.auto_compaction {
        None => ("off", 0.0),
        Some(AutoCompaction::Periodic(kept)) => ("periodic", kept.as_secs_f64()),
        Some(AutoCompaction::Revision(kept)) => ("revision", kept as f64),
    };
    let name = "inkstone_auto_compaction_retention";
    page.family(name, "gauge", "History kept: seconds or revisions.");
    page.sample(name, &[("mode", mode)], kept);
}

/// The members of the cluster, this one included, and the traffic between it and each
/// other member.
fn peers(page: &mut Page, backend: &Backend) {
    let local = format!("{:x}", backend.identity.member);
    let mut known = vec![backend.identity.member];
    if !backend.alone {
        let members = backend.reader().members();
        known.extend(members.iter().map(|member| member.id));
    }
    known.sort_unstable();
    known.dedup();
    let name = "etcd_network_known_peers";
    page.family(name, "gauge", "1 for each member.");
    for id in &known {
        let remote = format!("{id:x}");
        page.sample(name, &[("Local", &local), ("Remote", &remote)], 1);
    }
    let traffic = |id| backend.node.traffic(id).map(|traffic| (id, traffic));
    peer_traffic(
        page,
        &local,
        known.into_iter().filter_map(traffic).collect(),
    );
}

/// Selects the sent or the received bytes.
type BytesOf = fn(&Traffic) -> u64;

fn peer_traffic(page: &mut Page, local: &str, others: Vec<(u64, Traffic)>) {
    let name = "etcd_network_active_peers";
    page.family(name, "gauge", "1 for each other member that is connected.");
    for (id, traffic) in &others {
        let remote = format!("{id:x}");
        let labels = [("Local", local), ("Remote", &remote[..])];
        page.sample(name, &labels, u64::from(traffic.connected));
    }
    let families: [(&str, &str, &str, BytesOf); 2] = [
        (
            "etcd_network_peer_sent_bytes_total",
            "To",
            "Bytes of messages to other members; snapshots are left out.",
            |traffic| traffic.sent_bytes,
        ),
        (
            "etcd_network_peer_received_bytes_total",
            "From",
            "Bytes from other members; snapshots are left out.",
            |traffic| traffic.received_bytes,
        ),
    ];
    for (name, label, help, bytes_of) in families {
        page.family(name, "counter", help);
        for (id, traffic) in &others {
            page.sample(name, &[(label, &format!("{id:x}"))], bytes_of(traffic));
        }
    }
}

fn durations(page: &mut Page, backend: &Backend) {
    let times = &backend.metrics.times;
    let rows: [(&str, &str, &Histogram); 6] = [
        (
            "etcd_disk_wal_fsync_duration_seconds",
            "Time of the log's flushes.",
            &times.flushes,
        ),
        (
            "etcd_disk_backend_defrag_duration_seconds",
            "Time of Defragment.",
            &times.defragmentations,
        ),
        (
            "etcd_mvcc_hash_duration_seconds",
            "Time of Hash.",
            &times.hashes,
        ),
        (
            "etcd_mvcc_hash_rev_duration_seconds",
            "Time of HashKV.",
            &times.hashes_at_revision,
        ),
        (
            "etcd_debugging_lease_ttl_total",
            "Times to live of granted leases, in seconds.",
            &times.leases,
        ),
        (
            "etcd_debugging_mvcc_db_compaction_total_duration_milliseconds",
            "Time from a compaction to the end of its sweep.",
            &backend.evaluations.sweeps,
        ),
    ];
    for (name, help, times) in rows {
        page.histogram(name, help, &times.read());
    }
}

/// Selects one of a method's counters.
type CounterOf = fn(&MethodMetrics) -> &Counter;

fn calls(page: &mut Page, backend: &Backend) {
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
        for (method, counters) in shown(backend) {
            page.sample(name, &labels(method), counter(counters).get());
        }
    }
}

/// A row for each method and code from the start, as etcd has: `rate()` of a row that appears
/// with its first error would miss that error.
fn handled(page: &mut Page, backend: &Backend) {
    let name = "grpc_server_handled_total";
    page.family(name, "counter", "Calls ended.");
    for (method, counters) in shown(backend) {
        for (code, count) in counters.each_handled() {
            let [method, service, kind] = labels(method);
            page.sample(name, &[("grpc_code", code), method, service, kind], count);
        }
    }
}

/// The methods that have rows, each with its counters.
fn shown(backend: &Backend) -> impl Iterator<Item = (Method, &MethodMetrics)> {
    let all = Method::ALL.iter().copied();
    let counted = all.map(|method| (method, backend.metrics.grpc.of(method)));
    counted.filter(|(method, counters)| {
        method.is_shown_before_its_first_call() || counters.started.get() > 0
    })
}

fn labels(method: Method) -> [(&'static str, &'static str); 3] {
    let (service, name, shape) = method.about();
    [
        ("grpc_method", name),
        ("grpc_service", service),
        ("grpc_type", shape.label()),
    ]
}

fn clients(page: &mut Page, backend: &Backend) {
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

fn request_durations(page: &mut Page, backend: &Backend) {
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

/// etcd measures how long it applies a command, which includes evaluating it. Here a command
/// is evaluated before it is proposed, so the time of its evaluation is shown.
fn evaluations(page: &mut Page, backend: &Backend) {
    let name = "etcd_server_apply_duration_seconds";
    page.family(
        name,
        "histogram",
        "Time of evaluating a command of a client.",
    );
    for (operation, success, reading) in backend.evaluations.each() {
        let labels = [("op", operation), ("success", success), ("version", "v3")];
        page.histogram_samples(name, &labels, &reading);
    }
}

fn ranges(page: &mut Page, backend: &Backend) {
    let name = "etcd_server_range_duration_seconds";
    page.family(name, "histogram", "Time of ranges.");
    let times = &backend.metrics.times;
    for (success, times) in [("true", &times.ranges), ("false", &times.ranges_failed)] {
        let reading = times.read();
        if reading.count > 0 {
            page.histogram_samples(name, &[("success", success)], &reading);
        }
    }
}

fn handling(page: &mut Page, backend: &Backend) {
    let name = "grpc_server_handling_seconds";
    page.family(name, "histogram", "Time from request to the call's end.");
    for (method, counters) in shown(backend) {
        page.histogram_samples(name, &labels(method), &counters.handling.read());
    }
}

/// Metrics of scrapes, as the Prometheus library of etcd counts them.
fn scrapes(page: &mut Page, backend: &Backend) {
    let metrics = &backend.metrics;
    let name = "promhttp_metric_handler_requests_in_flight";
    page.gauge(name, "Scrapes under way.", metrics.scraping.get());
    let name = "promhttp_metric_handler_requests_total";
    page.family(name, "counter", "Scrapes answered.");
    let refused = metrics.scrapes_refused.get();
    for (code, count) in [("200", metrics.scrapes.get()), ("503", refused)] {
        page.sample(name, &[("code", code)], count);
    }
}

fn checks(page: &mut Page, backend: &Backend) {
    let name = "etcd_server_healthcheck";
    page.family(name, "gauge", "1: the newest run of a check passed.");
    for (kind, check, runs) in backend.metrics.checks.each() {
        let passed = u64::from(runs.passed_last());
        page.sample(name, &[("name", check), ("type", &kind)], passed);
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
