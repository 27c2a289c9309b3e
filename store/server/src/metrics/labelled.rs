//! Metrics with labels or buckets.

use etcd_api::etcdserverpb::AlarmType;

use super::Counter;
use super::grpc::MethodMetrics;
use super::peers;
use super::text::Page;
use crate::backend::Backend;
use crate::config::{AutoCompaction, GATES};
use crate::methods::Method;

pub(super) fn write(page: &mut Page, backend: &Backend) {
    facts(page, backend);
    alarms(page, backend);
    certificates(page, backend);
    peers::write(page, backend);
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
    gates(page, backend);
    checks(page, backend);
    scrapes(page, backend);
}

/// Gauges that are always 1 and carry their fact in a label.
fn facts(page: &mut Page, backend: &Backend) {
    let id = format!("{:x}", backend.identity.member);
    // etcd shows the agreed version without its last step.
    let cluster = etcd_api::CLUSTER_VERSION.trim_end_matches(".0");
    let own = env!("CARGO_PKG_VERSION");
    for (prefix, label, text) in [
        ("etcd", "server_version", etcd_api::ETCD_VERSION),
        ("etcd", "cluster_version", cluster),
        ("etcd", "server_id", &id),
        ("etcd", "server_go_version", "rust"),
        ("inkstone", "version", own),
    ] {
        let name = format!("{prefix}_{label}");
        let mut family = page.family(&name, "gauge", "Always 1; the value is in the label.");
        family.sample(&[(label, text)], 1);
    }
    let (mode, kept) = match backend.config.auto_compaction {
        None => ("off", 0.0),
        Some(AutoCompaction::Periodic(kept)) => ("periodic", kept.as_secs_f64()),
        Some(AutoCompaction::Revision(kept)) => ("revision", kept as f64),
    };
    let (name, help) = (
        "inkstone_auto_compaction_retention",
        "History kept: seconds or revisions.",
    );
    page.family(name, "gauge", help)
        .sample(&[("mode", mode)], kept);
}

/// Members by alarm, with a row for each alarm from the start, so that an expression of a rule
/// always finds one.
fn alarms(page: &mut Page, backend: &Backend) {
    let raised = backend.reader().alarms();
    let help = "Members that have raised an alarm which is not disarmed.";
    let mut family = page.family("inkstone_alarm_members", "gauge", help);
    for alarm in [AlarmType::Nospace, AlarmType::Corrupt] {
        let members = raised.iter().filter(|it| it.alarm == alarm as i32).count();
        family.sample(&[("alarm", alarm.as_str_name())], members);
    }
}

/// Certificates that this member shows where it accepts connections with TLS.
fn certificates(page: &mut Page, backend: &Backend) {
    let help = "When the certificate of a kind of port expires, in seconds since 1970.";
    let name = "inkstone_certificate_expiry_timestamp_seconds";
    let mut family = page.family(name, "gauge", help);
    for (port, acceptor) in &backend.acceptors {
        if let Some(seconds) = acceptor.certificate_expires_seconds() {
            family.sample(&[("port", port)], seconds);
        }
    }
}

/// etcd's feature gates. One that switches nothing here is never open.
fn gates(page: &mut Page, backend: &Backend) {
    let help = "Whether a feature gate of etcd is open that switches something here.";
    let mut family = page.family("etcd_server_feature_enabled", "gauge", help);
    for gate in GATES {
        let is_open = backend.config.corruption.gates.is_open(gate.name);
        let labels = [("name", gate.name), ("stage", gate.stage)];
        family.sample(&labels, u8::from(is_open));
    }
}

fn durations(page: &mut Page, backend: &Backend) {
    let times = &backend.metrics.times;
    let help = "Time of the log's flushes.";
    page.histogram("etcd_disk_wal_fsync_duration_seconds", help, &times.flushes);
    let (help, defragmentations) = ("Time of Defragment.", &times.defragmentations);
    let name = "etcd_disk_backend_defrag_duration_seconds";
    page.histogram(name, help, defragmentations);
    let name = "etcd_mvcc_hash_duration_seconds";
    page.histogram(name, "Time of Hash.", &times.hashes);
    let name = "etcd_mvcc_hash_rev_duration_seconds";
    page.histogram(name, "Time of HashKV.", &times.hashes_at_revision);
    let help = "Times to live of granted leases, in seconds.";
    page.histogram("etcd_debugging_lease_ttl_total", help, &times.leases);
    let name = "etcd_debugging_mvcc_db_compaction_total_duration_milliseconds";
    let help = "Time from a compaction to the end of its sweep.";
    page.histogram(name, help, &backend.evaluations.sweeps);
}

