//! Connections: many, idle, broken, over a Unix socket.

use std::time::Duration;

use etcd_api::etcdserverpb::kv_client::KvClient;
use etcd_api::etcdserverpb::watch_client::WatchClient;
use etcd_api::etcdserverpb::watch_request::RequestUnion;
use etcd_api::etcdserverpb::{WatchCreateRequest, WatchRequest, WatchResponse};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::transport::{Channel, Endpoint, Uri};

use crate::serving::{Serving, get, put, refusal, serving};

/// Several times as long as a connection may be silent.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn hundreds_of_idle_connections_do_not_keep_others_out() {
    let serving = serving(&[]);
    let address = serving.endpoint.trim_start_matches("http://");
    let mut idle = Vec::new();
    for _ in 0..400 {
        idle.push(TcpStream::connect(address).await.unwrap());
    }
    let mut speaking = Vec::new();
    for _ in 0..50 {
        let mut kv = serving.kv().await;
        kv.put(put("a", "1")).await.unwrap();
        speaking.push(kv);
    }
    let page = crate::http::get(&serving, "/metrics").await.body;
    let open: usize = page
        .lines()
        .find_map(|line| line.strip_prefix("inkstone_connections "))
        .unwrap()
        .parse()
        .unwrap();
    assert!(open >= 450, "{open}");
}

#[tokio::test]
async fn bytes_that_are_not_http_are_answered_or_their_connection_is_closed() {
    let serving = serving(&[]);
    let address = serving.endpoint.trim_start_matches("http://");
    let mut garbage = TcpStream::connect(address).await.unwrap();
    garbage
        .write_all(b"\x00\x01\x02 this is no request\r\n\r\n")
        .await
        .unwrap();
    let mut answer = Vec::new();
    garbage.read_to_end(&mut answer).await.unwrap();
    // A preface of HTTP/2 that is cut off.
    let mut torn = TcpStream::connect(address).await.unwrap();
    torn.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n")
        .await
        .unwrap();
    drop(torn);
    serving.kv().await.put(put("a", "1")).await.unwrap();
}

/// The test waits for as long as the server does; a speaking client outlives the silent ones.
#[tokio::test]
async fn connections_that_say_nothing_or_half_a_preface_are_closed() {
    let serving = serving(&[]);
    let address = serving.endpoint.trim_start_matches("http://");
    let mut speaking = serving.kv().await;
    speaking.put(put("a", "1")).await.unwrap();
    let mut silent = Vec::new();
    for beginning in [
        "",
        "PRI * HTTP/2.0\r\n",
        "GET /health HTTP/1.1\r\nHost: x\r\n",
    ] {
        let mut socket = TcpStream::connect(address).await.unwrap();
        socket.write_all(beginning.as_bytes()).await.unwrap();
        silent.push(socket);
    }
    for mut socket in silent {
        let mut answer = Vec::new();
        // A reset ends it as well.
        let ended = timeout(PATIENCE, socket.read_to_end(&mut answer)).await;
        assert!(ended.is_ok(), "a silent connection is kept");
    }
    speaking.put(put("a", "2")).await.unwrap();
}

#[tokio::test]
async fn a_unix_socket_serves_like_a_tcp_socket() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s.sock");
    let url = format!("--listen-client-urls=unix://{}", path.display());
    let mut serving = serving(&[&url]);
    let file = path.clone();
    let connect = tower::service_fn(move |_: Uri| {
        let file = file.clone();
        async move { UnixStream::connect(file).await.map(TokioIo::new) }
    });
    let channel: Channel = Endpoint::from_static("http://localhost")
        .connect_with_connector(connect)
        .await
        .unwrap();
    let mut kv = KvClient::new(channel);
    kv.put(put("a", "1")).await.unwrap();
    assert_eq!(kv.range(get("a")).await.unwrap().into_inner().count, 1);
    serving.stop();
    assert!(!path.exists(), "the file goes with the server");
}

#[tokio::test]
async fn listening_at_an_address_of_another_machine_is_refused_with_the_reason() {
    let refused = refusal(&["--listen-metrics-urls=http://192.0.2.1:2381"]);
    assert!(refused.contains("no such address"), "{refused}");
    assert!(refused.contains("--listen-metrics-urls"), "{refused}");
}

