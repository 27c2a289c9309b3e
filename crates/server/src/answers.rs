//! Large answers: encoded away from the connections, sent piece by piece, bounded together.
//!
//! ```text
//!   request task ──claim bytes──► AnswerMemory
//!        │
//!        └──► a thread of its own: reads and encodes ──► Pieces ──► HTTP/2, as fast as the
//!                                                          │        client reads
//!                                                          └── the claim ends with the last
//! ```
//!
//! The values of a range are sent from the memory into which they were read, so an answer
//! takes its own size once. Where all answers together reach the limit, a new one waits. An
//! answer that its client does not read, or reads very slowly, gives way to one that waits.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use environment::{Clock, Instant};
use etcd_api::etcdserverpb::RangeResponse;
use hyper::body::{Body, Frame};
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::Status;
use tonic::codegen::http::{HeaderMap, HeaderValue};
use tracing::warn;

/// Answers are counted in units of this size.
const UNIT_BYTES: u64 = 4 << 10;
/// The limit is this part of the memory, between two bounds.
const MEMORY_PART: u64 = 4;
const LIMIT_BYTES_MIN: u64 = 64 << 20;
const LIMIT_BYTES_MAX: u64 = 4 << 30;
/// Smaller parts of an answer are copied together.
const COPIED_BYTES_MAX: usize = 4 << 10;
/// About how large a piece is that consists of copies.
const PIECE_BYTES: usize = 64 << 10;
/// An answer of which no piece was taken for this long gives way to one that waits.
const STALLED_AFTER: Duration = Duration::from_secs(10);
/// So does one that has been open for as long and was taken more slowly than this: a client
/// that takes a little from time to time must not keep its memory for hours.
const SLOW_BYTES_PER_SECOND: u64 = 64 << 10;
/// Between two looks for such answers, while one waits.
const LOOK_EVERY: Duration = Duration::from_millis(500);
const PREFIX_BYTES: usize = 5;

/// What all large answers may take together.
#[derive(Debug)]
pub(crate) struct AnswerMemory {
    units: Arc<Semaphore>,
    units_max: u32,
    clock: Arc<dyn Clock>,
    sent: Mutex<Sent>,
}

/// Answers that are being sent, by number.
#[derive(Debug, Default)]
struct Sent {
    last_number: u64,
    answers: HashMap<u64, Arc<Mutex<Rest>>>,
}

/// What of an answer was not taken yet.
#[derive(Debug)]
struct Rest {
    pieces: VecDeque<Bytes>,
    claim: Option<Claim>,
    began: Instant,
    /// When a piece was last asked for.
    taken_at: Instant,
    taken_bytes: u64,
    /// It gave way.
    was_dropped: bool,
}

/// Memory for one answer, given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Claim {
    _units: OwnedSemaphorePermit,
}

impl AnswerMemory {
    /// For a process that may count on so much memory.
    pub(crate) fn for_memory(memory_bytes: u64, clock: Arc<dyn Clock>) -> AnswerMemory {
        let bytes = (memory_bytes / MEMORY_PART).clamp(LIMIT_BYTES_MIN, LIMIT_BYTES_MAX);
        let units_max = (bytes / UNIT_BYTES) as u32;
        AnswerMemory {
            units: Arc::new(Semaphore::new(units_max as usize)),
            units_max,
            clock,
            sent: Mutex::default(),
        }
    }

    /// Waits until there is memory for so many bytes. An answer that is larger than the limit
    /// waits until it is the only one.
    pub(crate) async fn claim(&self, bytes: u64) -> Claim {
        let units = bytes.div_ceil(UNIT_BYTES).min(u64::from(self.units_max)) as u32;
        loop {
            let waiting = Arc::clone(&self.units).acquire_many_owned(units);
            match tokio::time::timeout(LOOK_EVERY, waiting).await {
                Ok(units) => {
                    let _units = units.expect("the semaphore is never closed");
                    return Claim { _units };
                }
                Err(_) => self.drop_stalled(),
            }
        }
    }

    /// Makes an answer ready to be sent.
    pub(crate) fn send(self: &Arc<AnswerMemory>, pieces: VecDeque<Bytes>, claim: Claim) -> Answer {
        let rest = Arc::new(Mutex::new(Rest {
            pieces,
            claim: Some(claim),
            began: self.clock.now(),
            taken_at: self.clock.now(),
            taken_bytes: 0,
            was_dropped: false,
        }));
        let mut sent = self.sent();
        sent.last_number += 1;
        let number = sent.last_number;
        sent.answers.insert(number, Arc::clone(&rest));
        drop(sent);
        Answer(Arc::new(Mutex::new(Some(Pieces {
            memory: Arc::clone(self),
            number,
            rest,
            is_over: false,
        }))))
    }

    fn sent(&self) -> MutexGuard<'_, Sent> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers that their clients do not read give way.
    fn drop_stalled(&self) {
        let now = self.clock.now();
        for rest in self.sent().answers.values() {
            let mut rest = lock(rest);
            if rest.gives_way(now) && rest.claim.take().is_some() {
                let bytes: usize = rest.pieces.drain(..).map(|piece| piece.len()).sum();
                rest.was_dropped = true;
                warn!(
                    bytes,
                    "a large answer that its client does not read gave way to another"
                );
            }
        }
    }
}

