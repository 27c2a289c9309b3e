//! A connection from clients to a server of etcd's API: gRPC on HTTP/2, one message each way.
//!
//! ```text
//!   client ─► encode ─► stream ─┐
//!   client ─► encode ─► stream ─┼─► connection (a task) ─► socket
//!   client ─► encode ─► stream ─┘
//! ```
//!
//! A channel of tonic's has a queue, two tasks and some allocations more on the way of each call. The
//! generator runs on the processors of the servers that it measures, so it does without. It does not connect
//! again either: once a connection has broken, each further call on it fails.

use std::future::poll_fn;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use h2::client::{Builder, SendRequest};
use h2::{RecvStream, SendStream};
use prost::Message;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::spawn_local;
use tokio::time::timeout;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::http::{HeaderValue, Method, Request, StatusCode, Uri, header};
use tonic::metadata::{Ascii, MetadataValue};
use tonic::{Code, Status};

use super::access::{Access, dial, host_of};
use crate::targets::Failure;

pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// A request that takes longer has failed.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// Largest answer that is accepted: greater than etcd's default, because values may be.
pub(super) const MESSAGE_BYTES_MAX: usize = 256 << 20;
/// Bytes of one answer, and of all answers of a connection, that a server may send before the client
/// has taken them: what hyper's clients grant.
const STREAM_WINDOW_BYTES: u32 = 2 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 5 << 20;
/// Calls that may be under way before the server has said how many it takes.
const STREAMS_AT_FIRST: usize = 100;
/// In front of a message: a flag of compression, and the length.
const PREFIX_BYTES: usize = 5;

/// A client's handle of a connection. Dropping the last one closes it.
#[derive(Clone, Debug)]
pub(super) struct Connection {
    requests: SendRequest<Bytes>,
    /// URL of the server.
    url: Uri,
    /// Goes along with each request; `None` without users.
    token: Option<HeaderValue>,
}

impl Connection {
    /// Connects; to be called in a `LocalSet`, where the connection's task runs.
    pub(super) async fn open(
        url: &str,
        access: &Access,
        token: Option<&MetadataValue<Ascii>>,
    ) -> Result<Connection, Failure> {
        let failed = |why: &dyn std::fmt::Display| format!("endpoint {url}: {why}");
        let uri: Uri = url.parse().map_err(|error| failed(&error))?;
        if uri.scheme().is_none() || uri.port().is_none() {
            return Err(failed(&"write http://HOST:PORT").into());
        }
        let connected = timeout(CONNECT_TIMEOUT, connect(&uri, access)).await;
        let connected = connected.map_err(|late| failed(&late))?;
        let requests = connected.map_err(|error| failed(&with_causes(&*error)))?;
        let token = token.map(|token| token.as_bytes().try_into()).transpose()?;
        Ok(Connection {
            requests,
            url: uri,
            token,
        })
    }

    /// Calls a method, such as `/etcdserverpb.KV/Put`.
    pub(super) async fn call<A: Message + Default>(
        &mut self,
        method: &'static str,
        message: &impl Message,
    ) -> Result<A, Status> {
        let answered = timeout(REQUEST_TIMEOUT, self.exchange(method, message)).await;
        answered.unwrap_or_else(|_late| Err(Status::cancelled("Timeout expired")))
    }

    async fn exchange<A: Message + Default>(
        &mut self,
        method: &'static str,
        message: &impl Message,
    ) -> Result<A, Status> {
        let broken = |error| Status::from_error(Box::new(error));
        let ready = poll_fn(|context| self.requests.poll_ready(context)).await;
        ready.map_err(broken)?;
        let sent = self.requests.send_request(self.request(method), false);
        let (answer, mut stream) = sent.map_err(broken)?;
        send(&mut stream, message).map_err(broken)?;
        let (head, body) = answer.await.map_err(broken)?.into_parts();
        if head.status != StatusCode::OK {
            return Err(Status::unknown(format!("HTTP status {}", head.status)));
        }
        // An answer without a message has its status in the head.
        if let Some(status) = Status::from_header_map(&head.headers)
            && status.code() != Code::Ok
        {
            return Err(status);
        }
        let message = receive(body).await?;
        A::decode(message).map_err(|error| Status::internal(error.to_string()))
    }

    fn request(&self, method: &'static str) -> Request<()> {
        let mut url = self.url.clone().into_parts();
        url.path_and_query = Some(PathAndQuery::from_static(method));
        let mut request = Request::new(());
        *request.method_mut() = Method::POST;
        *request.uri_mut() = Uri::from_parts(url).expect("scheme, host and path are there");
        let headers = request.headers_mut();
        headers.insert(header::TE, HeaderValue::from_static("trailers"));
        let content = HeaderValue::from_static("application/grpc");
        headers.insert(header::CONTENT_TYPE, content);
        if let Some(token) = &self.token {
            headers.insert("token", token.clone());
        }
        request
    }
}

async fn connect(url: &Uri, access: &Access) -> Result<SendRequest<Bytes>, Failure> {
    let socket = dial(url).await?;
    Ok(match access.connector() {
        Some(connector) => start(connector.connect(host_of(url), socket).await?).await?,
        None => start(socket).await?,
    })
}

