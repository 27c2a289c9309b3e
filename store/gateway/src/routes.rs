//! The table of etcd's 51 paths and of our own, and the calls that they stand for.

use std::collections::HashMap;
use std::sync::LazyLock;

use bytes::{BufMut, Bytes, BytesMut};
use prost::Message;
use prost_reflect::{DescriptorPool, DeserializeOptions, DynamicMessage, MessageDescriptor};
use serde::de::DeserializeSeed;
use tonic::Status;

use crate::answer::{Shape, Transcoder};
use crate::unique::Unique;

/// Bytes before a gRPC message: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;

/// Most objects, lists and members of them in one JSON value: each takes a hundred times its
/// bytes while the value is decoded. etcd's largest request, 128 operations, has some hundred.
const PARTS_MAX: usize = 1 << 18;

/// A service and its routes: a path below `/v3/`, and the name of the call.
type Service = (&'static str, &'static [(&'static str, &'static str)]);

const SERVICES: &[Service] = &[
    (
        "etcdserverpb.KV",
        &[
            ("kv/range", "Range"),
            ("kv/put", "Put"),
            ("kv/deleterange", "DeleteRange"),
            ("kv/txn", "Txn"),
            ("kv/compaction", "Compact"),
        ],
    ),
    ("etcdserverpb.Watch", &[("watch", "Watch")]),
    (
        "etcdserverpb.Lease",
        &[
            ("lease/grant", "LeaseGrant"),
            ("lease/revoke", "LeaseRevoke"),
            ("lease/keepalive", "LeaseKeepAlive"),
            ("lease/timetolive", "LeaseTimeToLive"),
            ("lease/leases", "LeaseLeases"),
            // The paths of etcd 3.3, which etcd still serves.
            ("kv/lease/revoke", "LeaseRevoke"),
            ("kv/lease/timetolive", "LeaseTimeToLive"),
            ("kv/lease/leases", "LeaseLeases"),
        ],
    ),
    (
        "etcdserverpb.Cluster",
        &[
            ("cluster/member/add", "MemberAdd"),
            ("cluster/member/remove", "MemberRemove"),
            ("cluster/member/update", "MemberUpdate"),
            ("cluster/member/list", "MemberList"),
            ("cluster/member/promote", "MemberPromote"),
        ],
    ),
    (
        "etcdserverpb.Maintenance",
        &[
            ("maintenance/alarm", "Alarm"),
            ("maintenance/status", "Status"),
            ("maintenance/defragment", "Defragment"),
            ("maintenance/hash", "Hash"),
            ("maintenance/hashkv", "HashKV"),
            ("maintenance/snapshot", "Snapshot"),
            ("maintenance/transfer-leadership", "MoveLeader"),
            ("maintenance/downgrade", "Downgrade"),
        ],
    ),
    (
        "etcdserverpb.Auth",
        &[
            ("auth/enable", "AuthEnable"),
            ("auth/disable", "AuthDisable"),
            ("auth/status", "AuthStatus"),
            ("auth/authenticate", "Authenticate"),
            ("auth/user/add", "UserAdd"),
            ("auth/user/get", "UserGet"),
            ("auth/user/list", "UserList"),
            ("auth/user/delete", "UserDelete"),
            ("auth/user/changepw", "UserChangePassword"),
            ("auth/user/grant", "UserGrantRole"),
            ("auth/user/revoke", "UserRevokeRole"),
            ("auth/role/add", "RoleAdd"),
            ("auth/role/get", "RoleGet"),
            ("auth/role/list", "RoleList"),
            ("auth/role/delete", "RoleDelete"),
            ("auth/role/grant", "RoleGrantPermission"),
            ("auth/role/revoke", "RoleRevokePermission"),
        ],
    ),
    (
        "v3lockpb.Lock",
        &[("lock/lock", "Lock"), ("lock/unlock", "Unlock")],
    ),
    (
        "v3electionpb.Election",
        &[
            ("election/campaign", "Campaign"),
            ("election/proclaim", "Proclaim"),
            ("election/leader", "Leader"),
            ("election/observe", "Observe"),
            ("election/resign", "Resign"),
        ],
    ),
    (
        "inkstonepb.View",
        &[
            ("inkstone/children", "Children"),
            ("inkstone/overview", "Overview"),
        ],
    ),
];

/// A path of the gateway with its call.
#[derive(Debug)]
pub struct Route {
    call: String,
    request: MessageDescriptor,
    answer: MessageDescriptor,
    /// Whether the body of a request may hold several messages.
    pub takes_stream: bool,
    shape: Shape,
}

