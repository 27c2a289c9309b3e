//! Dispatches a request to its handler by one comparison of its path.
//!
//! ```text
//!   path ──► Method ──► one future on the heap: request_message ──► Call::begin ──► handler ──► Call::end
//! ```
//!
//! A handler is a function of the connection and the decoded request. Every request that is
//! not gRPC is for a page.

use std::convert::Infallible;
use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_util::Stream;
use hyper::body::Incoming;
use prost::Message;
use tls::{Accepts, ClientCertificate};
use tonic::body::Body;
use tonic::codegen::BoxFuture;
use tonic::codegen::http::request::Parts;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::http::{HeaderValue, Request, Response, header};
use tonic::metadata::MetadataMap;
use tonic::server::Grpc;
use tonic::{Code, Status, Streaming};
use tonic_prost::ProstCodec;
use tower::service_fn;

use crate::answer_body::{self, AnswerBody, CarriedJson, Content, Handled, Timed};
use crate::callers::{Caller, Credentials};
use crate::calls::Call;
use crate::client::Client;
use crate::http::{self, OverTls, Pages};
use crate::methods::Method;
use crate::recipes::{election, mutex};
use crate::request_body::RequestBody;
use crate::{
    auth, cluster, follow, health, http2_debug, kv, lease, maintenance, request_message, snapshot,
    unsupported, view, watch,
};

/// The largest message of a request of other services, as in grpc-go.
const MESSAGE_BYTES_MAX: usize = 4 << 20;

/// Kinds of requests that a port serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Traffic {
    pub(crate) grpc: bool,
    pub(crate) pages: Option<Pages>,
    /// `None` for a port without TLS.
    pub(crate) accepts: Option<Accepts>,
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

/// TLS of one connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Security {
    pub(crate) is_secure: bool,
    /// The certificate by which the client is known; an extension of each request.
    pub(crate) certificate: Option<ClientCertificate>,
}

/// Serves the requests of one connection.
pub(crate) struct Dispatch {
    pub(crate) client: Arc<Client>,
    pub(crate) traffic: Traffic,
    pub(crate) security: Security,
}

/// The future of an answer, before its body is timed.
pub(crate) type Answer = BoxFuture<Response<Content>, Infallible>;

impl Dispatch {
    fn page(&self, pages: Pages, request: Request<Incoming>) -> Answer {
        let client = Arc::clone(&self.client);
        Box::pin(async move {
            let mut response = http::answer(call, client, pages, request).await;
            let json = response.extensions_mut().remove::<CarriedJson>();
            let json = json.and_then(|json| json.take());
            Ok(response.map(|body| json.map_or(Content::Library(body), Content::Json)))
        })
    }

    fn grpc(&self, method: Option<Method>, request: Request<Incoming>) -> Answer {
        let client = &self.client;
        // Only browsers send it, and they send it with each request of this kind.
        if request.headers().contains_key(header::ORIGIN) {
            let (config, uri) = (&client.backend.config, request.uri());
            let (headers, is_secure) = (request.headers(), self.security.is_secure);
            let rebound = http::refuse_rebound_page(config, headers, uri, is_secure);
            let refused =
                rebound.and_then(|()| http::refuse_foreign_page(config, headers, uri, method));
            if let Err(refused) = refused {
                return Box::pin(ready(Ok(refused.into_http())));
            }
        }
        let request = request.map(|body| RequestBody::new(body.into(), Arc::clone(client)));
        serve(client, method, request)
    }
}

/// Answers a call that the gateway makes for a client.
fn call(
    client: &Arc<Client>,
    request: Request<RequestBody>,
) -> BoxFuture<Response<AnswerBody>, Infallible> {
    let path = request.uri().path_and_query().cloned();
    let path = path.unwrap_or_else(|| PathAndQuery::from_static("/"));
    let method = Method::of_path(path.path());
    Box::pin(Answering {
        inner: serve(client, method, request),
        timed: Some(Timed::new(path, Arc::clone(client))),
    })
}

