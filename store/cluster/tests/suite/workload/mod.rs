//! Commands of every kind, which depend only on the step and on the revision before it.

use etcd_api::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use etcd_api::etcdserverpb::request_op::Request;
use etcd_api::etcdserverpb::{
    CompactionRequest, Compare, DeleteRangeRequest, LeaseGrantRequest, LeaseRevokeRequest,
    PutRequest, RequestOp, TxnRequest,
};
use revisions::Command;

/// Number of commands.
pub const STEPS: usize = 10 * 24;
pub const TTL_SECONDS: i64 = 1000;

pub fn command(step: usize, revision: i64) -> Command {
    let (round, number) = (step / 10, step % 10);
    let lease = round as i64 + 1;
    match number {
        0 => Command::LeaseGrant(LeaseGrantRequest {
            id: lease,
            ttl: TTL_SECONDS,
        }),
        1 => put(&format!("k{}", round % 5), 700 + 200 * round, 0),
        2 => put(&format!("leased/{round}/a"), 10, lease),
        3 => put(&format!("leased/{round}/b"), 900, lease),
        4 => Command::Txn(transaction(round, lease)),
        // Moves a key from one lease to another.
        5 if round > 0 => put(&format!("leased/{}/a", round - 1), 20, lease),
        6 => delete(&format!("t/{}", round / 2), &format!("t/{}", round / 2 + 1)),
        7 if round % 3 == 2 => Command::LeaseRevoke(LeaseRevokeRequest { id: lease - 1 }),
        8 if round % 4 == 3 => Command::Compact(CompactionRequest {
            revision: revision - 5,
            physical: round % 8 == 7,
        }),
        _ => put(&format!("n/{step}"), 50 * number, 0),
    }
}

pub fn put(key: &str, value_bytes: usize, lease: i64) -> Command {
    Command::Put(put_request(key, value_bytes, lease))
}

fn put_request(key: &str, value_bytes: usize, lease: i64) -> PutRequest {
    PutRequest {
        key: key.to_owned().into(),
        value: vec![value_bytes as u8; value_bytes].into(),
        lease,
        ..PutRequest::default()
    }
}

fn delete(key: &str, end: &str) -> Command {
    Command::DeleteRange(delete_request(key, end))
}

fn delete_request(key: &str, end: &str) -> DeleteRangeRequest {
    DeleteRangeRequest {
        key: key.to_owned().into(),
        range_end: end.to_owned().into(),
        ..DeleteRangeRequest::default()
    }
}

/// A transaction that takes one branch in even rounds and the other in odd ones. It deletes a
/// key and puts it again, and writes several keys in one revision.
fn transaction(round: usize, lease: i64) -> TxnRequest {
    let operation = |request| RequestOp {
        request: Some(request),
    };
    let key = format!("k{}", round % 5);
    TxnRequest {
        compare: vec![Compare {
            result: CompareResult::Equal.into(),
            target: CompareTarget::Version.into(),
            key: format!("t/{}", round / 2).into(),
            target_union: Some(TargetUnion::Version(0)),
            ..Compare::default()
        }],
        success: vec![
            operation(Request::RequestPut(put_request(
                &format!("t/{}", round / 2),
                30,
                lease,
            ))),
            operation(Request::RequestDeleteRange(delete_request(&key, ""))),
            operation(Request::RequestPut(put_request(&key, 300, 0))),
        ],
        failure: vec![
            operation(Request::RequestDeleteRange(delete_request(
                "leased/0", "leased/1",
            ))),
            operation(Request::RequestPut(put_request(&key, 1500, lease))),
        ],
    }
}
