//! The service KV.

use etcd_api::Error;
use etcd_api::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use etcd_api::etcdserverpb::request_op::Request as Operation;
use etcd_api::etcdserverpb::response_op::Response as Done;
use etcd_api::etcdserverpb::{
    CompactionRequest, Compare, DeleteRangeRequest, PutRequest, RangeRequest, RequestOp, TxnRequest,
};
use tokio_stream::StreamExt;
use tonic::{Code, Status};

use crate::serving::{bytes, get, get_prefix, put, serving};

fn assert_etcd(status: &Status, error: Error) {
    assert_eq!(
        (status.code(), status.message()),
        (error.code(), error.message())
    );
}

#[tokio::test]
async fn a_key_is_read_with_its_revisions_and_the_server_s_ids() {
    let serving = serving(&[]);
    let mut kv = serving.kv().await;
    let answer = kv.put(put("a", "1")).await.unwrap().into_inner();
    let header = answer.header.unwrap();
    assert_eq!(header.revision, 2);
    assert_eq!(format!("{:x}", header.member_id), "8e9e05c52164694d");
    assert_eq!(format!("{:x}", header.cluster_id), "cdf818194e3a8c32");
    assert!(header.raft_term > 0);
    kv.put(put("a", "2")).await.unwrap();

    let answer = kv.range(get("a")).await.unwrap().into_inner();
    assert_eq!(answer.count, 1);
    let pair = answer.kvs[0].decode().unwrap();
    assert_eq!(
        (
            pair.value,
            pair.create_revision,
            pair.mod_revision,
            pair.version
        ),
        (bytes("2"), 2, 3, 2)
    );
    let old = RangeRequest {
        revision: 2,
        serializable: true,
        ..get("a")
    };
    let answer = kv.range(old).await.unwrap().into_inner();
    assert_eq!(answer.kvs[0].value(), b"1");
    assert_eq!(
        answer.header.unwrap().revision,
        3,
        "the newest revision, not the one read"
    );
}

#[tokio::test]
async fn a_key_survives_a_restart() {
    let mut serving = serving(&[]);
    serving.kv().await.put(put("a", "1")).await.unwrap();
    serving.stop();
    serving.start();
    let mut kv = serving.kv().await;
    assert_eq!(
        kv.range(get("a")).await.unwrap().into_inner().kvs[0].value(),
        b"1"
    );
    assert_eq!(
        kv.put(put("b", "2"))
            .await
            .unwrap()
            .into_inner()
            .header
            .unwrap()
            .revision,
        3
    );
}

#[tokio::test]
async fn refusals_are_etcd_s() {
    let serving = serving(&["--max-txn-ops=2"]);
    let mut kv = serving.kv().await;
    assert_etcd(&kv.put(put("", "1")).await.unwrap_err(), Error::EmptyKey);
    assert_etcd(&kv.range(get("")).await.unwrap_err(), Error::EmptyKey);
    assert_etcd(
        &kv.delete_range(DeleteRangeRequest::default())
            .await
            .unwrap_err(),
        Error::EmptyKey,
    );
    let unknown_lease = PutRequest {
        lease: 7,
        ..put("a", "1")
    };
    assert_etcd(
        &kv.put(unknown_lease).await.unwrap_err(),
        Error::LeaseNotFound,
    );
    let future = RangeRequest {
        revision: 100,
        ..get("a")
    };
    assert_etcd(&kv.range(future).await.unwrap_err(), Error::FutureRevision);
    let future = CompactionRequest {
        revision: 100,
        physical: false,
    };
    assert_etcd(
        &kv.compact(future).await.unwrap_err(),
        Error::FutureRevision,
    );
    let three = TxnRequest {
        success: vec![operation("a"), operation("b"), operation("c")],
        ..TxnRequest::default()
    };
    assert_etcd(&kv.txn(three).await.unwrap_err(), Error::TooManyOperations);
    let twice = TxnRequest {
        success: vec![operation("a"), operation("a")],
        ..TxnRequest::default()
    };
    assert_etcd(&kv.txn(twice).await.unwrap_err(), Error::DuplicateKey);
}

fn operation(key: &str) -> RequestOp {
    RequestOp {
        request: Some(Operation::RequestPut(put(key, "txn"))),
    }
}

#[tokio::test]
async fn a_request_over_the_limit_is_too_large_and_changes_nothing() {
    let serving = serving(&["--max-request-bytes=1000"]);
    let mut kv = serving.kv().await;
    let refused = kv.put(put("a", &"x".repeat(1001))).await.unwrap_err();
    assert_etcd(&refused, Error::RequestTooLarge);
    // Beyond the limit of a message it is not even read.
    let refused = kv.put(put("a", &"x".repeat(600 * 1024))).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert!(
        refused
            .message()
            .starts_with("grpc: received message larger than max ("),
        "{refused}"
    );
    let answer = kv.range(get("a")).await.unwrap().into_inner();
    assert_eq!((answer.count, answer.header.unwrap().revision), (0, 1));
}

