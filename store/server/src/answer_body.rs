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
use hyper::body::{Body, Frame, SizeHint};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::http::{HeaderMap, HeaderValue};
use tonic::{Response, Status};

use crate::answers::{Pieces, SentPiece};
use crate::calls::Call;
use crate::client::Client;
use crate::json::answer::{Chunk, JsonAnswer};
use crate::lock;
use crate::range_stream::Chunks;
use crate::unsent::Held;

/// Making a smaller piece takes too little time to be measured.
const TIMED_BYTES_MIN: usize = 128 << 10;

/// Times the turns of a call and counts it as open until it is dropped.
pub(crate) struct Timed {
    path: PathAndQuery,
    client: Arc<Client>,
    /// When the call's last turn ended.
    ended: Instant,
}

impl Timed {
    pub(crate) fn new(path: PathAndQuery, client: Arc<Client>) -> Timed {
        client.activity.begin_call();
        Timed {
            path,
            client,
            ended: Instant::default(),
        }
    }

    /// Runs one turn of the call and times it.
    pub(crate) fn turn<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let began = self.client.backend.clock.now();
        let outcome = work();
        self.note_since(began);
        outcome
    }

    fn note_since(&mut self, began: Instant) {
        let backend = &self.client.backend;
        self.ended = backend.clock.now();
        let turns = &backend.metrics.long_turns;
        let logged = backend.config.clients.long_turn;
        turns.note(began, self.ended, &self.path, logged);
        self.client.activity.used(self.ended);
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
    Large(Large),
}

impl<T> Answered<T> {
    pub(crate) fn large(pieces: Pieces) -> Answered<T> {
        Answered::Large(Large::Whole(pieces))
    }
}

/// The return value of a handler.
pub(crate) type Handled<T> = Result<Answered<T>, Status>;

/// Ends a call with an answer of either kind.
pub(crate) fn end<T: Default>(call: Call, answered: Handled<T>) -> Result<Response<T>, Status> {
    match answered {
        Ok(Answered::Small(response)) => call.end(Ok(response)),
        Ok(Answered::Large(answer)) => {
            let mut response = call.end(Ok(T::default()))?;
            response.extensions_mut().insert(Encoded::new(answer));
            Ok(response)
        }
        Err(status) => call.end(Err(status)),
    }
}

/// An encoded answer, handed from a handler to its connection.
pub(crate) enum Large {
    /// One message.
    Whole(Pieces),
    /// Messages that are read and encoded one after the other.
    Chunks(Chunks),
    /// The answer of a call of the JSON gateway.
    Json(Box<JsonAnswer<AnswerBody>>),
}

enum Inner {
    /// One small message, or the messages of a stream.
    Plain {
        body: tonic::body::Body,
        streams: bool,
    },
    Whole(Pieces),
    Chunks(Chunks),
    Json(Box<JsonAnswer<AnswerBody>>),
    Over,
}

/// The body of an answer. Dropping it ends the call.
pub(crate) struct AnswerBody {
    inner: Inner,
    timed: Timed,
}

type PolledFrame<E> = Poll<Option<Result<Frame<SentBytes>, E>>>;

impl AnswerBody {
    /// The body of an answer, which `streams` if it has many messages.
    pub(crate) fn new(
        body: tonic::body::Body,
        large: Option<Large>,
        streams: bool,
        timed: Timed,
    ) -> AnswerBody {
        let inner = match large {
            Some(Large::Whole(pieces)) => Inner::Whole(pieces),
            Some(Large::Chunks(chunks)) => Inner::Chunks(chunks),
            Some(Large::Json(answer)) => Inner::Json(answer),
            None => Inner::Plain { body, streams },
        };
        AnswerBody { inner, timed }
    }

    /// Polls the one message of a small answer, which most answers are. HTTP/2 asks for it at
    /// once, so its turn begins when the call's turn ended, and the clock is not read again.
    fn poll_small(&mut self, context: &mut Context<'_>) -> PolledFrame<Status> {
        let Inner::Plain { body, .. } = &mut self.inner else {
            unreachable!("only small answers are polled here");
        };
        let Some(frame) = ready!(Pin::new(body).poll_frame(context)).transpose()? else {
            return Poll::Ready(None);
        };
        if frame.data_ref().map_or(0, Bytes::len) >= TIMED_BYTES_MIN {
            self.timed.note_since(self.timed.ended);
        }
        let unsent = &self.timed.client.unsent;
        Poll::Ready(Some(Ok(frame.map_data(|bytes| SentBytes {
            _counted: Counted::OnConnection(unsent.hold(bytes.len())),
            bytes,
        }))))
    }

    fn poll_large(&mut self, context: &mut Context<'_>) -> PolledFrame<Status> {
        let polled = match &mut self.inner {
            Inner::Whole(pieces) => Poll::Ready(pieces.next()),
            Inner::Chunks(chunks) => chunks.poll_next(context),
            Inner::Plain { body, .. } => {
                let frame = ready!(Pin::new(body).poll_frame(context)?);
                let _counted = Counted::Not;
                let uncounted = |bytes| SentBytes { bytes, _counted };
                return Poll::Ready(frame.map(|frame| Ok(frame.map_data(uncounted))));
            }
            Inner::Json(answer) => {
                let chunk = ready!(answer.poll_chunk(context)).transpose();
                let counted = |chunk: Chunk<SentBytes>| SentBytes {
                    bytes: chunk.json,
                    _counted: Counted::AsSources(chunk.sources),
                };
                return Poll::Ready(chunk.map(|chunk| Ok(Frame::data(counted(chunk?)))));
            }
            Inner::Over => return Poll::Ready(None),
        };
        let end = match ready!(polled) {
            Ok(Some((bytes, piece))) => {
                let _counted = Counted::InClaim(piece);
                return Poll::Ready(Some(Ok(Frame::data(SentBytes { bytes, _counted }))));
            }
            Ok(None) => Ok(()),
            Err(status) => Err(status),
        };
        self.inner = Inner::Over;
        Poll::Ready(Some(Ok(Frame::trailers(trailers(end)))))
    }
}

impl Body for AnswerBody {
    type Data = SentBytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> PolledFrame<Status> {
        if let Inner::Plain { streams: false, .. } = self.inner {
            return self.poll_small(context);
        }
        let began = self.timed.client.backend.clock.now();
        let polled = self.poll_large(context);
        self.timed.note_since(began);
        polled
    }

    fn is_end_stream(&self) -> bool {
        match &self.inner {
            Inner::Plain { body, .. } => body.is_end_stream(),
            Inner::Over => true,
            Inner::Whole(_) | Inner::Chunks(_) | Inner::Json(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.inner {
            Inner::Plain { body, .. } => body.size_hint(),
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

/// Carries an encoded answer as an extension of a response with an empty message.
#[derive(Clone)]
pub(crate) struct Encoded(Arc<Mutex<Option<Large>>>);

impl Encoded {
    pub(crate) fn new(large: Large) -> Encoded {
        Encoded(Arc::new(Mutex::new(Some(large))))
    }

    /// Takes the answer; `None` if it was taken before.
    pub(crate) fn take(&self) -> Option<Large> {
        lock(&self.0).take()
    }
}
