//! Access rules of HTTP requests: allowed host names and origins, and names in certificates.
//!
//! Without TLS a web page could have a host name of its own resolve to
//! 127.0.0.1 and so call the server through its visitor's browser; the list of
//! host names prevents that. Origins are checked by the browser itself (CORS).

use tls::ClientCertificate;
use tonic::body::Body;
use tonic::codegen::http::request::Parts;
use tonic::codegen::http::{HeaderMap, HeaderValue, Response, StatusCode, header};

use crate::config::Config;

/// Extension of the requests that come with TLS.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OverTls;

/// The refusal of a request for a host that is not listed; `None` if it is allowed. With TLS every
/// host is allowed: the browser has checked its name.
pub(super) fn refuse(config: &Config, parts: &Parts) -> Option<Response<Body>> {
    if config.http.hosts.is_empty() || parts.extensions.get::<OverTls>().is_some() {
        return None;
    }
    let host = parts.headers.get(header::HOST);
    let host = host.and_then(|host| host.to_str().ok());
    let host = host.or_else(|| parts.uri.host()).unwrap_or_default();
    let name = without_port(host);
    if config.http.hosts.iter().any(|known| known == name) {
        return None;
    }
    let text =
        format!("host {name:?} is not on the list: start the server with --host-whitelist={name}");
    Some(super::page::refusal(StatusCode::MISDIRECTED_REQUEST, &text))
}

/// The refusal of a request to the JSON gateway, while users are checked, by a client with a
/// common name in its certificate; `None` if it is allowed. The name would be its user over gRPC
/// and is none here: etcd refuses such a client, so that it does not rely on the name.
pub(super) fn refuse_common_name(users_are_checked: bool, parts: &Parts) -> Option<Response<Body>> {
    let certificate = parts.extensions.get::<ClientCertificate>()?;
    if !users_are_checked || certificate.common_name.is_empty() {
        return None;
    }
    let text = "CommonName of client sending a request against gateway will be ignored and not \
                used as expected";
    Some(super::page::refusal(StatusCode::BAD_REQUEST, text))
}

/// Whether a page of the request's origin may read the answer; true if it has none, and so
/// comes from no browser's page.
pub(super) fn admits_origin(config: &Config, headers: &HeaderMap) -> bool {
    let allowed = &config.http.origins;
    let is_allowed = |origin: &HeaderValue| allowed.iter().any(|it| *origin == it.as_str());
    allowed.is_empty() || headers.get(header::ORIGIN).is_none_or(is_allowed)
}

/// Adds the header that allows a browser's page to read the answer, if its origin is listed.
pub(super) fn allow_origin(config: &Config, parts: &Parts, headers: &mut HeaderMap) {
    let allowed = &config.http.origins;
    let is_allowed = |origin: &&HeaderValue| allowed.iter().any(|it| *origin == it.as_str());
    let origin = match allowed.is_empty() {
        true => Some(HeaderValue::from_static("*")),
        false => parts
            .headers
            .get(header::ORIGIN)
            .filter(is_allowed)
            .cloned(),
    };
    let Some(origin) = origin else { return };
    let methods = HeaderValue::from_static("POST, GET, OPTIONS, PUT, DELETE");
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, methods);
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    let allowed = HeaderValue::from_static("accept, content-type, authorization");
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, allowed);
}

fn without_port(host: &str) -> &str {
    if let Some(rest) = host.strip_prefix('[') {
        return rest.split(']').next().unwrap_or(rest);
    }
    host.split(':').next().unwrap_or(host)
}

#[cfg(test)]
mod tests {
    use tonic::codegen::http::Request;

    use super::*;
    use crate::config::testing;

    fn parts(name: &str, value: &str) -> Parts {
        Request::builder()
            .header(name, value)
            .body(())
            .unwrap()
            .into_parts()
            .0
    }

    #[test]
    fn a_list_of_hosts_does_not_count_with_tls() {
        let config = testing::config(&["--host-whitelist=db.example"]);
        let mut parts = parts("host", "other.example");
        assert!(refuse(&config, &parts).is_some());
        parts.extensions.insert(OverTls);
        assert!(refuse(&config, &parts).is_none());
    }

    #[test]
    fn a_list_of_hosts_keeps_others_out() {
        let config = testing::config(&["--host-whitelist=db.example,::1"]);
        assert!(refuse(&config, &parts("host", "db.example:2379")).is_none());
        assert!(refuse(&config, &parts("host", "[::1]:2379")).is_none());
        let refused = refuse(&config, &parts("host", "evil.example")).unwrap();
        assert_eq!(refused.status(), StatusCode::MISDIRECTED_REQUEST);
        assert!(refuse(&testing::config(&[]), &parts("host", "evil.example")).is_none());
    }

    #[test]
    fn a_common_name_is_refused_while_users_are_checked() {
        let mut parts = parts("host", "db.example");
        assert!(refuse_common_name(true, &parts).is_none(), "no certificate");
        let mut known_as = |name: &str| {
            let common_name = name.to_owned();
            parts.extensions.insert(ClientCertificate { common_name });
            parts.clone()
        };
        assert!(refuse_common_name(true, &known_as("")).is_none());
        assert!(refuse_common_name(false, &known_as("alice")).is_none());
        let refused = refuse_common_name(true, &known_as("alice")).unwrap();
        assert_eq!(refused.status(), StatusCode::BAD_REQUEST);
    }

    #[test]
    fn only_listed_origins_are_allowed() {
        let allowed = |words: &[&str], origin: &str| {
            let mut headers = HeaderMap::new();
            allow_origin(
                &testing::config(words),
                &parts("origin", origin),
                &mut headers,
            );
            headers.get(header::ACCESS_CONTROL_ALLOW_ORIGIN).cloned()
        };
        assert_eq!(allowed(&[], "http://x").unwrap(), "*");
        let listed = ["--cors=http://a,http://b"];
        assert_eq!(allowed(&listed, "http://b").unwrap(), "http://b");
        assert_eq!(allowed(&listed, "http://c"), None);
    }
}
