//! A watch on the same connection as large ranges that the client has not read yet: its event
//! waits behind few of their bytes.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use etcd_api::etcdserverpb::WatchResponse;
use etcd_api::etcdserverpb::kv_client::KvClient;
use etcd_api::etcdserverpb::watch_client::WatchClient;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpSocket, TcpStream};
use tonic::Streaming;
use tonic::transport::{Channel, Endpoint};
use tower::service_fn;

use crate::serving::{create_watch, get_prefix, put, serving};

const EVENT: &[u8] = b"the value of the watched key";
const VALUE_BYTES: usize = 1 << 20;
const VALUES: usize = 2;
const RANGES: usize = 10;
/// The client's kernel takes no more of what the client does not read.
const RECEIVED_BYTES_MAX: u32 = 64 << 10;
/// A quarter of what came before the event while the kernel took what it takes by default.
const BYTES_BEFORE_EVENT_MAX: usize = 1 << 20;
/// Time in which the server fills the buffers that it can fill.
const FILLING: Duration = Duration::from_millis(500);

/// Holds back what a connection receives while it is closed, and counts it afterwards.
#[derive(Default)]
struct Gate {
    is_closed: AtomicBool,
    waiting: Mutex<Option<Waker>>,
    /// Bytes that came after the gate was opened, up to the event and with it.
    bytes: AtomicUsize,
    has_event: AtomicBool,
}

impl Gate {
    fn open(&self) {
        self.bytes.store(0, Ordering::Relaxed);
        self.is_closed.store(false, Ordering::Relaxed);
        let waiting = self.waiting.lock().unwrap().take();
        waiting.into_iter().for_each(Waker::wake);
    }
}

struct Gated {
    socket: TcpStream,
    gate: Arc<Gate>,
    /// The last bytes that were received: the event may come in two parts.
    last: Vec<u8>,
}

impl AsyncRead for Gated {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let gated = self.get_mut();
        if gated.gate.is_closed.load(Ordering::Relaxed) {
            *gated.gate.waiting.lock().unwrap() = Some(context.waker().clone());
            return Poll::Pending;
        }
        let before = out.filled().len();
        ready!(Pin::new(&mut gated.socket).poll_read(context, out))?;
        let received = &out.filled()[before..];
        if !gated.gate.has_event.load(Ordering::Relaxed) {
            gated
                .gate
                .bytes
                .fetch_add(received.len(), Ordering::Relaxed);
            gated.last.extend_from_slice(received);
            let has_event = gated.last.windows(EVENT.len()).any(|part| part == EVENT);
            gated.gate.has_event.store(has_event, Ordering::Relaxed);
            let old = gated.last.len().saturating_sub(EVENT.len());
            gated.last.drain(..old);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Gated {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().socket).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_shutdown(context)
    }
}

async fn connect(address: String, gate: Arc<Gate>) -> io::Result<TokioIo<Gated>> {
    let socket = TcpSocket::new_v4()?;
    socket.set_recv_buffer_size(RECEIVED_BYTES_MAX)?;
    let socket = socket.connect(address.parse().unwrap()).await?;
    let last = Vec::new();
    Ok(TokioIo::new(Gated { socket, gate, last }))
}

/// A watch of the key `w`.
async fn watch_one(channel: Channel) -> Streaming<WatchResponse> {
    let requests = tokio_stream::iter([create_watch("w")]);
    let requests = tokio_stream::StreamExt::chain(requests, tokio_stream::pending());
    let watch = WatchClient::new(channel).watch(requests).await;
    let mut watch = watch.unwrap().into_inner();
    assert!(watch.message().await.unwrap().unwrap().created);
    watch
}

#[tokio::test]
async fn an_event_waits_behind_few_bytes_of_large_ranges_on_its_connection() {
    let serving = serving(&[]);
    let mut writer = serving.kv().await;
    for number in 0..VALUES {
        let value = "v".repeat(VALUE_BYTES);
        writer
            .put(put(&format!("l{number}"), &value))
            .await
            .unwrap();
    }
    let gate = Arc::new(Gate::default());
    let address = serving.endpoint.trim_start_matches("http://").to_owned();
    let through = Arc::clone(&gate);
    let dial = move |_| connect(address.clone(), Arc::clone(&through));
    // Flow control of HTTP/2 holds nothing back.
    let endpoint = Endpoint::from_shared(serving.endpoint.clone()).unwrap();
    let endpoint = endpoint.initial_stream_window_size(1 << 30);
    let endpoint = endpoint.initial_connection_window_size(1 << 30);
    let channel = endpoint.connect_with_connector(service_fn(dial)).await;
    let channel = channel.unwrap();
    let mut watch = watch_one(channel.clone()).await;
    let mut elsewhere = watch_one(serving.channel().await).await;

    gate.is_closed.store(true, Ordering::Relaxed);
    let mut ranges = tokio::task::JoinSet::new();
    for _ in 0..RANGES {
        let client = KvClient::new(channel.clone());
        let mut client = client.max_decoding_message_size(usize::MAX);
        ranges.spawn(async move { client.range(get_prefix('l')).await });
    }
    tokio::time::sleep(FILLING).await;
    let value = std::str::from_utf8(EVENT).unwrap();
    writer.put(put("w", value)).await.unwrap();
    // The server has made the event when another connection has it.
    assert_eq!(elsewhere.message().await.unwrap().unwrap().events.len(), 1);
    tokio::time::sleep(FILLING).await;
    gate.open();

    let answer = watch.message().await.unwrap().unwrap();
    assert_eq!(answer.events[0].kv.as_ref().unwrap().value(), EVENT);
    assert!(gate.has_event.load(Ordering::Relaxed));
    let bytes = gate.bytes.load(Ordering::Relaxed);
    assert!(bytes < BYTES_BEFORE_EVENT_MAX, "{bytes} bytes came before");
    for range in ranges.join_all().await {
        assert_eq!(range.unwrap().into_inner().kvs.len(), VALUES);
    }
}
