//! Large answers: encoded off the connection threads, sent in pieces, with one memory limit.
//!
//! ```text
//!   request task ──claim bytes──► AnswerMemory
//!        │
//!        └──► a thread of its own: reads and encodes ──► Pieces ──► HTTP/2, as fast as the
//!                                                          │        client reads
//!                                                          └── the claim ends when the last
//!                                                              piece is written to the socket
//! ```
//!
//! The values of a range stay in the memory into which they were read until HTTP/2 takes
//! them, so an answer takes its own size once. When all answers together reach the limit, or
//! those of one connection reach its share, a new answer waits. While one waits, answers that
//! their clients do not read, or read very slowly, are dropped to free their memory. HTTP/2
//! gets copies of bounded size, so a dropped answer keeps no more memory than one copy.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use environment::{Clock, Instant};
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};
use tonic::Status;
use tracing::warn;

use crate::connections::Activity;
use crate::lock;

/// Answers are counted in units of this size.
const UNIT_BYTES: u64 = 4 << 10;
/// The limit is the process's memory divided by this, kept between the two bounds below.
const MEMORY_PART: u64 = 4;
const LIMIT_BYTES_MIN: u64 = 64 << 20;
const LIMIT_BYTES_MAX: u64 = 4 << 30;
/// The answers of one connection may take the limit divided by this.
const SHARE_PART: u32 = 4;
/// Size of the pieces that HTTP/2 gets.
const PIECE_BYTES: usize = 64 << 10;
/// An answer of which nothing was written for this long is dropped when another waits. If
/// its client then also reads nothing of what HTTP/2 still holds of it for this long, the
/// connection is ended.
const STALLED_AFTER: Duration = Duration::from_secs(10);
/// An answer that has been open for `STALLED_AFTER` and is read more slowly than this is
/// dropped, too: a client that reads a little from time to time must not keep its memory
/// for hours.
const SLOW_BYTES_PER_SECOND: u64 = 64 << 10;
/// Interval at which a waiting answer looks for answers to drop.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The memory limit of all large answers together.
#[derive(Debug)]
pub(crate) struct AnswerMemory {
    units: Arc<Semaphore>,
    units_max: u32,
    clock: Arc<dyn Clock>,
    sent: Mutex<Sent>,
}

/// The part of the limit that the large answers of one connection may take.
#[derive(Debug)]
pub(crate) struct AnswerShare {
    units: Arc<Semaphore>,
    units_max: u32,
    activity: Arc<Activity>,
}

/// Answers that are being sent, by a running number.
#[derive(Debug, Default)]
struct Sent {
    last_number: u64,
    answers: HashMap<u64, Weak<Sending>>,
}

/// An answer from its encoding until its last byte is written to the socket.
#[derive(Debug)]
struct Sending {
    memory: Arc<AnswerMemory>,
    number: u64,
    activity: Arc<Activity>,
    rest: Mutex<Rest>,
}

/// The part of an answer that is not written to the socket yet.
#[derive(Debug)]
struct Rest {
    /// Pieces that HTTP/2 has not asked for yet.
    pieces: VecDeque<Bytes>,
    /// Bytes that HTTP/2 holds and has not written to the socket.
    passed_bytes: u64,
    claim: Claim,
    began: Instant,
    /// When a piece was last written.
    written_at: Instant,
    written_bytes: u64,
    /// When the answer was dropped to free its memory; `None` if it was not.
    dropped_at: Option<Instant>,
}

/// Memory claimed for one answer. Dropping the claim frees it.
#[derive(Debug)]
pub(crate) struct Claim {
    units: OwnedSemaphorePermit,
    /// Permits of the connection's share.
    share: OwnedSemaphorePermit,
}

impl AnswerMemory {
    /// The limit for a process that may use `memory_bytes` of memory.
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

    /// The share of a new connection.
    pub(crate) fn share(&self, activity: Arc<Activity>) -> AnswerShare {
        let units_max = self.units_max / SHARE_PART;
        AnswerShare {
            units: Arc::new(Semaphore::new(units_max as usize)),
            units_max,
            activity,
        }
    }