/// Selects one of a method's counters.
type CounterOf = fn(&MethodMetrics) -> &Counter;

fn calls(page: &mut Page, backend: &Backend) {
    let families: [(&str, &str, CounterOf); 3] = [
        ("started", "Calls begun.", |method| &method.started),
        ("msg_received", "Messages received.", |it| &it.received),
        ("msg_sent", "Messages sent.", |method| &method.sent),
    ];
    for (what, help, counter) in families {
        let name = format!("grpc_server_{what}_total");
        let mut family = page.family(&name, "counter", help);
        for (method, counters) in shown(backend) {
            family.sample(&labels(method), counter(counters).get());
        }
    }
}

/// A row for each method and code from the start, as etcd has: `rate()` of a row that appears
/// with its first error would miss that error.
fn handled(page: &mut Page, backend: &Backend) {
    let mut family = page.family("grpc_server_handled_total", "counter", "Calls ended.");
    for (method, counters) in shown(backend) {
        for (code, count) in counters.each_handled() {
            let [method, service, kind] = labels(method);
            family.sample(&[("grpc_code", &*code), method, service, kind], count);
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
    let help = "Calls by the version the client speaks.";
    let mut family = page.family("etcd_server_client_requests_total", "counter", help);
    for (version, unary, stream) in backend.metrics.client_versions.each() {
        for (kind, count) in [("unary", unary), ("stream", stream)] {
            if count > 0 {
                family.sample(&[("client_api_version", version), ("type", kind)], count);
            }
        }
    }
}

fn request_durations(page: &mut Page, backend: &Backend) {
    let (name, help) = (
        "etcd_server_request_duration_seconds",
        "Time from request to answer.",
    );
    let mut family = page.family(name, "histogram", help);
    for method in Method::ALL {
        let (_, kind, _) = method.about();
        let counters = backend.metrics.grpc.of(*method);
        for (success, times) in [("true", &counters.succeeded), ("false", &counters.failed)] {
            if !times.is_empty() {
                family.histogram(&[("success", success), ("type", kind)], times);
            }
        }
    }
}

/// etcd measures how long it applies a command, which includes evaluating it. Here a command
/// is evaluated before it is proposed, so the time of its evaluation is shown.
fn evaluations(page: &mut Page, backend: &Backend) {
    let help = "Time of evaluating a command of a client.";
    let mut family = page.family("etcd_server_apply_duration_seconds", "histogram", help);
    for (operation, success, times) in backend.evaluations.each() {
        let labels = [("op", operation), ("success", success), ("version", "v3")];
        family.histogram(&labels, times);
    }
}

fn ranges(page: &mut Page, backend: &Backend) {
    let name = "etcd_server_range_duration_seconds";
    let mut family = page.family(name, "histogram", "Time of ranges.");
    let times = &backend.metrics.times;
    for (success, times) in [("true", &times.ranges), ("false", &times.ranges_failed)] {
        if !times.is_empty() {
            family.histogram(&[("success", success)], times);
        }
    }
}

fn handling(page: &mut Page, backend: &Backend) {
    let help = "Time from request to the call's end.";
    let mut family = page.family("grpc_server_handling_seconds", "histogram", help);
    for (method, counters) in shown(backend) {
        family.histogram(&labels(method), &counters.handling);
    }
}

/// Metrics of scrapes, as the Prometheus library of etcd counts them.
fn scrapes(page: &mut Page, backend: &Backend) {
    let scrapes = &backend.metrics.scrapes;
    let name = "promhttp_metric_handler_requests_in_flight";
    page.gauge(name, "Scrapes under way.", scrapes.under_way.get());
    let name = "promhttp_metric_handler_requests_total";
    let mut family = page.family(name, "counter", "Scrapes answered.");
    family.sample(&[("code", "200")], scrapes.answered.get());
    family.sample(&[("code", "503")], scrapes.refused.get());
}

fn checks(page: &mut Page, backend: &Backend) {
    let checks = backend.metrics.checks.each();
    let help = "1: the newest run of a check passed.";
    let mut family = page.family("etcd_server_healthcheck", "gauge", help);
    for (kind, check, runs) in &checks {
        let passed = u8::from(runs.passed_last());
        family.sample(&[("name", check), ("type", kind)], passed);
    }
    let name = "etcd_server_healthchecks_total";
    let mut family = page.family(name, "counter", "Runs of the checks.");
    for (kind, check, runs) in &checks {
        for (status, count) in [("success", &runs.passed), ("error", &runs.failed)] {
            let labels = [("name", *check), ("status", status), ("type", kind)];
            family.sample(&labels, count.get());
        }
    }
}
