//! Metrics about the other members at `/metrics`.

use harness::page;

use crate::three::{LOOK, LOOKS_MAX, NAMES, Three};

/// The value of the sample with this name and labels; `None` if there is none.
pub fn sample(three: &Three, number: usize, name: &str) -> Option<f64> {
    page::metric(three.client_address(number), name).unwrap()
}

/// Waits until the sample has a right value.
async fn comes_to(three: &Three, number: usize, name: &str, is_right: impl Fn(f64) -> bool) {
    let mut last = None;
    for _ in 0..LOOKS_MAX {
        last = sample(three, number, name);
        if last.is_some_and(&is_right) {
            return;
        }
        tokio::time::sleep(LOOK).await;
    }
    panic!("{name} of {number} is {last:?}");
}

#[tokio::test]
async fn traffic_between_members_is_measured() {
    let mut three = Three::start();
    three.put(0, "k", &"v".repeat(10_000)).await;
    let mut ids = Vec::new();
    for number in 0..3 {
        let status = three.status(number).await.unwrap();
        ids.push(format!("{:x}", status.header.unwrap().member_id));
    }
    let leader = three.leader(0).await;
    let (follower, other) = ((leader + 1) % 3, (leader + 2) % 3);
    let labels = |remote: usize| {
        let (local, remote) = (&ids[leader], &ids[remote]);
        format!("{{Local=\"{local}\",Remote=\"{remote}\"}}")
    };
    for remote in 0..3 {
        let known = format!("etcd_network_known_peers{}", labels(remote));
        comes_to(&three, leader, &known, |value| value == 1.0).await;
    }
    let active = |remote| format!("etcd_network_active_peers{}", labels(remote));
    comes_to(&three, leader, &active(follower), |value| value == 1.0).await;
    assert_eq!(sample(&three, leader, &active(leader)), None, "not itself");
    let sent = format!(
        "etcd_network_peer_sent_bytes_total{{To=\"{}\"}}",
        ids[follower]
    );
    comes_to(&three, leader, &sent, |bytes| bytes > 10_000.0).await;
    let received = format!(
        "etcd_network_peer_received_bytes_total{{From=\"{}\"}}",
        ids[leader]
    );
    comes_to(&three, follower, &received, |bytes| bytes > 10_000.0).await;
    assert_eq!(
        sample(&three, leader, "inkstone_takes_no_entries"),
        Some(0.0)
    );
    let trips = "etcd_network_peer_round_trip_time_seconds_count";
    let trips = format!("{trips}{{To=\"{}\"}}", ids[other]);
    for asking in [leader, follower] {
        comes_to(&three, asking, &trips, |count| count >= 1.0).await;
    }
    three.kill(other);
    comes_to(&three, leader, &active(other), |value| value == 0.0).await;
    let lost = format!("etcd_network_disconnected_peers_total{}", labels(other));
    comes_to(&three, leader, &lost, |count| count >= 1.0).await;
    let unsent = "etcd_network_peer_sent_failures_total";
    let unsent = format!("{unsent}{{To=\"{}\"}}", ids[other]);
    comes_to(&three, leader, &unsent, |count| count >= 1.0).await;
}

#[tokio::test]
async fn reads_without_confirmation_are_counted() {
    let mut three = Three::start();
    three.put(0, "k", "v").await;
    let leader = three.leader(0).await;
    let left = (leader + 1) % 3;
    three.kill(leader);
    three.kill((leader + 2) % 3);
    let read = etcd_api::etcdserverpb::RangeRequest {
        key: "k".into(),
        ..Default::default()
    };
    three.kv(left).range(read).await.unwrap_err();
    let failed = "etcd_server_read_indexes_failed_total";
    comes_to(&three, left, failed, |count| count >= 1.0).await;
}

#[tokio::test]
async fn a_snapshot_is_measured_by_its_sender_and_its_receiver() {
    let flags = [
        "--snapshot-catchup-entries=5",
        "--snapshot-catchup-bytes=4096",
    ];
    let mut three = Three::start_with(&flags);
    let leader = three.leader(0).await;
    let behind = (leader + 1) % 3;
    three.named_members(leader).await;
    three.kill(behind);
    let mut ids = Vec::new();
    for number in 0..40 {
        three
            .put(leader, &format!("k{number}"), &"v".repeat(3_000))
            .await;
    }
    for member in three.named_members(leader).await {
        ids.push((member.name, format!("{:x}", member.id)));
    }
    let id = |number: usize| {
        let named = ids.iter().find(|(name, _)| name == NAMES[number]);
        &named.unwrap().1
    };
    three.launch(behind);
    for (number, way, label, other) in [
        (leader, "send", "To", behind),
        (behind, "receive", "From", leader),
    ] {
        let labels = format!("{{{label}=\"{}\"}}", id(other));
        let name = format!("etcd_network_snapshot_{way}_success{labels}");
        comes_to(&three, number, &name, |count| count >= 1.0).await;
        let name = format!("etcd_network_snapshot_{way}_total_duration_seconds_count{labels}");
        comes_to(&three, number, &name, |count| count >= 1.0).await;
        let name = format!("etcd_network_snapshot_{way}_inflights_total{labels}");
        comes_to(&three, number, &name, |count| count == 0.0).await;
    }
}
