//! Metrics of the other members: their connections, round trips and snapshots.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cluster::{Traffic, Transfer};

use super::Counter;
use super::histogram::{Histogram, ROUND_TRIP_SECONDS, SAVE_SECONDS};
use super::text::Page;
use crate::backend::Backend;
use crate::lock;

/// What the node has reported of each other member.
#[derive(Debug, Default)]
pub(crate) struct PeerMetrics(Mutex<BTreeMap<u64, Arc<PeerTimes>>>);

/// Times of one other member.
#[derive(Debug)]
struct PeerTimes {
    round_trips: Histogram,
    sent: Snapshots,
    received: Snapshots,
}

/// The snapshots of one direction.
#[derive(Debug)]
struct Snapshots {
    under_way: Counter,
    succeeded: Counter,
    failed: Counter,
    times: Histogram,
}

impl PeerMetrics {
    fn of(&self, member: u64) -> Arc<PeerTimes> {
        let fresh = || {
            Arc::new(PeerTimes {
                round_trips: Histogram::new(ROUND_TRIP_SECONDS),
                sent: Snapshots::new(),
                received: Snapshots::new(),
            })
        };
        Arc::clone(lock(&self.0).entry(member).or_insert_with(fresh))
    }

    pub(super) fn round_trip(&self, member: u64, took: Duration) {
        self.of(member).round_trips.observe(took);
    }

    pub(super) fn snapshot_began(&self, transfer: Transfer, member: u64) {
        self.of(member).snapshots(transfer).under_way.add(1);
    }

    pub(super) fn snapshot_ended(
        &self,
        transfer: Transfer,
        member: u64,
        success: bool,
        took: Duration,
    ) {
        let times = self.of(member);
        let snapshots = times.snapshots(transfer);
        snapshots.under_way.sub(1);
        match success {
            true => {
                snapshots.succeeded.add(1);
                snapshots.times.observe(took);
            }
            false => snapshots.failed.add(1),
        }
    }
}

impl PeerTimes {
    fn snapshots(&self, transfer: Transfer) -> &Snapshots {
        match transfer {
            Transfer::Sent => &self.sent,
            Transfer::Received => &self.received,
        }
    }
}

impl Snapshots {
    fn new() -> Snapshots {
        Snapshots {
            under_way: Counter::default(),
            succeeded: Counter::default(),
            failed: Counter::default(),
            times: Histogram::new(SAVE_SECONDS),
        }
    }
}

/// Another member at the time of a scrape.
struct Peer {
    /// Its id, as etcd writes it.
    remote: String,
    traffic: Traffic,
    times: Arc<PeerTimes>,
}

/// The members of the cluster, this one included, and what happens between it and each other
/// member.
pub(super) fn write(page: &mut Page, backend: &Backend) {
    let local = format!("{:x}", backend.identity.member);
    let mut known = vec![backend.identity.member];
    if !backend.alone {
        let members = backend.reader().members();
        known.extend(members.iter().map(|member| member.id));
    }
    known.sort_unstable();
    known.dedup();
    let mut family = page.family("etcd_network_known_peers", "gauge", "1 for each member.");
    for id in &known {
        family.sample(&[("Local", &local), ("Remote", &format!("{id:x}"))], 1);
    }
    let peer = |id: &u64| {
        Some(Peer {
            remote: format!("{id:x}"),
            traffic: backend.node.traffic(*id)?,
            times: backend.evaluations.peers.of(*id),
        })
    };
    let others: Vec<Peer> = known.iter().filter_map(peer).collect();
    connections(page, &local, &others);
    traffic(page, &others);
    let help = "Time from a message to another member to its answer.";
    let name = "etcd_network_peer_round_trip_time_seconds";
    let mut family = page.family(name, "histogram", help);
    for peer in &others {
        family.histogram(&[("To", &peer.remote)], &peer.times.round_trips);
    }
    snapshots(page, &others, Transfer::Sent);
    snapshots(page, &others, Transfer::Received);
}

