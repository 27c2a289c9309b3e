//! The body of an answer, as HTTP/2 takes it.
//!
//! ```text
//!   AnswerBody ──SentBytes──► HTTP/2's buffers ──► socket
//!                    └─ dropped when written, or when the call is: only then is the
//!                       answer's memory free
//! ```
//!
//! Every piece that HTTP/2 gets carries what counts its bytes: the claim of a large answer,
//! or the count of its connection. Turns in which a body is made are timed as those of a
//! call are.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use environment::Instant;
use hyper::body::{Body, Frame, SizeHint};
use tonic::Status;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::http::{HeaderMap, HeaderValue};

use crate::answers::{Pieces, SentPiece};
use crate::client::OpenCall;
use crate::methods::Method;
use crate::range_stream::Chunks;
use crate::unsent::Held;

/// To make a piece of fewer bytes takes no time worth measuring.
const TIMED_BYTES_MIN: usize = 128 << 10;

/// A call whose turns are timed, and that is under way as long as this exists.
pub(crate) struct Timed {
    path: PathAndQuery,
    call: OpenCall,
    /// When the call's last turn ended.
    ended: Instant,
}

impl Timed {
    pub(crate) fn new(path: PathAndQuery, call: OpenCall) -> Timed {
        Timed {
            path,
            call,
            ended: Instant::default(),
        }
    }

    /// Does one turn of the call.
    pub(crate) fn turn<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let began = self.call.client().backend.clock.now();
        let outcome = work();
        self.note_since(began);
        outcome
    }

    fn note_since(&mut self, began: Instant) {
        let backend = &self.call.client().backend;
        self.ended = backend.clock.now();
        let turns = &backend.metrics.long_turns;
        let logged = backend.config.long_turn;
        turns.note(began, self.ended, &self.path, logged);
        self.call.used(self.ended);
    }

    /// Whether the answer consists of messages that are made as the client reads.
    pub(crate) fn is_of_a_stream(&self) -> bool {
        Method::streams(self.path.path())
    }
}

/// Bytes on their way through HTTP/2.
pub(crate) struct SentBytes {
    bytes: Bytes,
    _counted: Counted,
}

/// What counts bytes until they are written.
enum Counted {
    /// A stream has one message under way at a time.
    Not,
    OnConnection(#[expect(dead_code, reason = "dropped with the bytes")] Held),
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

/// An answer that is encoded already, on its way from a service to the connection.
pub(crate) enum Large {
    /// One message.
    Whole(Pieces),
    /// Messages that are read one after the other.
    Chunks(Chunks),
}

enum Inner {
    /// One small message.
    Small(tonic::body::Body),
    /// A stream's messages.
    Stream(tonic::body::Body),
    Whole(Pieces),
    Chunks(Chunks),
    Over,
}

/// The body of an answer. The call ends with it.
pub(crate) struct AnswerBody {
    inner: Inner,
    timed: Timed,
}

type PolledFrame<E> = Poll<Option<Result<Frame<SentBytes>, E>>>;

impl AnswerBody {
    pub(crate) fn new(body: tonic::body::Body, large: Option<Large>, timed: Timed) -> AnswerBody {
        let inner = match large {
            Some(Large::Whole(pieces)) => Inner::Whole(pieces),
            Some(Large::Chunks(chunks)) => Inner::Chunks(chunks),
            None if timed.is_of_a_stream() => Inner::Stream(body),
            None => Inner::Small(body),
        };
        AnswerBody { inner, timed }
    }

    /// The message of most answers. HTTP/2 asks for it at once, so its turn began when the
    /// call's ended; what is small is not worth another look at the clock.
    fn poll_small(&mut self, context: &mut Context<'_>) -> PolledFrame<Status> {
        let Inner::Small(body) = &mut self.inner else {
            unreachable!("only small answers are polled here");
        };
        let frame = ready!(Pin::new(body).poll_frame(context));
        let bytes = data_bytes(&frame);
        if bytes >= TIMED_BYTES_MIN {
            self.timed.note_since(self.timed.ended);
        }
        let unsent = &self.timed.call.client().unsent;
        Poll::Ready(frame.map(|frame| {
            Ok(frame?.map_data(|bytes| SentBytes {
                _counted: Counted::OnConnection(unsent.hold(bytes.len())),
                bytes,
            }))
        }))
    }

    fn poll_encoded(&mut self, context: &mut Context<'_>) -> PolledFrame<Status> {
        let polled = match &mut self.inner {
            Inner::Whole(pieces) => Poll::Ready(pieces.next()),
            Inner::Chunks(chunks) => chunks.poll_next(context),
            _ => return Poll::Ready(None),
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

fn poll_stream(body: &mut tonic::body::Body, context: &mut Context<'_>) -> PolledFrame<Status> {
    let frame = ready!(Pin::new(body).poll_frame(context));
    Poll::Ready(frame.map(|frame| {
        Ok(frame?.map_data(|bytes| SentBytes {
            bytes,
            _counted: Counted::Not,
        }))
    }))
}

fn data_bytes<E>(frame: &Option<Result<Frame<Bytes>, E>>) -> usize {
    match frame {
        Some(Ok(frame)) => frame.data_ref().map_or(0, Bytes::len),
        _ => 0,
    }
}

impl Body for AnswerBody {
    type Data = SentBytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> PolledFrame<Status> {
        if let Inner::Small(_) = self.inner {
            return self.poll_small(context);
        }
        let began = self.timed.call.client().backend.clock.now();
        let polled = match &mut self.inner {
            Inner::Stream(body) => poll_stream(body, context),
            _ => self.poll_encoded(context),
        };
        self.timed.note_since(began);
        polled
    }

    fn is_end_stream(&self) -> bool {
        match &self.inner {
            Inner::Small(body) | Inner::Stream(body) => body.is_end_stream(),
            Inner::Over => true,
            Inner::Whole(_) | Inner::Chunks(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.inner {
            Inner::Small(body) | Inner::Stream(body) => body.size_hint(),
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

/// An answer as an extension of a response, the own message of which is empty.
#[derive(Clone)]
pub(crate) struct Encoded(Arc<Mutex<Option<Large>>>);

impl Encoded {
    pub(crate) fn new(large: Large) -> Encoded {
        Encoded(Arc::new(Mutex::new(Some(large))))
    }

    /// The answer, once.
    pub(crate) fn take(&self) -> Option<Large> {
        let large = self.0.lock();
        large.unwrap_or_else(PoisonError::into_inner).take()
    }
}
