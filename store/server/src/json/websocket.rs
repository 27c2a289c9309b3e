//! The gateway over a WebSocket, for streams of a browser.
//!
//! ```text
//!   message ──► JsonBody ──► call ──► JsonAnswer ──line──► message, in frames as it is made
//!      └─ bytes of a message that is not complete are counted (unfinished.rs)
//! ```
//!
//! A message of the client is a part of the body, and each line of the answer is a message to
//! it. When the call ends, or the client closes, the connection ends. A browser cannot set
//! headers here, so the token comes as a subprotocol, `Bearer, TOKEN`, or as the cookie
//! `token`.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use gateway::Route;
use hyper::body::Incoming;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use tracing::debug;

use crate::answer_body::AnswerBody;
use crate::client::Client;
use crate::json::answer::{Chunk, JsonAnswer};
use crate::json::body::{Input, JsonBody, value_bytes_max};
use crate::json::call::{Grpc, call, refusal};
use crate::lock;
use crate::unfinished::Partial;

/// The subprotocol that precedes a token.
const BEARER: &str = "Bearer";
/// Buffer for received bytes.
const READ_BYTES: usize = 4 << 10;
/// Time for a client to take the last message.
const CLOSING_TIME_MAX: Duration = Duration::from_secs(1);

/// Whether a request asks for a WebSocket.
pub(super) fn is_asked_for(headers: &HeaderMap) -> bool {
    has_token(headers, header::CONNECTION, "upgrade")
        && has_token(headers, header::UPGRADE, "websocket")
}

fn has_token(headers: &HeaderMap, name: header::HeaderName, token: &str) -> bool {
    let values = headers
        .get_all(name)
        .iter()
        .filter_map(|it| it.to_str().ok());
    let mut tokens = values.flat_map(|value| value.split(','));
    tokens.any(|it| it.trim().eq_ignore_ascii_case(token))
}

/// Answers the handshake. The connection then serves the session.
pub(super) fn open(
    grpc: Grpc,
    client: &Arc<Client>,
    route: &'static Route,
    mut request: Request<Incoming>,
    admits_origin: bool,
) -> Response<Body> {
    let headers = request.headers();
    // A browser sends a page's requests for WebSockets whatever their origin.
    if !admits_origin {
        let text = "inkstone: this origin is not on the list of --cors";
        return refusal(&Status::permission_denied(text));
    }
    let version = headers.get(header::SEC_WEBSOCKET_VERSION);
    let is_known = version.is_some_and(|version| version == "13");
    let key = headers.get(header::SEC_WEBSOCKET_KEY).filter(|_| is_known);
    let Some(key) = key.filter(|_| request.method() == Method::GET) else {
        let text = "inkstone: a handshake of WebSocket is a GET with Sec-WebSocket-Key and \
                    Sec-WebSocket-Version: 13";
        return refusal(&Status::invalid_argument(text));
    };
    let response = switching(key, headers);
    let session = Session {
        grpc,
        client: Arc::clone(client),
        route,
        headers: of_call(headers),
        upgrade: hyper::upgrade::on(&mut request),
    };
    client.upgrade(session.run());
    response
}

fn switching(key: &HeaderValue, headers: &HeaderMap) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let accepted = derive_accept_key(key.as_bytes());
    let accepted = HeaderValue::from_str(&accepted).expect("base64 is a header");
    let answer = response.headers_mut();
    answer.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    answer.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    answer.insert(header::SEC_WEBSOCKET_ACCEPT, accepted);
    if protocols(headers).starts_with(BEARER) {
        let bearer = HeaderValue::from_static(BEARER);
        answer.insert(header::SEC_WEBSOCKET_PROTOCOL, bearer);
    }
    response
}

fn protocols(headers: &HeaderMap) -> &str {
    let protocols = headers.get(header::SEC_WEBSOCKET_PROTOCOL);
    let protocols = protocols.and_then(|protocols| protocols.to_str().ok());
    protocols.unwrap_or_default()
}

/// The headers of the call: those of the handshake, with the token.
fn of_call(headers: &HeaderMap) -> HeaderMap {
    let mut of_call = headers.clone();
    let subprotocol = protocols(headers)
        .split_once("Bearer,")
        .map(|(_, token)| token);
    if let Some(token) = cookie(headers).or(subprotocol)
        && let Ok(token) = HeaderValue::from_str(&format!("{BEARER} {}", token.trim()))
    {
        of_call.insert(header::AUTHORIZATION, token);
    }
    of_call
}

fn cookie(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers.get(header::COOKIE)?.to_str().ok()?;
    let mut cookies = cookies.split(';').map(str::trim);
    cookies.find_map(|cookie| cookie.strip_prefix("token="))
}

/// One WebSocket.
struct Session {
    grpc: Grpc,
    client: Arc<Client>,
    route: &'static Route,
    headers: HeaderMap,
    upgrade: OnUpgrade,
}

type Socket = WebSocketStream<Metered>;

