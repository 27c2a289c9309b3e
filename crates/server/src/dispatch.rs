//! From a path to a service: one comparison, no table of routes.
//!
//! gRPC requests go to the generated services, which box one future per call;
//! that future is handed on as it is. Everything else is a page.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use etcd_api::etcdserverpb::auth_server::AuthServer;
use etcd_api::etcdserverpb::cluster_server::ClusterServer;
use etcd_api::etcdserverpb::kv_server::KvServer;
use etcd_api::etcdserverpb::lease_server::LeaseServer;
use etcd_api::etcdserverpb::maintenance_server::MaintenanceServer;
use etcd_api::etcdserverpb::watch_server::WatchServer;
use hyper::body::{Frame, Incoming, SizeHint};
use tonic::body::Body;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::http::{HeaderValue, Request, Response, header};
use tonic::codegen::{BoxFuture, Service};
use tonic::{Code, Status};
use tonic_health::pb::health_server::HealthServer;
use tonic_health::server::HealthReporter;

use crate::answers::Answer;
use crate::auth::AuthService;
use crate::backend::Backend;
use crate::client::{Client, OpenCall};
use crate::cluster::ClusterService;
use crate::health::HealthCheckService;
use crate::http::{self, Pages};
use crate::kv::KvService;
use crate::lease::LeaseService;
use crate::maintenance::MaintenanceService;
use crate::methods::Method;
use crate::unfinished::RequestBody;
use crate::unsupported;
use crate::watch::WatchService;

/// The one call of the service that the library does not know.
const HEALTH_LIST: &str = "/grpc.health.v1.Health/List";

/// What a port serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Traffic {
    /// gRPC, or not.
    pub(crate) grpc: bool,
    /// Pages, if any.
    pub(crate) pages: Option<Pages>,
}

impl Traffic {
    /// As etcd's log names it.
    pub(crate) fn label(self) -> &'static str {
        match (self.grpc, self.pages) {
            (true, Some(_)) => "grpc+http",
            (true, None) => "grpc",
            (false, Some(Pages::Monitoring)) => "metrics",
            (false, _) => "http",
        }
    }
}

/// All services. Cheap to clone; one per connection.
#[derive(Clone)]
pub(crate) struct Dispatch {
    backend: Arc<Backend>,
    traffic: Traffic,
    kv: KvServer<KvService>,
    watch: WatchServer<WatchService>,
    lease: LeaseServer<LeaseService>,
    cluster: ClusterServer<ClusterService>,
    maintenance: MaintenanceServer<MaintenanceService>,
    auth: AuthServer<AuthService>,
    health: HealthServer<HealthCheckService>,
}

impl Dispatch {
    /// All services on top of `backend`.
    pub(crate) fn new(
        backend: &Arc<Backend>,
        health: HealthReporter,
        traffic: Traffic,
    ) -> Dispatch {
        let limit = backend.config.message_bytes_max();
        let shared = || Arc::clone(backend);
        Dispatch {
            backend: shared(),
            traffic,
            kv: KvServer::new(KvService::new(shared()))
                .max_decoding_message_size(limit)
                .max_encoding_message_size(usize::MAX),
            watch: WatchServer::new(WatchService::new(shared()))
                .max_decoding_message_size(limit)
                .max_encoding_message_size(usize::MAX),
            lease: LeaseServer::new(LeaseService::new(shared())).max_decoding_message_size(limit),
            cluster: ClusterServer::new(ClusterService::new(shared())),
            maintenance: MaintenanceServer::new(MaintenanceService::new(shared())),
            auth: AuthServer::new(AuthService::new(shared())),
            health: HealthServer::new(HealthCheckService::new(shared(), health)),
        }
    }

    /// The same services for a port with other traffic.
    pub(crate) fn serving(&self, traffic: Traffic) -> Dispatch {
        Dispatch {
            traffic,
            ..self.clone()
        }
    }

    fn grpc(
        &self,
        client: &Arc<Client>,
        request: Request<Incoming>,
    ) -> BoxFuture<Response<Body>, Infallible> {
        let request = request.map(|body| RequestBody::new(body, Arc::clone(client)));
        let path = request.uri().path();
        let service = path.get(1..).and_then(|path| path.split('/').next());
        match service.unwrap_or_default() {
            "etcdserverpb.KV" => self.kv.clone().call(request),
            "etcdserverpb.Watch" => self.watch.clone().call(request),
            "etcdserverpb.Lease" => self.lease.clone().call(request),
            "etcdserverpb.Cluster" => self.cluster.clone().call(request),
            "etcdserverpb.Maintenance" => self.maintenance.clone().call(request),
            "etcdserverpb.Auth" => self.auth.clone().call(request),
            "grpc.health.v1.Health" if path != HEALTH_LIST => self.health.clone().call(request),
            _ => unsupported::refuse(&self.backend, &request),
        }
    }