static ROUTES: LazyLock<HashMap<String, Route>> = LazyLock::new(table);

/// The route of a path such as `/v3/kv/range`.
pub fn find(path: &str) -> Option<&'static Route> {
    ROUTES.get(path)
}

/// All paths with their routes, in no order.
pub fn routes() -> impl Iterator<Item = (&'static str, &'static Route)> {
    ROUTES.iter().map(|(path, route)| (path.as_str(), route))
}

fn table() -> HashMap<String, Route> {
    let pool = DescriptorPool::decode(etcd_api::DESCRIPTORS).expect("the build made it");
    let entries = SERVICES
        .iter()
        .flat_map(|(service, calls)| calls.iter().map(move |(path, name)| (path, service, name)));
    entries
        .map(|(path, service, name)| (format!("/v3/{path}"), Route::of(&pool, service, name)))
        .collect()
}

impl Route {
    fn of(pool: &DescriptorPool, service: &str, name: &str) -> Route {
        let service = pool.get_service_by_name(service);
        let service = service.expect("the proto files have the service");
        let method = service.methods().find(|method| method.name() == name);
        let method = method.expect("the service has the call");
        Route {
            call: format!("/{}/{name}", service.full_name()),
            request: method.input(),
            answer: method.output(),
            takes_stream: method.is_client_streaming(),
            shape: match method.is_server_streaming() {
                true => Shape::Lines,
                false => Shape::One,
            },
        }
    }

    /// The path of the call in gRPC, `/service/name`.
    pub fn call(&self) -> &str {
        &self.call
    }

    /// Whether an answer is one message or a line for each.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Encodes a JSON value as a message with its gRPC prefix. The error is etcd's:
    /// `InvalidArgument`; for a value of too many parts it is `ResourceExhausted`.
    pub fn request(&self, json: &[u8]) -> Result<Bytes, Status> {
        refuse_other_than_object(json)?;
        refuse_many_parts(json)?;
        let unreadable =
            |error: serde_json::Error| Status::invalid_argument(format!("proto: {error}"));
        let mut reader = serde_json::Deserializer::from_slice(json);
        let unique = Unique(Some(&self.request)).deserialize(&mut reader);
        unique.map_err(unreadable)?;
        let options = DeserializeOptions::new().deny_unknown_fields(false);
        let mut reader = serde_json::Deserializer::from_slice(json);
        let descriptor = self.request.clone();
        let message = DynamicMessage::deserialize_with_options(descriptor, &mut reader, &options);
        let message = message.map_err(unreadable)?;
        reader.end().map_err(unreadable)?;
        framed(&message)
    }

    /// A transcoder for one answer of this call.
    pub fn transcoder(&self) -> Transcoder {
        Transcoder::new(self.answer.clone(), self.shape)
    }
}

/// The refusal of a value that is no object, in Go's words.
fn refuse_other_than_object(json: &[u8]) -> Result<(), Status> {
    let text = String::from_utf8_lossy(json);
    let token = match json.first() {
        Some(b'{') => return Ok(()),
        Some(b'[') => "[",
        Some(b'"' | b'-' | b'0'..=b'9') => &text,
        _ if ["null", "true", "false"].contains(&&*text) => &text,
        _ => {
            let first = text.chars().next().unwrap_or_default();
            return Err(Status::invalid_argument(format!(
                "invalid character '{first}' looking for beginning of value"
            )));
        }
    };
    Err(Status::invalid_argument(format!(
        "proto: syntax error (line 1:1): unexpected token {token}"
    )))
}

fn refuse_many_parts(json: &[u8]) -> Result<(), Status> {
    let begins_part = |byte: &&u8| matches!(byte, b'{' | b'[' | b',');
    if json.len() <= PARTS_MAX || json.iter().filter(begins_part).count() <= PARTS_MAX {
        return Ok(());
    }
    Err(Status::resource_exhausted(format!(
        "inkstone: a JSON value has more than {PARTS_MAX} parts; send fewer at a time"
    )))
}

fn framed(message: &DynamicMessage) -> Result<Bytes, Status> {
    let bytes = message.encoded_len();
    let Ok(length) = u32::try_from(bytes) else {
        return Err(Status::resource_exhausted(format!(
            "inkstone: a request of {bytes} bytes is larger than gRPC can send (4 GiB)"
        )));
    };
    let mut encoded = BytesMut::with_capacity(PREFIX_BYTES + bytes);
    encoded.put_u8(0);
    encoded.put_u32(length);
    message.encode_raw(&mut encoded);
    Ok(encoded.freeze())
}

