//! A client that sends requests and does not read the answers: the process survives, other
//! clients are served, and the client gets its answers once it reads.

use std::time::Duration;

use etcd_api::etcdserverpb::request_op::Request as Operation;
use etcd_api::etcdserverpb::{PutRequest, RangeRequest, RequestOp, TxnRequest};
use h2::RecvStream;
use h2::client::{Builder, ResponseFuture};
use tokio::task::JoinSet;

use crate::raw::Raw;
use crate::served::{Client, Served};

/// Memory that the process may allocate.
const MEMORY_BYTES: u64 = 768 << 20;
const MEMORY_BYTES_SMALL: u64 = 512 << 20;
const LOOKS: usize = 30;
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Range of the keys with values of 1 MiB.
const LARGE: [&str; 2] = ["large/", "large0"];

async fn put_large(client: &Client, values: usize) {
    for number in 0..values {
        let key = format!("{}{number:03}", LARGE[0]);
        client.put(&key, vec![number as u8; 1 << 20]).await.unwrap();
    }
}

fn large() -> RangeRequest {
    let [key, range_end] = LARGE.map(Into::into);
    RangeRequest {
        key,
        range_end,
        ..RangeRequest::default()
    }
}

/// A connection on which the server can send only headers.
async fn closed_window(served: &Served) -> Raw {
    Raw::connect(served.address(), Builder::new().initial_window_size(0)).await
}

/// Answers of many calls, all of them unread.
async fn unread(
    raw: &mut Raw,
    method: &str,
    message: &impl prost::Message,
    calls: usize,
) -> Vec<ResponseFuture> {
    let mut answers = Vec::new();
    for _ in 0..calls {
        answers.push(raw.call(method, message).await);
    }
    answers
}

/// Checks for a while that another connection is served.
async fn others_are_served(served: &Served) {
    let other = served.connect().await;
    for look in 0..LOOKS {
        let value = vec![look as u8];
        other.put("small", value.clone()).await.unwrap();
        assert_eq!(other.get("small").await.unwrap(), value);
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Reads an answer to its end; returns its number of bytes and its status.
async fn read(answer: ResponseFuture) -> (usize, String) {
    let answer = answer.await.unwrap();
    let mut body: RecvStream = answer.into_body();
    let mut bytes = 0;
    while let Some(data) = body.data().await {
        let data = data.unwrap();
        bytes += data.len();
        body.flow_control().release_capacity(data.len()).unwrap();
    }
    let trailers = body.trailers().await.unwrap().unwrap();
    (bytes, trailers["grpc-status"].to_str().unwrap().to_owned())
}

async fn read_all(answers: Vec<ResponseFuture>) -> Vec<(usize, String)> {
    let reading = answers.into_iter().map(read);
    reading.collect::<JoinSet<_>>().join_all().await
}

#[tokio::test]
async fn range_streams_that_are_not_read_keep_no_memory_from_other_connections() {
    let place = tempfile::tempdir().unwrap();
    let served = Served::start_within(MEMORY_BYTES_SMALL, place.path());
    let client = served.connect().await;
    put_large(&client, 12).await;
    let mut raw = closed_window(&served).await;
    let _streams = unread(&mut raw, "KV/RangeStream", &large(), 60).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    for _ in 0..5 {
        let found = client.kv().range(large()).await.unwrap().into_inner();
        assert_eq!(found.kvs.len(), 12);
        let mut chunks = client
            .kv()
            .range_stream(large())
            .await
            .unwrap()
            .into_inner();
        let mut kvs = 0;
        while let Some(chunk) = chunks.message().await.unwrap() {
            kvs += chunk.range_response.unwrap().kvs.len();
        }
        assert_eq!(kvs, 12);
    }
}

#[tokio::test]
async fn an_unread_range_stream_ends_when_another_of_its_connection_waits() {
    const RESOURCE_EXHAUSTED: &str = "8";
    let place = tempfile::tempdir().unwrap();
    let served = Served::start_within(MEMORY_BYTES_SMALL, place.path());
    let client = served.connect().await;
    put_large(&client, 12).await;
    let mut raw = Raw::connect(
        served.address(),
        Builder::new().initial_window_size(100_000),
    )
    .await;
    let streams = unread(&mut raw, "KV/RangeStream", &large(), 30).await;
    // As many streams as the connection's share allows are open, and the others wait.
    tokio::time::sleep(Duration::from_secs(13)).await;
    let statuses = read_all(streams).await;
    let statuses: Vec<String> = statuses.into_iter().map(|(_, status)| status).collect();
    let given_way = statuses.iter().filter(|it| *it == RESOURCE_EXHAUSTED);
    assert!(given_way.count() > 0, "{statuses:?}");
    assert!(statuses.contains(&"0".to_owned()), "{statuses:?}");
    assert_eq!(
        client
            .kv()
            .range(large())
            .await
            .unwrap()
            .into_inner()
            .kvs
            .len(),
        12
    );
}

#[tokio::test]
async fn unread_answers_of_writing_transactions_take_bounded_memory() {
    let place = tempfile::tempdir().unwrap();
    let served = Served::start_within(MEMORY_BYTES, place.path());
    let client = served.connect().await;
    put_large(&client, 14).await;
    let operation = |request| RequestOp {
        request: Some(request),
    };
    let put = PutRequest {
        key: "written".into(),
        ..PutRequest::default()
    };
    let transaction = TxnRequest {
        success: vec![
            operation(Operation::RequestPut(put)),
            operation(Operation::RequestRange(large())),
        ],
        ..TxnRequest::default()
    };
    let mut raw = closed_window(&served).await;
    let _answers = unread(&mut raw, "KV/Txn", &transaction, 80).await;
    others_are_served(&served).await;
    let answered = client.kv().txn(transaction).await.unwrap().into_inner();
    assert_eq!(answered.responses.len(), 2);
}

#[tokio::test]
async fn gets_behind_unread_answers_wait_and_are_all_answered_once_the_client_reads() {
    const GETS: usize = 3_600;
    const VALUE_BYTES: usize = 120_000;
    let place = tempfile::tempdir().unwrap();
    let served = Served::start_within(MEMORY_BYTES, place.path());
    let client = served.connect().await;
    client.put("a", vec![7; VALUE_BYTES]).await.unwrap();
    let get = RangeRequest {
        key: "a".into(),
        ..RangeRequest::default()
    };
    let mut raw = Raw::connect(
        served.address(),
        Builder::new().initial_window_size(1 << 20),
    )
    .await;
    let answers = unread(&mut raw, "KV/Range", &get, GETS).await;
    others_are_served(&served).await;
    for (bytes, status) in read_all(answers).await {
        assert!(bytes > VALUE_BYTES && status == "0", "{bytes} {status}");
    }
}
