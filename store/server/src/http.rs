//! HTTP/1 and HTTP/2 requests that are not gRPC.
//!
//! Health, versions and metrics, on the same port as gRPC or on one of their
//! own. Answers that monitoring reads are etcd's to the byte.

mod access;
mod debug;
mod health;
mod page;
mod profile;
mod ui;

pub(crate) use access::{OverTls, refuse_foreign_page, refuse_rebound_page};

use std::sync::Arc;

use hyper::body::Incoming;
use tonic::Code;
use tonic::body::Body;
use tonic::codegen::http::{Method, Request, Response, StatusCode};

use crate::backend::Backend;
use crate::client::Client;
use crate::json::body::discard;
use crate::json::call::Grpc;
use crate::json::gateway;
use crate::metrics;
use page::{method_not_allowed, not_found, plain, refusal, response};

/// Pages that a port serves besides gRPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pages {
    All,
    /// Metrics and health only.
    Monitoring,
}

/// Answers a request. Its body is looked at only for the JSON gateway.
pub(crate) async fn answer(
    grpc: Grpc,
    client: Arc<Client>,
    pages: Pages,
    request: Request<Incoming>,
) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let config = &client.backend.config;
    if let Some(refused) = access::refuse(config, &parts) {
        discard(body).await;
        return refused;
    }
    let has_gateway = pages == Pages::All && config.http.gateway;
    let is_gateway = has_gateway && gateway::serves(parts.uri.path());
    let users_are_checked = || client.backend.reader().users().are_checked();
    if is_gateway && let Some(refused) = access::refuse_common_name(users_are_checked(), &parts) {
        discard(body).await;
        return refused;
    }
    if pages == Pages::All && ui::serves(parts.uri.path()) {
        discard(body).await;
        return ui::answer(&config.http, &parts);
    }
    let mut response = if parts.method == Method::OPTIONS {
        plain(StatusCode::OK, String::new())
    } else if is_gateway {
        let admits_origin = access::admits_origin(config, &parts.headers, &parts.uri);
        let request = Request::from_parts(parts.clone(), body);
        gateway::answer(grpc, &client, request, admits_origin).await
    } else {
        discard(body).await;
        page(&client.backend, pages, &parts).await
    };
    access::allow_origin(config, &parts, response.headers_mut());
    response
}

async fn page(
    backend: &Arc<Backend>,
    pages: Pages,
    parts: &tonic::codegen::http::request::Parts,
) -> Response<Body> {
    match parts.uri.path() {
        "/metrics" => exposition(backend).await,
        "/version" if pages == Pages::All => version(parts),
        debugging if debugging.starts_with("/debug/") && pages == Pages::All => {
            debug::answer(backend, parts).await
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
