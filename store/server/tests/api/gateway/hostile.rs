//! Clients of the gateway that mean no good.

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::client::{Answer, post};
use super::{address, ok, result, stream};
use crate::serving::{Serving, put, serving};

/// The server still answers.
async fn is_served(serving: &Serving) {
    ok(serving, "/v3/kv/range", json!({"key": "YQ=="})).await;
}

#[tokio::test]
async fn bodies_over_the_limit_are_refused() {
    let serving = serving(&["--max-request-bytes=1000"]);
    let value = |bytes: usize| format!(r#"{{"key":"YQ==","value":"{}"}}"#, "A".repeat(bytes));
    let (status, text) = post(address(&serving), "/v3/kv/put", &value(4_000)).await;
    assert_eq!(
        (status, text.contains("request is too large")),
        (400, true),
        "{text}"
    );
    // More than any message of gRPC may have.
    let (status, text) = post(address(&serving), "/v3/kv/put", &value(1_200_000)).await;
    assert_eq!(
        (status, text.contains("larger than max")),
        (429, true),
        "{text}"
    );
    is_served(&serving).await;
}

#[tokio::test]
async fn a_body_without_end_is_refused_before_it_is_received() {
    let serving = serving(&[]);
    let mut socket = TcpStream::connect(address(&serving)).await.unwrap();
    let head = "POST /v3/kv/put HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
    socket.write_all(head.as_bytes()).await.unwrap();
    let chunk = format!("{:x}\r\n{}\r\n", 1 << 20, "[".repeat(1 << 20));
    let mut sent = 0;
    while sent < 1 << 10 && socket.write_all(chunk.as_bytes()).await.is_ok() {
        sent += 1;
    }
    assert!(sent < 100, "{sent} MiB were taken");
    is_served(&serving).await;
}

#[tokio::test]
async fn nesting_and_parts_are_bounded() {
    let serving = serving(&[]);
    let deep = r#"{"success":[{"request_txn":"#.repeat(10_000);
    let closed = format!("{deep}{{}}{}", "}]}".repeat(10_000));
    let many = format!(r#"{{"success":[{}{{}}]}}"#, "{},".repeat(600_000));
    for (body, status) in [(deep, 400), (closed, 400), (many, 429)] {
        let (answer, text) = post(address(&serving), "/v3/kv/txn", &body).await;
        assert_eq!(answer, status, "{}", &text[..text.len().min(200)]);
    }
    is_served(&serving).await;
}

#[tokio::test]
async fn garbage_in_a_stream_ends_it_with_an_error() {
    let serving = serving(&[]);
    for body in ["garbage", "{", "\0", "{\"ID\":\"1\"} }"] {
        let (status, text) = post(address(&serving), "/v3/lease/keepalive", body).await;
        let last = text.lines().last().unwrap();
        assert!(last.starts_with(r#"{"error":{"code":3,"#), "{body}: {text}");
        let begun = text.lines().count() > 1;
        assert_eq!(status, if begun { 200 } else { 400 }, "{body}");
    }
    is_served(&serving).await;
}

/// The watch falls behind instead of filling memory, and has everything when it is read.
#[tokio::test]
async fn a_watch_that_is_not_read_gets_everything_later() {
    let serving = serving(&[]);
    let create = json!({"create_request": {"key": "YQ=="}});
    let mut watch = stream(&serving, "/v3/watch", create).await;
    result(&mut watch).await;
    let mut kv = serving.kv().await;
    let value = "v".repeat(100_000);
    for _ in 0..100 {
        kv.put(put("a", &value)).await.unwrap();
    }
    let mut versions = 0;
    while versions < 100 {
        let events = result(&mut watch).await;
        for event in events["events"].as_array().unwrap() {
            versions += 1;
            assert_eq!(event["kv"]["version"], versions.to_string());
        }
    }
}

#[tokio::test]
async fn a_client_that_goes_away_in_a_large_answer_leaves_the_server_whole() {
    let serving = serving(&[]);
    let mut kv = serving.kv().await;
    let value = "v".repeat(1_000_000);
    for key in ["a", "b", "c", "d"] {
        kv.put(put(key, &value)).await.unwrap();
    }
    for _ in 0..20 {
        let range = json!({"key": "YQ==", "range_end": "eg=="});
        drop(stream(&serving, "/v3/kv/range", range).await);
    }
    let found = ok(
        &serving,
        "/v3/kv/range",
        json!({"key": "YQ==", "range_end": "eg=="}),
    )
    .await;
    assert_eq!(found["count"], "4");
}

#[tokio::test]
async fn a_body_that_breaks_off_is_no_request() {
    let serving = serving(&[]);
    let mut socket = TcpStream::connect(address(&serving)).await.unwrap();
    let head = "POST /v3/kv/put HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n";
    let begun = format!(r#"{head}{{"key":"YQ==""#);
    socket.write_all(begun.as_bytes()).await.unwrap();
    socket.shutdown().await.unwrap();
    let mut rest = String::new();
    let read = tokio::time::timeout(Duration::from_secs(20), socket.read_to_string(&mut rest));
    let _ = read.await.expect("the server ends the connection");
    let found = ok(&serving, "/v3/kv/range", json!({"key": "YQ=="})).await;
    assert_eq!(found.get("count"), None);
}

#[tokio::test]
async fn a_value_that_arrives_byte_by_byte_is_a_request() {
    let serving = serving(&[]);
    let mut socket = TcpStream::connect(address(&serving)).await.unwrap();
    let body = r#"{"key":"YQ==","value":"MQ=="}"#;
    let head = format!(
        "POST /v3/kv/put HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    for byte in format!("{head}{body}").bytes() {
        socket.write_all(&[byte]).await.unwrap();
        tokio::task::yield_now().await;
    }
    assert_eq!(Answer::of(socket).await.status, 200);
    is_served(&serving).await;
}

/// The number of claims to the lock `job`.
async fn claims(serving: &Serving) -> String {
    let range = json!({"key": "am9iLw==", "range_end": "am9iMA==", "count_only": true});
    let answer = ok(serving, "/v3/kv/range", range).await;
    answer["count"].as_str().unwrap().to_owned()
}

async fn wait_for_claims(serving: &Serving, count: &str) {
    while claims(serving).await != count {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_client_that_leaves_in_the_middle_of_its_body_gives_up_its_claim() {
    let serving = serving(&[]);
    ok(&serving, "/v3/lock/lock", json!({"name": "am9i"})).await;
    let mut socket = TcpStream::connect(address(&serving)).await.unwrap();
    let head = "POST /v3/lock/lock HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
    let body = "f\r\n{\"name\":\"am9i\"}\r\n";
    socket
        .write_all(format!("{head}{body}").as_bytes())
        .await
        .unwrap();
    wait_for_claims(&serving, "2").await;
    drop(socket);
    wait_for_claims(&serving, "1").await;
}

#[tokio::test]
async fn a_websocket_that_closes_behind_further_messages_gives_up_its_claim() {
    let serving = serving(&[]);
    ok(&serving, "/v3/lock/lock", json!({"name": "am9i"})).await;
    let mut socket = super::websocket::open(&serving, "/v3/lock/lock", &[])
        .await
        .unwrap();
    super::websocket::send(&mut socket, json!({"name": "am9i"})).await;
    for _ in 0..4 {
        super::websocket::send(&mut socket, json!({})).await;
    }
    wait_for_claims(&serving, "2").await;
    drop(socket);
    wait_for_claims(&serving, "1").await;
}