    /// Waits until `bytes` of memory are free. An answer larger than the limit waits until it
    /// is the only one; an answer larger than its connection's share waits until it is the
    /// only one of its connection.
    pub(crate) async fn claim(&self, share: &AnswerShare, bytes: u64) -> Claim {
        let units = bytes.div_ceil(UNIT_BYTES).min(u64::from(self.units_max)) as u32;
        loop {
            match tokio::time::timeout(LOOK_EVERY, self.acquire(share, units)).await {
                Ok(claim) => return claim.expect("the semaphores are never closed"),
                // If the connection's own answers fill its share, only those are dropped.
                Err(_) if share.is_full(units) => self.drop_stalled(Some(&share.activity)),
                Err(_) => self.drop_stalled(None),
            }
        }
    }

    async fn acquire(&self, share: &AnswerShare, units: u32) -> Result<Claim, AcquireError> {
        let share_units = units.min(share.units_max);
        let share = Arc::clone(&share.units)
            .acquire_many_owned(share_units)
            .await?;
        let units = Arc::clone(&self.units).acquire_many_owned(units).await?;
        Ok(Claim { units, share })
    }

    /// Makes an answer ready to be sent. Its claim shrinks or grows to the size of the
    /// answer; it grows only as far as memory is free.
    pub(crate) fn send(
        self: &Arc<AnswerMemory>,
        share: &AnswerShare,
        pieces: VecDeque<Bytes>,
        mut claim: Claim,
    ) -> Pieces {
        let bytes = pieces.iter().map(|piece| piece.len() as u64).sum();
        claim.shrink_to(bytes);
        claim.try_grow_to(bytes, &self.units);
        let now = self.clock.now();
        let mut sent = lock(&self.sent);
        sent.last_number += 1;
        let sending = Arc::new(Sending {
            memory: Arc::clone(self),
            number: sent.last_number,
            activity: Arc::clone(&share.activity),
            rest: Mutex::new(Rest {
                pieces,
                passed_bytes: 0,
                claim,
                began: now,
                written_at: now,
                written_bytes: 0,
                dropped_at: None,
            }),
        });
        sent.answers
            .insert(sending.number, Arc::downgrade(&sending));
        Pieces(sending)
    }

    /// Drops answers that their clients do not read: of all connections, or of the one with
    /// this activity.
    fn drop_stalled(&self, activity: Option<&Arc<Activity>>) {
        let now = self.clock.now();
        // An answer removes itself from the table when its last reference is dropped, which
        // may be the one taken here.
        let answers: Vec<Arc<Sending>> = {
            let sent = lock(&self.sent);
            sent.answers.values().filter_map(Weak::upgrade).collect()
        };
        let meant = |it: &&Arc<Sending>| activity.is_none_or(|of| Arc::ptr_eq(of, &it.activity));
        let meant = answers.iter().filter(meant);
        meant.for_each(|it| it.give_way(now));
    }
}

impl AnswerShare {
    /// Whether the connection's share has fewer than `units` free, so that a new answer
    /// waits for the connection's other answers.
    fn is_full(&self, units: u32) -> bool {
        self.units.available_permits() < units.min(self.units_max) as usize
    }
}

impl Claim {
    /// Frees what the claim has beyond `bytes`.
    fn shrink_to(&mut self, bytes: u64) {
        let units = bytes.div_ceil(UNIT_BYTES) as usize;
        for permit in [&mut self.units, &mut self.share] {
            drop(permit.split(permit.num_permits().saturating_sub(units)));
        }
    }

    /// Grows the claim to `bytes` if that much is free.
    fn try_grow_to(&mut self, bytes: u64, units: &Arc<Semaphore>) {
        let wanted = bytes.div_ceil(UNIT_BYTES) as usize;
        let missing = wanted.saturating_sub(self.units.num_permits());
        let missing = u32::try_from(missing).unwrap_or(u32::MAX);
        if let Ok(more) = Arc::clone(units).try_acquire_many_owned(missing) {
            self.units.merge(more);
        }
    }
}

impl Sending {
    fn rest(&self) -> MutexGuard<'_, Rest> {
        lock(&self.rest)
    }

    /// Drops the answer if its client reads it too slowly, because another answer needs the
    /// memory; ends the connection if its client reads nothing of a dropped answer.
    fn give_way(&self, now: Instant) {
        let mut rest = self.rest();
        if rest.gives_way(now) {
            let bytes: usize = rest.pieces.drain(..).map(|piece| piece.len()).sum();
            rest.dropped_at = Some(now);
            rest.shrink();
            warn!(
                bytes,
                "a large answer was dropped because its client does not read it and another \
                answer needs the memory"
            );
        } else if rest.blocks(now) && self.activity.end() {
            warn!(
                "a connection is ended because its client does not read large answers: others wait \
                 for their memory"
            );
        }
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        lock(&self.memory.sent).answers.remove(&self.number);
    }
}

