//! Refusals of etcd's calls that this release does not support.
//!
//! Each refusal names what is missing and what to do instead, and is counted like every call.

use std::convert::Infallible;
use std::future::ready;
use std::sync::Arc;

use tonic::Status;
use tonic::body::Body;
use tonic::codegen::BoxFuture;
use tonic::codegen::http::{HeaderMap, Response};
use tonic::metadata::MetadataMap;

use crate::backend::Backend;
use crate::calls::Call;
use crate::methods::Method;

/// Refusal of calls about users and roles.
const AUTH: &str = "inkstone: users and roles are not supported yet: every client that reaches the \
    client port may do everything, so keep it where only trusted clients do";
/// Refusal of `Maintenance/Snapshot`.
const SNAPSHOT: &str = "inkstone: a snapshot in etcd's file format is not supported yet: \
    copy the keys with `etcdctl make-mirror`, or the data directory while the server is stopped";
/// Refusal of `Maintenance/Downgrade`.
const DOWNGRADE: &str = "inkstone: a downgrade is not supported yet: there is no older \
    version of the cluster to go to";
const LOCK: &str = "inkstone: the service v3lockpb.Lock is not supported yet: use the lock of a \
    client library, which is made of leases, transactions and watches (Go: package \
    client/v3/concurrency, Mutex), or `etcdctl lock`";
const ELECTION: &str = "inkstone: the service v3electionpb.Election is not supported yet: use the \
    election of a client library, which is made of leases, transactions and watches (Go: package \
    client/v3/concurrency, Election), or `etcdctl elect`";
const HEALTH_LIST: &str = "inkstone: grpc.health.v1.Health/List is not supported yet: ask with \
    Check, where the service \"\" stands for the whole server";

/// Answers a call that no handler serves.
pub(crate) fn refuse(
    backend: &Arc<Backend>,
    method: Method,
    headers: &HeaderMap,
) -> BoxFuture<Response<Body>, Infallible> {
    let refusal = match (method, method.about().0) {
        // Refused as by an etcd without authentication: tokens do not exist.
        (Method::Authenticate, _) => etcd_api::Error::AuthNotEnabled.to_status(),
        (Method::Snapshot, _) => Status::unimplemented(SNAPSHOT),
        (Method::Downgrade, _) => Status::unimplemented(DOWNGRADE),
        (_, "etcdserverpb.Auth") => Status::unimplemented(AUTH),
        (_, "v3lockpb.Lock") => Status::unimplemented(LOCK),
        (_, "v3electionpb.Election") => Status::unimplemented(ELECTION),
        (Method::HealthList, _) => Status::unimplemented(HEALTH_LIST),
        _ => Status::unimplemented(format!("inkstone: {method:?} is not supported yet")),
    };
    let metadata = MetadataMap::from_headers(headers.clone());
    let begun = Call::begin(backend, method, &metadata);
    let refused = begun.and_then(|call| call.end::<()>(Err(refusal)));
    answer(refused.expect_err("a refusal is an error"))
}

/// Answers a call of an unknown method: of one of etcd's services without a text, of any
/// other service in grpc-go's words.
pub(crate) fn refuse_unknown(path: &str) -> BoxFuture<Response<Body>, Infallible> {
    let service = path.trim_start_matches('/');
    let service = service
        .rsplit_once('/')
        .map_or(service, |(service, _)| service);
    let serves =
        |method: &Method| method.about().0 == service && method.is_shown_before_its_first_call();
    answer(Status::unimplemented(
        match Method::ALL.iter().any(serves) {
            true => String::new(),
            false => format!("unknown service {service}"),
        },
    ))
}

fn answer(status: Status) -> BoxFuture<Response<Body>, Infallible> {
    Box::pin(ready(Ok(status.into_http())))
}