#[cfg(test)]
mod tests {
    use etcd_api::etcdserverpb::compare::TargetUnion;
    use etcd_api::etcdserverpb::request_op::Request as Operation;
    use etcd_api::etcdserverpb::{PutRequest, RangeRequest, TxnRequest, WatchRequest};
    use tonic::Code;

    use super::*;

    fn request<T: Message + Default>(path: &str, json: &str) -> Result<T, Status> {
        let framed = find(path).unwrap().request(json.as_bytes())?;
        assert_eq!(framed[0], 0, "not compressed");
        assert_eq!(framed[1..5], ((framed.len() - 5) as u32).to_be_bytes());
        Ok(T::decode(&framed[5..]).unwrap())
    }

    fn put(json: &str) -> Result<PutRequest, Status> {
        request("/v3/kv/put", json)
    }

    #[test]
    fn there_are_etcd_s_51_paths_and_two_of_our_own() {
        let own = |path: &str| path.starts_with("/v3/inkstone/");
        let (own, etcd): (Vec<_>, Vec<_>) = routes().map(|(path, _)| path).partition(|it| own(it));
        assert_eq!((own.len(), etcd.len()), (2, 51));
        assert!(find("/v3/kv/rangestream").is_none());
        let streams = |path: &str| {
            let route = find(path).unwrap();
            (route.takes_stream, route.shape())
        };
        assert_eq!(streams("/v3/watch"), (true, Shape::Lines));
        assert_eq!(streams("/v3/election/observe"), (false, Shape::Lines));
        assert_eq!(streams("/v3/kv/put"), (false, Shape::One));
    }