impl Rest {
    /// Whether the client reads the answer too slowly to keep its memory.
    fn gives_way(&self, now: Instant) -> bool {
        let open = now.saturating_since(self.began);
        let slow = self.written_bytes < open.as_secs() * SLOW_BYTES_PER_SECOND;
        let stalled = now.saturating_since(self.written_at) >= STALLED_AFTER;
        !self.pieces.is_empty() && (stalled || open >= STALLED_AFTER && slow)
    }

    /// Whether the client does not even read what HTTP/2 holds of the dropped answer.
    fn blocks(&self, now: Instant) -> bool {
        let since = self.dropped_at.unwrap_or(self.written_at);
        let since = since.max(self.written_at);
        self.passed_bytes > 0
            && self.pieces.is_empty()
            && now.saturating_since(since) >= STALLED_AFTER
    }

    /// Shrinks the claim to what is still in memory.
    fn shrink(&mut self) {
        let rest: usize = self.pieces.iter().map(Bytes::len).sum();
        self.claim.shrink_to(rest as u64 + self.passed_bytes);
    }

    /// Takes the next bytes as a copy: a slice of a large value would keep all of the value
    /// in memory.
    fn next(&mut self) -> Option<Bytes> {
        let mut left: usize = 0;
        for piece in &self.pieces {
            left += piece.len();
            if left >= PIECE_BYTES {
                break;
            }
        }
        let mut copied = BytesMut::with_capacity(left.min(PIECE_BYTES));
        while let Some(piece) = self.pieces.front_mut() {
            let taken = piece.len().min(PIECE_BYTES - copied.len());
            copied.extend_from_slice(&piece[..taken]);
            piece.advance(taken);
            if !piece.is_empty() {
                break;
            }
            self.pieces.pop_front();
        }
        self.passed_bytes += copied.len() as u64;
        (!copied.is_empty()).then(|| copied.freeze())
    }
}

/// The pieces of an answer, in the order in which HTTP/2 takes them.
pub(crate) struct Pieces(Arc<Sending>);

impl Pieces {
    /// The next piece, with the guard that counts it until it is written; `None` after the
    /// last. If the answer was dropped, the error is `ResourceExhausted`.
    pub(crate) fn next(&mut self) -> Result<Option<(Bytes, SentPiece)>, Status> {
        let mut rest = self.0.rest();
        if let Some(bytes) = rest.next() {
            let piece = SentPiece {
                sending: Arc::clone(&self.0),
                bytes: bytes.len() as u64,
            };
            return Ok(Some((bytes, piece)));
        }
        match rest.dropped_at {
            None => Ok(None),
            Some(_) => Err(Status::resource_exhausted(
                "inkstone: the answer was dropped because it was read too slowly and others \
                 needed its memory; read faster, or ask for less at a time",
            )),
        }
    }
}

impl Drop for Pieces {
    fn drop(&mut self) {
        let mut rest = self.0.rest();
        rest.pieces.clear();
        rest.shrink();
    }
}

/// Counts a piece that HTTP/2 holds. It is dropped when the piece is written or the call ends.
#[derive(Debug)]
pub(crate) struct SentPiece {
    sending: Arc<Sending>,
    bytes: u64,
}

impl Drop for SentPiece {
    fn drop(&mut self) {
        let now = self.sending.memory.clock.now();
        let mut rest = self.sending.rest();
        rest.passed_bytes -= self.bytes;
        rest.written_bytes += self.bytes;
        rest.written_at = now;
    }
}

#[cfg(test)]
mod tests {
    use environment::simulated::SimulatedClock;

    use super::*;

    fn memory() -> (SimulatedClock, Arc<AnswerMemory>) {
        let clock = SimulatedClock::stepped();
        let memory = AnswerMemory::for_memory(0, Arc::new(clock.clone()));
        (clock, Arc::new(memory))
    }

