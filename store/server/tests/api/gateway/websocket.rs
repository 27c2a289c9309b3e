//! The gateway over WebSocket.

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async};

use super::{address, ok};
use crate::serving::{Serving, put, serving};

type Socket = WebSocketStream<TcpStream>;

/// Opens a WebSocket with more headers. The error is the status of a refusal.
pub async fn open(
    serving: &Serving,
    path: &str,
    headers: &[(&'static str, &str)],
) -> Result<Socket, u16> {
    let socket = TcpStream::connect(address(serving)).await.unwrap();
    let url = format!("ws://{}{path}", address(serving));
    let mut request = url.into_client_request().unwrap();
    for (name, value) in headers {
        let value = HeaderValue::from_str(value).unwrap();
        request.headers_mut().insert(*name, value);
    }
    match client_async(request, socket).await {
        Ok((socket, _)) => Ok(socket),
        Err(Error::Http(response)) => Err(response.status().as_u16()),
        Err(error) => panic!("{error}"),
    }
}

pub async fn send(socket: &mut Socket, message: Value) {
    socket
        .send(Message::text(message.to_string()))
        .await
        .unwrap();
}

/// The next message; `None` after the end.
async fn next(socket: &mut Socket) -> Option<Value> {
    match socket.next().await.map(Result::unwrap) {
        Some(Message::Text(text)) => Some(serde_json::from_str(&text).unwrap()),
        Some(Message::Close(_)) | None => None,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_watch_takes_requests_and_sends_events_as_messages() {
    let serving = serving(&[]);
    let mut socket = open(&serving, "/v3/watch", &[]).await.unwrap();
    send(
        &mut socket,
        json!({"create_request": {"key": "YQ==", "watch_id": 1}}),
    )
    .await;
    assert_eq!(next(&mut socket).await.unwrap()["result"]["created"], true);
    let large = "v".repeat(300_000);
    for value in ["1", &large] {
        serving.kv().await.put(put("a", value)).await.unwrap();
        let events = next(&mut socket).await.unwrap();
        let found = events["result"]["events"][0]["kv"]["value"]
            .as_str()
            .unwrap();
        assert_eq!(found.len(), value.len().div_ceil(3) * 4);
    }
    send(&mut socket, json!({"cancel_request": {"watch_id": 1}})).await;
    assert_eq!(next(&mut socket).await.unwrap()["result"]["canceled"], true);
    socket.close(None).await.unwrap();
    assert_eq!(next(&mut socket).await, None);
}

#[tokio::test]
async fn a_unary_call_is_one_message_each_way() {
    let serving = serving(&[]);
    let mut socket = open(&serving, "/v3/kv/put", &[]).await.unwrap();
    send(&mut socket, json!({"key": "YQ=="})).await;
    assert_eq!(next(&mut socket).await.unwrap()["header"]["revision"], "2");
    assert_eq!(next(&mut socket).await, None);
    let mut socket = open(&serving, "/v3/kv/put", &[]).await.unwrap();
    send(&mut socket, json!({})).await;
    assert_eq!(next(&mut socket).await.unwrap()["code"], 3);
    assert_eq!(next(&mut socket).await, None);
}

#[tokio::test]
async fn a_token_comes_as_a_subprotocol() {
    let serving = serving(&[]);
    let headers = [("sec-websocket-protocol", "Bearer, abc")];
    let mut socket = open(&serving, "/v3/kv/range", &headers).await.unwrap();
    send(&mut socket, json!({"key": "YQ=="})).await;
    assert!(next(&mut socket).await.is_some());
}

#[tokio::test]
async fn handshakes_that_are_none_are_refused() {
    let other_origin = [("origin", "http://b")];
    let listed = serving(&["--cors=http://a"]);
    assert_eq!(
        open(&listed, "/v3/watch", &other_origin).await.unwrap_err(),
        403
    );
    assert!(
        open(&listed, "/v3/watch", &[("origin", "http://a")])
            .await
            .is_ok()
    );
    assert!(open(&listed, "/v3/watch", &[]).await.is_ok(), "no browser");
    let serving = serving(&[]);
    assert!(open(&serving, "/v3/watch", &other_origin).await.is_ok());
    assert_eq!(open(&serving, "/v3/nothing", &[]).await.unwrap_err(), 404);
    let version = [("sec-websocket-version", "12")];
    assert_eq!(
        open(&serving, "/v3/watch", &version).await.unwrap_err(),
        400
    );
}

/// Sends bytes after a handshake, and returns what the server sends until it closes.
async fn raw(serving: &Serving, bytes: &[u8]) -> Vec<u8> {
    let mut socket = TcpStream::connect(address(serving)).await.unwrap();
    let handshake = "GET /v3/watch HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\n\
                     Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                     Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    socket.write_all(handshake.as_bytes()).await.unwrap();
    socket.write_all(bytes).await.unwrap();
    let mut received = Vec::new();
    // A reset is an end as well.
    let _ = socket.read_to_end(&mut received).await;
    received
}

#[tokio::test]
async fn frames_that_break_the_protocol_end_the_connection() {
    let serving = serving(&[]);
    for frame in [
        // Not masked.
        &[0x81, 2, b'{', b'}'][..],
        // Reserved bits.
        &[0xf1, 0x80, 0, 0, 0, 0],
        // A continuation of nothing.
        &[0x80, 0x80, 0, 0, 0, 0],
        // Longer than any request: 2^62 bytes.
        &[0x81, 0xff, 0x40, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        // A control frame in two parts.
        &[0x09, 0x80, 0, 0, 0, 0],
    ] {
        let received = raw(&serving, frame).await;
        assert!(received.starts_with(b"HTTP/1.1 101"), "{frame:?}");
    }
    ok(&serving, "/v3/kv/range", json!({"key": "YQ=="})).await;
}

#[tokio::test]
async fn half_a_frame_holds_up_no_other_client_and_no_stop() {
    let mut serving = serving(&[]);
    let mut half = Vec::new();
    for _ in 0..50 {
        let socket = open(&serving, "/v3/watch", &[]).await.unwrap();
        let mut socket = socket.into_inner();
        // A frame of 1 MiB, of which 1,000 bytes come.
        socket
            .write_all(&[0x81, 0xff, 0, 0, 0, 0, 0, 0x10, 0, 0, 1, 2, 3, 4])
            .await
            .unwrap();
        socket.write_all(&[7; 1000]).await.unwrap();
        half.push(socket);
    }
    ok(&serving, "/v3/kv/range", json!({"key": "YQ=="})).await;
    tokio::task::spawn_blocking(move || serving.stop())
        .await
        .unwrap();
}

#[tokio::test]
async fn a_watch_that_is_read_late_gets_everything() {
    let serving = serving(&[]);
    let mut kv = serving.kv().await;
    let mut socket = open(&serving, "/v3/watch", &[]).await.unwrap();
    send(&mut socket, json!({"create_request": {"key": "YQ=="}})).await;
    assert!(next(&mut socket).await.is_some());
    let value = "v".repeat(200_000);
    for _ in 0..100 {
        kv.put(put("a", &value)).await.unwrap();
    }
    let mut versions = 0;
    while versions < 100 {
        let message = next(&mut socket).await.unwrap();
        versions += message["result"]["events"].as_array().unwrap().len();
    }
}