    fn page(
        &self,
        pages: Pages,
        request: Request<Incoming>,
    ) -> BoxFuture<Response<Body>, Infallible> {
        let backend = Arc::clone(&self.backend);
        Box::pin(async move { Ok(http::answer(backend, pages, request).await) })
    }
}

/// The services for one connection.
pub(crate) struct ClientDispatch {
    dispatch: Dispatch,
    client: Arc<Client>,
}

impl ClientDispatch {
    /// Serves the calls of `client`.
    pub(crate) fn new(dispatch: Dispatch, client: Arc<Client>) -> ClientDispatch {
        ClientDispatch { dispatch, client }
    }
}

impl hyper::service::Service<Request<Incoming>> for ClientDispatch {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Answering;

    fn call(&self, request: Request<Incoming>) -> Answering {
        let ClientDispatch { dispatch, client } = self;
        let path = request.uri().path_and_query().cloned();
        let timed = Timed {
            path: path.unwrap_or_else(|| PathAndQuery::from_static("/")),
            call: client.call(),
        };
        let grpc = dispatch.traffic.grpc && is_grpc(&request);
        let inner = match dispatch.traffic.pages {
            Some(pages) if !grpc => dispatch.page(pages, request),
            _ => dispatch.grpc(client, request),
        };
        Answering {
            inner,
            timed: Some(timed),
        }
    }
}

fn is_grpc(request: &Request<Incoming>) -> bool {
    let kind = request.headers().get(header::CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"))
}

/// A call whose turns are timed, and that is under way as long as this exists.
struct Timed {
    path: PathAndQuery,
    call: OpenCall,
}

impl Timed {
    /// Does one turn of the call.
    fn turn<T>(&self, work: impl FnOnce() -> T) -> T {
        let backend = &self.call.client().backend;
        let began = backend.clock.now();
        let outcome = work();
        let ended = backend.clock.now();
        backend.metrics.long_turns.note(began, ended, &self.path);
        self.call.used(ended);
        outcome
    }

    /// Whether the answer's body has turns worth timing: a stream's messages are made in
    /// them, and a large answer is open for long. The one message of any other answer is
    /// small, and the connection sends it at once.
    fn goes_on_in_the_body(&self, large: bool) -> bool {
        large || Method::streams(self.path.path())
    }
}

/// An answer under way.
pub(crate) struct Answering {
    inner: BoxFuture<Response<Body>, Infallible>,
    /// Moves on to the answer's body.
    timed: Option<Timed>,
}

impl Future for Answering {
    type Output = Result<Response<Body>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Answering { inner, timed } = &mut *self;
        let open = timed.as_ref().expect("an answer is ready once");
        let outcome = open.turn(|| inner.as_mut().poll(context));
        let Ok(mut response) = ready!(outcome);
        if response.headers().contains_key(Status::GRPC_STATUS) {
            use_grpc_go_words(&mut response);
        }
        let timed = timed.take().expect("an answer is ready once");
        let large = response.extensions_mut().remove::<Answer>();
        let large = large.and_then(|large| large.take());
        if !timed.goes_on_in_the_body(large.is_some()) {
            return Poll::Ready(Ok(response));
        }
        let response = response.map(|body| {
            let inner = large.map_or(body, Body::new);
            Body::new(AnswerBody { inner, timed })
        });
        Poll::Ready(Ok(response))
    }
}

/// The body of an answer, timed, whose call ends with it.
struct AnswerBody {
    inner: Body,
    timed: Timed,
}

impl hyper::body::Body for AnswerBody {
    type Data = <Body as hyper::body::Body>::Data;
    type Error = <Body as hyper::body::Body>::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let AnswerBody { inner, timed } = &mut *self;
        timed.turn(|| Pin::new(inner).poll_frame(context))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// A message over the limit is ResourceExhausted with grpc-go's words; the
/// library here says OutOfRange, which etcd's clients take for a compaction.
fn use_grpc_go_words(response: &mut Response<Body>) {
    let Some(status) = Status::from_header_map(response.headers()) else {
        return;
    };
    if status.code() != Code::OutOfRange || !status.message().contains("message length too large") {
        return;
    }
    let numbers: Vec<&str> = status
        .message()
        .split(|letter: char| !letter.is_ascii_digit())
        .filter(|part| !part.is_empty())
        .collect();
    let [found, limit] = numbers[..] else { return };
    let text = format!("grpc: received message larger than max ({found} vs. {limit})");
    let code = HeaderValue::from(Code::ResourceExhausted as i32);
    response.headers_mut().insert(Status::GRPC_STATUS, code);
    if let Ok(text) = HeaderValue::from_str(&text.replace(' ', "%20")) {
        response.headers_mut().insert(Status::GRPC_MESSAGE, text);
    }
}
