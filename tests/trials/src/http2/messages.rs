//! Valid requests of every service, and mutations of them.

use bytes::Bytes;
use environment::randomness::Random;
use etcd_api::etcdserverpb::watch_request::RequestUnion;
use etcd_api::etcdserverpb::{
    CompactionRequest, DeleteRangeRequest, HashKvRequest, LeaseGrantRequest, LeaseKeepAliveRequest,
    LeaseRevokeRequest, LeaseTimeToLiveRequest, PutRequest, RangeRequest, RequestOp, StatusRequest,
    TxnRequest, WatchCancelRequest, WatchCreateRequest, WatchRequest, request_op::Request,
};
use prost::Message;

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
    PATHS[random.below(PATHS.len() as u64) as usize]
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
pub fn sound(random: &mut Random) -> (&'static str, Vec<u8>) {
    match random.below(12) {
        0 => ("/etcdserverpb.KV/Put", put(random)),
        1 => ("/etcdserverpb.KV/Range", range(random).encode_to_vec()),
        2 => (
            "/etcdserverpb.KV/RangeStream",
            range(random).encode_to_vec(),
        ),
        3 => (
            "/etcdserverpb.KV/DeleteRange",
            delete(random).encode_to_vec(),
        ),
        4 => ("/etcdserverpb.KV/Txn", txn(random, 3).encode_to_vec()),
        5 => {
            let compaction = CompactionRequest {
                revision: random.below(10) as i64,
                physical: random.chance(1, 2),
            };
            ("/etcdserverpb.KV/Compact", compaction.encode_to_vec())
        }
        6 | 7 => ("/etcdserverpb.Watch/Watch", watch(random)),
        8 | 9 => lease(random),
        10 => {
            let revision = random.below(10) as i64;
            let hash = HashKvRequest { revision };
            ("/etcdserverpb.Maintenance/HashKV", hash.encode_to_vec())
        }
        _ => {
            let question = StatusRequest::default();
            ("/etcdserverpb.Maintenance/Status", question.encode_to_vec())
        }
    }
}

fn txn(random: &mut Random, depth: u32) -> TxnRequest {
    let operation = |request| RequestOp {
        request: Some(request),
    };
    let mut success = vec![
        operation(Request::RequestPut(put_request(random))),
        operation(Request::RequestRange(range(random))),
    ];
    if depth > 0 && random.chance(1, 2) {
        success.push(operation(Request::RequestTxn(txn(random, depth - 1))));
    }
    TxnRequest {
        success,
        failure: vec![operation(Request::RequestDeleteRange(delete(random)))],
        ..TxnRequest::default()
    }
}

fn watch(random: &mut Random) -> Vec<u8> {
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
    let request = WatchRequest {
        request_union: Some(union),
    };
    request.encode_to_vec()
}

fn lease(random: &mut Random) -> (&'static str, Vec<u8>) {
    let id = 1 + random.below(20) as i64;
    match random.below(4) {
        0 => {
            let grant = LeaseGrantRequest { ttl: 5, id };
            ("/etcdserverpb.Lease/LeaseGrant", grant.encode_to_vec())
        }
        1 => {
            let revoke = LeaseRevokeRequest { id };
            ("/etcdserverpb.Lease/LeaseRevoke", revoke.encode_to_vec())
        }
        2 => {
            let renewal = LeaseKeepAliveRequest { id };
            (
                "/etcdserverpb.Lease/LeaseKeepAlive",
                renewal.encode_to_vec(),
            )
        }
        _ => {
            let question = LeaseTimeToLiveRequest { id, keys: true };
            (
                "/etcdserverpb.Lease/LeaseTimeToLive",
                question.encode_to_vec(),
            )
        }
    }
}

/// Flips, removes, inserts, doubles or cuts off some bytes.
pub fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..1 + random.below(4) {
        if bytes.is_empty() {
            return;
        }
        let at = random.below(bytes.len() as u64) as usize;
        match random.below(6) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = random.next_u64() as u8,
            2 => drop(bytes.remove(at)),
            3 => bytes.insert(at, random.next_u64() as u8),
            4 => {
                let after = (at + 1 + random.below(40) as usize).min(bytes.len());
                let piece = bytes[at..after].to_vec();
                bytes.splice(at..at, piece);
            }
            _ => bytes.truncate(at),
        }
    }
}
