//! Figures of other members: asked here, and this member's told to them.
//!
//! ```text
//!   caller ──Question──► network thread of the member ─► a blocking thread gathers them
//!          ◄──Answer────────────────────────────────────┘
//! ```
//!
//! The newest answer of each member is kept. A member is waited for if it has answered the
//! question before in time, and the first time that it is asked. So one that hangs, is far away, or is of an
//! older release, which drops the question, delays one look and none after it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use environment::randomness::Random;
use environment::{Clock, Instant};
use tokio::sync::{Notify, Semaphore};
use tokio::time::timeout;

use crate::lock::lock;
use crate::peer_message::{FiguresMessage, PeerMessage};

/// Most questions of other members that are answered at the same time; others are dropped.
const ANSWERED_AT_ONCE: usize = 2;
/// Longest answer that is kept.
const FIGURES_BYTES_MAX: usize = 64 << 10;

/// Gathers this member's figures, encoded. Called on a blocking thread.
pub(crate) type Gather = Arc<dyn Fn() -> Bytes + Send + Sync>;

/// The newest figures that another member has told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToldFigures {
    /// As the other member's program encodes them.
    pub figures: Bytes,
    /// Time since they arrived.
    pub age: Duration,
}

/// Where members tell each other their figures.
pub(crate) struct FiguresDesk {
    clock: Arc<dyn Clock>,
    gather: OnceLock<Gather>,
    others: Mutex<BTreeMap<u64, Other>>,
    answered: Notify,
    /// Number of the next question. It begins at random, so that an answer to a former
    /// incarnation of this member is not taken for another.
    next: AtomicU64,
    permits: Arc<Semaphore>,
}

/// Another member that was asked.
struct Other {
    /// Number of the first question, and of the newest one.
    first: u64,
    asked: u64,
    asked_at: Instant,
    /// The newest answer.
    answer: Option<Answer>,
}

struct Answer {
    /// Number of its question.
    number: u64,
    at: Instant,
    /// Time since the newest question.
    took: Duration,
    figures: Bytes,
}

impl Other {
    /// The number of the newest question that was answered.
    fn answered(&self) -> Option<u64> {
        self.answer.as_ref().map(|answer| answer.number)
    }

    /// Whether it answered the newest question within `patience`.
    fn is_prompt(&self, patience: Duration) -> bool {
        let answer = self.answer.as_ref();
        answer.is_some_and(|answer| answer.number == self.asked && answer.took <= patience)
    }
}

impl FiguresDesk {
    pub fn new(clock: Arc<dyn Clock>) -> FiguresDesk {
        // Half of the range, so that no member lives to see the numbers wrap.
        let first = Random::from_system().map_or(0, |mut random| random.next_u64() / 2);
        FiguresDesk {
            clock,
            gather: OnceLock::new(),
            others: Mutex::default(),
            answered: Notify::new(),
            next: AtomicU64::new(first),
            permits: Arc::new(Semaphore::new(ANSWERED_AT_ONCE)),
        }
    }

    /// Sets where this member's figures come from. Until then, no question is answered. Only the
    /// first call has an effect.
    pub fn tell(&self, gather: Gather) {
        let _ = self.gather.set(gather);
    }

    /// Asks `members` with `send`, which returns whether the message left, and waits for the
    /// answers of those that answered the question before in time, for `patience` at most.
    /// Returns the newest figures of each member that ever told them, and forgets all others.
    pub async fn ask(
        &self,
        members: &[u64],
        send: impl Fn(u64, &PeerMessage) -> bool,
        patience: Duration,
    ) -> BTreeMap<u64, ToldFigures> {
        lock(&self.others).retain(|id, _| members.contains(id));
        let mut awaited = Vec::new();
        for &member in members {
            let (number, is_awaited) = self.question(member, patience);
            let sent = send(
                member,
                &PeerMessage::Figures(FiguresMessage::Question { number }),
            );
            if sent && is_awaited {
                awaited.push((member, number));
            }
        }
        // The answers that came in time are there, with or without the others.
        let _ = timeout(patience, self.all_answered(&awaited)).await;
        self.told()
    }

    /// Numbers a question to a member. Says as well whether the answer is waited for.
    fn question(&self, member: u64, patience: Duration) -> (u64, bool) {
        let now = self.clock.now();
        let mut others = lock(&self.others);
        // Numbers of one member ascend, because they are given under the lock.
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let other = others.entry(member).or_insert(Other {
            first: number,
            asked: number,
            asked_at: now,
            answer: None,
        });
        let is_awaited = other.first == number || other.is_prompt(patience);
        (other.asked, other.asked_at) = (number, now);
        (number, is_awaited)
    }

    async fn all_answered(&self, awaited: &[(u64, u64)]) {
        loop {
            // An answer after this line wakes the task.
            let answer = self.answered.notified();
            if self.has_all(awaited) {
                return;
            }
            answer.await;
        }
    }

    fn has_all(&self, awaited: &[(u64, u64)]) -> bool {
        let others = lock(&self.others);
        awaited.iter().all(|(member, number)| {
            // Another call may have forgotten a member that was removed.
            let other = others.get(member);
            other.is_none_or(|other| other.answered() >= Some(*number))
        })
    }

    fn told(&self) -> BTreeMap<u64, ToldFigures> {
        let now = self.clock.now();
        let others = lock(&self.others);
        let told = others.iter().filter_map(|(member, other)| {
            let answer = other.answer.as_ref()?;
            let told = ToldFigures {
                figures: answer.figures.clone(),
                age: now.saturating_since(answer.at),
            };
            Some((*member, told))
        });
        told.collect()
    }

    /// Takes a member's answer. One to no question of this member is dropped.
    pub fn answered(&self, from: u64, number: u64, figures: Bytes) {
        if figures.len() > FIGURES_BYTES_MAX {
            return;
        }
        let now = self.clock.now();
        let mut others = lock(&self.others);
        let Some(other) = others.get_mut(&from) else {
            return;
        };
        let is_asked = (other.first..=other.asked).contains(&number);
        if is_asked && other.answered() < Some(number) {
            other.answer = Some(Answer {
                number,
                at: now,
                took: now.saturating_since(other.asked_at),
                // A copy, because the message may share a larger buffer.
                figures: Bytes::copy_from_slice(&figures),
            });
            drop(others);
            self.answered.notify_waiters();
        }
    }

    /// Answers a member's question with `send`, from a blocking thread. To be called on a
    /// runtime.
    pub fn answer(&self, number: u64, send: impl FnOnce(&PeerMessage) + Send + 'static) {
        let Some(gather) = self.gather.get().cloned() else {
            return;
        };
        let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() else {
            return;
        };
        tokio::task::spawn_blocking(move || {
            let figures = gather();
            send(&PeerMessage::Figures(FiguresMessage::Answer {
                number,
                figures,
            }));
            drop(permit);
        });
    }
}

#[cfg(test)]
mod tests;