impl Session {
    async fn run(self) {
        let socket = match self.upgrade.await {
            Ok(upgraded) => TokioIo::new(upgraded),
            Err(error) => {
                debug!(%error, "a connection did not become a WebSocket");
                return;
            }
        };
        let meter = Arc::new(Meter::new(Arc::clone(&self.client)));
        let metered = Metered {
            socket,
            meter: Arc::clone(&meter),
        };
        let bytes_max = Some(value_bytes_max(&self.client));
        let config = WebSocketConfig::default()
            .read_buffer_size(READ_BYTES)
            .max_message_size(bytes_max)
            .max_frame_size(bytes_max);
        let socket = WebSocketStream::from_raw_socket(metered, Role::Server, Some(config)).await;
        let (mut sink, messages) = socket.split();
        let (pieces, arriving) = mpsc::channel(1);
        let body = JsonBody::new(
            self.route,
            Input::WebSocket(arriving),
            Arc::clone(&self.client),
        );
        let outcome = tokio::select! {
            outcome = receive(messages, pieces, &meter) => outcome,
            outcome = async {
                match call(self.grpc, &self.client, self.route, &self.headers, body).await {
                    Ok(answer) => send(&mut sink, answer).await,
                    Err(failure) => send_text(&mut sink, failure.json()).await,
                }
            } => {
                let _ = timeout(CLOSING_TIME_MAX, sink.close()).await;
                outcome
            }
        };
        if let Err(error) = outcome {
            debug!(%error, "a WebSocket ended");
        }
    }
}

type SocketError = tokio_tungstenite::tungstenite::Error;

/// Passes on what the client sends, until it closes.
async fn receive(
    mut messages: SplitStream<Socket>,
    pieces: mpsc::Sender<Bytes>,
    meter: &Meter,
) -> Result<(), SocketError> {
    while let Some(message) = messages.next().await {
        let piece = match message? {
            Message::Text(text) => Bytes::from(text),
            Message::Binary(bytes) => bytes,
            _ => Bytes::new(),
        };
        meter.complete();
        if !piece.is_empty() {
            // A value may end with a message. The body lives as long as the call.
            let _ = pieces.send(piece).await;
            let _ = pieces.send(Bytes::from_static(b"\n")).await;
        }
    }
    Ok(())
}

async fn send_text(
    sink: &mut SplitSink<Socket, Message>,
    mut text: String,
) -> Result<(), SocketError> {
    text.truncate(text.trim_end().len());
    sink.send(Message::text(text)).await
}

/// Sends each line of an answer as a message, in frames as they are made.
async fn send(
    sink: &mut SplitSink<Socket, Message>,
    mut answer: JsonAnswer<AnswerBody>,
) -> Result<(), SocketError> {
    let mut code = Data::Text;
    loop {
        let chunk = std::future::poll_fn(|context| answer.poll_chunk(context)).await;
        let chunk = chunk.map_err(|status| SocketError::Io(io::Error::other(status)))?;
        let Some(chunk) = chunk else { return Ok(()) };
        let Chunk {
            mut json,
            sources,
            ends_message,
        } = chunk;
        if json.ends_with(b"\n") {
            json.truncate(json.len() - 1);
        }
        let frame = Frame::message(json, OpCode::Data(code), ends_message);
        sink.send(Message::Frame(frame)).await?;
        drop(sources);
        code = match ends_message {
            true => Data::Text,
            false => Data::Continue,
        };
    }
}

/// Counts the bytes of a message that is not complete.
struct Meter {
    client: Arc<Client>,
    unfinished: Mutex<(u64, Partial)>,
}

impl Meter {
    fn new(client: Arc<Client>) -> Meter {
        Meter {
            client,
            unfinished: Mutex::default(),
        }
    }

    /// Adds received bytes; an error if no more may be received.
    fn add(&self, bytes: usize) -> io::Result<()> {
        let (sum, partial) = &mut *lock(&self.unfinished);
        *sum += bytes as u64;
        let noted = partial.note_bytes(*sum, &self.client.backend.resources.unfinished);
        noted.map_err(io::Error::other)
    }

    /// Notes that a message is complete.
    fn complete(&self) {
        let (sum, partial) = &mut *lock(&self.unfinished);
        *sum = 0;
        let noted = partial.note_bytes(0, &self.client.backend.resources.unfinished);
        noted.expect("giving back is never refused");
    }

    /// Waits until the message is late.
    fn poll_late(&self, context: &mut Context<'_>) -> Poll<io::Error> {
        let (_, partial) = &mut *lock(&self.unfinished);
        partial.poll_late(context).map(io::Error::other)
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.complete();
    }
}

/// A socket that counts the bytes received.
struct Metered {
    socket: TokioIo<Upgraded>,
    meter: Arc<Meter>,
}

impl AsyncRead for Metered {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.socket).poll_read(context, buffer);
        if read.is_pending() {
            return self.meter.poll_late(context).map(Err);
        }
        ready!(read)?;
        Poll::Ready(self.meter.add(buffer.filled().len() - before))
    }
}

impl AsyncWrite for Metered {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}