fn connections(page: &mut Page, local: &str, others: &[Peer]) {
    let help = "1 for each other member that is connected.";
    let mut family = page.family("etcd_network_active_peers", "gauge", help);
    for peer in others {
        let labels = [("Local", local), ("Remote", &peer.remote)];
        family.sample(&labels, u8::from(peer.traffic.connected));
    }
    let help = "Connections to another member that were lost.";
    let name = "etcd_network_disconnected_peers_total";
    let mut family = page.family(name, "counter", help);
    for peer in others {
        let labels = [("Local", local), ("Remote", &peer.remote)];
        family.sample(&labels, peer.traffic.disconnections);
    }
}

/// Selects one of a member's counts.
type CountOf = fn(&Traffic) -> u64;

fn traffic(page: &mut Page, others: &[Peer]) {
    let families: [(&str, &str, &str, CountOf); 4] = [
        (
            "sent_bytes",
            "To",
            "Bytes of messages to other members; snapshots are left out.",
            |it| it.sent_bytes,
        ),
        (
            "received_bytes",
            "From",
            "Bytes from other members; snapshots are left out.",
            |it| it.received_bytes,
        ),
        (
            "sent_failures",
            "To",
            "Messages that were dropped before another member had them.",
            |it| it.sent_failures,
        ),
        (
            "received_failures",
            "From",
            "Connections of other members that broke.",
            |it| it.received_failures,
        ),
    ];
    for (what, label, help, count) in families {
        let name = format!("etcd_network_peer_{what}_total");
        let mut family = page.family(&name, "counter", help);
        for peer in others {
            family.sample(&[(label, &peer.remote)], count(&peer.traffic));
        }
    }
}

/// Selects one of the counters of a direction.
type CounterOf = fn(&Snapshots) -> &Counter;

fn snapshots(page: &mut Page, others: &[Peer], transfer: Transfer) {
    let (way, label) = match transfer {
        Transfer::Sent => ("send", "To"),
        Transfer::Received => ("receive", "From"),
    };
    let families: [(&str, &str, &str, CounterOf); 3] = [
        ("success", "counter", "Snapshots that arrived.", |it| {
            &it.succeeded
        }),
        (
            "failures",
            "counter",
            "Snapshots that did not arrive.",
            |it| &it.failed,
        ),
        ("inflights_total", "gauge", "Snapshots under way.", |it| {
            &it.under_way
        }),
    ];
    for (what, kind, help, counter) in families {
        let name = format!("etcd_network_snapshot_{way}_{what}");
        let mut family = page.family(&name, kind, help);
        for peer in others {
            let count = counter(peer.times.snapshots(transfer)).get();
            family.sample(&[(label, &peer.remote)], count);
        }
    }
    let name = format!("etcd_network_snapshot_{way}_total_duration_seconds");
    let help = "Times of the snapshots that arrived.";
    let mut family = page.family(&name, "histogram", help);
    for peer in others {
        let times = &peer.times.snapshots(transfer).times;
        family.histogram(&[(label, &peer.remote)], times);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_is_under_way_until_it_ends_one_way_or_the_other() {
        let metrics = PeerMetrics::default();
        let counts = |transfer| {
            let times = metrics.of(7);
            let it = times.snapshots(transfer);
            let observed = it.times.read().count;
            (
                it.under_way.get(),
                it.succeeded.get(),
                it.failed.get(),
                observed,
            )
        };
        for transfer in [Transfer::Sent, Transfer::Received] {
            metrics.snapshot_began(transfer, 7);
            assert_eq!(counts(transfer), (1, 0, 0, 0));
            metrics.snapshot_ended(transfer, 7, true, Duration::from_secs(1));
            assert_eq!(counts(transfer), (0, 1, 0, 1));
            metrics.snapshot_began(transfer, 7);
            metrics.snapshot_ended(transfer, 7, false, Duration::from_secs(1));
            assert_eq!(counts(transfer), (0, 1, 1, 1));
        }
    }
}
