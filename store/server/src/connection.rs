//! One client's connection, from its acceptance to its end.
//!
//! ```text
//!   accepted ──first bytes in time──► HTTP/1 or HTTP/2 ──► calls
//!       └── silent: closed                  └── the server stops, or another connection
//!                                               needs the descriptor: asked to end, then closed
//! ```

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};
use tracing::debug;

use crate::backend::{Backend, stopped};
use crate::client::Client;
use crate::connections::{Activity, Admitted};
use crate::counted::Counted;
use crate::dispatch::{Dispatch, Security, Traffic};
use crate::metrics::Counter;
use crate::pings::Pings;
use crate::windows::{STREAM_WINDOW_BYTES, WindowShare};

/// Bytes of a stream that HTTP/2 buffers ahead of what the client has read.
const SEND_BUFFER_BYTES: usize = 256 * 1024;
/// A connection on which fewer than `FIRST_BYTES` arrive within this time is closed.
const SILENCE_MAX: Duration = Duration::from_secs(10);
/// Length of the preface of HTTP/2; no request of HTTP/1 is shorter.
const FIRST_BYTES: u64 = 24;
/// A connection that is asked to end is closed after this time.
const ENDING_TIME_MAX: Duration = Duration::from_secs(1);

/// A client's connection over TCP or a Unix socket, with or without TLS.
pub(crate) struct Connection {
    pub(crate) traffic: Traffic,
    pub(crate) backend: Arc<Backend>,
    pub(crate) admitted: Admitted,
    pub(crate) security: Security,
    /// Address of the client; `None` at a Unix socket.
    pub(crate) from: Option<SocketAddr>,
}

impl Connection {
    /// Serves until the client, the server or a time limit ends it.
    pub(crate) async fn serve<S>(self, socket: S)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let window = self.backend.resources.windows.share();
        let received = Arc::new(Counter::default());
        let activity = Arc::clone(self.admitted.activity());
        let pings = self.pings(&activity);
        let counted = Counted::new(
            socket,
            Arc::clone(&self.backend),
            Arc::clone(&received),
            pings,
        );
        let builder = protocol(&self.backend, &window);
        let ending = reason_to_end(&self.backend, &activity, received);
        let client = Arc::new(Client::new(Arc::clone(&self.backend), activity));
        let dispatch = Dispatch {
            client: Arc::clone(&client),
            traffic: self.traffic,
            security: self.security,
        };
        let connection = builder.serve_connection_with_upgrades(TokioIo::new(counted), dispatch);
        tokio::pin!(connection, ending);
        let outcome = tokio::select! {
            outcome = connection.as_mut() => {
                // A WebSocket is served here, so that it counts as this connection.
                tokio::select! {
                    () = client.serve_upgraded() => {}
                    _ = ending => {}
                }
                outcome
            }
            reason = ending.as_mut() => match reason.unwrap_or(Reason::Stopping) {
                Reason::Silent => {
                    let connections = &self.backend.resources.connections;
                    return connections.note_silent(self.from, SILENCE_MAX);
                }
                Reason::Asked => {
                    connection.as_mut().graceful_shutdown();
                    let ended = timeout(ENDING_TIME_MAX, connection).await;
                    ended.unwrap_or(Ok(()))
                }
                Reason::Stopping => {
                    connection.as_mut().graceful_shutdown();
                    connection.await
                }
            }
        };
        client.end_upgraded();
        if let Err(error) = outcome {
            debug!(error, "connection ended");
        }
    }

    fn pings(&self, activity: &Arc<Activity>) -> Option<Pings> {
        let interval_min = self.backend.config.clients.ping_interval_min;
        let (clock, activity) = (Arc::clone(&self.backend.clock), Arc::clone(activity));
        let pings = || Pings::new(clock, activity, interval_min);
        self.traffic.grpc.then(pings)
    }
}

/// Why the server ends a connection.
#[derive(Debug)]
enum Reason {
    /// The client sent no request in time.
    Silent,
    /// A new connection needs its descriptor.
    Asked,
    /// The server stops.
    Stopping,
}

/// Waits for a reason to end a connection, on a task of its own: the connection's task is
/// polled for every message, and polling three reasons each time would cost more than
/// polling one channel.
fn reason_to_end(
    backend: &Backend,
    activity: &Arc<Activity>,
    received: Arc<Counter>,
) -> oneshot::Receiver<Reason> {
    let (mut found, reason) = oneshot::channel();
    let (activity, mut stopping) = (Arc::clone(activity), backend.stopping.clone());
    tokio::spawn(async move {
        let reason = tokio::select! {
            () = silent(&received) => Reason::Silent,
            () = activity.ended() => Reason::Asked,
            () = stopped(&mut stopping) => Reason::Stopping,
            () = found.closed() => return,
        };
        // A connection that has ended by itself needs no reason.
        let _ = found.send(reason);
    });
    reason
}

/// Returns when the client has sent no request in time.
async fn silent(received: &Counter) {
    sleep(SILENCE_MAX).await;
    if received.get() >= FIRST_BYTES {
        std::future::pending().await
    }
}

/// Serves HTTP/1 and HTTP/2; the first bytes tell which of the two.
fn protocol(backend: &Backend, window: &WindowShare) -> Builder<TokioExecutor> {
    let config = &backend.config;
    let keepalive_timeout = config.clients.keepalive_timeout;
    let keepalive_interval = config.clients.keepalive_interval;
    // As in etcd, either of both switches the pings off.
    let keepalive_interval = keepalive_interval.filter(|_| !keepalive_timeout.is_zero());
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(SILENCE_MAX);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(config.clients.concurrent_streams_max)
        .max_send_buf_size(SEND_BUFFER_BYTES)
        .initial_stream_window_size(STREAM_WINDOW_BYTES.min(window.bytes()))
        .initial_connection_window_size(window.bytes())
        .keep_alive_interval(keepalive_interval)
        .keep_alive_timeout(keepalive_timeout);
    builder
}
