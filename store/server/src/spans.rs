//! Spans of requests, for a collector of OpenTelemetry.
//!
//! ```text
//!   client ──traceparent──► member: span of the call ──command with its context──► leader:
//!                                                                        span "propose"
//!       finished spans ──► batch thread ──OTLP over gRPC──► collector
//! ```
//!
//! A call is recorded if its client's trace is, or by the sampling rate. A call that is not
//! recorded has no span and costs the look at its metadata; without the flag there is no
//! [`Spans`].

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use environment::{Clock, threads};
use opentelemetry::propagation::{Extractor, TextMapPropagator};
use opentelemetry::trace::{
    Span as _, SpanContext, SpanId, SpanKind, Status as SpanStatus, TraceContextExt, TraceFlags,
    TraceId, TraceState, Tracer, TracerProvider,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_otlp::{SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{Sampler, SdkTracer, SdkTracerProvider, Span};
use revisions::TraceContext;
use tokio::sync::oneshot;
use tonic::Code;
use tonic::metadata::MetadataMap;
use tracing::warn;

use crate::config::Traces;
use crate::methods::Method;

/// Time that a server that stops leaves for its last spans.
const LAST_SPANS_TIME: Duration = Duration::from_secs(2);
/// The metadata that names a client's trace.
const TRACE_PARENT: &str = "traceparent";

/// Makes spans and sends them.
#[derive(Debug)]
pub(crate) struct Spans {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
    /// Whether calls are recorded that belong to no trace of their client's.
    samples: bool,
    /// Dropping it ends the thread of the connection to the collector.
    _running: oneshot::Sender<()>,
}

impl Spans {
    /// Starts the threads that send spans. The collector may be unreachable.
    pub(crate) fn start(traces: &Traces) -> Result<Spans, String> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| error.to_string())?;
        let inside = runtime.enter();
        let exporter = SpanExporter::builder()
            .with_tonic()
            .with_endpoint(format!("http://{}", traces.address))
            .build()
            .map_err(|error| error.to_string())?;
        let mut resource = Resource::builder_empty().with_service_name(traces.service.clone());
        if !traces.instance.is_empty() {
            let instance = KeyValue::new("service.instance.id", traces.instance.clone());
            resource = resource.with_attribute(instance);
        }
        let root = match traces.per_million {
            0 => Sampler::AlwaysOff,
            rate => Sampler::TraceIdRatioBased(f64::from(rate) / 1e6),
        };
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_resource(resource.build())
            .with_sampler(Sampler::ParentBased(Box::new(root)))
            .build();
        drop(inside);
        let (running, ended) = oneshot::channel();
        threads::spawn("spans", move || {
            // An error is the end, too: the sender is dropped.
            let _ = runtime.block_on(ended);
        })
        .map_err(|error| error.to_string())?;
        Ok(Spans {
            tracer: provider.tracer("inkstone"),
            provider,
            samples: traces.per_million > 0,
            _running: running,
        })
    }

    /// Begins the span of a call; `None` if it is not recorded.
    pub(crate) fn begin(&self, method: Method, metadata: &MetadataMap) -> Option<CallSpan> {
        if !self.samples && !metadata.contains_key(TRACE_PARENT) {
            return None;
        }
        let propagator = TraceContextPropagator::new();
        let parent = propagator.extract_with_context(&Context::new(), &Metadata(metadata));
        let (service, name, _) = method.about();
        let builder = self
            .tracer
            .span_builder(format!("{service}/{name}"))
            .with_kind(SpanKind::Server)
            .with_attributes([
                KeyValue::new("rpc.system", "grpc"),
                KeyValue::new("rpc.service", service),
                KeyValue::new("rpc.method", name),
            ]);
        let span = self.tracer.build_with_context(builder, &parent);
        span.is_recording().then_some(CallSpan(span))
    }

    /// Records that this member, the leader, has carried out a command of another one.
    pub(crate) fn carried_out(
        &self,
        clock: &dyn Clock,
        trace: &TraceContext,
        done: bool,
        took: Duration,
    ) {
        let parent = SpanContext::new(
            TraceId::from_bytes(trace.trace),
            SpanId::from_bytes(trace.span),
            TraceFlags::new(trace.flags),
            true,
            TraceState::default(),
        );
        let parent = Context::new().with_remote_span_context(parent);
        let ended = now(clock);
        let builder = self
            .tracer
            .span_builder("propose")
            .with_kind(SpanKind::Server)
            .with_start_time(ended - took);
        let mut span = self.tracer.build_with_context(builder, &parent);
        if !done {
            span.set_status(SpanStatus::error("refused"));
        }
        span.end_with_timestamp(ended);
    }

    /// Sends the spans that wait.
    pub(crate) fn stop(&self) {
        if let Err(error) = self.provider.shutdown_with_timeout(LAST_SPANS_TIME) {
            warn!(%error, "the last spans were not sent to the collector");
        }
    }
}

fn now(clock: &dyn Clock) -> SystemTime {
    UNIX_EPOCH + clock.unix_time()
}

/// The metadata of a call, as the propagator reads it.
struct Metadata<'a>(&'a MetadataMap);

impl Extractor for Metadata<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.to_str().ok()
    }

    fn keys(&self) -> Vec<&str> {
        // The propagator asks by name.
        Vec::new()
    }
}

/// The span of a call that is recorded. Dropping it ends the span.
#[derive(Debug)]
pub(crate) struct CallSpan(Span);

impl CallSpan {
    /// The context that the call's commands take along.
    pub(crate) fn context(&self) -> TraceContext {
        let context = self.0.span_context();
        TraceContext {
            trace: context.trace_id().to_bytes(),
            span: context.span_id().to_bytes(),
            flags: context.trace_flags().to_u8(),
        }
    }

    /// Ends the span with the call's code.
    pub(crate) fn end(mut self, code: Code) {
        let number = i64::from(code as i32);
        self.0
            .set_attribute(KeyValue::new("rpc.grpc.status_code", number));
        if code != Code::Ok {
            self.0.set_status(SpanStatus::error(format!("{code:?}")));
        }
        self.0.end();
    }
}
