//! Metrics of the other members: their connections, round trips and snapshots.

use std::sync::Arc;

use cluster::{Traffic, Transfer};

use super::Counter;
use super::peer_times::{PeerTimes, Snapshots};
use super::text::Page;
use crate::backend::Backend;

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
