//! HTTP/1 and HTTP/2 requests that are not gRPC.
//!
//! Health, versions and metrics, on the same port as gRPC or on one of their
//! own. Answers that monitoring reads are etcd's to the byte.

mod access;
mod health;

use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use tonic::Code;
use tonic::body::Body;
use tonic::codegen::http::{HeaderValue, Method, Request, Response, StatusCode, header};

use crate::backend::Backend;
use crate::metrics;

/// What a port serves besides gRPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pages {
    All,
    /// Metrics and health only.
    Monitoring,
}

/// Answers a request. Its body is not read: no page here takes one.
pub(crate) async fn answer<B>(
    backend: Arc<Backend>,
    pages: Pages,
    request: Request<B>,
) -> Response<Body> {
    let (parts, _) = request.into_parts();
    if let Some(refused) = access::refuse(&backend.config, &parts) {
        return refused;
    }
    let mut response = if parts.method == Method::OPTIONS {
        plain(StatusCode::OK, String::new())
    } else {
        page(&backend, pages, &parts).await
    };
    access::allow_origin(&backend.config, &parts, response.headers_mut());
    response
}

async fn page(
    backend: &Arc<Backend>,
    pages: Pages,
    parts: &tonic::codegen::http::request::Parts,
) -> Response<Body> {
    let path = parts.uri.path();
    match path {
        "/metrics" => exposition(backend).await,
        "/version" if pages == Pages::All => version(parts),
        gateway if gateway.starts_with("/v3/") && pages == Pages::All => {
            no_gateway(backend.config.http.gateway)
        }
        _ => match health::answer(backend, parts).await {
            Some(response) => response,
            None => not_found(),
        },
    }
}

async fn exposition(backend: &Arc<Backend>) -> Response<Body> {
    let scrapes = &backend.metrics.scrapes;
    let scrape = |backend: &Backend| {
        let _under_way = backend.metrics.scrapes.under_way.hold();
        Ok(metrics::exposition(backend))
    };
    match backend.aside(scrape).await {
        Ok(text) => {
            scrapes.answered.add(1);
            let kind = "text/plain; version=0.0.4; charset=utf-8";
            response(StatusCode::OK, kind, text)
        }
        Err(status) => {
            // A scrape that broke an invariant was not refused.
            let refused = status.code() == Code::Unavailable;
            scrapes.refused.add(u64::from(refused));
            refusal(StatusCode::SERVICE_UNAVAILABLE, status.message())
        }
    }
}

/// The answer for a path of etcd's JSON gateway: 501, or 404 if it is switched off.
fn no_gateway(wanted: bool) -> Response<Body> {
    if !wanted {
        return not_found();
    }
    let text = "inkstone: the JSON gateway (/v3/*) does not exist yet; use the gRPC API on this \
                port: etcdctl, or any client library of etcd v3";
    refusal(StatusCode::NOT_IMPLEMENTED, text)
}

fn not_found() -> Response<Body> {
    refusal(StatusCode::NOT_FOUND, "404 page not found")
}

fn version(parts: &tonic::codegen::http::request::Parts) -> Response<Body> {
    if parts.method != Method::GET {
        return method_not_allowed();
    }
    let text = format!(
        r#"{{"etcdserver":"{}","etcdcluster":"{}","storage":"{}"}}"#,
        etcd_api::ETCD_VERSION,
        etcd_api::CLUSTER_VERSION,
        etcd_api::STORAGE_VERSION
    );
    response(StatusCode::OK, "application/json", text)
}

/// A page of text.
fn plain(status: StatusCode, text: String) -> Response<Body> {
    response(status, "text/plain; charset=utf-8", text)
}

fn response(status: StatusCode, kind: &'static str, text: String) -> Response<Body> {
    let mut response = Response::new(Body::new(Full::new(Bytes::from(text))));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static(kind);
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// An error, with the line end that Go's server puts behind it.
fn refusal(status: StatusCode, text: &str) -> Response<Body> {
    let mut response = plain(status, format!("{text}\n"));
    no_sniffing(&mut response);
    response
}

fn no_sniffing(response: &mut Response<Body>) {
    let (name, value) = (header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    let headers = response.headers_mut();
    headers.insert(name, HeaderValue::from_static(value));
}

fn method_not_allowed() -> Response<Body> {
    let mut response = refusal(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed");
    let headers = response.headers_mut();
    headers.insert(header::ALLOW, HeaderValue::from_static("GET"));
    response
}
