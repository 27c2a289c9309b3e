//! Dispatches a request to its service by one comparison of its path.
//!
//! gRPC requests go to the generated services, which box one future per call;
//! that future is passed on without another box. Every other request is for a page.

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
use hyper::body::Incoming;
use tonic::body::Body;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::http::{HeaderValue, Request, Response, header};
use tonic::codegen::{BoxFuture, Service};
use tonic::{Code, Status};
use tonic_health::pb::health_server::HealthServer;
use tonic_health::server::HealthReporter;

use crate::answer_body::{AnswerBody, Encoded, Timed};
use crate::auth::AuthService;
use crate::backend::Backend;
use crate::client::Client;
use crate::cluster::ClusterService;
use crate::health::HealthCheckService;
use crate::http::{self, Pages};
use crate::kv::KvService;
use crate::lease::LeaseService;
use crate::maintenance::MaintenanceService;
use crate::unfinished::RequestBody;
use crate::unsupported;
use crate::watch::WatchService;

/// The one call of the health service that the library does not implement.
const HEALTH_LIST: &str = "/grpc.health.v1.Health/List";

/// What a port serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Traffic {
    pub(crate) grpc: bool,
    pub(crate) pages: Option<Pages>,
}

impl Traffic {
    /// The name that etcd's log gives it.
    pub(crate) fn label(self) -> &'static str {
        match (self.grpc, self.pages) {
            (true, Some(_)) => "grpc+http",
            (true, None) => "grpc",
            (false, Some(Pages::Monitoring)) => "metrics",
            (false, _) => "http",
        }
    }
}

/// All services. Cheap to clone; each connection has a clone.
#[derive(Clone)]
pub(crate) struct Dispatch {
    backend: Arc<Backend>,
    traffic: Traffic,
    watch: WatchServer<WatchService>,
    cluster: ClusterServer<ClusterService>,
    maintenance: MaintenanceServer<MaintenanceService>,
    auth: AuthServer<AuthService>,
    health: HealthServer<HealthCheckService>,
}

impl Dispatch {
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
            watch: WatchServer::new(WatchService::new(shared()))
                .max_decoding_message_size(limit)
                .max_encoding_message_size(usize::MAX),
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

    /// The service KV of one connection.
    fn kv(&self, client: &Arc<Client>) -> KvServer<KvService> {
        KvServer::new(KvService::new(Arc::clone(client)))
            .max_decoding_message_size(self.backend.config.message_bytes_max())
            .max_encoding_message_size(usize::MAX)
    }

    /// The service Lease of one connection.
    fn lease(&self, client: &Arc<Client>) -> LeaseServer<LeaseService> {
        LeaseServer::new(LeaseService::new(Arc::clone(client)))
            .max_decoding_message_size(self.backend.config.message_bytes_max())
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

/// The services of one connection.
pub(crate) struct ClientDispatch {
    dispatch: Dispatch,
    kv: KvServer<KvService>,
    lease: LeaseServer<LeaseService>,
    client: Arc<Client>,
}

impl ClientDispatch {
    pub(crate) fn new(dispatch: Dispatch, client: Arc<Client>) -> ClientDispatch {
        ClientDispatch {
            kv: dispatch.kv(&client),
            lease: dispatch.lease(&client),
            dispatch,
            client,
        }
    }

    fn grpc(&self, request: Request<Incoming>) -> BoxFuture<Response<Body>, Infallible> {
        let dispatch = &self.dispatch;
        let request = request.map(|body| RequestBody::new(body, Arc::clone(&self.client)));
        let path = request.uri().path();
        let service = path.get(1..).and_then(|path| path.split('/').next());
        match service.unwrap_or_default() {
            "etcdserverpb.KV" => self.kv.clone().call(request),
            "etcdserverpb.Watch" => dispatch.watch.clone().call(request),
            "etcdserverpb.Lease" => self.lease.clone().call(request),
            "etcdserverpb.Cluster" => dispatch.cluster.clone().call(request),
            "etcdserverpb.Maintenance" => dispatch.maintenance.clone().call(request),
            "etcdserverpb.Auth" => dispatch.auth.clone().call(request),
            "grpc.health.v1.Health" if path != HEALTH_LIST => dispatch.health.clone().call(request),
            _ => unsupported::refuse(&dispatch.backend, &request),
        }
    }
}

impl hyper::service::Service<Request<Incoming>> for ClientDispatch {
    type Response = Response<AnswerBody>;
    type Error = Infallible;
    type Future = Answering;

    fn call(&self, request: Request<Incoming>) -> Answering {
        let ClientDispatch {
            dispatch, client, ..
        } = self;
        let path = request.uri().path_and_query().cloned();
        let path = path.unwrap_or_else(|| PathAndQuery::from_static("/"));
        let timed = Timed::new(path, client.call());
        let grpc = dispatch.traffic.grpc && is_grpc(&request);
        let inner = match dispatch.traffic.pages {
            Some(pages) if !grpc => dispatch.page(pages, request),
            _ => self.grpc(request),
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

/// The future of an answer.
pub(crate) struct Answering {
    inner: BoxFuture<Response<Body>, Infallible>,
    /// Passed on to the answer's body, which ends the call.
    timed: Option<Timed>,
}

impl Future for Answering {
    type Output = Result<Response<AnswerBody>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Answering { inner, timed } = &mut *self;
        let open = timed.as_mut().expect("an answer is ready once");
        let outcome = open.turn(|| inner.as_mut().poll(context));
        let Ok(mut response) = ready!(outcome);
        if response.headers().contains_key(Status::GRPC_STATUS) {
            use_grpc_go_words(&mut response);
        }
        let timed = timed.take().expect("an answer is ready once");
        let large = response.extensions_mut().remove::<Encoded>();
        let large = large.and_then(|large| large.take());
        Poll::Ready(Ok(response.map(|body| AnswerBody::new(body, large, timed))))
    }
}

/// Changes the status for a message over the limit to grpc-go's: ResourceExhausted with its
/// text. The library here answers OutOfRange, which etcd's clients take for a compaction.
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
