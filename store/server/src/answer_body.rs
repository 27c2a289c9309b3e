//! The body of an answer, as HTTP/2 takes it.
//!
//! ```text
//!   AnswerBody ──SentBytes──► HTTP/2's buffers ──► socket
//!                    └─ dropped when written, or when the call is: only then is the
//!                       answer's memory free
//! ```
//!
//! Every piece that HTTP/2 gets carries the guard that counts its bytes: in the claim of a
//! large answer, or in the unsent bytes of its connection. Turns in which a body is made are
//! timed like those of a call.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use environment::Instant;
use hyper::body::{Body as _, Frame, SizeHint};
use prost::Message;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::http::{HeaderMap, HeaderValue};

use crate::answers::{Pieces, SentPiece};
use crate::calls::Call;
use crate::client::Client;
use crate::encoded::encode_whole;
use crate::json::answer::{Chunk, JsonAnswer};
use crate::lock;
use crate::range_stream::Chunks;
use crate::unsent::Held;

/// Times the turns of a call and counts it as open until it is dropped.
pub(crate) struct Timed {
    path: PathAndQuery,
    client: Arc<Client>,
}

impl Timed {
    pub(crate) fn new(path: PathAndQuery, client: Arc<Client>) -> Timed {
        client.activity.begin_call();
        Timed { path, client }
    }

    /// Runs one turn of the call and times it.
    pub(crate) fn turn<T>(&self, work: impl FnOnce() -> T) -> T {
        let began = self.client.backend.clock.now();
        let outcome = work();
        self.note_since(began);
        outcome
    }

    fn note_since(&self, began: Instant) {
        let backend = &self.client.backend;
        let ended = backend.clock.now();
        let turns = &backend.metrics.long_turns;
        let logged = backend.config.clients.long_turn;
        turns.note(began, ended, &self.path, logged);
        self.client.activity.used(ended);
    }
}

impl Drop for Timed {
    fn drop(&mut self) {
        self.client.activity.end_call();
    }
}

/// Bytes of an answer that HTTP/2 holds.
pub(crate) struct SentBytes {
    bytes: Bytes,
    _counted: Counted,
}

