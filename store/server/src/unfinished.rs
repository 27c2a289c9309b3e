//! Partly received requests: a limit on the memory that they take together.
//!
//! ```text
//!   HTTP/2 ──DATA──► RequestBody ──► the decoder, which keeps an incomplete message
//!                        │
//!                        └─► Unfinished: bytes of all messages that have begun and not ended
//! ```
//!
//! A message is kept until its last byte is received. One client could begin very many large
//! messages and end none. So their bytes are counted: above the limit a large message is
//! refused as it grows, above twice the limit any message is, and a large message must be
//! complete within a time limit.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Sleep, sleep};
use tonic::Status;

use crate::encoded::PREFIX_BYTES;

/// A message with more received bytes than this is large.
const LARGE_BYTES: u64 = 64 << 10;
/// A large message must be complete within this time after it became large.
const LARGE_TIME_MAX: Duration = Duration::from_secs(30);
/// The limit is the process's memory divided by this, kept between the two bounds below.
const MEMORY_PART: u64 = 16;
const LIMIT_BYTES_MIN: u64 = 32 << 20;
const LIMIT_BYTES_MAX: u64 = 512 << 20;

/// The bytes of all unfinished messages.
#[derive(Debug)]
pub(crate) struct Unfinished {
    bytes: AtomicU64,
    limit_bytes: u64,
}

impl Unfinished {
    /// The limit for a process that may use `memory_bytes` of memory.
    pub(crate) fn for_memory(memory_bytes: u64) -> Unfinished {
        let part = memory_bytes / MEMORY_PART;
        Unfinished {
            bytes: AtomicU64::new(0),
            limit_bytes: part.clamp(LIMIT_BYTES_MIN, LIMIT_BYTES_MAX),
        }
    }

    /// Counts a message that had `before` received bytes and has `now`. The error says that
    /// the message must be refused.
    fn recount(&self, before: u64, now: u64) -> Result<(), Status> {
        let order = Ordering::Relaxed;
        if now <= before {
            self.bytes.fetch_sub(before - now, order);
            return Ok(());
        }
        let all = self.bytes.fetch_add(now - before, order) + now - before;
        let limit_bytes = match now > LARGE_BYTES {
            true => self.limit_bytes,
            false => 2 * self.limit_bytes,
        };
        if all <= limit_bytes {
            return Ok(());
        }
        Err(Status::resource_exhausted(format!(
            "inkstone: partly received requests hold {all} bytes of at most {limit_bytes}; \
             send the request again later"
        )))
    }
}

/// Position within a stream of messages: how much of the current message is missing.
#[derive(Debug, Default)]
struct Framing {
    prefix: [u8; PREFIX_BYTES],
    prefix_bytes: usize,
    /// Bytes of the message that are not received yet.
    missing_bytes: u64,
    /// Received bytes of the message, its prefix included.
    unfinished_bytes: u64,
}

impl Framing {
    /// Advances by the next bytes of the stream.
    fn advance(&mut self, mut data: &[u8]) {
        while !data.is_empty() {
            if self.prefix_bytes < PREFIX_BYTES {
                let taken = data.len().min(PREFIX_BYTES - self.prefix_bytes);
                let filled = &mut self.prefix[self.prefix_bytes..self.prefix_bytes + taken];
                filled.copy_from_slice(&data[..taken]);
                self.prefix_bytes += taken;
                self.unfinished_bytes += taken as u64;
                data = &data[taken..];
                if self.prefix_bytes < PREFIX_BYTES {
                    return;
                }
                let [_, length @ ..] = self.prefix;
                self.missing_bytes = u32::from_be_bytes(length).into();
            }
            let taken = self.missing_bytes.min(data.len() as u64);
            self.missing_bytes -= taken;
            self.unfinished_bytes += taken;
            data = &data[taken as usize..];
            if self.missing_bytes == 0 {
                (self.prefix_bytes, self.unfinished_bytes) = (0, 0);
            }
        }
    }
}

/// State of a body that ends, so far, within a message.
#[derive(Default)]
pub(crate) struct Partial {
    framing: Framing,
    /// Bytes of this body in the count of all connections.
    counted_bytes: u64,
    /// When a large message must be complete; `None` while the message is small.
    deadline: Option<Pin<Box<Sleep>>>,
}

