//! The services Lock and Election: the recipes of etcd's client library, run in the server.
//!
//! ```text
//!   NAME/1a ◄─waits for─ NAME/7f ◄─waits for─ NAME/33     each key: a claim with its lease
//!   oldest: holds it      └─ watches one key only: a release wakes one claim
//! ```
//!
//! A claim is a key below the name. The oldest key, by its create revision, holds the lock or
//! leads. Every other claim watches the key directly before it, so a release wakes one claim,
//! and a claim that waits costs a watch and a sleeping task, nothing else. A claim falls with
//! its lease, as any key does.
//!
//! The recipes use the calls that clients use ([`steps::Steps`]), so each step needs the
//! permission of the call that it is made of.

mod claim;
pub(crate) mod election;
pub(crate) mod mutex;
mod observer;
mod steps;
mod watching;

use bytes::{BufMut, Bytes, BytesMut};
use etcd_api::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use etcd_api::etcdserverpb::range_request::{SortOrder, SortTarget};
use etcd_api::etcdserverpb::request_op::Request as Operation;
use etcd_api::etcdserverpb::response_op::Response as Outcome;
use etcd_api::etcdserverpb::{Compare, RangeRequest, RangeResponse, RequestOp, TxnResponse};

/// Seconds that a lease lives which a claim without one gets. As in etcd it is not renewed.
const LEASE_SECONDS: i64 = 60;

/// The prefix of a name's keys.
fn prefix_of(name: &[u8]) -> Bytes {
    let mut prefix = BytesMut::with_capacity(name.len() + 1);
    prefix.put_slice(name);
    prefix.put_u8(b'/');
    prefix.freeze()
}

/// The key of a claim: the prefix and the lease in hexadecimal, as Go writes it.
fn key_of(prefix: &[u8], lease: i64) -> Bytes {
    let sign = if lease < 0 { "-" } else { "" };
    let lease = format!("{sign}{:x}", lease.unsigned_abs());
    [prefix, lease.as_bytes()].concat().into()
}

/// A range of all keys below a prefix, which ends with `/`.
fn below(prefix: &[u8]) -> RangeRequest {
    let mut range_end = prefix.to_vec();
    *range_end.last_mut().expect("a prefix is never empty") += 1;
    RangeRequest {
        key: Bytes::copy_from_slice(prefix),
        range_end: range_end.into(),
        ..Default::default()
    }
}

/// A range of the key below a prefix that was created first.
fn first_below(prefix: &[u8]) -> RangeRequest {
    RangeRequest {
        limit: 1,
        sort_target: SortTarget::Create.into(),
        sort_order: SortOrder::Ascend.into(),
        ..below(prefix)
    }
}

/// The condition that a key was created at a revision; at 0: that it does not exist.
fn created_at(key: &Bytes, revision: i64) -> Compare {
    Compare {
        result: CompareResult::Equal.into(),
        target: CompareTarget::Create.into(),
        key: key.clone(),
        target_union: Some(TargetUnion::CreateRevision(revision)),
        ..Default::default()
    }
}

fn operation(request: Operation) -> RequestOp {
    RequestOp {
        request: Some(request),
    }
}

/// The answer of a transaction's only read.
fn range_of(response: TxnResponse) -> Option<RangeResponse> {
    let mut outcomes = response.responses.into_iter();
    outcomes.find_map(|outcome| match outcome.response {
        Some(Outcome::ResponseRange(range)) => Some(range),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_s_key_is_etcd_s() {
        let prefix = prefix_of(b"jobs");
        assert_eq!(key_of(&prefix, 0x1a2b), "jobs/1a2b");
        assert_eq!(key_of(&prefix, -1), "jobs/-1");
        assert_eq!(key_of(&prefix, i64::MIN), "jobs/-8000000000000000");
        let all = below(&prefix);
        assert_eq!(
            (&all.key[..], &all.range_end[..]),
            (&b"jobs/"[..], &b"jobs0"[..])
        );
    }
}
