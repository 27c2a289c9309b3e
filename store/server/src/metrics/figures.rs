//! Figures for the service View: the metrics that its callers show, as messages.

use etcd_api::inkstonepb::{FlushBucket, LoadFigures, ProcessFigures, StoreFigures};

use super::process::Usage;
use crate::backend::Backend;

/// The store of this member.
pub(crate) fn store_figures(backend: &Backend) -> StoreFigures {
    let (node, engine) = (backend.node.status(), backend.reader().engine().status());
    let config = &backend.config.node;
    let space = config.disk.space(&config.directory).ok();
    StoreFigures {
        revision: engine.revision,
        compacted_revision: engine.compacted.max(0),
        keys: engine.keys,
        key_versions: engine.versions,
        db_size_bytes: engine.log_bytes,
        db_in_use_bytes: engine.live_bytes,
        quota_bytes: config.replica.machine.quota_bytes.unwrap_or(0),
        index_memory_bytes: engine.index_bytes,
        disk_free_bytes: space.map(|space| space.available_bytes),
        disk_total_bytes: space.map(|space| space.total_bytes),
        raft_term: node.term,
        raft_index: node.index,
        raft_applied_index: node.applied_index,
    }
}

/// The work of this member since its start.
pub(crate) fn load_figures(backend: &Backend) -> LoadFigures {
    let metrics = &backend.metrics;
    let (operations, flushes) = (&metrics.operations, metrics.times.flushes.read());
    let bucket = |(seconds_max, count)| FlushBucket { seconds_max, count };
    LoadFigures {
        ranges: operations.ranges.get(),
        puts: operations.puts.get(),
        deletes: operations.deletes.get(),
        txns: operations.txns.get(),
        events: metrics.watches.events.get(),
        flushes: flushes.count,
        flush_seconds: flushes.sum,
        flush_buckets: flushes.buckets.into_iter().map(bucket).collect(),
        watches: metrics.watches.live.get(),
        connections: metrics.connections.get(),
    }
}

/// The resources of this process.
pub(crate) fn process_figures(backend: &Backend) -> ProcessFigures {
    let usage = Usage::read();
    let now = backend.clock.unix_time().as_secs_f64();
    ProcessFigures {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        etcd_version: etcd_api::ETCD_VERSION.to_owned(),
        resident_memory_bytes: usage.as_ref().map(|usage| usage.resident_bytes),
        cpu_seconds: usage.as_ref().map(|usage| usage.cpu_seconds),
        uptime_seconds: usage.map(|usage| (now - usage.start_seconds).max(0.0)),
    }
}

/// The number of round trips to another member since the start, and their sum in seconds.
pub(crate) fn round_trips(backend: &Backend, member: u64) -> (u64, f64) {
    backend.evaluations.peers.round_trips(member)
}
