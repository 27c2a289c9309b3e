//! The frame around every call: it checks the metadata, counts the call and logs a slow
//! one.
//!
//! ```text
//!   begin ── started_total, received_total ──► the call's own work ──► end ── handled_total{code}
//!                                                      └─ dropped: the client left ── Canceled
//! ```

use std::sync::Arc;

use environment::Instant;
use futures_util::{Stream, stream};
use revisions::TraceContext;
use tokio::task::coop::unconstrained;
use tonic::metadata::MetadataMap;
use tonic::{Code, Status};
use tracing::warn;

use crate::backend::Backend;
use crate::methods::{Method, Shape};
use crate::spans::CallSpan;

/// A call that has begun. Dropping it counts the call as ended.
pub(crate) struct Call {
    backend: Arc<Backend>,
    method: Method,
    began: Instant,
    /// The code with which the call ended; `Cancelled` until then.
    code: Code,
    /// Whether the client asked for an error when there is no leader.
    pub(crate) requires_leader: bool,
    /// `None` if the call is not recorded.
    span: Option<Box<CallSpan>>,
}

impl Call {
    /// Begins a call and counts it; an error if its metadata is wrong or it requires a
    /// leader and there is none.
    pub(crate) fn begin(
        backend: &Arc<Backend>,
        method: Method,
        metadata: &MetadataMap,
    ) -> Result<Call, Status> {
        let counters = backend.metrics.grpc.of(method);
        counters.started.add(1);
        let mut call = Call {
            backend: Arc::clone(backend),
            method,
            began: backend.clock.now(),
            code: Code::Cancelled,
            requires_leader: false,
            span: backend
                .spans
                .as_ref()
                .and_then(|spans| spans.begin(method, metadata))
                .map(Box::new),
        };
        match call.check(metadata) {
            Ok(()) => Ok(call),
            Err(status) => {
                call.code = status.code();
                Err(status)
            }
        }
    }

    /// The context that the call's commands take along; `None` if the call is not recorded.
    pub(crate) fn trace(&self) -> Option<TraceContext> {
        self.span.as_ref().map(|span| span.context())
    }

    fn check(&mut self, metadata: &MetadataMap) -> Result<(), Status> {
        self.backend.refuse_if_removed()?;
        if !self.method.serves_at_learners() {
            self.backend.refuse_at_learner()?;
        }
        let (_, _, shape) = self.method.about();
        if shape != Shape::BidiStream {
            self.backend.metrics.grpc.of(self.method).received.add(1);
        }
        let version = match metadata.get("client-api-version") {
            None => "unknown",
            Some(version) => std::str::from_utf8(version.as_bytes())
                .map_err(|_| etcd_api::Error::InvalidClientApiVersion.to_status())?,
        };
        self.backend.metrics.client_versions.count(shape, version);
        let hasleader = metadata.get("hasleader");
        self.requires_leader = hasleader.is_some_and(|value| value == "true");
        if self.requires_leader && self.backend.leader() == 0 {
            return Err(etcd_api::Error::NoLeader.to_status());
        }
        Ok(())
    }

    /// Counts a message of a stream from the client.
    pub(crate) fn received(&self) {
        self.backend.metrics.grpc.of(self.method).received.add(1);
    }

    /// Counts a message of a stream to the client.
    pub(crate) fn sent(&self) {
        self.backend.metrics.grpc.of(self.method).sent.add(1);
    }

    /// Ends a unary call with its answer.
    pub(crate) fn end<T>(mut self, outcome: Result<T, Status>) -> Result<T, Status> {
        match &outcome {
            Ok(_) => self.sent(),
            Err(status) => self.log_failure(status),
        }
        self.close(outcome.as_ref().map(drop));
        self.take_time();
        outcome
    }

    /// Logs, at a limited rate, a failure that the server caused.
    fn log_failure(&self, status: &Status) {
        let own = status.message().starts_with("inkstone: ");
        let serious = match status.code() {
            Code::Unavailable => own,
            Code::Unknown | Code::Internal | Code::DataLoss => true,
            _ => false,
        };
        if serious && let Some(requests) = self.backend.note_failed_request() {
            let (method, error) = (self.method.about().1, status.message());
            warn!(method, error, requests, "request failed");
        }
    }

    /// Ends a stream.
    pub(crate) fn close(&mut self, outcome: Result<(), &Status>) {
        self.code = outcome.map_or_else(Status::code, |()| Code::Ok);
    }

    fn take_time(&self) {
        let took = self.backend.clock.now().saturating_since(self.began);
        let metrics = &self.backend.metrics;
        let (counters, times) = (metrics.grpc.of(self.method), &metrics.times);
        let (calls, ranges) = match self.code {
            Code::Ok => (&counters.succeeded, &times.ranges),
            _ => (&counters.failed, &times.ranges_failed),
        };
        calls.observe(took);
        if self.method == Method::Range {
            ranges.observe(took);
        }
        if took > self.backend.config.clients.slow_request {
            let (service, name, _) = self.method.about();
            warn!(method = format!("/{service}/{name}"), took = ?took, code = ?self.code, "request stats");
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if let Some(span) = self.span.take() {
            span.end(self.code);
        }
        let counters = self.backend.metrics.grpc.of(self.method);
        counters.handled(self.code).add(1);
        if self.backend.config.http.metrics_extensive {
            let took = self.backend.clock.now().saturating_since(self.began);
            counters.handling.observe(took);
        }
    }
}

/// The messages that answer a stream of requests.
pub(crate) trait Answers: Send + Sized + 'static {
    type Answer;

    /// The next message; `None` ends the stream with status OK.
    fn next(&mut self) -> impl Future<Output = Result<Option<Self::Answer>, Status>> + Send;

    fn call(&mut self) -> &mut Call;
}

/// A stream of answers, counted, and its call ended as the stream ends.
pub(crate) fn answers<S: Answers>(open: S) -> impl Stream<Item = Result<S::Answer, Status>> {
    stream::unfold(Some(open), async |open| {
        let mut open = open?;
        // The stream has bounds of its own. With tokio's budget of a task's steps, requests
        // would be read faster than they are answered.
        match unconstrained(open.next()).await {
            Ok(Some(answer)) => {
                open.call().sent();
                Some((Ok(answer), Some(open)))
            }
            Ok(None) => {
                open.call().close(Ok(()));
                None
            }
            Err(status) => {
                open.call().close(Err(&status));
                Some((Err(status), None))
            }
        }
    })
}