#[tokio::test]
async fn a_transaction_takes_the_branch_of_its_comparison() {
    let serving = serving(&[]);
    let mut kv = serving.kv().await;
    kv.put(put("a", "1")).await.unwrap();
    let compare = |value| Compare {
        result: CompareResult::Equal as i32,
        target: CompareTarget::Value as i32,
        key: bytes("a"),
        target_union: Some(TargetUnion::Value(bytes(value))),
        ..Compare::default()
    };
    let txn = |value| TxnRequest {
        compare: vec![compare(value)],
        success: vec![
            RequestOp {
                request: Some(Operation::RequestRange(get("a"))),
            },
            operation("b"),
        ],
        failure: vec![RequestOp {
            request: Some(Operation::RequestRange(get("b"))),
        }],
    };
    let answer = kv.txn(txn("1")).await.unwrap().into_inner();
    assert!(answer.succeeded);
    assert_eq!(answer.header.unwrap().revision, 3);
    assert!(
        matches!(&answer.responses[0].response, Some(Done::ResponseRange(range)) if range.kvs[0].value() == b"1")
    );
    let answer = kv.txn(txn("2")).await.unwrap().into_inner();
    assert!(!answer.succeeded);
    assert!(
        matches!(&answer.responses[0].response, Some(Done::ResponseRange(range)) if range.kvs[0].value() == b"txn")
    );
}

#[tokio::test]
async fn deletion_returns_its_count_and_compaction_drops_history() {
    let serving = serving(&[]);
    let mut kv = serving.kv().await;
    for key in ["a1", "a2", "b1"] {
        kv.put(put(key, "1")).await.unwrap();
    }
    let request = DeleteRangeRequest {
        key: bytes("a"),
        range_end: bytes("b"),
        prev_kv: true,
    };
    let answer = kv.delete_range(request).await.unwrap().into_inner();
    assert_eq!((answer.deleted, answer.prev_kvs.len()), (2, 2));
    kv.compact(CompactionRequest {
        revision: 5,
        physical: true,
    })
    .await
    .unwrap();
    let old = RangeRequest {
        revision: 4,
        ..get("a1")
    };
    assert_etcd(&kv.range(old).await.unwrap_err(), Error::Compacted);
}

#[tokio::test]
async fn a_long_range_comes_whole_and_in_chunks() {
    let serving = serving(&["--durability=os"]);
    let mut kv = serving.kv().await;
    for batch in 0..24 {
        let success = (0..100).map(|place| operation(&format!("k{:05}", batch * 100 + place)));
        kv.txn(TxnRequest {
            success: success.collect(),
            ..TxnRequest::default()
        })
        .await
        .unwrap();
    }
    let answer = kv.range(get_prefix('k')).await.unwrap().into_inner();
    assert_eq!((answer.count, answer.kvs.len()), (2400, 2400));
    let mut chunks = kv.range_stream(get_prefix('k')).await.unwrap().into_inner();
    let mut keys = Vec::new();
    let mut count = 0;
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.unwrap().range_response.unwrap();
        keys.extend(chunk.kvs.iter().map(|pair| pair.key().to_vec()));
        if let Some(header) = chunk.header {
            assert!(header.member_id > 0);
            count = chunk.count;
        }
    }
    assert_eq!((count, keys.len()), (2400, 2400));
    assert!(keys.is_sorted());
    let sorted = RangeRequest {
        sort_order: 2,
        ..get_prefix('k')
    };
    assert_eq!(
        kv.range_stream(sorted).await.unwrap_err().code(),
        Code::Unimplemented
    );
}

#[tokio::test]
async fn puts_over_the_quota_are_refused_until_the_alarm_is_disarmed() {
    let serving = serving(&["--quota-backend-bytes=20000"]);
    let mut kv = serving.kv().await;
    let mut refused = None;
    for _ in 0..50 {
        if let Err(status) = kv.put(put("a", &"x".repeat(1000))).await {
            refused = Some(status);
            break;
        }
    }
    assert_etcd(
        &refused.expect("the quota is long exceeded"),
        Error::NoSpace,
    );
    assert_eq!(kv.range(get("a")).await.unwrap().into_inner().count, 1);
    kv.delete_range(DeleteRangeRequest {
        key: bytes("a"),
        ..Default::default()
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn writes_return_large_previous_values_whole() {
    const KEYS: usize = 4;
    let serving = serving(&[]);
    let mut kv = serving.kv().await.max_decoding_message_size(usize::MAX);
    let value = |number: usize| ::bytes::Bytes::from(vec![number as u8; 1 << 20]);
    for number in 0..KEYS {
        let request = PutRequest {
            value: value(number),
            ..put(&format!("k{number}"), "")
        };
        kv.put(request).await.unwrap();
    }
    let request = PutRequest {
        prev_kv: true,
        value: value(0),
        ..put("k0", "")
    };
    let response = kv.put(request).await.unwrap().into_inner();
    assert_eq!(response.prev_kv.unwrap().value(), value(0));
    let all = get_prefix('k');
    let request = DeleteRangeRequest {
        key: all.key,
        range_end: all.range_end,
        prev_kv: true,
    };
    let response = kv.delete_range(request).await.unwrap().into_inner();
    assert_eq!(response.deleted, KEYS as i64);
    let previous = response.prev_kvs.iter().map(|kv| kv.value().to_vec());
    assert!(previous.eq((0..KEYS).map(|number| value(number).to_vec())));
}
