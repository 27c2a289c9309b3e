//! Members that join, fall far behind, and leave, over real connections.

use crate::meeting;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cluster::{Error, Node};
use environment::Clock;
use environment::real::RealClock;
use etcd_api::etcdserverpb::{MemberPromoteRequest, MemberRemoveRequest};
use revisions::{Command, Response};

use meeting::{Cluster, get, in_time, poll, put, put_surely, surely};

/// Number and size of the values, which make a snapshot of several pieces.
const VALUES: usize = 200;
const VALUE_BYTES: usize = 10_000;

/// Three members that keep few entries.
fn forgetful() -> Cluster {
    Cluster::start_with(|options| options.replica.entries_kept_max = 10)
}

/// Writes more entries than the log keeps for members that are behind.
async fn fill(node: &Node, name: &str) {
    let puts: Vec<_> = (0..VALUES)
        .map(|number| {
            let value = number.to_string().repeat(VALUE_BYTES / 3);
            let node = node.clone();
            let key = format!("{name}{number}");
            async move { put_surely(&node, &key, &value).await }
        })
        .collect();
    // One after the other, so that each put is an entry.
    for put in puts {
        put.await;
    }
}

/// A task that writes until the flag is set, and returns the number of writes.
fn load(node: &Node) -> (Arc<AtomicBool>, tokio::task::JoinHandle<u64>) {
    let stop = Arc::new(AtomicBool::new(false));
    let (node, is_stopped) = (node.clone(), Arc::clone(&stop));
    let writer = tokio::spawn(async move {
        let mut done = 0;
        while !is_stopped.load(Ordering::Relaxed) {
            let key = format!("load{}", done % 50);
            done += u64::from(node.execute(put(&key, &done.to_string())).await.is_ok());
        }
        done
    });
    (stop, writer)
}

async fn joins_under_load(is_learner: bool) {
    let mut cluster = forgetful();
    fill(cluster.node(0), "k").await;
    let (stop, writer) = load(cluster.node(1));
    let fourth = cluster.add(is_learner).await;
    cluster.restart(fourth);
    cluster.comes_to_equal(fourth).await;
    let id = cluster.members[fourth].id;
    if is_learner {
        let promote = Command::MemberPromote(MemberPromoteRequest { id });
        surely(cluster.node(0), &promote).await;
    }
    stop.store(true, Ordering::Relaxed);
    assert!(writer.await.unwrap() > 0, "writes were acknowledged");
    put_surely(cluster.node(fourth), "own", "v").await;
    assert_eq!(get(cluster.node(fourth), "own").await.as_deref(), Some("v"));
    cluster.comes_to_equal(fourth).await;
    let members = cluster.node(fourth).reader().members();
    assert!(
        members.get(id).is_some_and(|it| !it.is_learner),
        "{members:?}"
    );
    // It votes: three of four members serve, and two would not.
    cluster.stop(2);
    put_surely(cluster.node(fourth), "own", "w").await;
}

#[tokio::test]
async fn a_learner_joins_under_load_and_is_promoted() {
    joins_under_load(true).await;
}

#[tokio::test]
async fn a_voter_joins_under_load() {
    joins_under_load(false).await;
}

/// By hand: `INKSTONE_JOIN_KEYS=1000000 cargo test -p cluster --test suite joining -- --ignored --nocapture`.
#[tokio::test]
#[ignore = "takes long, depending on INKSTONE_JOIN_KEYS"]
async fn a_member_joins_many_keys_under_load() {
    let keys = std::env::var("INKSTONE_JOIN_KEYS").map_or(100_000, |keys| keys.parse().unwrap());
    let mut cluster = Cluster::start();
    put_surely(cluster.node(0), "k", "v").await;
    for first in (0..keys).step_by(1000) {
        let node = cluster.node(0);
        let put = |number: u64| node.propose(put(&format!("key{number:010}"), &"v".repeat(200)));
        let puts: Vec<_> = (first..keys.min(first + 1000)).map(put).collect();
        for put in puts {
            put.unwrap().await.unwrap();
        }
    }
    let (stop, writer) = load(cluster.node(1));
    let before = RealClock.now();
    let fourth = cluster.add(true).await;
    cluster.restart(fourth);
    cluster.comes_to_equal(fourth).await;
    eprintln!(
        "{keys} keys joined in {:?}",
        RealClock.now().saturating_since(before)
    );
    stop.store(true, Ordering::Relaxed);
    eprintln!("{} writes in this time", writer.await.unwrap());
    assert!(cluster.node(fourth).reader().revision() >= keys as i64);
}

#[tokio::test]
async fn a_member_that_is_stopped_while_it_joins_completes_the_join_later() {
    let mut cluster = forgetful();
    fill(cluster.node(0), "k").await;
    let fourth = cluster.add(true).await;
    for _ in 0..5 {
        cluster.restart(fourth);
        cluster.stop(fourth);
    }
    cluster.restart(fourth);
    cluster.comes_to_equal(fourth).await;
    cluster.stop(fourth);
    fill(cluster.node(0), "more").await;
    cluster.restart(fourth);
    cluster.comes_to_equal(fourth).await;
}