impl Rest {
    /// Its client does not read it, or too slowly to keep others waiting for its memory.
    fn gives_way(&self, now: Instant) -> bool {
        let open = now.saturating_since(self.began);
        let slow = self.taken_bytes < open.as_secs() * SLOW_BYTES_PER_SECOND;
        let stalled = now.saturating_since(self.taken_at) >= STALLED_AFTER;
        stalled || open >= STALLED_AFTER && slow
    }
}

fn lock(rest: &Mutex<Rest>) -> MutexGuard<'_, Rest> {
    rest.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A large answer on its way from a service to the connection: an extension of the response,
/// whose own message is empty.
#[derive(Clone)]
pub(crate) struct Answer(Arc<Mutex<Option<Pieces>>>);

impl Answer {
    /// The body to send, once.
    pub(crate) fn take(&self) -> Option<Pieces> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// A body that consists of pieces.
pub(crate) struct Pieces {
    memory: Arc<AnswerMemory>,
    number: u64,
    rest: Arc<Mutex<Rest>>,
    is_over: bool,
}

impl Drop for Pieces {
    fn drop(&mut self) {
        self.memory.sent().answers.remove(&self.number);
    }
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        let mut rest = lock(&self.rest);
        rest.taken_at = self.memory.clock.now();
        if let Some(piece) = rest.pieces.pop_front() {
            rest.taken_bytes += piece.len() as u64;
            return Poll::Ready(Some(Ok(Frame::data(piece))));
        }
        let status = match rest.was_dropped {
            false => None,
            true => Some(Status::resource_exhausted(
                "inkstone: the answer was not read for a while and gave way to others; read \
                 faster, or ask for less at a time",
            )),
        };
        drop(rest);
        self.is_over = true;
        Poll::Ready(Some(Ok(Frame::trailers(trailers(status)))))
    }
}

fn trailers(status: Option<Status>) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    match status {
        None => {
            trailers.insert(Status::GRPC_STATUS, HeaderValue::from_static("0"));
        }
        Some(status) => status
            .add_header(&mut trailers)
            .expect("a text without control characters is a header"),
    }
    trailers
}

/// A message as gRPC sends it, in one allocation.
pub(crate) fn encode(message: &impl Message) -> Result<VecDeque<Bytes>, Status> {
    let bytes = message.encoded_len();
    let mut encoded = BytesMut::with_capacity(PREFIX_BYTES + bytes);
    put_prefix(&mut encoded, bytes)?;
    message.encode_raw(&mut encoded);
    let mut encoded = encoded.freeze();
    let mut pieces = VecDeque::new();
    while encoded.len() > PIECE_BYTES {
        pieces.push_back(encoded.split_to(PIECE_BYTES));
    }
    pieces.push_back(encoded);
    Ok(pieces)
}

/// The same for a range: large values are not copied.
pub(crate) fn encode_range(response: RangeResponse) -> Result<VecDeque<Bytes>, Status> {
    const KVS: u32 = 2;
    let bytes = response.encoded_len();
    let RangeResponse {
        header,
        kvs,
        more,
        count,
    } = response;
    let mut pieces = VecDeque::new();
    let mut copied = BytesMut::with_capacity(PIECE_BYTES);
    put_prefix(&mut copied, bytes)?;
    // Fields may come in any order: the small ones together.
    let frame = RangeResponse {
        header,
        more,
        count,
        kvs: Vec::new(),
    };
    frame.encode_raw(&mut copied);
    for kv in kvs {
        encode_key(KVS, WireType::LengthDelimited, &mut copied);
        encode_varint(kv.0.len() as u64, &mut copied);
        if kv.0.len() <= COPIED_BYTES_MAX {
            copied.put_slice(&kv.0);
        } else {
            pieces.push_back(copied.split().freeze());
            pieces.push_back(kv.0);
        }
        if copied.len() >= PIECE_BYTES {
            pieces.push_back(copied.split().freeze());
        }
    }
    if !copied.is_empty() {
        pieces.push_back(copied.freeze());
    }
    let encoded: usize = pieces.iter().map(Bytes::len).sum();
    assert_eq!(
        encoded,
        PREFIX_BYTES + bytes,
        "the prefix says how long the message is"
    );
    Ok(pieces)
}

fn put_prefix(encoded: &mut BytesMut, bytes: usize) -> Result<(), Status> {
    let length = u32::try_from(bytes).map_err(|_| {
        Status::resource_exhausted(format!(
            "inkstone: an answer of {bytes} bytes is larger than gRPC can send (4 GiB); ask with a \
             limit, or for a stream"
        ))
    })?;
    encoded.put_u8(0);
    encoded.put_u32(length);
    Ok(())
}

#[cfg(test)]
mod tests {
    use environment::simulated::SimulatedClock;
    use etcd_api::etcdserverpb::ResponseHeader;
    use etcd_api::mvccpb::KeyValue;

