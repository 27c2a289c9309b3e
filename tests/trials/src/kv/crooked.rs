//! Requests that no correct client sends: fields beyond their bounds.
//!
//! etcd's answers to them are compared like all others. One kind is left out, because it
//! ends the process of etcd 3.7.3: a comparison with an operand of another
//! kind than its target.

use bytes::Bytes;
use environment::randomness::Random;
use etcd_api::etcdserverpb::{RangeRequest, RequestOp, TxnRequest, request_op::Request};

use super::operation::Operation;
use crate::attack::bytes_of;
use crate::requests;

const STRANGE: [i64; 7] = [-1, -2, i64::MIN, i64::MAX, 1 << 40, i32::MAX as i64 + 1, 0];
/// Just above the limit of a request.
const VALUE_BYTES: usize = 1_600_000;
/// Numbers of operations: one above the limit of a transaction, and the limit.
const OPERATIONS: [usize; 2] = [129, 128];

/// Changes one field of an operation.
pub fn spoil(operation: &mut Operation, random: &mut Random) {
    match operation {
        Operation::Put(put) => match random.below(6) {
            0 => put.key = Bytes::new(),
            1 => put.lease = *random.pick(&STRANGE),
            2 => put.ignore_value = true,
            3 => put.ignore_lease = true,
            4 => put.value = vec![b'x'; VALUE_BYTES].into(),
            _ => put.key = random_key(random),
        },
        Operation::DeleteRange(delete) => match random.below(3) {
            0 => delete.key = Bytes::new(),
            1 => delete.range_end = random_key(random),
            _ => delete.key = random_key(random),
        },
        Operation::Range(range) => spoil_range(range, random),
        Operation::Txn(txn) => spoil_transaction(txn, random),
        Operation::LeaseGrant(grant) => match random.below(2) {
            0 => grant.ttl = *random.pick(&[0, -1, i64::MIN, i64::MAX, 9_000_000_001]),
            _ => grant.id = *random.pick(&[-1, i64::MIN]),
        },
        Operation::LeaseRevoke(revoke) => revoke.id = *random.pick(&STRANGE),
        Operation::LeaseTimeToLive(lease) => lease.id = *random.pick(&STRANGE),
        Operation::HashKv(hash) => hash.revision = *random.pick(&[-1, i64::MAX]),
        Operation::Compact(_) | Operation::LeaseLeases => {}
    }
}

fn spoil_range(range: &mut RangeRequest, random: &mut Random) {
    match random.below(9) {
        0 => range.key = Bytes::new(),
        1 => range.limit = *random.pick(&STRANGE),
        2 => range.revision = *random.pick(&STRANGE),
        3 => range.sort_order = *random.pick(&[-1, 3, i32::MAX]),
        4 => range.sort_target = *random.pick(&[-1, 5, i32::MIN]),
        5 => range.min_mod_revision = *random.pick(&STRANGE),
        6 => range.max_create_revision = *random.pick(&STRANGE),
        7 => range.range_end = random_key(random),
        _ => (range.keys_only, range.count_only) = (true, true),
    }
    // The order of pairs with equal sort keys is not defined.
    if range.sort_target != 0 {
        range.limit = 0;
    }
}

fn spoil_transaction(txn: &mut TxnRequest, random: &mut Random) {
    let compares = txn.compare.iter_mut();
    match random.below(6) {
        0 => txn.success.push(RequestOp { request: None }),
        1 => compares.for_each(|it| it.target_union = None),
        2 => compares.for_each(|it| it.result = *random.pick(&[-1, 4, i32::MAX])),
        3 => compares.for_each(|it| it.key = Bytes::new()),
        4 => {
            // A transaction that puts a key twice is refused.
            let again = txn.success.clone();
            txn.success.extend(again);
        }
        _ => {
            let read = requests::operation(Request::RequestRange(requests::range("k0")));
            txn.success = vec![read; *random.pick(&OPERATIONS)];
        }
    }
}

/// Random bytes, which need not be text.
fn random_key(random: &mut Random) -> Bytes {
    bytes_of(random, 6).into()
}
