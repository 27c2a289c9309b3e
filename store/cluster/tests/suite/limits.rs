//! A node at its memory limit, leases with very many keys, and callers that are left when a
//! node ends.
#![expect(
    clippy::disallowed_methods,
    reason = "a test waits for a node's thread"
)]

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::alone::options;
use cluster::{Error, Node, NodeOptions, Pending};
use environment::simulated::{Fault, SimulatedClock, SimulatedDisk};
use etcd_api::etcdserverpb::{
    DeleteRangeRequest, LeaseGrantRequest, LeaseRevokeRequest, PutRequest, RangeRequest,
};
use revisions::{Command, Response};

fn put(key: String, lease: i64) -> Command {
    Command::Put(PutRequest {
        key: key.into(),
        lease,
        ..PutRequest::default()
    })
}

fn delete(key: &str, end: &str) -> Command {
    Command::DeleteRange(DeleteRangeRequest {
        key: key.to_owned().into(),
        range_end: end.to_owned().into(),
        ..DeleteRangeRequest::default()
    })
}

fn grant(id: i64) -> Command {
    Command::LeaseGrant(LeaseGrantRequest { id, ttl: 60 })
}

fn revoke(id: i64) -> Command {
    Command::LeaseRevoke(LeaseRevokeRequest { id })
}

fn run(node: &Node, command: Command) -> Result<Response, Error> {
    node.propose(command).and_then(Pending::wait)
}

fn count(node: &Node, key: &str, end: &str) -> i64 {
    let request = RangeRequest {
        key: key.to_owned().into(),
        range_end: end.to_owned().into(),
        count_only: true,
        ..RangeRequest::default()
    };
    node.reader().range(&request).unwrap().count
}