#[tokio::test]
async fn a_start_that_fails_leaves_no_socket_behind() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s.sock");
    let listen = format!("--listen-client-urls=unix://{}", path.display());
    let first = serving(&[]);
    let data = format!("--data-dir={}", first.directory().join("data").display());
    let refused = refusal(&[&listen, &data]);
    assert!(refused.contains("is in use"), "{refused}");
    assert!(!path.exists());
}

#[tokio::test]
async fn a_second_server_is_refused_with_the_port_and_the_directory() {
    let first = serving(&[]);
    let listen = format!("--listen-client-urls={}", first.endpoint);
    let refused = refusal(&[&listen]);
    let expected = format!("cannot listen on {}: ", first.endpoint);
    assert!(refused.starts_with(&expected), "{refused}");
    assert!(
        refused.contains("another process listens there"),
        "{refused}"
    );
    assert!(refused.contains("--listen-client-urls"), "{refused}");
    let path = first.directory().join("data").display().to_string();
    let refused = refusal(&[&format!("--data-dir={path}")]);
    assert!(
        refused.contains(&format!("directory {path} is in use by")),
        "{refused}"
    );
    assert_eq!(refused.matches(&path).count(), 1, "{refused}");
    assert!(refused.contains("--data-dir"), "{refused}");
    assert!(
        refused.contains(&std::process::id().to_string()),
        "{refused}"
    );
    first.kv().await.put(put("a", "1")).await.unwrap();
}

/// A watch over a connection on which the client pings every 20 ms; the second value keeps it open.
async fn watch_with_pings(
    serving: &Serving,
) -> (
    Streaming<WatchResponse>,
    mpsc::Sender<WatchRequest>,
    Channel,
) {
    let endpoint = Endpoint::from_shared(serving.endpoint.clone()).unwrap();
    let endpoint = endpoint.http2_keep_alive_interval(Duration::from_millis(20));
    let channel = endpoint.connect().await.unwrap();
    let (requests, queue) = mpsc::channel(1);
    let create = WatchCreateRequest {
        key: "a".into(),
        ..WatchCreateRequest::default()
    };
    let create = WatchRequest {
        request_union: Some(RequestUnion::CreateRequest(create)),
    };
    requests.send(create).await.unwrap();
    let opened = WatchClient::new(channel.clone())
        .watch(ReceiverStream::new(queue))
        .await;
    let mut watch = opened.unwrap().into_inner();
    assert!(watch.message().await.unwrap().unwrap().created);
    (watch, requests, channel)
}

#[tokio::test]
async fn a_client_that_pings_too_often_loses_its_connection() {
    let serving = serving(&["--grpc-keepalive-min-time=1h"]);
    let (mut watch, _requests, _channel) = watch_with_pings(&serving).await;
    // The client's library does not say why: the next but one test does.
    watch.message().await.unwrap_err();
    serving.kv().await.put(put("a", "1")).await.unwrap();
}

#[tokio::test]
async fn a_client_that_pings_within_the_limit_keeps_its_connection() {
    let serving = serving(&["--grpc-keepalive-min-time=1ms"]);
    let (mut watch, _requests, channel) = watch_with_pings(&serving).await;
    // Some fifty pings; a slow machine sends fewer.
    tokio::time::sleep(Duration::from_secs(1)).await;
    KvClient::new(channel).put(put("a", "1")).await.unwrap();
    let response = watch.message().await.unwrap().unwrap();
    assert_eq!(response.events.len(), 1);
}

#[tokio::test]
async fn a_client_without_calls_that_pings_learns_why_its_connection_ends() {
    let serving = serving(&[]);
    let address = serving.endpoint.trim_start_matches("http://");
    let mut socket = TcpStream::connect(address).await.unwrap();
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec();
    for _ in 0..4 {
        bytes.extend(b"\0\0\x08\x06\0\0\0\0\0payload.");
    }
    socket.write_all(&bytes).await.unwrap();
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).await.unwrap();
    let text = b"\0\0\x16\x07\0\0\0\0\0\0\0\0\0\0\0\0\x0btoo_many_pings";
    assert!(answer.ends_with(text), "{answer:?}");
}
