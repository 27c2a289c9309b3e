//! The space quota: what a request will cost, and whether there is room.
//!
//! Costs are etcd's estimates, not what the log will take: whether a write
//! passes must not depend on the format. A request that costs nothing
//! (deletions, compaction, reads) always passes; that is the way out.
//!
//! Each member has its own quota and its own store: a leader looks at its own before it
//! evaluates a write, a follower before it sends one on and after it has applied some.

use etcd_api::etcdserverpb::request_op::Request as Operation;
use etcd_api::etcdserverpb::{PutRequest, RequestOp, TxnRequest};
use etcd_api::inkstonepb::FollowChange;
use etcd_api::inkstonepb::follow_change::Change;
use etcd_api::mvccpb::event::EventType;

use crate::Command;

/// Estimated bytes of a key besides its data.
const KEY_BYTES: u64 = 256;
/// Estimated bytes of a lease.
const LEASE_BYTES: u64 = 64;

impl Command {
    /// Returns whether the command costs no space, so that it passes a full quota.
    pub fn needs_no_room(&self) -> bool {
        cost(self) == 0
    }
}

pub(crate) fn cost(command: &Command) -> u64 {
    match command.plain() {
        Command::Put(request) => of_put(request),
        Command::Txn(request) => of_txn(request),
        Command::LeaseGrant(_) => LEASE_BYTES,
        Command::Follow(request) => of_given(request),
        Command::DeleteRange(_)
        | Command::Compact(_)
        | Command::LeaseRevoke(_)
        | Command::Alarm(_)
        | Command::MemberAdd(_)
        | Command::MemberRemove(_)
        | Command::MemberUpdate(_)
        | Command::MemberPromote(_)
        | Command::MemberPublish(_)
        | Command::Auth(_)
        | Command::Downgrade(_) => 0,
        Command::As(_) => unreachable!("a plain command has no actor"),
    }
}

fn of_put(request: &PutRequest) -> u64 {
    KEY_BYTES + (request.key.len() + request.value.len()) as u64
}

/// The cost of the more expensive branch, as it is not known yet which one runs.
fn of_txn(request: &TxnRequest) -> u64 {
    of_operations(&request.success).max(of_operations(&request.failure))
}

/// Deletions cost nothing, so that a source that deletes makes room here, too.
fn of_given(request: &FollowChange) -> u64 {
    match &request.change {
        Some(Change::Revision(given)) => {
            let puts = given.events.iter();
            let puts = puts.filter(|event| event.r#type() == EventType::Put);
            let bytes = puts.filter_map(|event| event.kv.as_ref());
            bytes.map(|kv| KEY_BYTES + kv.0.len() as u64).sum()
        }
        Some(Change::Leases(leases)) => LEASE_BYTES * leases.granted.len() as u64,
        _ => 0,
    }
}

fn of_operations(operations: &[RequestOp]) -> u64 {
    let costs = operations.iter().map(|operation| match &operation.request {
        Some(Operation::RequestPut(request)) => of_put(request),
        Some(Operation::RequestTxn(request)) => of_txn(request),
        _ => 0,
    });
    costs.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn txn(success: Vec<Operation>, failure: Vec<Operation>) -> TxnRequest {
        let operations = |list: Vec<Operation>| {
            let requests = list.into_iter().map(Some);
            requests.map(|request| RequestOp { request }).collect()
        };
        TxnRequest {
            compare: Vec::new(),
            success: operations(success),
            failure: operations(failure),
        }
    }

    /// A mistake of etcd 3.7.0: what a transaction inside of a transaction puts cost nothing.
    #[test]
    fn nested_transactions_cost_what_they_may_put() {
        let put = || {
            let request = PutRequest {
                key: "key".into(),
                value: vec![0; 1_000].into(),
                ..PutRequest::default()
            };
            Operation::RequestPut(request)
        };
        let cost_of = |request| cost(&Command::Txn(request));
        let one = cost_of(txn(vec![put()], Vec::new()));
        assert_eq!(one, KEY_BYTES + 1_003);
        let inner = || Operation::RequestTxn(txn(Vec::new(), vec![put(), put()]));
        let nested = txn(
            vec![Operation::RequestTxn(txn(vec![inner(), put()], Vec::new()))],
            vec![put()],
        );
        assert_eq!(cost_of(nested), 3 * one);
    }
}
