//! The pseudo-header fields of requests, as Go's HTTP/2 prints them with `GODEBUG=http2debug=2`.
//!
//! ```text
//!   http2: decoded hpack field header field ":authority" = "localhost:2379"
//! ```
//!
//! They show what a client asks for, for example by which name it knows the server. Go prints
//! all fields; here those are left out that may hold a token.

use std::io::Write;

use tonic::codegen::http::{Request, Version};

/// Prints the fields of a request in one write; nothing for HTTP/1.
pub(crate) fn print<B>(request: &Request<B>) {
    // If that fails the lines are lost, as those of the log are.
    let _ = std::io::stderr().write_all(lines(request).as_bytes());
}

fn lines<B>(request: &Request<B>) -> String {
    if request.version() != Version::HTTP_2 {
        return String::new();
    }
    let uri = request.uri();
    let path = uri.path_and_query().map_or("/", |it| it.as_str());
    let fields = [
        (":authority", uri.authority().map_or("", |it| it.as_str())),
        (":method", request.method().as_str()),
        (":path", path),
        (":scheme", uri.scheme_str().unwrap_or_default()),
    ];
    let lines = fields.iter().filter(|(_, value)| !value.is_empty());
    lines
        .map(|(name, value)| {
            format!("http2: decoded hpack field header field {name:?} = {value:?}\n")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(version: Version) -> Request<()> {
        let request = Request::post("http://db.example:2379/etcdserverpb.KV/Range");
        let request = request.version(version).header("authorization", "secret");
        request.body(()).unwrap()
    }

    #[test]
    fn the_pseudo_header_fields_are_printed_and_no_token_is() {
        let lines = lines(&request(Version::HTTP_2));
        let authority = "http2: decoded hpack field header field \":authority\" = ";
        assert!(lines.starts_with(&format!("{authority}\"db.example:2379\"\n")));
        assert!(
            lines.contains("\":path\" = \"/etcdserverpb.KV/Range\"\n"),
            "{lines}"
        );
        assert!(!lines.contains("secret"), "{lines}");
    }

    #[test]
    fn requests_of_http_1_are_not_printed() {
        assert_eq!(lines(&request(Version::HTTP_11)), "");
    }
}
