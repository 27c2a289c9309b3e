//! Commands, answers and refusals on their way between members.

use std::sync::Arc;

use auth::{Identity, Proof};
use bytes::Bytes;
use environment::randomness::Random;
use etcd_api::etcdserverpb::downgrade_request::DowngradeAction;
use etcd_api::etcdserverpb::request_op::Request as Operation;
use etcd_api::etcdserverpb::{
    AlarmRequest, CompactionRequest, DeleteRangeRequest, DowngradeRequest, LeaseGrantRequest,
    LeaseKeepAliveRequest, LeaseRevokeRequest, LeaseTimeToLiveRequest, MemberAddRequest,
    MemberPromoteRequest, MemberRemoveRequest, MemberUpdateRequest, PutRequest, RequestOp,
    TxnRequest,
};
use etcd_api::inkstonepb::follow_change::Change;
use etcd_api::inkstonepb::{FollowBegin, FollowChange};
use revisions::{Command, Error, LeaseRequest, LeaseResponse, MemberPublishRequest, TraceContext};

use crate::store::{Store, put, range};

fn nested(depth: usize) -> TxnRequest {
    let mut txn = TxnRequest::default();
    for _ in 0..depth {
        let request = Some(Operation::RequestTxn(txn));
        txn = TxnRequest {
            success: vec![RequestOp { request }],
            ..TxnRequest::default()
        };
    }
    txn
}

/// One of each kind, in an order in which all of them succeed.
fn commands(id: u64) -> Vec<Command> {
    let operations = [
        Operation::RequestPut(put("t", "1")),
        Operation::RequestRange(range("a", "z")),
        Operation::RequestDeleteRange(DeleteRangeRequest {
            key: "a".into(),
            prev_kv: true,
            ..DeleteRangeRequest::default()
        }),
    ];
    let operations = operations.map(|it| RequestOp { request: Some(it) });
    vec![
        Command::Put(PutRequest {
            prev_kv: true,
            ..put("a", "1")
        }),
        Command::Txn(TxnRequest {
            success: operations.to_vec(),
            ..TxnRequest::default()
        }),
        Command::DeleteRange(DeleteRangeRequest {
            key: "t".into(),
            prev_kv: true,
            ..DeleteRangeRequest::default()
        }),
        Command::Compact(CompactionRequest {
            revision: 3,
            physical: true,
        }),
        Command::LeaseGrant(LeaseGrantRequest { id: 5, ttl: 10 }),
        Command::LeaseRevoke(LeaseRevokeRequest { id: 5 }),
        Command::Alarm(AlarmRequest {
            action: 1,
            member_id: 3,
            alarm: 1,
        }),
        Command::MemberAdd(MemberAddRequest {
            peer_ur_ls: vec!["http://b:1".into()],
            is_learner: true,
        }),
        Command::MemberPromote(MemberPromoteRequest { id }),
        Command::MemberUpdate(MemberUpdateRequest {
            id,
            peer_ur_ls: vec!["http://b:2".into()],
        }),
        Command::MemberPublish(MemberPublishRequest {
            id,
            name: "name".into(),
            client_urls: vec!["http://c:1".into()],
        }),
        Command::MemberRemove(MemberRemoveRequest { id }),
        Command::Downgrade(DowngradeRequest {
            action: DowngradeAction::Enable as i32,
            version: "3.6".into(),
        }),
        Command::Follow(FollowChange {
            cluster_id: u64::MAX,
            change: Some(Change::Begin(FollowBegin {
                revision: 4,
                name: "http://etcd:2379".into(),
            })),
        }),
    ]
}

fn store_with_two_members() -> Store {
    let mut store = Store::new();
    let add = MemberAddRequest {
        peer_ur_ls: vec!["http://a:1".into()],
        is_learner: false,
    };
    store.run(Command::MemberAdd(add)).unwrap();
    store
}

#[test]
fn every_command_and_every_answer_comes_back() {
    let mut store = store_with_two_members();
    let second = environment::Clock::unix_time(&store.clock).as_secs();
    let id = revisions::identity::added_member_id(&["http://b:1"], second);
    let mut kinds = Vec::new();
    for command in commands(id) {
        let encoded = command.encode();
        kinds.push(encoded[0]);
        assert_eq!(encoded.len(), command.size_bytes() + 1);
        let command = Command::decode(encoded).unwrap();
        let response = store.run(command).unwrap();
        let encoded = response.encode();
        assert_eq!(kinds.last(), Some(&encoded[0]), "kinds go together");
        assert_eq!(revisions::Response::decode(encoded).unwrap(), response);
    }
    kinds.sort_unstable();
    assert_eq!(kinds, (1..=12).chain([15, 16]).collect::<Vec<u8>>());
}

#[test]
fn commands_equal_themselves_after_the_journey() {
    for command in commands(9).into_iter().chain([Command::Txn(nested(30))]) {
        assert_eq!(Command::decode(command.encode()).unwrap(), command);
    }
}