/// Answers a gRPC request.
fn serve(client: &Arc<Client>, method: Option<Method>, request: Request<RequestBody>) -> Answer {
    let Some(method) = method else {
        return unsupported::refuse_unknown(request.uri().path());
    };
    let call = Arriving {
        request,
        client: Arc::clone(client),
        method,
    };
    match method {
        Method::Range => call.unary(kv::range),
        Method::RangeStream => call.respond(kv::range_stream),
        Method::Put => call.unary(kv::put),
        Method::DeleteRange => call.unary(kv::delete_range),
        Method::Txn => call.unary(kv::txn),
        Method::Compact => call.unary(kv::compact),
        Method::Watch => call.streaming(watch::open),
        Method::LeaseGrant => call.unary(lease::grant),
        Method::LeaseRevoke => call.unary(lease::revoke),
        Method::LeaseKeepAlive => call.streaming(lease::keep_alive),
        Method::LeaseTimeToLive => call.unary(lease::time_to_live),
        Method::LeaseLeases => call.unary(lease::leases),
        Method::MemberAdd => call.unary(cluster::add),
        Method::MemberRemove => call.unary(cluster::remove),
        Method::MemberUpdate => call.unary(cluster::update),
        Method::MemberList => call.unary(cluster::list),
        Method::MemberPromote => call.unary(cluster::promote),
        Method::Alarm => call.unary(maintenance::alarm),
        Method::Status => call.unary(maintenance::status),
        Method::Defragment => call.unary(maintenance::defragment),
        Method::Hash => call.unary(maintenance::hash),
        Method::HashKv => call.unary(maintenance::hash_kv),
        Method::MoveLeader => call.unary(maintenance::move_leader),
        Method::Downgrade => call.unary(maintenance::downgrade),
        Method::Snapshot => call.observing(snapshot::open),
        Method::SnapshotCompressed => call.observing(snapshot::open_compressed),
        Method::AuthEnable => call.unary(auth::enable),
        Method::AuthDisable => call.unary(auth::disable),
        Method::AuthStatus => call.unary(auth::status),
        Method::Authenticate => call.unary(auth::authenticate),
        Method::UserAdd => call.unary(auth::user_add),
        Method::UserGet => call.unary(auth::user_get),
        Method::UserList => call.unary(auth::user_list),
        Method::UserDelete => call.unary(auth::user_delete),
        Method::UserChangePassword => call.unary(auth::user_change_password),
        Method::UserGrantRole => call.unary(auth::user_grant_role),
        Method::UserRevokeRole => call.unary(auth::user_revoke_role),
        Method::RoleAdd => call.unary(auth::role_add),
        Method::RoleGet => call.unary(auth::role_get),
        Method::RoleList => call.unary(auth::role_list),
        Method::RoleDelete => call.unary(auth::role_delete),
        Method::RoleGrantPermission => call.unary(auth::role_grant_permission),
        Method::RoleRevokePermission => call.unary(auth::role_revoke_permission),
        Method::Lock => call.unary(mutex::lock),
        Method::Unlock => call.unary(mutex::unlock),
        Method::Campaign => call.unary(election::campaign),
        Method::Proclaim => call.unary(election::proclaim),
        Method::Leader => call.unary(election::leader),
        Method::Observe => call.observing(election::observe),
        Method::Resign => call.unary(election::resign),
        Method::FollowChange => call.unary(follow::change),
        Method::FollowSource => call.unary(follow::source),
        Method::ViewChildren => call.unary(view::children),
        Method::ViewOverview => call.unary(view::overview),
        Method::HealthCheck => call.unary(health::check),
        Method::HealthWatch => call.observing(health::watch),
        _ => {
            let (headers, extensions) = (call.request.headers(), call.request.extensions());
            let metadata = MetadataMap::from_headers(headers.clone());
            let credentials = Credentials::of(&metadata, extensions);
            let caller = Caller::new(Arc::clone(client), credentials);
            unsupported::refuse(caller, method, metadata)
        }
    }
}

