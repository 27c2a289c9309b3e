//! The paths of the gateway.
//!
//! ```text
//!   POST /v3/kv/put {json} ──► JsonBody ──► Grpc ──► JsonAnswer ──► {json}
//!                                            the path of any gRPC call: checks, counters, limits
//! ```
//!
//! The gateway has no rights of its own and knows no call: what it may do is decided where it
//! is for gRPC, by the token that the client sent.

use std::sync::Arc;

use http_body_util::Full;
use hyper::body::Incoming;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::{HeaderName, HeaderValue, Method, Request, Response};

use crate::answer_body::{AnswerBody, CarriedJson};
use crate::client::Client;
use crate::http::refuse_foreign_page;
use crate::json::answer::JsonAnswer;
use crate::json::body::{Input, JsonBody, discard};
use crate::json::call::{Grpc, call, is_json, refusal};
use crate::json::websocket;
use crate::methods::Method as CallMethod;

/// The header that grpc-gateway makes of the answer's content type.
const GRPC_CONTENT_TYPE: HeaderName = HeaderName::from_static("grpc-metadata-content-type");

/// Whether a path is the gateway's.
pub(crate) fn serves(path: &str) -> bool {
    path.starts_with("/v3/") || path.starts_with("/v3beta/")
}

/// Answers a request. `admits_origin` is whether a page of its origin may read the answer.
pub(crate) async fn answer(
    grpc: Grpc,
    client: &Arc<Client>,
    request: Request<Incoming>,
    admits_origin: bool,
) -> Response<Body> {
    let path = request.uri().path();
    let renamed = path
        .strip_prefix("/v3beta/")
        .map(|rest| format!("/v3/{rest}"));
    let Some(route) = ::gateway::find(renamed.as_deref().unwrap_or(path)) else {
        discard(request.into_body()).await;
        return refusal(&Status::not_found("Not Found"));
    };
    let (config, method) = (&client.backend.config, CallMethod::of_path(route.call()));
    let refused = refuse_foreign_page(config, request.headers(), request.uri(), method);
    if let Err(refused) = refused {
        discard(request.into_body()).await;
        return refusal(&refused);
    }
    if websocket::is_asked_for(request.headers()) {
        return websocket::open(grpc, client, route, request, admits_origin);
    }
    if request.method() != Method::POST {
        discard(request.into_body()).await;
        return refusal(&Status::unimplemented("Method Not Allowed"));
    }
    let (parts, body) = request.into_parts();
    let body = JsonBody::new(route, Input::Http(body), Arc::clone(client));
    match call(grpc, client, route, &parts.headers, body).await {
        Ok(answer) => success(answer),
        Err(failure) => failure.response(),
    }
}

fn success(mut answer: JsonAnswer<AnswerBody>) -> Response<Body> {
    let mut response = match answer.take_whole() {
        Some(json) => Response::new(Body::new(Full::new(json))),
        None => {
            let mut response = Response::new(Body::empty());
            response.extensions_mut().insert(CarriedJson::new(answer));
            response
        }
    };
    let headers = response.headers_mut();
    is_json(headers);
    headers.insert(
        GRPC_CONTENT_TYPE,
        HeaderValue::from_static("application/grpc"),
    );
    response
}