/// The guard that counts bytes until they are written.
enum Counted {
    /// Not counted: a stream has one message at a time in HTTP/2.
    Not,
    OnConnection(#[expect(dead_code, reason = "dropped with the bytes")] Held),
    /// JSON, counted by what it was made of.
    AsSources(#[expect(dead_code, reason = "dropped with the bytes")] Vec<SentBytes>),
    InClaim(#[expect(dead_code, reason = "dropped with the bytes")] SentPiece),
}

impl Buf for SentBytes {
    fn remaining(&self) -> usize {
        self.bytes.len()
    }

    fn chunk(&self) -> &[u8] {
        &self.bytes
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
    }

    fn copy_to_bytes(&mut self, count: usize) -> Bytes {
        self.bytes.copy_to_bytes(count)
    }
}

/// An answer of a handler.
pub(crate) enum Answered<T> {
    /// To be encoded on the connection's thread.
    Small(T),
    /// Encoded already.
    Large(Pieces),
}

/// The return value of a handler.
pub(crate) type Handled<T> = Result<Answered<T>, Status>;

/// Ends a call with an answer of either kind.
pub(crate) fn end<T: Message>(call: Call, answered: Handled<T>) -> Result<Content, Status> {
    Ok(match call.end(answered)? {
        Answered::Small(message) => Content::Message(encode_whole(&message)?),
        Answered::Large(pieces) => Content::Pieces(pieces),
    })
}

/// The part of an answer that is not sent yet.
#[derive(Default)]
pub(crate) enum Content {
    /// One message, encoded.
    Message(Bytes),
    /// One message, encoded in pieces.
    Pieces(Pieces),
    /// Messages that are read and encoded one after the other.
    Chunks(Chunks),
    /// The messages of a stream, or a page.
    Library(Body),
    /// The answer of a call of the JSON gateway.
    Json(Box<JsonAnswer<AnswerBody>>),
    /// The trailers of a call that has succeeded.
    Trailers,
    /// All is sent, or the answer has headers only.
    #[default]
    Nothing,
}

/// The body of an answer. Dropping it ends the call.
pub(crate) struct AnswerBody {
    content: Content,
    timed: Timed,
}

type PolledFrame = Poll<Option<Result<Frame<SentBytes>, Status>>>;

impl AnswerBody {
    pub(crate) fn new(content: Content, timed: Timed) -> AnswerBody {
        AnswerBody { content, timed }
    }

    fn whole(&self, bytes: Bytes) -> SentBytes {
        SentBytes {
            _counted: Counted::OnConnection(self.timed.client.unsent.hold(bytes.len())),
            bytes,
        }
    }

    fn poll_content(&mut self, context: &mut Context<'_>) -> PolledFrame {
        let polled = match &mut self.content {
            Content::Pieces(pieces) => Poll::Ready(pieces.next()),
            Content::Chunks(chunks) => chunks.poll_next(context),
            Content::Library(body) => {
                let frame = ready!(Pin::new(body).poll_frame(context)?);
                let _counted = Counted::Not;
                let uncounted = |bytes| SentBytes { bytes, _counted };
                return Poll::Ready(frame.map(|frame| Ok(frame.map_data(uncounted))));
            }
            Content::Json(answer) => {
                let chunk = ready!(answer.poll_chunk(context)).transpose();
                let counted = |chunk: Chunk<SentBytes>| SentBytes {
                    bytes: chunk.json,
                    _counted: Counted::AsSources(chunk.sources),
                };
                return Poll::Ready(chunk.map(|chunk| Ok(Frame::data(counted(chunk?)))));
            }
            Content::Message(_) | Content::Trailers | Content::Nothing => {
                unreachable!("`poll_frame` has answered")
            }
        };
        let end = match ready!(polled) {
            Ok(Some((bytes, piece))) => {
                let _counted = Counted::InClaim(piece);
                return Poll::Ready(Some(Ok(Frame::data(SentBytes { bytes, _counted }))));
            }
            Ok(None) => Ok(()),
            Err(status) => Err(status),
        };
        self.content = Content::Nothing;
        Poll::Ready(Some(Ok(Frame::trailers(trailers(end)))))
    }
}

impl hyper::body::Body for AnswerBody {
    type Data = SentBytes;
    type Error = Status;

    /// One message was encoded in a turn of its call, so to hand it over is not timed.
    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> PolledFrame {
        match &mut self.content {
            Content::Message(bytes) => {
                let bytes = std::mem::take(bytes);
                self.content = Content::Trailers;
                Poll::Ready(Some(Ok(Frame::data(self.whole(bytes)))))
            }
            Content::Trailers => {
                self.content = Content::Nothing;
                Poll::Ready(Some(Ok(Frame::trailers(trailers(Ok(()))))))
            }
            Content::Nothing => Poll::Ready(None),
            _ => {
                let began = self.timed.client.backend.clock.now();
                let polled = self.poll_content(context);
                self.timed.note_since(began);
                polled
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Library(body) => body.is_end_stream(),
            Content::Nothing => true,
            _ => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Library(body) => body.size_hint(),
            _ => SizeHint::default(),
        }
    }
}

fn trailers(end: Result<(), Status>) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    match end {
        Ok(()) => {
            trailers.insert(Status::GRPC_STATUS, HeaderValue::from_static("0"));
        }
        Err(status) => status
            .add_header(&mut trailers)
            .expect("a text without control characters is a header"),
    }
    trailers
}

/// Carries an answer of the JSON gateway as an extension of a response without a body.
#[derive(Clone)]
pub(crate) struct CarriedJson(Arc<Mutex<Option<Box<JsonAnswer<AnswerBody>>>>>);

impl CarriedJson {
    pub(crate) fn new(answer: JsonAnswer<AnswerBody>) -> CarriedJson {
        CarriedJson(Arc::new(Mutex::new(Some(Box::new(answer)))))
    }

    /// Takes the answer; `None` if it was taken before.
    pub(crate) fn take(&self) -> Option<Box<JsonAnswer<AnswerBody>>> {
        lock(&self.0).take()
    }
}