/// A call before its request is decoded.
struct Arriving {
    request: Request<RequestBody>,
    client: Arc<Client>,
    method: Method,
}

impl Arriving {
    /// Answers one request with one message.
    fn unary<Q, A, W>(self, answer: impl FnOnce(Caller, Q) -> W + Send + 'static) -> Answer
    where
        Q: Message + Default + 'static,
        A: Message + 'static,
        W: Future<Output = Handled<A>> + Send,
    {
        self.respond(move |caller, call: Call, request| async move {
            answer_body::end(call, answer(caller, request).await)
        })
    }

    /// Answers one request with a response that ends the call itself.
    fn respond<Q, W>(self, answer: impl FnOnce(Caller, Call, Q) -> W + Send + 'static) -> Answer
    where
        Q: Message + Default + 'static,
        W: Future<Output = Result<Content, Status>> + Send,
    {
        Box::pin(async move {
            Ok(match self.execute(answer).await {
                Ok(content) => success(content),
                Err(status) => status.into_http(),
            })
        })
    }

    async fn execute<Q, W>(
        self,
        answer: impl FnOnce(Caller, Call, Q) -> W,
    ) -> Result<Content, Status>
    where
        Q: Message + Default,
        W: Future<Output = Result<Content, Status>>,
    {
        let bytes_max = self.message_bytes_max();
        let (client, method) = (self.client, self.method);
        let (head, body) = self.request.into_parts();
        let message = request_message::read(&head.headers, body, bytes_max).await?;
        let (mut call, caller) = begin(client, method, head)?;
        if let Err(refusal) = caller.admit(method.needs()).await {
            call.close(Err(&refusal));
            return Err(refusal);
        }
        answer(caller, call, message).await
    }

    /// Answers a stream of requests with a stream of messages, which ends the call itself.
    fn streaming<Q, A, S>(
        self,
        open: impl Fn(Caller, Call, Streaming<Q>) -> S + Send + 'static,
    ) -> Answer
    where
        Q: Message + Default + 'static,
        A: Message + Default + 'static,
        S: Stream<Item = Result<A, Status>> + Send + 'static,
    {
        let mut grpc = self.codec();
        let (client, method) = (self.client, self.method);
        let serve = service_fn(move |request: tonic::Request<Streaming<Q>>| {
            let call = Call::begin(&client.backend, method, request.metadata());
            let caller = Caller::of_stream(Arc::clone(&client), &request);
            ready(call.map(|call| tonic::Response::new(open(caller, call, request.into_inner()))))
        });
        Box::pin(async move { Ok(of_library(grpc.streaming(serve, self.request).await)) })
    }

    /// Answers one request with a stream of messages, which ends the call itself.
    fn observing<Q, A, S>(self, open: impl Fn(Caller, Call, Q) -> S + Send + 'static) -> Answer
    where
        Q: Message + Default + 'static,
        A: Message + Default + 'static,
        S: Stream<Item = Result<A, Status>> + Send + 'static,
    {
        let mut grpc = self.codec();
        let (client, method) = (self.client, self.method);
        let serve = service_fn(move |request: tonic::Request<Q>| {
            let call = Call::begin(&client.backend, method, request.metadata());
            let caller = Caller::of_stream(Arc::clone(&client), &request);
            ready(call.map(|call| tonic::Response::new(open(caller, call, request.into_inner()))))
        });
        Box::pin(async move {
            let response = grpc.server_streaming(serve, self.request).await;
            Ok(of_library(in_grpc_go_words(response)))
        })
    }

    fn codec<Q, A>(&self) -> Grpc<ProstCodec<A, Q>>
    where
        Q: Message + Default + 'static,
        A: Message + Default + 'static,
    {
        Grpc::new(ProstCodec::default()).max_decoding_message_size(self.message_bytes_max())
    }

    /// Messages that may be as large as a request of the store have the configured limit.
    fn message_bytes_max(&self) -> usize {
        match self.method.about().0 {
            "etcdserverpb.KV"
            | "etcdserverpb.Watch"
            | "etcdserverpb.Lease"
            | "v3electionpb.Election" => self.client.backend.config.message_bytes_max(),
            "inkstonepb.Follow" => follow::MESSAGE_BYTES_MAX,
            _ => MESSAGE_BYTES_MAX,
        }
    }
}

/// Begins a call. A call may wait for long, and does not keep its headers.
fn begin(client: Arc<Client>, method: Method, head: Parts) -> Result<(Call, Caller), Status> {
    let metadata = MetadataMap::from_headers(head.headers);
    let call = Call::begin(&client.backend, method, &metadata)?;
    let caller = Caller::of(client, &metadata, &head.extensions).in_trace(call.trace());
    Ok((call, caller))
}

/// A response of the library.
fn of_library(response: Response<Body>) -> Response<Content> {
    response.map(Content::Library)
}

fn success(content: Content) -> Response<Content> {
    let mut response = Response::new(content);
    let kind = HeaderValue::from_static("application/grpc");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

impl hyper::service::Service<Request<Incoming>> for Dispatch {
    type Response = Response<AnswerBody>;
    type Error = Infallible;
    type Future = Answering;

    fn call(&self, mut request: Request<Incoming>) -> Answering {
        if self.security.is_secure {
            request.extensions_mut().insert(OverTls);
        }
        if let Some(certificate) = &self.security.certificate {
            request.extensions_mut().insert(certificate.clone());
        }
        if self.client.backend.config.http.prints_requests {
            http2_debug::print(&request);
        }
        let path = request.uri().path_and_query().cloned();
        let path = path.unwrap_or_else(|| PathAndQuery::from_static("/"));
        let method = Method::of_path(path.path());
        let timed = Timed::new(path, Arc::clone(&self.client));
        let grpc = self.traffic.grpc && is_grpc(&request);
        let inner = match self.traffic.pages {
            Some(pages) if !grpc => self.page(pages, request),
            _ => self.grpc(method, request),
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
    inner: Answer,
    /// Passed on to the answer's body, which ends the call.
    timed: Option<Timed>,
}

impl Future for Answering {
    type Output = Result<Response<AnswerBody>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Answering { inner, timed } = &mut *self;
        let open = timed.as_ref().expect("an answer is ready once");
        let Ok(response) = ready!(open.turn(|| inner.as_mut().poll(context)));
        let timed = timed.take().expect("an answer is ready once");
        Poll::Ready(Ok(response.map(|content| AnswerBody::new(content, timed))))
    }
}

/// Changes the status for a message over the limit to grpc-go's: ResourceExhausted with its
/// text. The library here answers OutOfRange, which etcd's clients take for a compaction.
fn in_grpc_go_words(mut response: Response<Body>) -> Response<Body> {
    let Some(status) = Status::from_header_map(response.headers()) else {
        return response;
    };
    if status.code() != Code::OutOfRange || !status.message().contains("message length too large") {
        return response;
    }
    let numbers: Vec<&str> = status
        .message()
        .split(|letter: char| !letter.is_ascii_digit())
        .filter(|part| !part.is_empty())
        .collect();
    let [found, limit] = numbers[..] else {
        return response;
    };
    let text = format!("grpc: received message larger than max ({found} vs. {limit})");
    let code = HeaderValue::from(Code::ResourceExhausted as i32);
    response.headers_mut().insert(Status::GRPC_STATUS, code);
    if let Ok(text) = HeaderValue::from_str(&text.replace(' ', "%20")) {
        response.headers_mut().insert(Status::GRPC_MESSAGE, text);
    }
    response
}
