//! Batches that are refused for want of room, in a log that has some.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use environment::Clock;
use environment::simulated::{SimulatedClock, SimulatedDisk};
use etcd_api::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use etcd_api::etcdserverpb::request_op::Request;
use etcd_api::etcdserverpb::{
    Compare, DeleteRangeRequest, LeaseGrantRequest, PutRequest, RangeRequest, RequestOp, TxnRequest,
};
use revisions::Reader;

use super::*;

fn replica(clock: &SimulatedClock) -> (Replica, Reader) {
    let mut options = revisions::Options::default();
    options.engine.segment_bytes = 64 << 10;
    options.engine.batch_bytes_max = 32 << 10;
    options.engine.reserve_bytes = 0;
    let disk = Arc::new(SimulatedDisk::new(1));
    let clock: Arc<dyn Clock> = Arc::new(clock.clone());
    let (machine, reader) = Machine::open(disk, Path::new("/data"), options, clock).unwrap();
    (Replica::new(machine, 0, 0), reader)
}

/// Appends the open batch and sees it through.
fn commit(replica: &mut Replica, reader: &Reader) {
    let batch = replica.seal().expect("something was written");
    let appended = reader.engine().append(batch).unwrap();
    let sequence = appended.sequence;
    replica.appended(appended);
    reader.engine().wait_durable(sequence).unwrap();
    replica
        .persisted(sequence)
        .into_iter()
        .for_each(Answer::give);
}

/// The log takes nothing of the open batch.
fn refuse(replica: &mut Replica) {
    assert!(replica.seal().is_some(), "something was written");
    replica.refused_for_want_of_room(&Error::Storage("no room".into()));
}

fn put(key: String) -> Command {
    Command::Put(PutRequest {
        key: key.into(),
        ..PutRequest::default()
    })
}

/// Deletes the keys of a group unless there is a key `block`.
fn delete_unless_blocked(group: usize) -> Command {
    let absent = Compare {
        result: CompareResult::Equal.into(),
        target: CompareTarget::Create.into(),
        key: "block".into(),
        target_union: Some(TargetUnion::CreateRevision(0)),
        ..Compare::default()
    };
    let deletion = DeleteRangeRequest {
        key: format!("{group:02}/").into(),
        range_end: format!("{group:02}0").into(),
        ..DeleteRangeRequest::default()
    };
    Command::Txn(TxnRequest {
        compare: vec![absent],
        success: vec![RequestOp {
            request: Some(Request::RequestDeleteRange(deletion)),
        }],
        failure: Vec::new(),
    })
}

fn keys(reader: &Reader) -> i64 {
    let request = RangeRequest {
        key: "0".into(),
        range_end: "c".into(),
        count_only: true,
        ..RangeRequest::default()
    };
    reader.range(&request).unwrap().count
}

#[test]
fn what_is_evaluated_again_may_take_several_batches() {
    let (mut replica, reader) = replica(&SimulatedClock::stepped());
    let groups = 12;
    for number in 0..100 * groups {
        replica.propose(&put(format!("{:02}/{number:040}", number % groups)), None);
        if replica.batch_is_full() {
            commit(&mut replica, &reader);
        }
    }
    replica.propose(&put("block".into()), None);
    let mut answers = Vec::new();
    for group in 0..groups {
        let (answer, receiver) = oneshot::channel();
        replica.propose(&delete_unless_blocked(group), Some(answer));
        answers.push(receiver);
    }
    refuse(&mut replica);
    let mut batches = 0;
    while replica.has_spared() {
        assert!(!replica.is_idle(), "there is more to do");
        replica.propose_spared();
        commit(&mut replica, &reader);
        batches += 1;
    }
    assert!(batches > 1, "one batch does not hold it");
    assert_eq!(keys(&reader), 0);
    for answer in &mut answers {
        answer.try_recv().unwrap().unwrap();
    }
}

#[test]
fn who_waits_to_be_evaluated_again_is_told_when_the_log_has_failed() {
    let (mut replica, reader) = replica(&SimulatedClock::stepped());
    replica.propose(&put("0".into()), None);
    commit(&mut replica, &reader);
    let (answer, mut receiver) = oneshot::channel();
    replica.propose(&put("block".into()), None);
    replica.propose(&delete_unless_blocked(0), Some(answer));
    refuse(&mut replica);
    replica.fail(&Error::LogFailed {
        reason: "test".into(),
    });
    assert!(matches!(
        receiver.try_recv().unwrap(),
        Err(Error::LogFailed { .. })
    ));
    assert!(replica.is_idle());
}

#[test]
fn a_lease_s_end_is_counted_once_and_when_it_is_applied() {
    let clock = SimulatedClock::stepped();
    let (mut replica, reader) = replica(&clock);
    let grant = Command::LeaseGrant(LeaseGrantRequest { id: 1, ttl: 60 });
    replica.propose(&grant, None);
    commit(&mut replica, &reader);
    clock.advance(Duration::from_secs(61));
    replica.tick(clock.now());
    refuse(&mut replica);
    assert_eq!(replica.leases_expired(), 0);
    replica.propose_spared();
    assert_eq!(replica.leases_expired(), 0);
    commit(&mut replica, &reader);
    assert_eq!(replica.leases_expired(), 1);
    assert!(reader.lease_leases().leases.is_empty());
}