    use super::*;

    fn response() -> RangeResponse {
        let sizes = [0, 10, COPIED_BYTES_MAX, 100_000, 3, 70_000, 5];
        let kv = |size: usize| {
            let key_value = KeyValue {
                key: "key".into(),
                value: vec![7; size].into(),
                mod_revision: 9,
                ..KeyValue::default()
            };
            key_value.into()
        };
        let header = ResponseHeader {
            revision: 12,
            ..ResponseHeader::default()
        };
        RangeResponse {
            header: Some(header),
            kvs: sizes.into_iter().map(kv).collect(),
            more: true,
            count: 99,
        }
    }

    fn decoded(pieces: &VecDeque<Bytes>) -> RangeResponse {
        let stream: Vec<u8> = pieces.iter().flatten().copied().collect();
        let (prefix, message) = stream.split_at(PREFIX_BYTES);
        assert_eq!(prefix[0], 0, "not compressed");
        assert_eq!(prefix[1..], (message.len() as u32).to_be_bytes());
        RangeResponse::decode(message).unwrap()
    }

    #[test]
    fn a_range_in_pieces_is_the_message() {
        let pieces = encode_range(response()).unwrap();
        assert_eq!(decoded(&pieces), response());
        let large = response().kvs[3].0.clone();
        assert!(pieces.iter().any(|piece| *piece == large));
        let empty = RangeResponse::default();
        assert_eq!(decoded(&encode_range(empty.clone()).unwrap()), empty);
    }

    #[test]
    fn a_message_in_one_allocation_comes_in_small_pieces() {
        let pieces = encode(&response()).unwrap();
        assert_eq!(decoded(&pieces), response());
        assert!(pieces.iter().all(|piece| piece.len() <= PIECE_BYTES));
    }

    fn memory() -> (SimulatedClock, Arc<AnswerMemory>) {
        let clock = SimulatedClock::stepped();
        let memory = AnswerMemory::for_memory(0, Arc::new(clock.clone()));
        (clock, Arc::new(memory))
    }

    fn next(pieces: &mut Pieces) -> Option<Frame<Bytes>> {
        let mut context = Context::from_waker(std::task::Waker::noop());
        match Pin::new(pieces).poll_frame(&mut context) {
            Poll::Ready(frame) => frame.map(|Ok(frame)| frame),
            Poll::Pending => panic!("a piece is always there"),
        }
    }

    #[tokio::test]
    async fn an_answer_ends_with_its_status_and_gives_its_memory_back() {
        let (_clock, memory) = memory();
        let claim = memory.claim(1 << 20).await;
        let left = memory.units.available_permits();
        assert_eq!(left as u32, memory.units_max - 256);
        let answer = memory.send(VecDeque::from([Bytes::from("a"), Bytes::from("b")]), claim);
        let mut pieces = answer.take().unwrap();
        assert!(answer.take().is_none(), "it is sent once");
        for expected in ["a", "b"] {
            assert_eq!(next(&mut pieces).unwrap().into_data().unwrap(), expected);
        }
        let trailers = next(&mut pieces).unwrap().into_trailers().unwrap();
        assert_eq!(trailers[Status::GRPC_STATUS], "0");
        assert!(next(&mut pieces).is_none());
        drop(pieces);
        assert_eq!(memory.units.available_permits() as u32, memory.units_max);
        assert!(memory.sent().answers.is_empty());
    }

    #[tokio::test]
    async fn an_answer_that_is_read_very_slowly_gives_way_and_a_fast_one_does_not() {
        for (piece_bytes, gives_way) in [(1_000, true), (1 << 20, false)] {
            let (clock, memory) = memory();
            let all = u64::from(memory.units_max) * UNIT_BYTES;
            let claim = memory.claim(all).await;
            let piece = Bytes::from(vec![0; piece_bytes]);
            let pieces = VecDeque::from(vec![piece; 100]);
            let mut pieces = memory.send(pieces, claim).take().unwrap();
            for _ in 0..4 {
                clock.advance(STALLED_AFTER / 3);
                next(&mut pieces);
            }
            memory.drop_stalled();
            let left = memory.units.available_permits() as u32;
            assert_eq!(left == memory.units_max, gives_way, "{piece_bytes}");
        }
    }

    #[tokio::test]
    async fn an_answer_that_is_not_read_gives_way_and_says_so() {
        let (clock, memory) = memory();
        let all = u64::from(memory.units_max) * UNIT_BYTES;
        let claim = memory.claim(all).await;
        let pieces = VecDeque::from([Bytes::from("a"), Bytes::from("b")]);
        let mut unread = memory.send(pieces, claim).take().unwrap();
        next(&mut unread);
        clock.advance(STALLED_AFTER);
        let claim = memory.claim(2 * all).await;
        let status = next(&mut unread).unwrap().into_trailers().unwrap();
        let status = Status::from_header_map(&status).unwrap();
        assert_eq!(status.code(), tonic::Code::ResourceExhausted);
        drop(claim);
    }
}