    #[test]
    fn bytes_are_base64_of_either_alphabet_with_or_without_padding() {
        for text in ["+/8=", "+/8", "-_8=", "-_8"] {
            let json = format!(r#"{{"key":"{text}"}}"#);
            assert_eq!(put(&json).unwrap().key, &[0xfb, 0xff][..], "{text}");
        }
        assert_eq!(
            put(r#"{"key":"a!"}"#).unwrap_err().code(),
            Code::InvalidArgument
        );
    }

    #[test]
    fn integers_of_64_bits_are_strings_or_numbers() {
        for lease in ["7", r#""7""#, "7.0", "7e0"] {
            let json = format!(r#"{{"lease":{lease}}}"#);
            assert_eq!(put(&json).unwrap().lease, 7, "{lease}");
        }
        let largest = i64::MAX.to_string();
        for lease in [format!("{largest:?}"), largest] {
            let json = format!(r#"{{"lease":{lease}}}"#);
            assert_eq!(put(&json).unwrap().lease, i64::MAX);
        }
        for lease in ["7.5", r#""seven""#, "9223372036854775808", "true", "[]"] {
            let json = format!(r#"{{"lease":{lease}}}"#);
            assert_eq!(
                put(&json).unwrap_err().code(),
                Code::InvalidArgument,
                "{lease}"
            );
        }
    }

    #[test]
    fn fields_have_their_proto_name_or_its_camel_case_and_unknown_ones_are_ignored() {
        let json = r#"{"range_end":"AA==","sortOrder":"DESCEND","sort_target":2,"x":[{"y":1}]}"#;
        let range: RangeRequest = request("/v3/kv/range", json).unwrap();
        assert_eq!(range.range_end, &[0][..]);
        assert_eq!((range.sort_order, range.sort_target), (2, 2));
        let null = r#"{"range_end":null,"limit":null}"#;
        assert_eq!(
            request::<RangeRequest>("/v3/kv/range", null).unwrap(),
            RangeRequest::default()
        );
    }

    #[test]
    fn a_field_that_comes_twice_is_refused_in_whatever_names() {
        let twice = put(r#"{"key":"AA==","key":"AQ=="}"#).unwrap_err();
        assert!(
            twice.message().contains("duplicate field \"key\""),
            "{twice}"
        );
        let names = r#"{"range_end":"AA==","rangeEnd":"AA=="}"#;
        assert!(request::<RangeRequest>("/v3/kv/range", names).is_err());
        let within = r#"{"success":[{"request_put":{"lease":1,"lease":null}}]}"#;
        assert!(request::<TxnRequest>("/v3/kv/txn", within).is_err());
        assert!(
            put(r#"{"x":1,"x":{"y":1,"y":2}}"#).is_ok(),
            "unknown fields"
        );
    }

    #[test]
    fn oneofs_go_by_the_name_of_their_field() {
        let json = r#"{
            "compare":[{"target":"CREATE","key":"YQ==","create_revision":"0"}],
            "success":[{"requestPut":{"key":"YQ==","value":"MQ=="}}],
            "failure":[{"request_range":{"key":"YQ=="}}]
        }"#;
        let txn: TxnRequest = request("/v3/kv/txn", json).unwrap();
        assert_eq!(
            txn.compare[0].target_union,
            Some(TargetUnion::CreateRevision(0))
        );
        assert!(matches!(
            txn.success[0].request,
            Some(Operation::RequestPut(_))
        ));
        assert!(matches!(
            txn.failure[0].request,
            Some(Operation::RequestRange(_))
        ));
        let both = r#"{"create_request":{},"cancel_request":{}}"#;
        assert!(request::<WatchRequest>("/v3/watch", both).is_err());
    }

    #[test]
    fn anything_but_one_object_is_refused() {
        for json in [
            "",
            "null",
            "[]",
            "7",
            r#""a""#,
            "{",
            "{]",
            "{}{}",
            "{} x",
            "\u{feff}{}",
        ] {
            let refused = put(json).unwrap_err();
            assert_eq!(refused.code(), Code::InvalidArgument, "{json}");
        }
        assert!(
            put(r#"{"key":"\ud800"}"#).is_err(),
            "half of a surrogate pair"
        );
        let invalid = find("/v3/kv/put").unwrap().request(b"{\"key\":\"\xff\"}");
        assert!(invalid.is_err(), "not UTF-8");
    }

    #[test]
    fn values_of_very_many_parts_are_refused() {
        let many = |parts: usize| format!(r#"{{"success":[{}{{}}]}}"#, "{},".repeat(parts / 2));
        assert!(request::<TxnRequest>("/v3/kv/txn", &many(PARTS_MAX / 2)).is_ok());
        let refused = request::<TxnRequest>("/v3/kv/txn", &many(PARTS_MAX)).unwrap_err();
        assert_eq!(refused.code(), Code::ResourceExhausted);
        let value = "A".repeat(4 * PARTS_MAX);
        assert!(put(&format!(r#"{{"value":"{value}"}}"#)).is_ok());
    }

    #[test]
    fn deep_nesting_is_refused_without_recursion() {
        let deep = r#"{"success":[{"request_txn":"#.repeat(10_000);
        let refused = request::<TxnRequest>("/v3/kv/txn", &deep).unwrap_err();
        assert!(refused.message().contains("recursion"), "{refused}");
        let (open, close) = ("[".repeat(100_000), "]".repeat(100_000));
        let unknown = format!(r#"{{"x":{open}{close}}}"#);
        assert!(request::<TxnRequest>("/v3/kv/txn", &unknown).is_ok());
    }

    /// Numbers without a pattern (xorshift).
    struct Random(u64);

    impl Random {
        fn below(&mut self, end: usize) -> usize {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            (self.0 % end as u64) as usize
        }
    }

    #[test]
    fn damaged_bodies_are_refused_or_are_messages() {
        let body = br#"{"compare":[{"target":"CREATE","key":"YQ==","create_revision":"0"}],
            "success":[{"requestPut":{"key":"YQ==","value":"MQ==","lease":7.0}}],
            "failure":[{"request_range":{"key":"YQ==","sort_order":2,"x":[null,{"y":1}]}}]}"#;
        let route = find("/v3/kv/txn").unwrap();
        let mut random = Random(88_172_645_463_325_252);
        let (mut taken, mut refused) = (0, 0);
        for _ in 0..20_000 {
            let mut damaged = body.to_vec();
            for _ in 0..=random.below(3) {
                let place = random.below(damaged.len());
                match random.below(3) {
                    0 => damaged[place] = random.below(256) as u8,
                    1 => damaged.truncate(place.max(1)),
                    _ => damaged.insert(place, body[random.below(body.len())]),
                }
            }
            match route.request(&damaged) {
                Ok(framed) => {
                    TxnRequest::decode(&framed[5..]).unwrap();
                    taken += 1;
                }
                Err(status) => {
                    assert_eq!(status.code(), Code::InvalidArgument);
                    refused += 1;
                }
            }
        }
        assert!(taken > 100 && refused > 100, "{taken} {refused}");
    }
}
