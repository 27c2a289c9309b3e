//! The service Watch: one gRPC stream, many watches.
//!
//! ```text
//!   client ──create, cancel, progress──► requests ─┐
//!                                                  ├─ Session::next ──► responses ──► client
//!   hub ──────────────events──────────► watches ───┘
//! ```
//!
//! A step runs only when HTTP/2 asks for another message. If a client does not read, no
//! step runs; its watches then wait in the log as cursors, and it costs no more
//! than the stream's bounded buffers, whatever it watches. Requests are read ahead of
//! their execution, up to a bound. History is read from the log on another thread, which
//! delays no other call of this core.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use etcd_api::etcdserverpb::watch_request::RequestUnion;
use etcd_api::etcdserverpb::{WatchCreateRequest, WatchRequest, WatchResponse};
use futures_util::Stream;
use revisions::WatchStream;
use revisions::watch::Next;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::Interval;
use tonic::{Code, Status, Streaming};

use crate::backend::{Backend, stopped};
use crate::callers::Caller;
use crate::calls::{self, Answers, Call};
use crate::leader_check::{LeaderCheck, every};
use crate::read_ahead::ReadAhead;

/// Opens a stream of watches.
pub(crate) fn open(
    caller: Caller,
    call: Call,
    requests: Streaming<WatchRequest>,
) -> impl Stream<Item = Result<WatchResponse, Status>> + use<> {
    let backend = Arc::clone(&caller.backend);
    backend.metrics.watches.streams.add(1);
    calls::answers(Session {
        caller,
        call,
        requests: ReadAhead::new(requests),
        requests_open: true,
        watches: Arc::new(backend.reader().watch_hub().subscribe()),
        reading: None,
        stopping: backend.stopping.clone(),
        progress: every(jittered(&backend)),
        leader_check: LeaderCheck::new(Arc::clone(&backend)),
        live: 0,
        backend,
    })
}

/// A stream with its watches.
struct Session {
    caller: Caller,
    backend: Arc<Backend>,
    call: Call,
    requests: ReadAhead<WatchRequest>,
    /// Whether the client may still send requests. A client that has closed its side keeps
    /// its watches.
    requests_open: bool,
    watches: Arc<WatchStream>,
    /// The current read from the log. No other response of the watches is sent before it
    /// has ended.
    reading: Option<JoinHandle<Option<WatchResponse>>>,
    stopping: tokio::sync::watch::Receiver<bool>,
    /// Ticks when watches without events get a progress notice.
    progress: Interval,
    /// Ends the stream of a client that requires a leader if there is none.
    leader_check: LeaderCheck,
    /// Watches created and not canceled: this stream's part of the gauge.
    live: u64,
}

impl Answers for Session {
    type Answer = WatchResponse;

    /// The next message to send; `None` ends the stream with status OK.
    async fn next(&mut self) -> Result<Option<WatchResponse>, Status> {
        // Every branch can be dropped without losing anything.
        loop {
            tokio::select! {
                biased;
                () = stopped(&mut self.stopping) => {
                    return Err(etcd_api::Error::Stopped.to_status());
                }
                request = accepted(&self.watches, &mut self.requests), if self.requests_open => {
                    match request? {
                        Some(request) => self.take(request).await,
                        None => self.requests_open = false,
                    }
                }
                response = next_response(&self.watches, &mut self.reading) => {
                    let response = response.ok_or(etcd_api::Error::Stopped)?;
                    return Ok(Some(self.finish(response)));
                }
                _ = self.progress.tick() => self.watches.progress_tick(),
                () = self.leader_check.lost(), if self.call.requires_leader => {
                    return Err(etcd_api::Error::NoLeader.to_status());
                }
            }
        }
    }

    fn call(&mut self) -> &mut Call {
        &mut self.call
    }
}

impl Session {
    async fn take(&mut self, request: WatchRequest) {
        self.call.received();
        match request.request_union {
            Some(RequestUnion::CreateRequest(request)) => {
                create(&self.caller, &self.watches, request).await;
            }
            Some(RequestUnion::CancelRequest(cancel)) => self.watches.cancel(cancel.watch_id),
            Some(RequestUnion::ProgressRequest(_)) => self.watches.request_progress(),
            // As in etcd, an empty request does not end the stream.
            None => {}
        }
    }

    /// Adds ids and term to a response and counts it.
    fn finish(&mut self, mut response: WatchResponse) -> WatchResponse {
        self.backend.sign(response.header.get_or_insert_default());
        let metrics = &self.backend.metrics.watches;
        metrics.events.add(response.events.len() as u64);
        match (response.created, response.canceled) {
            (true, false) => {
                self.live += 1;
                metrics.live.add(1);
            }
            (false, true) if self.live > 0 => {
                self.live -= 1;
                metrics.live.sub(1);
            }
            _ => {}
        }
        response
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.backend.metrics.watches.live.sub(self.live);
        self.backend.metrics.watches.streams.sub(1);
    }
}

/// Starts a watch if the caller may read its keys. As in etcd, that is looked at now and not
/// again.
async fn create(caller: &Caller, watches: &WatchStream, mut request: WatchCreateRequest) {
    if request.key.is_empty() {
        // The smallest possible key.
        request.key = Bytes::from_static(&[0]);
    }
    // A request for the past before any revision is refused first.
    if request.start_revision >= 0 {
        let permit = caller.may_read(&request.key, &request.range_end).await;
        if let Err(status) = permit {
            return watches.refuse(reason(&status));
        }
    }
    watches.create(request);
}

/// The text with which a watch is refused: as Go prints a gRPC error.
fn reason(status: &Status) -> String {
    let code = match status.code() {
        // Go's names are those of the variants, but for this one.
        Code::Cancelled => "Canceled".to_owned(),
        code => format!("{code:?}"),
    };
    format!("rpc error: code = {code} desc = {}", status.message())
}

/// The next request, once the stream accepts one; until then requests are read ahead.
async fn accepted(
    watches: &WatchStream,
    requests: &mut ReadAhead<WatchRequest>,
) -> Result<Option<WatchRequest>, Status> {
    tokio::select! {
        biased;
        () = watches.accepts_requests() => {}
        () = requests.fill() => {}
    }
    requests.next().await
}

/// The next response; `None` if there are no more. Can be dropped without losing anything.
pub(crate) async fn next_response(
    watches: &Arc<WatchStream>,
    reading: &mut Option<JoinHandle<Option<WatchResponse>>>,
) -> Option<WatchResponse> {
    loop {
        if let Some(under_way) = reading {
            let outcome = under_way.await;
            *reading = None;
            match outcome {
                Ok(None) => {}
                Ok(response) => return response,
                // The runtime is stopping, or an invariant is broken.
                Err(_) => return None,
            }
        }
        match watches.look() {
            Next::Response(response) => return Some(response),
            Next::Work(work) => {
                let watches = Arc::clone(watches);
                *reading = Some(spawn_blocking(move || watches.work(work)));
            }
            Next::Nothing => watches.arrived().await,
            Next::Closed => return None,
        }
    }
}

/// The configured interval of notices and up to a tenth more, so that streams that began
/// together do not send their notices together.
fn jittered(backend: &Backend) -> Duration {
    let period = backend.config.clients.watch_progress_interval;
    let tenths_of_a_percent = backend.clock.unix_time().subsec_nanos() % 100;
    period + period * tenths_of_a_percent / 1000
}
