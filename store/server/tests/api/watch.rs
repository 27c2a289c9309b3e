//! The service Watch.

use etcd_api::etcdserverpb::watch_client::WatchClient;
use etcd_api::etcdserverpb::watch_request::RequestUnion;
use etcd_api::etcdserverpb::{
    PutRequest, RequestOp, TxnRequest, WatchCancelRequest, WatchCreateRequest,
    WatchProgressRequest, WatchRequest, WatchResponse, request_op,
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming};

use crate::serving::{Serving, bytes, put, serving};

/// Both ends of a watch stream.
struct Watching {
    requests: mpsc::Sender<WatchRequest>,
    responses: Streaming<WatchResponse>,
}

impl Watching {
    async fn open(serving: &Serving) -> Watching {
        let mut client = WatchClient::new(serving.channel().await);
        let (requests, queue) = mpsc::channel(16);
        let responses = client
            .watch(ReceiverStream::new(queue))
            .await
            .unwrap()
            .into_inner();
        Watching {
            requests,
            responses,
        }
    }

    async fn ask(&self, request: RequestUnion) {
        let request = WatchRequest {
            request_union: Some(request),
        };
        self.requests.send(request).await.unwrap();
    }

    async fn create(&mut self, request: WatchCreateRequest) -> WatchResponse {
        self.ask(RequestUnion::CreateRequest(request)).await;
        self.next().await
    }

    async fn next(&mut self) -> WatchResponse {
        self.responses
            .message()
            .await
            .unwrap()
            .expect("the stream has another response")
    }

    async fn end(&mut self) -> Status {
        loop {
            match self.responses.message().await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("the stream ended without a reason"),
                Err(status) => return status,
            }
        }
    }
}

fn create(key: &str) -> WatchCreateRequest {
    WatchCreateRequest {
        key: bytes(key),
        ..WatchCreateRequest::default()
    }
}

/// A transaction of 64 puts of 10 KiB each: more than is read from the log in one go.
fn large_transaction(round: u8) -> TxnRequest {
    let success = (0..64).map(|number| RequestOp {
        request: Some(request_op::Request::RequestPut(PutRequest {
            value: vec![round; 10 << 10].into(),
            ..put(&format!("key{number:02}"), "")
        })),
    });
    TxnRequest {
        success: success.collect(),
        ..TxnRequest::default()
    }
}

/// The revisions of an answer's events.
fn revisions(response: &WatchResponse) -> Vec<i64> {
    let events = response.events.iter();
    let revisions = events.map(|event| event.kv.as_ref().unwrap().mod_revision());
    revisions.collect()
}

#[tokio::test]
async fn a_watch_that_catches_up_gets_whole_revisions_in_several_answers() {
    const ROUNDS: u8 = 4;
    let serving = serving(&[]);
    let mut kv = serving.kv().await;
    for round in 0..ROUNDS {
        kv.txn(large_transaction(round)).await.unwrap();
        kv.put(put("small", "1")).await.unwrap();
    }
    let last = 1 + 2 * i64::from(ROUNDS);
    let mut watching = Watching::open(&serving).await;
    let all = WatchCreateRequest {
        range_end: bytes("\0"),
        start_revision: 2,
        ..create("a")
    };
    assert!(watching.create(all).await.created);
    let mut answers = 0;
    let mut next = 2;
    while next <= last {
        let response = watching.next().await;
        assert!(!response.fragment, "it was not asked for");
        let found = revisions(&response);
        assert_eq!(
            found[0], next,
            "nothing is left out, and no revision comes twice"
        );
        for changes in found.chunk_by(|a, b| a == b) {
            let expected = if next % 2 == 0 { 64 } else { 1 };
            assert_eq!((changes[0], changes.len()), (next, expected));
            next += 1;
        }
        assert_eq!(response.header.unwrap().revision, next - 1);
        answers += 1;
    }
    assert!(answers > 1, "history comes in pieces");
}

#[tokio::test]
async fn events_come_in_order_with_previous_values() {
    let serving = serving(&[]);
    let mut kv = serving.kv().await;
    let mut watching = Watching::open(&serving).await;
    let created = watching
        .create(WatchCreateRequest {
            prev_kv: true,
            ..create("a")
        })
        .await;
    assert!(created.created && !created.canceled);
    assert!(created.header.unwrap().member_id > 0);
    kv.put(put("a", "1")).await.unwrap();
    kv.put(put("b", "not watched")).await.unwrap();
    kv.put(put("a", "2")).await.unwrap();
    let mut events = Vec::new();
    while events.len() < 2 {
        events.extend(watching.next().await.events);
    }
    let values: Vec<_> = events
        .iter()
        .map(|event| event.kv.as_ref().unwrap().value().to_vec())
        .collect();
    assert_eq!(values, [b"1", b"2"]);
    assert_eq!(events[1].prev_kv.as_ref().unwrap().value(), b"1");
}

