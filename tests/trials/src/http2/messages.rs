//! Valid requests of every service.

use environment::randomness::Random;
use etcd_api::etcdserverpb::watch_request::RequestUnion;
use etcd_api::etcdserverpb::{LeaseKeepAliveRequest, PutRequest, WatchCancelRequest, WatchRequest};
use prost::Message;

use crate::kv::generate::Generator;
use crate::watch::generate;

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
    random.pick::<&str>(&PATHS)
}

/// An encoded put of a small value.
pub fn put(random: &mut Random) -> Vec<u8> {
    let put = PutRequest {
        key: format!("fuzz/{}", random.below(40)).into(),
        value: vec![b'v'; random.below(200) as usize].into(),
        prev_kv: random.chance(1, 2),
        ..PutRequest::default()
    };
    put.encode_to_vec()
}

/// A valid request: its path and its encoding.
pub fn sound(random: &mut Random) -> (String, Vec<u8>) {
    let (call, message) = match random.below(8) {
        0 => {
            let watch_id = random.below(4) as i64;
            let cancel = RequestUnion::CancelRequest(WatchCancelRequest { watch_id });
            ("Watch/Watch", watch(cancel))
        }
        1 => {
            let create = generate::watch(random, 20, 0);
            ("Watch/Watch", watch(RequestUnion::CreateRequest(create)))
        }
        2 => {
            let id = 1_000 + random.below(20) as i64;
            let renewal = LeaseKeepAliveRequest { id };
            ("Lease/LeaseKeepAlive", renewal.encode_to_vec())
        }
        // A question for the status has no fields.
        3 => ("Maintenance/Status", Vec::new()),
        _ => match Generator::new(random.split()).sound_operation().call() {
            ("KV/Range", range) if random.chance(1, 2) => ("KV/RangeStream", range),
            call => call,
        },
    };
    (format!("/etcdserverpb.{call}"), message)
}

fn watch(request: RequestUnion) -> Vec<u8> {
    let request = WatchRequest {
        request_union: Some(request),
    };
    request.encode_to_vec()
}
