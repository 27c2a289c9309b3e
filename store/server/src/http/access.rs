//! Access rules of HTTP requests: allowed host names and origins, and names in certificates.
//!
//! Without TLS a web page could have a host name of its own resolve to
//! 127.0.0.1 and so call the server through its visitor's browser; the list of
//! host names prevents that. The browser checks which origins may read an answer (CORS), and
//! sends a simple request in any case: a request that changes something is refused here if a
//! browser says that it comes from a page of another origin (decision 0035).

use tls::ClientCertificate;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::request::Parts;
use tonic::codegen::http::uri::Authority;
use tonic::codegen::http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, Uri, header};

use crate::config::Config;
use crate::methods::Method;

/// The relation of a page to the server that it asks, as its browser sees it.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Extension of the requests that come with TLS.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OverTls;

/// The refusal of a request for a host that is not listed; `None` if it is allowed. With TLS every
/// host is allowed: the browser has checked its name.
pub(super) fn refuse(config: &Config, parts: &Parts) -> Option<Response<Body>> {
    if parts.extensions.get::<OverTls>().is_some() {
        return None;
    }
    let name = unlisted_host(config, &parts.headers, &parts.uri)?;
    Some(super::page::refusal(
        StatusCode::MISDIRECTED_REQUEST,
        &not_listed(name),
    ))
}

/// The host of a request, if there is a list of hosts and it is not there.
fn unlisted_host<'a>(config: &Config, headers: &'a HeaderMap, uri: &'a Uri) -> Option<&'a str> {
    let host = headers.get(header::HOST);
    let host = host.and_then(|host| host.to_str().ok());
    let name = without_port(host.or_else(|| uri.host()).unwrap_or_default());
    let hosts = &config.http.hosts;
    let is_listed = hosts.is_empty() || hosts.iter().any(|known| known == name);
    (!is_listed).then_some(name)
}

fn not_listed(name: &str) -> String {
    format!("host {name:?} is not on the list: start the server with --host-whitelist={name}")
}

