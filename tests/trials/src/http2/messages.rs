//! Valid requests of every service.

use bytes::Bytes;
use environment::randomness::Random;
use etcd_api::etcdserverpb::watch_request::RequestUnion;
use etcd_api::etcdserverpb::{
    CompactionRequest, DeleteRangeRequest, HashKvRequest, LeaseGrantRequest, LeaseRevokeRequest,
    LeaseTimeToLiveRequest, PutRequest, RangeRequest, TxnRequest, WatchCancelRequest,
    WatchCreateRequest, WatchRequest, request_op::Request,
};
use prost::Message;

use crate::requests;

/// Paths of calls, some of which do not exist. Calls with which any client could change the
/// members (remove one, move the lead) or stop writes (raise an alarm) are left out.
const PATHS: [&str; 22] = [
    "/etcdserverpb.KV/Range",
    "/etcdserverpb.KV/RangeStream",
    "/etcdserverpb.KV/Put",
    "/etcdserverpb.KV/DeleteRange",
    "/etcdserverpb.KV/Txn",
    "/etcdserverpb.KV/Compact",
    "/etcdserverpb.Watch/Watch",
    "/etcdserverpb.Lease/LeaseGrant",
    "/etcdserverpb.Lease/LeaseRevoke",
    "/etcdserverpb.Lease/LeaseKeepAlive",
    "/etcdserverpb.Lease/LeaseTimeToLive",
    "/etcdserverpb.Lease/LeaseLeases",
    "/etcdserverpb.Cluster/MemberList",
    "/etcdserverpb.Maintenance/Status",
    "/etcdserverpb.Maintenance/Hash",
    "/etcdserverpb.Maintenance/HashKV",
    "/etcdserverpb.Auth/Authenticate",
    "/etcdserverpb.Auth/AuthStatus",
    "/grpc.health.v1.Health/Check",
    "/v3lockpb.Lock/Lock",
    "/etcdserverpb.KV/Nothing",
    "no path",
];

/// A random path.
pub fn path(random: &mut Random) -> &'static str {
    *random.pick::<&str>(&PATHS)
}

/// An encoded put of a small value.
pub fn put(random: &mut Random) -> Vec<u8> {
    put_request(random).encode_to_vec()
}

fn put_request(random: &mut Random) -> PutRequest {
    PutRequest {
        key: key(random),
        value: vec![b'v'; random.below(200) as usize].into(),
        prev_kv: random.chance(1, 2),
        ..PutRequest::default()
    }
}

fn key(random: &mut Random) -> Bytes {
    format!("fuzz/{}", random.below(40)).into()
}

fn range(random: &mut Random) -> RangeRequest {
    RangeRequest {
        key: key(random),
        range_end: key(random),
        limit: random.below(5) as i64,
        ..RangeRequest::default()
    }
}

fn delete(random: &mut Random) -> DeleteRangeRequest {
    DeleteRangeRequest {
        key: key(random),
        ..DeleteRangeRequest::default()
    }
}

/// A valid request: its path and its encoding.
pub fn sound(random: &mut Random) -> (String, Vec<u8>) {
    let id = 1 + random.below(20) as i64;
    // Both requests have an id and nothing else.
    let lease = LeaseRevokeRequest { id }.encode_to_vec();
    let (call, message) = match random.below(24) {
        0 | 1 => ("KV/Put", put(random)),
        2 | 3 => ("KV/Range", range(random).encode_to_vec()),
        4 | 5 => ("KV/RangeStream", range(random).encode_to_vec()),
        6 | 7 => ("KV/DeleteRange", delete(random).encode_to_vec()),
        8 | 9 => ("KV/Txn", txn(random, 3).encode_to_vec()),
        10 | 11 => {
            let compaction = CompactionRequest {
                revision: random.below(10) as i64,
                physical: random.chance(1, 2),
            };
            ("KV/Compact", compaction.encode_to_vec())
        }
        12..16 => ("Watch/Watch", watch(random).encode_to_vec()),
        16 => {
            let grant = LeaseGrantRequest { ttl: 5, id };
            ("Lease/LeaseGrant", grant.encode_to_vec())
        }
        17 => ("Lease/LeaseRevoke", lease),
        18 => ("Lease/LeaseKeepAlive", lease),
        19 => {
            let question = LeaseTimeToLiveRequest { id, keys: true };
            ("Lease/LeaseTimeToLive", question.encode_to_vec())
        }
        20 | 21 => {
            let revision = random.below(10) as i64;
            let hash = HashKvRequest { revision };
            ("Maintenance/HashKV", hash.encode_to_vec())
        }
        // A question for the status has no fields.
        _ => ("Maintenance/Status", Vec::new()),
    };
    (format!("/etcdserverpb.{call}"), message)
}

fn txn(random: &mut Random, depth: u32) -> TxnRequest {
    let mut success = vec![
        requests::operation(Request::RequestPut(put_request(random))),
        requests::operation(Request::RequestRange(range(random))),
    ];
    if depth > 0 && random.chance(1, 2) {
        success.push(requests::operation(Request::RequestTxn(txn(
            random,
            depth - 1,
        ))));
    }
    TxnRequest {
        success,
        failure: vec![requests::operation(Request::RequestDeleteRange(delete(
            random,
        )))],
        ..TxnRequest::default()
    }
}

fn watch(random: &mut Random) -> WatchRequest {
    let union = match random.below(3) {
        0 => RequestUnion::CancelRequest(WatchCancelRequest {
            watch_id: random.below(4) as i64,
        }),
        _ => RequestUnion::CreateRequest(WatchCreateRequest {
            key: key(random),
            range_end: key(random),
            start_revision: random.below(20) as i64,
            watch_id: random.below(4) as i64,
            fragment: random.chance(1, 2),
            prev_kv: random.chance(1, 2),
            ..WatchCreateRequest::default()
        }),
    };
    WatchRequest {
        request_union: Some(union),
    }
}