    fn left_bytes(memory: &AnswerMemory) -> u64 {
        memory.units.available_permits() as u64 * UNIT_BYTES
    }

    async fn answer(memory: &Arc<AnswerMemory>, share: &AnswerShare, bytes: usize) -> Pieces {
        let claim = memory.claim(share, bytes as u64).await;
        let pieces = VecDeque::from([Bytes::from(vec![7; bytes])]);
        memory.send(share, pieces, claim)
    }

    #[tokio::test]
    async fn an_answer_keeps_its_memory_until_its_last_piece_is_written() {
        let (_clock, memory) = memory();
        let share = memory.share(Arc::default());
        let mut pieces = answer(&memory, &share, 1 << 20).await;
        assert_eq!(left_bytes(&memory), LIMIT_BYTES_MIN - (1 << 20));
        let mut passed = Vec::new();
        while let Some((bytes, piece)) = pieces.next().unwrap() {
            assert!(bytes.len() <= PIECE_BYTES);
            passed.push(piece);
        }
        drop(pieces);
        assert_eq!(left_bytes(&memory), LIMIT_BYTES_MIN - (1 << 20));
        passed.drain(1..);
        drop(passed);
        assert_eq!(left_bytes(&memory), LIMIT_BYTES_MIN);
        assert!(lock(&memory.sent).answers.is_empty());
    }

    #[tokio::test]
    async fn small_pieces_are_passed_together() {
        let (_clock, memory) = memory();
        let share = memory.share(Arc::default());
        let claim = memory.claim(&share, 1).await;
        let parts = ["a", "bc", "", "d"].map(Bytes::from);
        let mut pieces = memory.send(&share, VecDeque::from(parts), claim);
        assert_eq!(pieces.next().unwrap().unwrap().0, "abcd");
        assert!(pieces.next().unwrap().is_none());
    }

    #[tokio::test]
    async fn one_connection_leaves_memory_to_the_others() {
        let (_clock, memory) = memory();
        let greedy = memory.share(Arc::default());
        let part = LIMIT_BYTES_MIN / u64::from(SHARE_PART);
        let claim = memory.claim(&greedy, part).await;
        let patience = Duration::from_millis(100);
        let waiting = tokio::time::timeout(patience, memory.claim(&greedy, 1)).await;
        assert!(waiting.is_err(), "its share is taken");
        let other = memory.share(Arc::default());
        memory.claim(&other, LIMIT_BYTES_MIN - part).await;
        drop(claim);
        memory.claim(&greedy, LIMIT_BYTES_MIN).await;
    }

    #[tokio::test]
    async fn an_answer_that_is_read_very_slowly_is_dropped_and_a_fast_one_is_not() {
        for (taken_at_once, gives_way) in [(1, true), (16, false)] {
            let (clock, memory) = memory();
            let share = memory.share(Arc::default());
            let mut pieces = answer(&memory, &share, 32 << 20).await;
            for _ in 0..4 {
                clock.advance(STALLED_AFTER / 3);
                (0..taken_at_once).for_each(|_| drop(pieces.next().unwrap()));
            }
            memory.drop_stalled(None);
            assert_eq!(pieces.next().is_err(), gives_way, "{taken_at_once}");
        }
    }

    #[tokio::test]
    async fn an_unread_answer_is_dropped_and_then_its_connection_is_ended() {
        let (clock, memory) = memory();
        let share = memory.share(Arc::default());
        let mut unread = answer(&memory, &share, LIMIT_BYTES_MIN as usize).await;
        let passed = unread.next().unwrap().unwrap();
        clock.advance(STALLED_AFTER);
        let other = memory.share(Arc::default());
        let half = memory.claim(&other, LIMIT_BYTES_MIN / 2).await;
        let status = unread.next().unwrap_err();
        assert_eq!(status.code(), tonic::Code::ResourceExhausted);
        assert_eq!(
            left_bytes(&memory),
            LIMIT_BYTES_MIN / 2 - PIECE_BYTES as u64,
            "HTTP/2 has a piece still"
        );
        assert!(!share.activity.is_ending());
        clock.advance(STALLED_AFTER);
        memory.drop_stalled(None);
        assert!(share.activity.is_ending());
        drop((passed, unread, half));
        assert_eq!(left_bytes(&memory), LIMIT_BYTES_MIN);
    }
}
