//! A connection whose clients call a server of etcd's API: gRPC on HTTP/2, one message each way.
//!
//! ```text
//!   client ─► encode ─► stream ─┐
//!   client ─► encode ─► stream ─┼─► connection (a task) ─► socket
//!   client ─► encode ─► stream ─┘
//! ```
//!
//! A channel of tonic's has a queue, two tasks and some allocations more on the way of each call. The
//! generator runs on the processors of the servers that it measures, so it does without.

use std::future::poll_fn;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use h2::client::{Builder, SendRequest};
use h2::{RecvStream, SendStream};
use prost::Message;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::spawn_local;
use tokio::time::timeout;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::http::{HeaderValue, Method, Request, StatusCode, Uri, header};
use tonic::metadata::{Ascii, MetadataValue};
use tonic::{Code, Status};

use super::access::Access;
use super::remote::with_causes;
use crate::targets::Failure;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// A request that takes longer has failed.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// Largest answer that is accepted: greater than etcd's default, because values may be.
pub(super) const MESSAGE_BYTES_MAX: usize = 256 << 20;
/// Bytes of one answer, and of all answers of a connection, that a server may send before the client
/// has taken them: what hyper's clients grant.
const STREAM_WINDOW_BYTES: u32 = 2 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 5 << 20;
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
        let address = (
            uri.host().unwrap_or_default(),
            uri.port_u16().unwrap_or_default(),
        );
        let connected = timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await;
        let socket = connected.map_err(|late| failed(&late))?;
        let socket = socket.map_err(|error| failed(&error))?;
        socket.set_nodelay(true)?;
        let requests = match access.connector() {
            Some(connector) => {
                let secure = connector.connect(address.0, socket).await;
                start(secure.map_err(|error| failed(&error))?).await
            }
            None => start(socket).await,
        };
        let requests = requests.map_err(|error| failed(&with_causes(&error)))?;
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
        let mut message = receive(body).await?;
        if message.len() < PREFIX_BYTES || message[0] != 0 {
            return Err(Status::internal("the answer is no message, or compressed"));
        }
        let message = message.split_off(PREFIX_BYTES);
        A::decode(message).map_err(|error| Status::internal(error.to_string()))
    }

    fn request(&self, method: &'static str) -> Request<()> {
        let mut url = self.url.clone().into_parts();
        url.path_and_query = Some(PathAndQuery::from_static(method));
        let mut request = Request::new(());
        *request.method_mut() = Method::POST;
        *request.uri_mut() = Uri::from_parts(url).expect("a URL with another path");
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

/// Begins HTTP/2 on a stream of bytes.
async fn start(
    bytes: impl AsyncRead + AsyncWrite + Unpin + 'static,
) -> Result<SendRequest<Bytes>, h2::Error> {
    let mut builder = Builder::new();
    builder
        .initial_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES);
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

/// The bytes of an answer, if its status is good.
async fn receive(mut body: RecvStream) -> Result<Bytes, Status> {
    let broken = |error| Status::from_error(Box::new(error));
    let mut all = Bytes::new();
    while let Some(piece) = body.data().await {
        let piece = piece.map_err(broken)?;
        body.flow_control()
            .release_capacity(piece.len())
            .map_err(broken)?;
        if all.len() + piece.len() > MESSAGE_BYTES_MAX {
            return Err(Status::out_of_range("the answer is too large"));
        }
        all = match all.is_empty() {
            true => piece,
            false => [all, piece].concat().into(),
        };
    }
    let trailers = body.trailers().await.map_err(broken)?.unwrap_or_default();
    match Status::from_header_map(&trailers) {
        Some(status) if status.code() == Code::Ok => Ok(all),
        Some(status) => Err(status),
        None => Err(Status::unknown("the answer has no status")),
    }
}
