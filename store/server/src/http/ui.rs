//! The page at `/ui`: files without data. The page asks the gateway for all data that it shows.
//!
//! ```text
//!   /ui ──► /ui/ ──► index.html      /ui/name ──► a file of the crate `ui`, or 404
//! ```
//!
//! Each answer may be kept by the browser and is asked for again with its ETag, so that a page
//! never runs files of two releases. No answer may be read by a page of another origin.

use bytes::Bytes;
use http_body_util::Full;
use tonic::body::Body;
use tonic::codegen::http::request::Parts;
use tonic::codegen::http::{
    HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, header,
};
use ui::File;

use super::page::{not_found, plain, refusal};
use crate::config::Http;

const NO_GATEWAY: &str = "The page at /ui needs the JSON gateway, which this server has switched \
                          off: start it without --enable-grpc-gateway=false.";

const HEADERS: [(HeaderName, HeaderValue); 8] = [
    (
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(ui::CONTENT_SECURITY_POLICY),
    ),
    (
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    ),
    (
        header::REFERRER_POLICY,
        HeaderValue::from_static("no-referrer"),
    ),
    (header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        HeaderValue::from_static("same-origin"),
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        HeaderValue::from_static("same-origin"),
    ),
    (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
    (header::VARY, HeaderValue::from_static("accept-encoding")),
];

/// Whether a path is the page's.
pub(super) fn serves(path: &str) -> bool {
    path == "/ui" || path.starts_with("/ui/")
}

pub(super) fn answer(http: &Http, parts: &Parts) -> Response<Body> {
    let mut response = match (http.page, http.gateway) {
        (false, _) => not_found(),
        (true, false) => refusal(StatusCode::NOT_FOUND, NO_GATEWAY),
        (true, true) if parts.method != Method::GET && parts.method != Method::HEAD => {
            method_not_allowed()
        }
        (true, true) => page(parts),
    };
    let headers = response.headers_mut();
    for (name, value) in &HEADERS {
        headers.insert(name.clone(), value.clone());
    }
    response
}

fn page(parts: &Parts) -> Response<Body> {
    let Some(name) = parts.uri.path().strip_prefix("/ui/") else {
        return redirection();
    };
    let name = if name.is_empty() { ui::INDEX } else { name };
    match ui::find(name) {
        Some(file) if is_known(&parts.headers, file) => not_modified(file),
        Some(file) => whole(file, parts),
        None => not_found(),
    }
}

fn redirection() -> Response<Body> {
    let mut response = plain(StatusCode::PERMANENT_REDIRECT, String::new());
    // Relative, for a proxy that serves the port below a path of its own.
    let to = HeaderValue::from_static("ui/");
    response.headers_mut().insert(header::LOCATION, to);
    response
}

fn not_modified(file: &File) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NOT_MODIFIED;
    tag(&mut response, file);
    response
}

fn whole(file: &'static File, parts: &Parts) -> Response<Body> {
    let compressed = takes_gzip(&parts.headers);
    let body = match compressed {
        true => Bytes::from_static(file.compressed),
        false => Bytes::from(file.plain()),
    };
    let length = HeaderValue::from(body.len());
    let mut response = match parts.method == Method::HEAD {
        true => Response::new(Body::empty()),
        false => Response::new(Body::new(Full::new(body))),
    };
    tag(&mut response, file);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_LENGTH, length);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(file.kind));
    if compressed {
        let gzip = HeaderValue::from_static("gzip");
        headers.insert(header::CONTENT_ENCODING, gzip);
    }
    response
}

fn tag(response: &mut Response<Body>, file: &File) {
    let tag = HeaderValue::from_static(file.tag);
    response.headers_mut().insert(header::ETAG, tag);
}

/// Whether the client says that it has the file.
fn is_known(headers: &HeaderMap, file: &File) -> bool {
    let opaque = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
    let known = listed(headers, header::IF_NONE_MATCH);
    known
        .iter()
        .any(|tag| tag == "*" || opaque(tag) == opaque(file.tag))
}

/// Whether the client takes gzip: it is listed, and not with the weight 0.
fn takes_gzip(headers: &HeaderMap) -> bool {
    listed(headers, header::ACCEPT_ENCODING)
        .iter()
        .any(|entry| {
            let mut parts = entry.split(';').map(str::trim);
            let named = parts
                .next()
                .is_some_and(|name| name.eq_ignore_ascii_case("gzip"));
            let refused = parts.any(|part| {
                let weight = part.strip_prefix("q=").map(str::parse::<f32>);
                weight.is_some_and(|weight| weight.is_ok_and(|weight| weight <= 0.0))
            });
            named && !refused
        })
}

/// The entries of a header that is a list.
fn listed(headers: &HeaderMap, name: HeaderName) -> Vec<String> {
    let lines = headers.get_all(name).into_iter();
    let lines = lines.filter_map(|line| line.to_str().ok());
    let entries = lines.flat_map(|line| line.split(','));
    entries.map(|entry| entry.trim().to_owned()).collect()
}

fn method_not_allowed() -> Response<Body> {
    let mut response = super::page::method_not_allowed();
    let allowed = HeaderValue::from_static("GET, HEAD");
    response.headers_mut().insert(header::ALLOW, allowed);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: HeaderName, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_static(value))])
    }

    #[test]
    fn gzip_is_sent_only_to_a_client_that_lists_it() {
        for (value, taken) in [
            ("gzip", true),
            ("br, GZip;q=0.5", true),
            ("deflate,gzip ; q=1", true),
            ("gzip;q=0", false),
            ("gzip; q=0.000", false),
            ("identity", false),
            ("*", false),
            ("", false),
        ] {
            let headers = headers(header::ACCEPT_ENCODING, value);
            assert_eq!(takes_gzip(&headers), taken, "{value:?}");
        }
        assert!(!takes_gzip(&HeaderMap::new()));
    }

    #[test]
    fn a_known_tag_is_compared_weakly() {
        let file = File {
            path: "a.js",
            kind: "text/javascript",
            tag: "W/\"12\"",
            bytes: 0,
            compressed: &[],
        };
        for (value, known) in [
            ("W/\"12\"", true),
            ("\"12\"", true),
            ("\"1\", \"12\"", true),
            ("*", true),
            ("\"1\"", false),
            ("", false),
        ] {
            let headers = headers(header::IF_NONE_MATCH, value);
            assert_eq!(is_known(&headers, &file), known, "{value:?}");
        }
    }

    #[test]
    fn a_path_that_only_begins_like_the_page_s_is_another() {
        assert!(serves("/ui") && serves("/ui/") && serves("/ui/a/b.js"));
        assert!(!serves("/uix") && !serves("/") && !serves("/v3/ui"));
    }
}
