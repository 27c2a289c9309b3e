//! Metadata of a call, from the headers of its HTTP request.
//!
//! The token is passed on, and so is what a client asks to be passed on. The mark
//! `grpcgateway-accept` is always there: a call that has it never has the identity of a
//! certificate, because a connection of HTTP may be shared by many users (etcd sets it only
//! if the request has the header `Accept`).

use tonic::codegen::http::{HeaderMap, HeaderName, HeaderValue, header};

/// Prefix of headers that a client asks to be passed on as metadata.
const PASSED_ON: &str = "grpc-metadata-";
/// Mark of a call that came through the gateway.
const MARK: HeaderName = HeaderName::from_static("grpcgateway-accept");
/// Metadata that belong to the transport.
const OF_TRANSPORT: [&str; 7] = [
    "connection",
    "content-length",
    "content-type",
    "host",
    "te",
    "transfer-encoding",
    "upgrade",
];

/// Metadata that cannot be passed on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("inkstone: the header {0} does not name metadata: letters, digits, '-', '_' and '.' do")]
pub struct InvalidMetadata(String);

/// The metadata for a request with these headers.
pub fn forwarded(headers: &HeaderMap) -> Result<HeaderMap, InvalidMetadata> {
    let mut metadata = HeaderMap::new();
    for (name, value) in headers {
        if *name == header::AUTHORIZATION {
            metadata.append(name, value.clone());
        } else if let Some(name) = name.as_str().strip_prefix(PASSED_ON) {
            let invalid = || InvalidMetadata(format!("{PASSED_ON}{name}"));
            if !is_of_transport(name) {
                let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| invalid())?;
                metadata.append(name, value.clone());
            }
        }
    }
    let any = HeaderValue::from_static("*/*");
    let accepts = headers.get(header::ACCEPT).cloned().unwrap_or(any);
    metadata.insert(MARK, accepts);
    Ok(metadata)
}

fn is_of_transport(name: &str) -> bool {
    name.starts_with("grpc-") || OF_TRANSPORT.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_static(value));
        }
        forwarded(&headers).unwrap()
    }

    #[test]
    fn tokens_are_passed_on() {
        let metadata = of(&[
            ("authorization", "Bearer t"),
            ("grpc-metadata-token", "u"),
            ("cookie", "c"),
        ]);
        assert_eq!(metadata["authorization"], "Bearer t");
        assert_eq!(metadata["token"], "u");
        assert_eq!(metadata.len(), 3, "and the mark");
    }

    #[test]
    fn every_call_is_marked_as_the_gateway_s() {
        assert_eq!(of(&[])[MARK], "*/*");
        let metadata = of(&[
            ("accept", "application/json"),
            ("grpc-metadata-grpcgateway-accept", ""),
        ]);
        let marks: Vec<_> = metadata.get_all(MARK).iter().collect();
        assert_eq!(marks, ["application/json"]);
    }

    #[test]
    fn headers_of_the_transport_cannot_be_set() {
        let metadata = of(&[
            ("grpc-metadata-content-type", "application/grpc+json"),
            ("grpc-metadata-grpc-encoding", "gzip"),
            ("grpc-metadata-te", "x"),
        ]);
        assert_eq!(metadata.len(), 1);
        let mut headers = HeaderMap::new();
        headers.insert("grpc-metadata-", HeaderValue::from_static("x"));
        assert!(forwarded(&headers).is_err());
    }
}