#[tokio::test]
async fn history_is_replayed_and_a_watch_can_be_canceled_among_others() {
    let serving = serving(&[]);
    let mut kv = serving.kv().await;
    for value in ["1", "2", "3"] {
        kv.put(put("a", value)).await.unwrap();
    }
    let mut watching = Watching::open(&serving).await;
    let first = watching
        .create(WatchCreateRequest {
            start_revision: 3,
            ..create("a")
        })
        .await;
    let mut replayed = 0;
    while replayed < 2 {
        replayed += watching.next().await.events.len();
    }
    let second = watching.create(create("a")).await;
    assert_ne!(first.watch_id, second.watch_id);
    watching
        .ask(RequestUnion::CancelRequest(WatchCancelRequest {
            watch_id: first.watch_id,
        }))
        .await;
    let canceled = watching.next().await;
    assert!(canceled.canceled);
    assert_eq!(canceled.watch_id, first.watch_id);
    kv.put(put("a", "4")).await.unwrap();
    let event = watching.next().await;
    assert_eq!((event.watch_id, event.events.len()), (second.watch_id, 1));
}

#[tokio::test]
async fn a_progress_request_is_answered() {
    let serving = serving(&[]);
    serving.kv().await.put(put("a", "1")).await.unwrap();
    let mut watching = Watching::open(&serving).await;
    watching.create(create("a")).await;
    watching
        .ask(RequestUnion::ProgressRequest(WatchProgressRequest {}))
        .await;
    let progress = watching.next().await;
    assert_eq!(
        (progress.watch_id, progress.header.unwrap().revision),
        (-1, 2)
    );
    assert!(progress.events.is_empty());
}

#[tokio::test]
async fn quiet_watches_get_notices_at_the_configured_interval() {
    let serving = serving(&["--watch-progress-notify-interval=100ms"]);
    let mut watching = Watching::open(&serving).await;
    let request = WatchCreateRequest {
        progress_notify: true,
        ..create("a")
    };
    let created = watching.create(request).await;
    let notice = watching.next().await;
    assert_eq!(notice.watch_id, created.watch_id);
    assert!(notice.events.is_empty() && !notice.created);
}

#[tokio::test]
async fn a_client_that_reads_late_delays_no_other_and_misses_no_event() {
    let serving = serving(&["--durability=os"]);
    let mut kv = serving.kv().await;
    let mut sleeping = Watching::open(&serving).await;
    let mut awake = Watching::open(&serving).await;
    sleeping.create(create("a")).await;
    awake.create(create("a")).await;
    // Far more than any window or buffer between client and server.
    let value = "x".repeat(200_000);
    let puts = 100;
    let mut seen = 0;
    for _ in 0..puts {
        kv.put(put("a", &value)).await.unwrap();
        seen += awake.next().await.events.len();
    }
    assert_eq!(seen, puts);
    let mut caught_up = Vec::new();
    while caught_up.len() < puts {
        let events = sleeping.next().await.events;
        caught_up.extend(
            events
                .iter()
                .map(|event| event.kv.as_ref().unwrap().version()),
        );
    }
    assert_eq!(caught_up, (1..=puts as i64).collect::<Vec<_>>());
}

#[tokio::test]
async fn streams_end_with_a_reason_when_the_server_stops() {
    let mut serving = serving(&[]);
    let mut watching = Watching::open(&serving).await;
    watching.create(create("a")).await;
    let stopped = tokio::task::spawn_blocking(move || serving.stop());
    let status = watching.end().await;
    assert_eq!(status.code(), Code::Unavailable);
    stopped.await.unwrap();
}

#[tokio::test]
async fn watches_are_counted_while_they_live() {
    let serving = serving(&[]);
    let mut watching = Watching::open(&serving).await;
    watching.create(create("a")).await;
    watching.create(create("b")).await;
    let page = crate::http::get(&serving, "/metrics").await.body;
    assert!(page.contains("\netcd_debugging_mvcc_watcher_total 2\n"));
    drop(watching);
    loop {
        let page = crate::http::get(&serving, "/metrics").await.body;
        if page.contains("\netcd_debugging_mvcc_watcher_total 0\n") {
            assert!(page.contains("\netcd_debugging_mvcc_watch_stream_total 0\n"));
            break;
        }
    }
}