#[test]
fn a_command_keeps_its_trace_with_and_without_a_user() {
    let trace = TraceContext {
        trace: [1; 16],
        span: [2; 8],
        flags: 1,
    };
    let identity = Arc::new(Identity {
        user: "u".to_owned(),
        proof: Proof::Generation(3),
    });
    let put = || Command::Put(put("a", "1"));
    for command in [put(), put().by_user(&identity), put().by_member()] {
        assert_eq!(command.trace(), None);
        let traced = command.clone().with_trace(trace);
        let decoded = Command::decode(traced.encode()).unwrap();
        assert_eq!(decoded, traced);
        assert_eq!(decoded.trace(), Some(trace));
        assert_eq!(decoded.plain(), &put());
    }
}

#[test]
fn refusals_keep_what_clients_treat_them_by() {
    let same = |error: Error| {
        let there = Error::decode(error.encode()).unwrap();
        assert_eq!(there.to_string(), error.to_string());
        there
    };
    for &etcd in etcd_api::Error::ALL {
        assert!(matches!(same(Error::Etcd(etcd)), Error::Etcd(it) if it == etcd));
    }
    let limit = engine::Error::MemoryLimit {
        index_bytes: 9,
        memory_bytes_max: 8,
    };
    let large = engine::Error::TooLarge {
        batch_bytes: u64::MAX,
        batch_bytes_max: 8,
    };
    for error in [limit, large] {
        assert!(matches!(
            same(Error::Storage(Arc::new(error))),
            Error::Storage(_)
        ));
    }
    let other = Error::State {
        kind: 77,
        reason: "unknown kind",
    };
    let there = Error::decode(other.encode()).unwrap();
    assert_eq!(there.to_string(), format!("on the leader: {other}"));
    assert_eq!(same(there).to_string(), format!("on the leader: {other}"));
    let follows = Error::Follow("this store follows another".into());
    assert_eq!(same(follows.clone()).to_string(), follows.to_string());
    assert!(matches!(
        Error::decode(follows.encode()),
        Ok(Error::Follow(_))
    ));
    let from_the_future = Bytes::from_static(b"\x01etcdserver: never heard of");
    assert!(matches!(
        Error::decode(from_the_future),
        Ok(Error::Elsewhere(_))
    ));
}

#[test]
fn a_message_that_cannot_be_read_is_an_error() {
    for bytes in [&b""[..], b"\0", b"\x12", b"\xff\x01", b"\x01\x0a\x7f"] {
        let bytes = Bytes::copy_from_slice(bytes);
        let refused = Command::decode(bytes.clone()).unwrap_err().to_string();
        assert!(refused.contains("from another member"), "{refused}");
        assert!(revisions::Response::decode(bytes).is_err());
    }
    for bytes in [&b""[..], b"\0", b"\x02short", b"\x01\xff", b"\x05"] {
        assert!(Error::decode(Bytes::copy_from_slice(bytes)).is_err());
    }
}

#[test]
fn transactions_nest_as_deep_as_clients_may_and_no_deeper() {
    for depth in [60, 1000] {
        let encoded = Command::Txn(nested(depth)).encode();
        assert!(Command::decode(encoded).is_err(), "{depth}");
    }
}

#[test]
fn random_and_damaged_bytes_never_panic() {
    let mut random = Random::from_seed(7);
    let good: Vec<Bytes> = commands(9).iter().map(Command::encode).collect();
    for round in 0..50_000 {
        let mut bytes = match round % 2 {
            0 => vec![0; random.below(40) as usize],
            _ => good[random.below(good.len() as u64) as usize].to_vec(),
        };
        if round % 2 == 0 {
            random.fill(&mut bytes);
            if let Some(kind) = bytes.first_mut() {
                *kind %= 14;
            }
        } else {
            let place = random.below(bytes.len() as u64) as usize;
            bytes[place] = random.next_u64() as u8;
            bytes.truncate(1 + random.below(bytes.len() as u64) as usize);
        }
        let bytes = Bytes::from(bytes);
        if let Ok(command) = Command::decode(bytes.clone()) {
            assert_eq!(Command::decode(command.encode()).unwrap(), command);
        }
        if let Ok(response) = revisions::Response::decode(bytes.clone()) {
            let again = revisions::Response::decode(response.encode());
            assert_eq!(again.unwrap(), response);
        }
        let _ = Error::decode(bytes);
    }
}

#[test]
fn requests_about_leases_and_their_responses_come_back() {
    let mut store = Store::new();
    let grant = LeaseGrantRequest { id: 5, ttl: 10 };
    store.run(Command::LeaseGrant(grant)).unwrap();
    for id in [5, 6] {
        for question in [
            LeaseRequest::KeepAlive(LeaseKeepAliveRequest { id }),
            LeaseRequest::TimeToLive(LeaseTimeToLiveRequest { id, keys: true }),
        ] {
            let encoded = question.encode();
            assert_eq!(LeaseRequest::decode(encoded.clone()).unwrap(), question);
            let answer = store.reader.answer_of_lease(&question).unwrap().unwrap();
            let answered = answer.encode();
            assert_eq!(answered[0], encoded[0], "kinds go together");
            assert_eq!(LeaseResponse::decode(answered).unwrap(), answer);
            assert!(LeaseRequest::decode(encoded.slice(..1)).is_ok(), "lease 0");
        }
    }
    assert!(LeaseRequest::decode(Bytes::from_static(&[9])).is_err());
    assert!(LeaseResponse::decode(Bytes::new()).is_err());
}