/// Whether the bytes are exactly one message with its prefix.
pub(crate) fn is_one_message(data: &[u8]) -> bool {
    let Some(([_, length @ ..], message)) = data.split_first_chunk::<PREFIX_BYTES>() else {
        return false;
    };
    message.len() as u64 == u64::from(u32::from_be_bytes(*length))
}

impl Partial {
    pub(crate) fn note(&mut self, data: &[u8], unfinished: &Unfinished) -> Result<(), Status> {
        self.framing.advance(data);
        self.note_bytes(self.framing.unfinished_bytes, unfinished)
    }

    /// Counts a message, of any format, that has `now` received bytes; 0 if none has begun.
    pub(crate) fn note_bytes(&mut self, now: u64, unfinished: &Unfinished) -> Result<(), Status> {
        self.recount(now, unfinished)?;
        match now > LARGE_BYTES {
            true => {
                self.deadline
                    .get_or_insert_with(|| Box::pin(sleep(LARGE_TIME_MAX)));
            }
            false => self.deadline = None,
        }
        Ok(())
    }

    /// Updates the count of all connections, only if this body's part of it changed: all
    /// cores share that counter.
    pub(crate) fn recount(&mut self, now: u64, unfinished: &Unfinished) -> Result<(), Status> {
        let before = std::mem::replace(&mut self.counted_bytes, now);
        match now == before {
            true => Ok(()),
            false => unfinished.recount(before, now),
        }
    }

    /// Waits for the deadline; returns the refusal of a message that is not complete then.
    pub(crate) fn poll_late(&mut self, context: &mut Context<'_>) -> Poll<Status> {
        let Some(deadline) = &mut self.deadline else {
            return Poll::Pending;
        };
        deadline.as_mut().poll(context).map(|()| {
            Status::deadline_exceeded(format!(
                "inkstone: a request was received in part, and its rest did not arrive within {} s",
                LARGE_TIME_MAX.as_secs()
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(bytes: usize) -> Vec<u8> {
        let mut message = vec![0];
        message.extend_from_slice(&(bytes as u32).to_be_bytes());
        message.resize(PREFIX_BYTES + bytes, 7);
        message
    }

    #[test]
    fn only_what_follows_the_last_whole_message_is_unfinished() {
        let stream = [message(10), message(0), message(300)].concat();
        for piece_bytes in [1, 3, 7, 64, 1000] {
            let mut framing = Framing::default();
            let mut passed = 0;
            for piece in stream.chunks(piece_bytes) {
                framing.advance(piece);
                passed += piece.len();
                let unfinished = match passed {
                    0..15 => passed,
                    15..20 => passed - 15,
                    20..325 => passed - 20,
                    _ => 0,
                };
                assert_eq!(
                    framing.unfinished_bytes, unfinished as u64,
                    "{piece_bytes} {passed}"
                );
            }
        }
    }

    #[test]
    fn exactly_one_whole_message_is_recognized() {
        assert!(is_one_message(&message(0)));
        assert!(is_one_message(&message(300)));
        assert!(!is_one_message(&message(300)[..304]));
        assert!(!is_one_message(&[message(3), message(0)].concat()));
        assert!(!is_one_message(&[0, 0, 0, 0]));
        assert!(!is_one_message(&[]));
    }

    #[test]
    fn large_messages_are_refused_at_the_limit_and_small_ones_at_twice_the_limit() {
        let unfinished = Unfinished::for_memory(0);
        let limit = unfinished.limit_bytes;
        unfinished.recount(0, limit).unwrap();
        assert!(unfinished.recount(0, LARGE_BYTES + 1).is_err());
        unfinished.recount(LARGE_BYTES + 1, 0).unwrap();
        unfinished.recount(0, LARGE_BYTES).unwrap();
        unfinished.recount(0, limit - LARGE_BYTES).unwrap_err();
        unfinished.recount(0, 1).unwrap_err();
        unfinished.recount(2 * limit + 1, 0).unwrap();
        assert_eq!(unfinished.bytes.load(Ordering::Relaxed), 0);
    }
}