/// Begins HTTP/2 on a stream of bytes.
async fn start(
    bytes: impl AsyncRead + AsyncWrite + Unpin + 'static,
) -> Result<SendRequest<Bytes>, h2::Error> {
    let mut builder = Builder::new();
    builder
        .initial_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .initial_max_send_streams(STREAMS_AT_FIRST)
        .enable_push(false);
    let (requests, connection) = builder.handshake(bytes).await?;
    // Each call sees for itself how a connection ends.
    spawn_local(connection);
    Ok(requests)
}

/// Sends the only message of a call.
fn send(stream: &mut SendStream<Bytes>, message: &impl Message) -> Result<(), h2::Error> {
    let bytes = message.encoded_len();
    let mut frame = BytesMut::with_capacity(PREFIX_BYTES + bytes);
    frame.put_u8(0);
    frame.put_u32(bytes as u32);
    message.encode(&mut frame).expect("a buffer grows");
    stream.send_data(frame.freeze(), true)
}

/// The error with all its sources: the text of a library's error does not say what happened.
pub(super) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}

/// The only message of an answer, if its status is good.
async fn receive(mut body: RecvStream) -> Result<Bytes, Status> {
    let broken = |error| Status::from_error(Box::new(error));
    let mut answer = Answer::default();
    while let Some(piece) = body.data().await {
        let piece = piece.map_err(broken)?;
        let taken = body.flow_control().release_capacity(piece.len());
        taken.map_err(broken)?;
        answer.add(piece)?;
    }
    let trailers = body.trailers().await.map_err(broken)?.unwrap_or_default();
    match Status::from_header_map(&trailers) {
        Some(status) if status.code() == Code::Ok => answer.message(),
        Some(status) => Err(status),
        None => Err(Status::unknown("the answer has no status")),
    }
}

/// The prefix and the message, as far as they have come: in one piece as a rule.
#[derive(Debug, Default)]
struct Answer {
    first: Bytes,
    /// All bytes, if there is more than one piece.
    all: BytesMut,
}

impl Answer {
    fn add(&mut self, piece: Bytes) -> Result<(), Status> {
        if self.first.is_empty() {
            self.first = piece;
            return Ok(());
        }
        if self.all.len().max(self.first.len()) + piece.len() > PREFIX_BYTES + MESSAGE_BYTES_MAX {
            return Err(Status::out_of_range("the answer is too large"));
        }
        if self.all.is_empty() {
            let bytes = message_bytes(&self.first)
                .unwrap_or(0)
                .min(MESSAGE_BYTES_MAX);
            self.all.reserve(PREFIX_BYTES + bytes);
            self.all.extend_from_slice(&self.first);
        }
        self.all.extend_from_slice(&piece);
        Ok(())
    }

    fn message(self) -> Result<Bytes, Status> {
        let mut bytes = match self.all.is_empty() {
            true => self.first,
            false => self.all.freeze(),
        };
        if message_bytes(&bytes) != Some(bytes.len().saturating_sub(PREFIX_BYTES)) {
            return Err(Status::internal("the answer is not one message as it is"));
        }
        Ok(bytes.split_off(PREFIX_BYTES))
    }
}

/// The length of the message, by the prefix in front of it; `None` if it is compressed, or without a prefix.
fn message_bytes(answer: &[u8]) -> Option<usize> {
    let [0, length @ ..] = answer.first_chunk::<PREFIX_BYTES>()? else {
        return None;
    };
    Some(u32::from_be_bytes(*length) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_url_without_a_scheme_or_a_port_is_refused() {
        for url in ["127.0.0.1:2379", "localhost", "http://localhost", "/path"] {
            let refused = Connection::open(url, &Access::default(), None).await;
            let refused = refused.unwrap_err().to_string();
            assert!(refused.contains("write http://HOST:PORT"), "{refused}");
        }
    }

    #[test]
    fn the_host_of_a_url_has_no_brackets() {
        for (url, host) in [
            ("http://[::1]:2379", "::1"),
            ("http://localhost:2379", "localhost"),
        ] {
            assert_eq!(host_of(&url.parse().unwrap()), host);
        }
    }

    fn message_of(pieces: &[&'static [u8]]) -> Result<Bytes, Status> {
        let mut answer = Answer::default();
        for piece in pieces {
            answer.add(Bytes::from_static(piece))?;
        }
        answer.message()
    }

    #[test]
    fn a_message_is_put_together_of_any_pieces() {
        for pieces in [
            &[&b"\0\0\0\0\x03ink"[..]][..],
            &[b"", b"\0\0\0\0\x03ink"],
            &[b"\0", b"\0\0\0\x03", b"in", b"k"],
            &[b"\0\0\0\0\x03", b"", b"ink"],
        ] {
            assert_eq!(message_of(pieces).unwrap(), &b"ink"[..], "{pieces:?}");
        }
        assert_eq!(message_of(&[b"\0\0\0\0\0"]).unwrap(), &b""[..]);
    }

    #[test]
    fn what_is_not_one_message_is_an_error() {
        for pieces in [
            &[][..],
            &[&b"\0\0\0"[..]],
            &[b"\0\0\0\0\x03in"],
            &[b"\0\0\0\0\x03", b"inks"],
            &[b"\x01\0\0\0\x03ink"],
        ] {
            message_of(pieces).unwrap_err();
        }
    }
}
