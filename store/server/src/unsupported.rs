//! Refusals of etcd's calls that this release does not support.
//!
//! Each refusal names what is missing and what to do instead, and is counted like every call.

use std::convert::Infallible;
use std::sync::Arc;

use tonic::body::Body;
use tonic::codegen::BoxFuture;
use tonic::codegen::http::{Request, Response};
use tonic::metadata::MetadataMap;
use tonic::{Status, codegen};

use crate::backend::Backend;
use crate::calls::Call;
use crate::methods::Method;

/// Refusal of calls about users and roles.
pub(crate) const AUTH: &str = "inkstone: users and roles are not supported yet: every client that reaches the \
    client port may do everything, so keep it where only trusted clients do";
/// Refusal of `Maintenance/Snapshot`.
pub(crate) const SNAPSHOT: &str = "inkstone: a snapshot in etcd's file format is not supported yet: \
    copy the keys with `etcdctl make-mirror`, or the data directory while the server is stopped";
/// Refusal of `Maintenance/Downgrade`.
pub(crate) const DOWNGRADE: &str = "inkstone: a downgrade is not supported yet: there is no older \
    version of the cluster to go to";
const LOCK: &str = "inkstone: the service v3lockpb.Lock is not supported yet: use the lock of a \
    client library, which is made of leases, transactions and watches (Go: package \
    client/v3/concurrency, Mutex), or `etcdctl lock`";
const ELECTION: &str = "inkstone: the service v3electionpb.Election is not supported yet: use the \
    election of a client library, which is made of leases, transactions and watches (Go: package \
    client/v3/concurrency, Election), or `etcdctl elect`";
const HEALTH_LIST: &str = "inkstone: grpc.health.v1.Health/List is not supported yet: ask with \
    Check, where the service \"\" stands for the whole server";

/// The status of an unsupported call.
pub(crate) fn status(text: &'static str) -> Status {
    Status::unimplemented(text)
}

/// Answers a call that no service implements.
pub(crate) fn refuse<B>(
    backend: &Arc<Backend>,
    request: &Request<B>,
) -> BoxFuture<Response<Body>, Infallible> {
    let status = match Method::of_path(request.uri().path()) {
        Some(method) => refuse_known(backend, method, request.headers()),
        None => unknown(request.uri().path()),
    };
    Box::pin(async move { Ok(status.into_http()) })
}

fn refuse_known(
    backend: &Arc<Backend>,
    method: Method,
    headers: &codegen::http::HeaderMap,
) -> Status {
    let text = match method.about().0 {
        "v3lockpb.Lock" => LOCK,
        "v3electionpb.Election" => ELECTION,
        _ => HEALTH_LIST,
    };
    let metadata = MetadataMap::from_headers(headers.clone());
    let begun = Call::begin(backend, method, &metadata);
    let refused = begun.and_then(|call| call.end::<()>(Err(status(text))));
    refused.expect_err("a refusal is an error")
}

/// The status of an unknown service or method, in grpc-go's words.
fn unknown(path: &str) -> Status {
    let service = path.trim_start_matches('/');
    let service = service
        .rsplit_once('/')
        .map_or(service, |(service, _)| service);
    Status::unimplemented(format!("unknown service {service}"))
}