/// Bursts, so that puts and deletions share batches.
#[test]
fn deletions_pass_when_puts_in_the_same_batch_are_refused_for_lack_of_memory() {
    let disk = SimulatedDisk::new(1);
    let mut options = options(&disk);
    options.replica.machine.engine.memory_bytes_max = 64 << 10;
    let node = Node::start(options).unwrap();
    let mut refused = 0;
    for burst in 0.. {
        let mut puts = Vec::new();
        let mut deletions = Vec::new();
        for number in 0..20 {
            puts.push(node.propose(put(format!("{burst:04}/{number:02}"), 0)));
            let before = format!("{:04}/{number:02}", burst - 1);
            if number == 7 && burst > 0 {
                deletions.push(node.propose(delete(&before, "")));
            }
        }
        for put in puts {
            refused += usize::from(put.unwrap().wait().is_err());
        }
        for deletion in deletions {
            deletion.unwrap().wait().unwrap();
        }
        if refused > 0 {
            break;
        }
        assert!(burst < 10_000, "the limit is never met");
    }
    // The alarm follows the refusal in an entry of its own.
    let mut looks = 0;
    while node.reader().alarms().is_empty() {
        looks += 1;
        assert!(looks < 10_000, "no alarm");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn wait(pending: Vec<Pending>) {
    for answer in pending {
        answer.wait().unwrap();
    }
}

const MANY: usize = 300_000;

fn hang_many_keys_on(node: &Node, lease: i64) {
    run(node, grant(lease)).unwrap();
    let puts = (0..MANY).map(|number| put(format!("{lease}/{number:038}"), lease));
    wait(puts.map(|put| node.propose(put).unwrap()).collect());
}

#[test]
fn a_lease_with_very_many_keys_ends_in_one_revision_when_revoked_or_expired() {
    let disk = SimulatedDisk::new(2);
    let clock = SimulatedClock::stepped();
    let mut options = NodeOptions::new("/node");
    options.disk = Arc::new(disk.clone());
    options.clock = Arc::new(clock.clone());
    options.replica.machine.engine.clock = Arc::new(environment::real::RealClock);
    options.replica.machine.quota_bytes = None;
    options.queue_bytes_max = 1 << 30;
    options.replica.machine.engine.log.reserve_bytes = 0;
    let node = Node::start(options.clone()).unwrap();

    hang_many_keys_on(&node, 1);
    let before = node.reader().revision();
    run(&node, revoke(1)).unwrap();
    assert_eq!(count(&node, "1/", "10"), 0);
    assert_eq!(node.reader().revision(), before + 1);

    hang_many_keys_on(&node, 2);
    node.stop();
    drop(node);
    let node = Node::start(options).unwrap();
    assert_eq!(count(&node, "1/", "10"), 0, "after a restart");
    assert_eq!(count(&node, "2/", "20"), MANY as i64);
    let before = node.reader().revision();
    clock.advance(Duration::from_secs(61));
    while !node.reader().lease_leases().leases.is_empty() {
        // Wakes the replica, which sleeps by the real clock.
        run(&node, delete("nothing", "")).unwrap();
    }
    assert_eq!(count(&node, "2/", "20"), 0);
    assert_eq!(node.reader().revision(), before + 1);
    assert_eq!(count(&node, "1/", "20"), 0);
}

#[test]
fn a_lease_accepts_only_as_many_keys_as_one_batch_can_delete() {
    let disk = SimulatedDisk::new(3);
    let node = Node::start(options(&disk)).unwrap();
    run(&node, grant(1)).unwrap();
    let mut held = 0;
    let refusal = loop {
        match run(&node, put(format!("{held:06}"), 1)) {
            Ok(_) => held += 1,
            Err(error) => break error,
        }
        assert!(held < 10_000, "the lease is never full");
    };
    assert!(held > 400, "{held} keys in a segment of 64 KiB");
    assert!(refusal.to_string().contains("another lease"), "{refusal}");
    run(&node, put(format!("{held:06}"), 0)).unwrap();
    run(&node, put("000000".into(), 1)).unwrap();
    run(&node, delete("000000", "")).unwrap();
    run(&node, put(format!("{held:06}"), 1)).unwrap();
    // Puts before and behind the revocation in the same batch make no difference.
    let mut pending: Vec<_> = (0..300)
        .map(|number| node.propose(put(format!("x/{number}"), 0)).unwrap())
        .collect();
    pending.push(node.propose(revoke(1)).unwrap());
    pending.push(node.propose(put("y".into(), 0)).unwrap());
    wait(pending);
    assert_eq!(count(&node, "0", "1"), 0);
    assert_eq!(count(&node, "x/", "z"), 301);
}

#[test]
fn a_renewal_of_an_expired_lease_is_answered_when_the_log_fails_or_the_node_stops() {
    for fails in [true, false] {
        let disk = SimulatedDisk::new(4);
        let clock = SimulatedClock::stepped();
        let mut options = options(&disk);
        options.clock = Arc::new(clock.clone());
        // Only requests make the replica check the clock.
        options.replica.heartbeat_interval = Duration::from_secs(3600);
        options.replica.machine.lease_revocation_retry = Duration::from_secs(3600);
        let node = Node::start(options).unwrap();
        run(&node, grant(1)).unwrap();
        clock.advance(Duration::from_secs(61));
        let reader = node.reader().clone();
        let mut renewal = pin!(reader.lease_keep_alive(1));
        let mut context = Context::from_waker(Waker::noop());
        assert!(renewal.as_mut().poll(&mut context).is_pending());
        while fails && node.refuses_writes().is_none() {
            disk.inject(disk.io_count(), Fault::FailedFlush);
            let _ = run(&node, put("a".into(), 0));
        }
        node.stop();
        let answer = renewal.as_mut().poll(&mut context);
        // The revocation may have been applied first.
        assert!(matches!(answer, Poll::Ready(Err(_) | Ok(0))), "{answer:?}");
    }
}

#[test]
fn a_stopped_node_releases_its_directory_although_a_reader_is_left() {
    let disk = SimulatedDisk::new(5);
    let node = Node::start(options(&disk)).unwrap();
    run(&node, put("a".into(), 0)).unwrap();
    let reader = node.reader().clone();
    node.stop();
    let next = Node::start(options(&disk)).unwrap();
    run(&next, put("b".into(), 0)).unwrap();
    let request = RangeRequest {
        key: "a".into(),
        ..RangeRequest::default()
    };
    let error = reader.range(&request).unwrap_err();
    assert!(error.to_string().contains("has been closed"), "{error}");
    assert!(reader.engine().history(2).unwrap().next().unwrap().is_err());
    assert_eq!((count(&node, "a", ""), reader.revision()), (1, 2));
    assert_eq!((count(&next, "a", "c"), next.reader().revision()), (2, 3));
}