#[tokio::test]
async fn a_member_that_is_behind_the_log_catches_up() {
    let mut cluster = forgetful();
    put_surely(cluster.node(0), "k0", "old").await;
    cluster.comes_to_equal(2).await;
    cluster.stop(2);
    fill(cluster.node(0), "k").await;
    cluster.restart(2);
    cluster.comes_to_equal(2).await;
    // After the snapshot it gets entries, and it votes.
    cluster.stop(1);
    put_surely(cluster.node(2), "after", "v").await;
    cluster.comes_to_equal(2).await;
}

#[tokio::test]
async fn a_member_that_joins_answers_a_leader_that_is_not_among_its_contacts() {
    let mut cluster = forgetful();
    fill(cluster.node(0), "k").await;
    let fourth = cluster.add(true).await;
    let leader = cluster.node(0).status().leader as usize - 1;
    let other = (0..3).find(|&other| other != leader).unwrap();
    let node = cluster.start_member_knowing(fourth, &[other]).unwrap();
    cluster.nodes[fourth] = Some(node);
    cluster.comes_to_equal(fourth).await;
}

fn is_removed(node: &Node, id: u64) -> Option<()> {
    match node.refuses_writes()? {
        Error::Removed { member } if member == id => Some(()),
        other => panic!("{other}"),
    }
}

/// Checks that the member does not start, because it knows of its removal.
fn does_not_start(cluster: &Cluster, number: usize) {
    let id = cluster.members[number].id;
    match cluster.start_member(number) {
        Err(Error::Removed { member }) if member == id => {}
        other => panic!("{other:?}"),
    }
}

async fn remove(cluster: &Cluster, by: usize, number: usize) {
    let id = cluster.members[number].id;
    let remove = Command::MemberRemove(MemberRemoveRequest { id });
    let node = cluster.node(by);
    for _ in 0..300 {
        match node.execute(remove.clone()).await {
            Ok(_) => return,
            Err(Error::Removed { .. }) if by == number => return,
            Err(error) => eprintln!("again: {error}"),
        }
        if node.reader().is_removed(id) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the member cannot be removed");
}

#[tokio::test]
async fn a_removed_member_learns_of_its_removal() {
    let cluster = Cluster::start();
    put_surely(cluster.node(0), "k", "v").await;
    cluster.comes_to_equal(2).await;
    remove(&cluster, 0, 2).await;
    poll("its removal", || is_removed(cluster.node(2), 3)).await;
    put_surely(cluster.node(0), "k", "without it").await;
}

#[tokio::test]
async fn a_follower_that_is_asked_to_remove_itself_answers_before_it_ends() {
    let cluster = Cluster::start_with_patience();
    put_surely(cluster.node(2), "k", "v").await;
    let id = cluster.members[2].id;
    let remove = Command::MemberRemove(MemberRemoveRequest { id });
    // The leader refuses until it has received a message of the second member.
    let answer = in_time(surely(cluster.node(2), &remove)).await;
    let Response::MemberRemove(left) = answer else {
        panic!("{answer:?}");
    };
    let left: Vec<u64> = left.members.iter().map(|member| member.id).collect();
    assert_eq!(left, [1, 2]);
    poll("its removal", || is_removed(cluster.node(2), id)).await;
    put_surely(cluster.node(1), "k", "without it").await;
}

#[tokio::test]
async fn a_member_that_was_removed_while_it_was_down_learns_of_it() {
    let mut cluster = Cluster::start();
    put_surely(cluster.node(0), "k", "v").await;
    cluster.comes_to_equal(2).await;
    cluster.stop(2);
    remove(&cluster, 0, 2).await;
    cluster.restart(2);
    poll("its removal", || is_removed(cluster.node(2), 3)).await;
    // It remembers that when no other member runs.
    (0..3).for_each(|number| cluster.stop(number));
    for _ in 0..2 {
        does_not_start(&cluster, 2);
    }
}

#[tokio::test]
async fn a_cluster_serves_after_its_leader_removes_itself() {
    let mut cluster = Cluster::start();
    put_surely(cluster.node(0), "k", "v").await;
    for _ in 0..2 {
        let present = |cluster: &Cluster| {
            let running = cluster.nodes.iter().position(Option::is_some);
            running.unwrap()
        };
        let leader = poll("a leader", || {
            let leader = cluster.node(present(&cluster)).status().leader;
            (leader != 0).then_some(leader)
        })
        .await;
        let number = leader as usize - 1;
        remove(&cluster, number, number).await;
        poll("its removal", || is_removed(cluster.node(number), leader)).await;
        cluster.stop(number);
        does_not_start(&cluster, number);
        put_surely(cluster.node(present(&cluster)), "k", "w").await;
    }
}