/// Refuses a gRPC request of a browser's page without TLS for a host that is not listed. Over
/// HTTP/1.1 a page can send one, and its host may resolve to this server.
pub(crate) fn refuse_rebound_page(
    config: &Config,
    headers: &HeaderMap,
    uri: &Uri,
    is_secure: bool,
) -> Result<(), Status> {
    match unlisted_host(config, headers, uri).filter(|_| !is_secure) {
        None => Ok(()),
        Some(name) => Err(Status::permission_denied(format!(
            "inkstone: {}",
            not_listed(name)
        ))),
    }
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

/// Whether a browser sends the request for a page of another origin that `--cors` does not list. The
/// default `*` lists none: it lets pages read. Clients that are no browsers send neither of the headers.
///
/// Browsers say how the page is related to the server, but over plain HTTP only to localhost; then its
/// origin is compared with the host that it asks.
pub(crate) fn is_of_foreign_page(config: &Config, headers: &HeaderMap, uri: &Uri) -> bool {
    let text = |name: &HeaderName| {
        headers
            .get(name)
            .map(|value| value.to_str().unwrap_or("null"))
    };
    let origin = text(&header::ORIGIN);
    if origin.is_some_and(|origin| config.http.origins.iter().any(|it| it == origin)) {
        return false;
    }
    match (text(&SEC_FETCH_SITE), origin) {
        (Some(site), _) => !matches!(site, "same-origin" | "none"),
        (None, None) => false,
        (None, Some(origin)) => {
            let host = text(&header::HOST).or_else(|| uri.authority().map(Authority::as_str));
            let is_own = |host| is_same_host(origin, host);
            !host.is_some_and(is_own)
        }
    }
}

/// Whether an origin such as `http://db.example` is that of a host such as `db.example:80`. A port
/// that the scheme implies may be left out.
fn is_same_host(origin: &str, host: &str) -> bool {
    let (of_origin, implied) = match origin.split_once("://") {
        Some(("http", of_origin)) => (of_origin, ":80"),
        Some(("https", of_origin)) => (of_origin, ":443"),
        _ => return false,
    };
    let [of_origin, host] = [of_origin, host].map(|it| it.strip_suffix(implied).unwrap_or(it));
    of_origin == host
}

/// Refuses a call that changes something, if it is made by a page of another origin.
pub(crate) fn refuse_foreign_page(
    config: &Config,
    headers: &HeaderMap,
    uri: &Uri,
    method: Option<Method>,
) -> Result<(), Status> {
    let may_change = method.is_some_and(|method| !method.only_reads());
    if !may_change || !is_of_foreign_page(config, headers, uri) {
        return Ok(());
    }
    let origin = headers.get(header::ORIGIN);
    let origin = origin.and_then(|origin| origin.to_str().ok());
    Err(Status::permission_denied(format!(
        "inkstone: a page of another origin may change nothing here: to allow it, start the server \
         with --cors={}",
        origin.unwrap_or("ORIGIN")
    )))
}

/// Whether a page of the request's origin may read the answer; true if it has none, and so
/// comes from no browser's page.
pub(super) fn admits_origin(config: &Config, headers: &HeaderMap, uri: &Uri) -> bool {
    config.http.origins.is_empty() || !is_of_foreign_page(config, headers, uri)
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
    fn a_page_of_a_host_that_is_not_listed_makes_no_grpc_call_without_tls() {
        let config = testing::config(&["--host-whitelist=db.example"]);
        let refuse = |host, is_secure| {
            let Parts { headers, uri, .. } = parts("host", host);
            refuse_rebound_page(&config, &headers, &uri, is_secure)
        };
        assert!(refuse("db.example:2379", false).is_ok());
        assert!(refuse("rebound.example:2379", true).is_ok());
        let refused = refuse("rebound.example:2379", false).unwrap_err();
        assert!(
            refused
                .message()
                .contains("--host-whitelist=rebound.example")
        );
    }

    #[test]
    fn a_port_that_the_scheme_implies_may_be_left_out() {
        for (origin, host, is_same) in [
            ("http://a.example", "a.example:80", true),
            ("http://a.example", "a.example", true),
            ("https://a.example", "a.example:443", true),
            ("https://a.example", "a.example:80", false),
            ("http://a.example:2379", "a.example", false),
            ("http://a.example:2379", "a.example:2379", true),
            ("http://b.example", "a.example", false),
            ("null", "null", false),
        ] {
            assert_eq!(is_same_host(origin, host), is_same, "{origin} {host}");
        }
    }

    #[test]
    fn the_server_s_own_page_may_read_whatever_origins_are_listed() {
        let config = testing::config(&["--cors=http://other.example"]);
        let admits = |origin: &str| {
            let request = Request::builder().header("host", "db.example:2379");
            let request = request.header("origin", origin).body(()).unwrap();
            admits_origin(&config, request.headers(), request.uri())
        };
        assert!(admits("http://db.example:2379"));
        assert!(admits("http://other.example"));
        assert!(!admits("http://third.example"));
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
    fn a_page_of_another_origin_is_known_by_what_its_browser_sends() {
        let here = ("host", "db.example:2379");
        let site = |value| ("sec-fetch-site", value);
        let origin = |value| ("origin", value);
        for (lines, foreign) in [
            (vec![here], false),
            (
                vec![here, site("same-origin"), origin("https://db.example:2379")],
                false,
            ),
            (vec![here, site("none")], false),
            (vec![here, site("cross-site")], true),
            (
                vec![here, site("same-site"), origin("http://db.example:80")],
                true,
            ),
            (vec![here, site("something-new")], true),
            (vec![here, origin("http://db.example:2379")], false),
            (vec![here, origin("http://evil.example")], true),
            (vec![here, origin("http://db.example")], true),
            (vec![here, origin("null")], true),
            (
                vec![here, origin("http://listed"), site("cross-site")],
                false,
            ),
        ] {
            let config = testing::config(&["--cors=http://listed"]);
            let headers = lines.iter().map(|(name, value)| {
                let name: HeaderName = name.parse().unwrap();
                (name, HeaderValue::from_static(value))
            });
            let headers: HeaderMap = headers.collect();
            let found = is_of_foreign_page(&config, &headers, &Uri::default());
            assert_eq!(found, foreign, "{lines:?}");
        }
    }

    #[test]
    fn over_http_2_the_host_is_the_authority_of_the_request() {
        let config = testing::config(&[]);
        let origin = HeaderValue::from_static("https://db.example:2379");
        let headers = HeaderMap::from_iter([(header::ORIGIN, origin)]);
        let uri = Uri::from_static("https://db.example:2379/v3/kv/put");
        assert!(!is_of_foreign_page(&config, &headers, &uri));
        let uri = Uri::from_static("https://other.example:2379/v3/kv/put");
        assert!(is_of_foreign_page(&config, &headers, &uri));
    }

    #[test]
    fn a_foreign_page_may_read_and_not_change() {
        let config = testing::config(&[]);
        let site = HeaderValue::from_static("cross-site");
        let headers = HeaderMap::from_iter([(SEC_FETCH_SITE, site)]);
        let refuse = |method| refuse_foreign_page(&config, &headers, &Uri::default(), method);
        assert!(refuse(Some(Method::Range)).is_ok() && refuse(None).is_ok());
        for method in [
            Method::Put,
            Method::Authenticate,
            Method::Alarm,
            Method::Lock,
        ] {
            assert!(refuse(Some(method)).is_err(), "{method:?}");
        }
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
