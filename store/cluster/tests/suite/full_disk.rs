//! Nodes on a full disk.

use crate::meeting;

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use cluster::{Error, Node, NodeOptions, Pending};
use environment::simulated::SimulatedDisk;
use etcd_api::etcdserverpb::{CompactionRequest, DeleteRangeRequest, PutRequest};
use revisions::{Command, Response};

fn options(disk: &SimulatedDisk) -> NodeOptions {
    let mut options = NodeOptions::new("/node");
    options.disk = Arc::new(disk.clone());
    options.replica.machine.engine.log.segment_bytes = 64 << 10;
    options.replica.machine.engine.batch_bytes_max = 32 << 10;
    options.replica.machine.engine.log.reserve_bytes = 64 << 10;
    options.replica.heartbeat_interval = Duration::from_millis(5);
    options
}

fn put(number: usize) -> Command {
    Command::Put(PutRequest {
        key: format!("{number:05}").into(),
        value: vec![7; 600].into(),
        ..PutRequest::default()
    })
}

fn delete(number: usize) -> Command {
    Command::DeleteRange(DeleteRangeRequest {
        key: format!("{number:05}").into(),
        ..DeleteRangeRequest::default()
    })
}

fn run(node: &Node, command: Command) -> Result<Response, Error> {
    node.propose(command).and_then(Pending::wait)
}

fn is_no_space(error: &Error) -> bool {
    error.to_string().contains("space")
}

/// Fills the disk until every write is refused: first with puts, then with deletions, which
/// may use more room. Returns the number of keys put and deleted.
fn fill(node: &Node) -> (usize, usize) {
    let puts = (0..).find(|&number| match run(node, put(number)) {
        Ok(_) => false,
        Err(error) => {
            assert!(is_no_space(&error), "{error}");
            true
        }
    });
    let puts = puts.unwrap();
    let deleted = (0..puts).find(|&number| match run(node, delete(number)) {
        Ok(_) => false,
        Err(error) => {
            assert!(is_no_space(&error), "deletion {number} of {puts}: {error}");
            true
        }
    });
    (puts, deleted.unwrap_or(puts))
}

#[test]
fn deletions_are_refused_when_the_last_segment_is_full_and_accepted_when_there_is_room() {
    // Rarely, garbage is reclaimed in time for every deletion to find room.
    let filled = (1..10).find_map(|seed| {
        let disk = SimulatedDisk::new(seed);
        disk.set_capacity(900 << 10);
        let node = Node::start(options(&disk)).unwrap();
        let (puts, deleted) = fill(&node);
        assert!(puts > 100, "{puts} puts");
        (deleted < puts).then_some((disk, node, deleted))
    });
    let (disk, node, deleted) = filled.expect("with one of the seeds a deletion is refused");
    assert!(node.refuses_writes().is_none(), "the log is unharmed");
    assert!(node.status().full);
    // With room again, writes are accepted without a restart and without an operator.
    disk.set_capacity(4 << 20);
    run(&node, put(99_999)).unwrap();
    assert!(!node.status().full);
    run(&node, delete(deleted)).unwrap();
}

#[test]
fn a_node_starts_on_a_full_disk_and_carries_out_commands_that_need_no_room() {
    let disk = SimulatedDisk::new(2);
    disk.set_capacity(900 << 10);
    let node = Node::start(options(&disk)).unwrap();
    let puts = (0..)
        .find(|&number| run(&node, put(number)).is_err())
        .unwrap();
    node.stop();
    drop(node);
    let node = Node::start(options(&disk)).unwrap();
    assert!(node.refuses_writes().is_none());
    let revision = node.reader().revision();
    assert!(revision > puts as i64, "{revision} after {puts} puts");
    run(&node, delete(0)).unwrap();
    let compact = Command::Compact(CompactionRequest {
        revision: node.reader().revision(),
        physical: true,
    });
    run(&node, compact).unwrap();
    disk.set_capacity(4 << 20);
    run(&node, put(0)).unwrap();
}

/// The disk of the third member.
static SMALL: LazyLock<SimulatedDisk> = LazyLock::new(|| SimulatedDisk::new(3));

#[tokio::test]
async fn a_follower_on_a_full_disk_accepts_no_entries_until_there_is_room() {
    SMALL.set_capacity(6 << 20);
    let mut cluster = meeting::Cluster::start_with(|options| {
        if options.replica.machine.member_id == 3 {
            options.disk = Arc::new(SMALL.clone());
            // It never leads, because the others' disks have room.
            options.replica.election_timeout = Duration::from_secs(3600);
        }
    });
    let value = "v".repeat(100_000);
    for number in 0..100 {
        meeting::put_surely(cluster.node(0), &format!("k{number}"), &value).await;
    }
    meeting::poll("a full disk", || {
        cluster.node(2).status().full.then_some(())
    })
    .await;
    let behind = cluster.node(2).status().applied_index;
    assert!(
        behind < cluster.node(0).status().applied_index,
        "it is full"
    );
    assert!(cluster.node(2).refuses_writes().is_none(), "and unharmed");
    assert!(!cluster.node(0).status().full);
    // The member refuses a command that it could not apply.
    let refused = meeting::in_time(cluster.node(2).execute(put(0))).await;
    let refused = refused.unwrap_err();
    let expected = Error::Refused(etcd_api::Error::NoSpace.into());
    assert_eq!(refused.to_string(), expected.to_string());
    SMALL.set_capacity(64 << 20);
    cluster.comes_to_equal(2).await;
    meeting::poll("room", || (!cluster.node(2).status().full).then_some(())).await;
    meeting::put_surely(cluster.node(2), "here", "v").await;
    // Its vote counts as before.
    cluster.stop(1);
    meeting::put_surely(cluster.node(0), "after", "v").await;
}

/// The disk of the third member in another test.
static SMALLER: LazyLock<SimulatedDisk> = LazyLock::new(|| SimulatedDisk::new(4));

#[tokio::test]
async fn a_follower_without_room_for_a_snapshot_installs_it_when_there_is_room() {
    SMALLER.set_capacity(6 << 20);
    let cluster = meeting::Cluster::start_with(|options| {
        options.replica.entries_kept_max = 5;
        if options.replica.machine.member_id == 3 {
            options.disk = Arc::new(SMALLER.clone());
            options.replica.election_timeout = Duration::from_secs(3600);
        }
    });
    let value = "v".repeat(100_000);
    for number in 0..150 {
        meeting::put_surely(cluster.node(0), &format!("k{number}"), &value).await;
    }
    meeting::poll("a full disk", || {
        cluster.node(2).status().full.then_some(())
    })
    .await;
    SMALLER.set_capacity(128 << 20);
    cluster.comes_to_equal(2).await;
    meeting::poll("room", || (!cluster.node(2).status().full).then_some(())).await;
    meeting::put_surely(cluster.node(2), "after", "v").await;
}
