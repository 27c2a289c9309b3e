//! Members that run out of descriptors, of memory or of their quota, and recover without an
//! operator when they have enough again.

use crate::meeting;

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use cluster::{Error, Node};
use environment::simulated::SimulatedDisk;
use etcd_api::etcdserverpb::PutRequest;
use revisions::Command;

/// EMFILE, ENFILE, ENOMEM, EACCES and EROFS of Linux.
const NUMBERS: [i32; 5] = [24, 23, 12, 13, 30];

/// The disk of each member of each test.
static DISKS: LazyLock<Vec<[SimulatedDisk; 3]>> = LazyLock::new(|| {
    (0..4)
        .map(|test| [1, 2, 3].map(|it| SimulatedDisk::new(10 * test + it)))
        .collect()
});

/// Three members; the last one never stands for election by itself.
fn start<const TEST: usize>() -> meeting::Cluster {
    meeting::Cluster::start_with(|options| {
        let number = options.replica.machine.member_id as usize - 1;
        options.disk = Arc::new(DISKS[TEST][number].clone());
        if number == 2 {
            options.replica.election_timeout = Duration::from_secs(3600);
        }
    })
}

async fn fill(cluster: &meeting::Cluster, at: usize, name: &str) {
    let value = "v".repeat(100_000);
    for number in 0..40 {
        let put = meeting::put(&format!("{name}{number}"), &value);
        meeting::surely(cluster.node(at), &put).await;
    }
}

async fn surely_put(node: &Node, key: &str, value: &str) {
    meeting::surely(node, &meeting::put(key, value)).await;
}

fn put(key: &str) -> Command {
    Command::Put(PutRequest {
        key: key.to_owned().into(),
        value: vec![7; 60_000].into(),
        ..PutRequest::default()
    })
}

/// Puts until one is refused for a shortage.
async fn put_until_refused(node: &Node) -> Error {
    for number in 0..200 {
        let outcome = meeting::in_time(node.execute(put(&format!("refused{number}")))).await;
        match outcome {
            Err(error) if error.to_string().contains("try again later") => return error,
            _ => {}
        }
    }
    panic!("every put is done, or refused for other reasons");
}

#[tokio::test]
async fn a_follower_that_may_open_no_file_accepts_no_entries_until_it_may() {
    let cluster = start::<0>();
    for number in NUMBERS {
        let disk = &DISKS[0][2];
        disk.fail_opens(Some(number));
        fill(&cluster, 0, "k").await;
        meeting::poll("a shortage", || cluster.node(2).status().full.then_some(())).await;
        assert!(cluster.node(2).refuses_writes().is_none(), "it is unharmed");
        let refused = meeting::in_time(cluster.node(2).execute(put("k"))).await;
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("try again later"), "{refused}");
        disk.fail_opens(None);
        cluster.comes_to_equal(2).await;
        meeting::poll("room", || (!cluster.node(2).status().full).then_some(())).await;
        surely_put(cluster.node(2), "here", "v").await;
    }
}

#[tokio::test]
async fn a_cluster_serves_again_after_two_of_three_could_open_no_file() {
    let cluster = start::<1>();
    fill(&cluster, 0, "before").await;
    for disk in &DISKS[1][1..] {
        disk.fail_opens(Some(NUMBERS[0]));
    }
    let value = "v".repeat(100_000);
    let mut unanswered = 0;
    for number in 0..100 {
        let key = format!("during{number}");
        let put = Command::Put(PutRequest {
            key: key.into(),
            value: value.clone().into(),
            ..PutRequest::default()
        });
        let asked = tokio::time::timeout(Duration::from_millis(300), cluster.node(0).execute(put));
        unanswered += u32::from(!matches!(asked.await, Ok(Ok(_))));
        if unanswered > 3 {
            break;
        }
    }
    assert!(unanswered > 3, "two members accepted every entry");
    for disk in &DISKS[1][1..] {
        disk.fail_opens(None);
    }
    for at in 0..3 {
        surely_put(cluster.node(at), "after", "v").await;
    }
    cluster.comes_to_equal(1).await;
    cluster.comes_to_equal(2).await;
}

#[tokio::test]
async fn a_leader_that_may_open_no_file_refuses_writes_without_an_alarm_until_it_may() {
    let disk = SimulatedDisk::new(77);
    let mut options = cluster::NodeOptions::new("/node");
    options.disk = Arc::new(disk.clone());
    options.replica.machine.engine.log.segment_bytes = 256 << 10;
    options.replica.machine.engine.batch_bytes_max = 128 << 10;
    options.replica.machine.engine.log.reserve_bytes = 0;
    options.replica.heartbeat_interval = Duration::from_millis(5);
    let node = Node::start(options).unwrap();
    for number in NUMBERS {
        disk.fail_opens(Some(number));
        let refused = put_until_refused(&node).await;
        assert!(matches!(refused, Error::Refused(_)), "{refused}");
        assert!(node.refuses_writes().is_none() && node.status().full);
        assert!(node.reader().alarms().is_empty());
        disk.fail_opens(None);
        surely_put(&node, "after", "v").await;
        assert!(!node.status().full);
    }
}

#[tokio::test]
async fn a_leader_that_may_open_no_file_hands_leadership_over() {
    let cluster = start::<2>();
    fill(&cluster, 0, "before").await;
    let leader = cluster.node(0).status().leader as usize - 1;
    DISKS[2][leader].fail_opens(Some(NUMBERS[0]));
    // Asked at a member that has descriptors.
    let asked = (leader + 1) % 2;
    fill(&cluster, asked, "after").await;
    meeting::poll("another leader", || {
        let leads = cluster.node(asked).status().leader;
        (leads != 0 && leads != leader as u64 + 1).then_some(())
    })
    .await;
    DISKS[2][leader].fail_opens(None);
    cluster.comes_to_equal(leader).await;
}

#[tokio::test]
async fn a_follower_with_a_full_disk_quota_recovers_when_the_quota_is_raised() {
    let cluster = start::<3>();
    let disk = &DISKS[3][2];
    disk.set_quota(Some(3 << 20));
    fill(&cluster, 0, "k").await;
    meeting::poll("a full quota", || {
        cluster.node(2).status().full.then_some(())
    })
    .await;
    assert!(cluster.node(2).refuses_writes().is_none(), "it is unharmed");
    let refused = meeting::in_time(cluster.node(2).execute(put("k"))).await;
    let expected = Error::Refused(etcd_api::Error::NoSpace.into());
    assert_eq!(refused.unwrap_err().to_string(), expected.to_string());
    disk.set_quota(None);
    cluster.comes_to_equal(2).await;
}
