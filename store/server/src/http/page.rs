//! Answers of pages: texts, and errors as Go's server writes them.

use bytes::Bytes;
use http_body_util::Full;
use tonic::body::Body;
use tonic::codegen::http::{HeaderValue, Response, StatusCode, header};

pub(super) fn not_found() -> Response<Body> {
    refusal(StatusCode::NOT_FOUND, "404 page not found")
}

/// A page of text.
pub(super) fn plain(status: StatusCode, text: String) -> Response<Body> {
    response(status, "text/plain; charset=utf-8", text)
}

pub(super) fn response(status: StatusCode, kind: &'static str, text: String) -> Response<Body> {
    let mut response = Response::new(Body::new(Full::new(Bytes::from(text))));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static(kind);
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// An error, with the line end that Go's server puts behind it.
pub(super) fn refusal(status: StatusCode, text: &str) -> Response<Body> {
    let mut response = plain(status, format!("{text}\n"));
    no_sniffing(&mut response);
    response
}

pub(super) fn no_sniffing(response: &mut Response<Body>) {
    let (name, value) = (header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    let headers = response.headers_mut();
    headers.insert(name, HeaderValue::from_static(value));
}

pub(super) fn method_not_allowed() -> Response<Body> {
    let mut response = refusal(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed");
    let headers = response.headers_mut();
    headers.insert(header::ALLOW, HeaderValue::from_static("GET"));
    response
}
