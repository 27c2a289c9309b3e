//! The queue of a one-way lane.
//!
//! ```text
//!   send ──push──► waiting ──take (swap)──► taken ──encode──► socket
//!                  └────────── counted in `bytes` ─────────────────┘
//! ```
//!
//! A push holds the lock for two appends. The task that writes takes all waiting messages
//! at once. Their bytes stay counted until they are written, so the limit covers waiting and
//! taken messages together.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use bytes::Bytes;
use environment::Instant;

use crate::Dropped;
use crate::doorbell::Bell;
use crate::link::Link;
use crate::lock::lock;

/// Whether messages may be queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Connected, or about to be.
    Hopeful,
    /// The last attempt failed.
    Unreachable,
}

/// Cost of a message besides its payload, so that the limit bounds empty messages as well:
/// its entry, and one entry for each part.
const MESSAGE_BYTES: usize = size_of::<Queued>();
const PART_BYTES: usize = size_of::<Bytes>();

/// A queued message, without its parts.
#[derive(Clone, Copy)]
pub(crate) struct Queued {
    pub kind: u8,
    parts: usize,
    pub payload_bytes: usize,
    pub at: Instant,
}

impl Queued {
    /// Bytes of the message that count against the queue's limit; see [`MessageLane::release`].
    pub fn cost(&self) -> usize {
        MESSAGE_BYTES + self.parts * PART_BYTES + self.payload_bytes
    }
}

/// Messages in order. The parts of all messages are in one list, so that a message needs no
/// allocation of its own.
#[derive(Default)]
pub(crate) struct MessageBatch {
    messages: VecDeque<Queued>,
    parts: VecDeque<Bytes>,
}

impl MessageBatch {
    /// Removes the first message and puts its parts into `parts`.
    pub fn pop(&mut self, parts: &mut Vec<Bytes>) -> Option<Queued> {
        let message = self.messages.pop_front()?;
        assert!(
            self.parts.len() >= message.parts,
            "parts of a message are missing"
        );
        parts.clear();
        parts.extend(self.parts.drain(..message.parts));
        Some(message)
    }

    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    fn drop_first(&mut self) -> usize {
        let message = self.messages.pop_front().expect("the caller saw a message");
        self.parts.drain(..message.parts);
        message.cost()
    }
}

struct Queue {
    waiting: MessageBatch,
    /// Cost of the messages that wait, or were taken and are not written.
    bytes: usize,
    reach: Reach,
}

/// The queue of one lane to one member.
pub(crate) struct MessageLane {
    pub link: Link,
    pub bell: Bell,
    bytes_max: usize,
    /// A message that waited longer is dropped. `None` in the Bulk lane: no limit.
    pub age_max: Option<Duration>,
    queue: Mutex<Queue>,
}

impl MessageLane {
    pub fn new(bytes_max: usize, age_max: Option<Duration>) -> MessageLane {
        MessageLane {
            link: Link::default(),
            bell: Bell::default(),
            bytes_max,
            age_max,
            queue: Mutex::new(Queue {
                waiting: MessageBatch::default(),
                bytes: 0,
                reach: Reach::Hopeful,
            }),
        }
    }

    /// Queues a message. Returns true if the queue was empty, so that the lane's task may be
    /// asleep and must be woken.
    pub fn push(&self, kind: u8, parts: &[Bytes], now: Instant) -> Result<bool, Dropped> {
        let message = Queued {
            kind,
            parts: parts.len(),
            payload_bytes: parts.iter().map(Bytes::len).sum(),
            at: now,
        };
        let cost = message.cost();
        let mut queue = lock(&self.queue);
        if queue.reach == Reach::Unreachable {
            self.link.counts.dropped_unreachable(1);
            return Err(Dropped::Unreachable);
        }
        if queue.bytes + cost > self.bytes_max {
            self.expire(&mut queue, now);
        }
        if queue.bytes > 0 && queue.bytes + cost > self.bytes_max {
            self.link.counts.dropped_full(1);
            return Err(Dropped::Full);
        }
        let was_empty = queue.waiting.is_empty();
        queue.bytes += cost;
        queue.waiting.parts.extend(parts.iter().cloned());
        queue.waiting.messages.push_back(message);
        Ok(was_empty)
    }

    /// Drops the messages that have waited longer than `age_max`.
    fn expire(&self, queue: &mut Queue, now: Instant) {
        let Some(age_max) = self.age_max else { return };
        while let Some(first) = queue.waiting.messages.front()
            && now.saturating_since(first.at) > age_max
        {
            queue.bytes -= queue.waiting.drop_first();
            self.link.counts.dropped_old(1);
        }
    }

    /// Swaps the waiting messages with `empty`.
    pub fn take(&self, empty: &mut MessageBatch) {
        assert!(
            empty.is_empty(),
            "taken messages are encoded before more are taken"
        );
        std::mem::swap(&mut lock(&self.queue).waiting, empty);
    }

    /// Subtracts the cost of taken messages that were written or dropped.
    pub fn release(&self, cost: usize) {
        let mut queue = lock(&self.queue);
        assert!(queue.bytes >= cost, "released more than was queued");
        queue.bytes -= cost;
    }

    /// Queues messages from now on, because there is a connection.
    pub fn hope(&self) {
        lock(&self.queue).reach = Reach::Hopeful;
    }

    /// Drops the waiting messages and those in `taken`, and every message from now on until
    /// [`MessageLane::hope`].
    pub fn give_up(&self, taken: &mut MessageBatch) {
        let mut queue = lock(&self.queue);
        queue.reach = Reach::Unreachable;
        let waiting = std::mem::take(&mut queue.waiting);
        let taken = std::mem::take(taken);
        for message in taken.messages.iter().chain(&waiting.messages) {
            queue.bytes -= message.cost();
            self.link.counts.dropped_unreachable(1);
        }
    }

    pub fn queued_bytes(&self) -> usize {
        lock(&self.queue).bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(age_max: Option<Duration>) -> MessageLane {
        MessageLane::new(LIMIT, age_max)
    }

    const LIMIT: usize = 1_000;
    const OVERHEAD: usize = MESSAGE_BYTES + PART_BYTES;

    /// A message that costs `cost`.
    fn message(cost: usize) -> [Bytes; 1] {
        [Bytes::from(vec![0; cost - OVERHEAD])]
    }

    fn at(seconds: u64) -> Instant {
        Instant::from_origin(Duration::from_secs(seconds))
    }

    #[test]
    fn only_the_first_message_needs_a_ring() {
        let lane = lane(None);
        assert_eq!(lane.push(1, &message(OVERHEAD), at(0)), Ok(true));
        assert_eq!(lane.push(2, &message(OVERHEAD), at(0)), Ok(false));
        lane.take(&mut MessageBatch::default());
        assert_eq!(lane.push(3, &message(OVERHEAD), at(0)), Ok(true));
    }

    #[test]
    fn bytes_count_until_they_are_written() {
        let lane = lane(None);
        lane.push(1, &message(LIMIT), at(0)).unwrap();
        let mut taken = MessageBatch::default();
        lane.take(&mut taken);
        assert_eq!(lane.push(1, &message(OVERHEAD), at(0)), Err(Dropped::Full));
        lane.release(LIMIT);
        assert!(lane.push(1, &message(OVERHEAD), at(0)).is_ok());
        assert_eq!(lane.link.counts.read().dropped_full, 1);
    }

    #[test]
    fn one_message_is_let_in_whatever_its_size() {
        let lane = lane(None);
        assert!(lane.push(1, &message(2 * LIMIT), at(0)).is_ok());
        assert_eq!(lane.push(1, &message(OVERHEAD), at(0)), Err(Dropped::Full));
    }

    #[test]
    fn empty_messages_fill_the_queue_as_well() {
        let lane = lane(None);
        let queued = (0..LIMIT).filter(|_| lane.push(1, &[], at(0)).is_ok());
        assert_eq!(queued.count(), LIMIT / MESSAGE_BYTES);
    }

    #[test]
    fn old_messages_make_room_for_new_ones() {
        let lane = lane(Some(Duration::from_secs(1)));
        lane.push(1, &message(900), at(0)).unwrap();
        assert_eq!(lane.push(2, &message(200), at(1)), Err(Dropped::Full));
        assert_eq!(lane.push(3, &message(200), at(2)), Ok(true));
        assert_eq!(lane.queued_bytes(), 200);
        assert_eq!(lane.link.counts.read().dropped_old, 1);
    }

    #[test]
    fn an_unreachable_member_costs_no_memory() {
        let lane = lane(None);
        lane.push(1, &message(OVERHEAD), at(0)).unwrap();
        lane.give_up(&mut MessageBatch::default());
        assert_eq!(lane.queued_bytes(), 0);
        assert_eq!(
            lane.push(1, &message(OVERHEAD), at(0)),
            Err(Dropped::Unreachable)
        );
        assert_eq!(lane.link.counts.read().dropped_unreachable, 2);
        lane.hope();
        assert!(lane.push(1, &message(OVERHEAD), at(0)).is_ok());
    }

    #[test]
    fn parts_stay_with_their_message() {
        let lane = lane(None);
        let parts = [Bytes::from("a"), Bytes::from("b")];
        lane.push(1, &parts, at(0)).unwrap();
        lane.push(2, &[], at(0)).unwrap();
        lane.push(3, &parts[..1], at(0)).unwrap();
        let (mut taken, mut out) = (MessageBatch::default(), Vec::new());
        lane.take(&mut taken);
        for (kind, parts) in [(1, &parts[..]), (2, &[]), (3, &parts[..1])] {
            assert_eq!(taken.pop(&mut out).unwrap().kind, kind);
            assert_eq!(out, parts);
        }
        assert!(taken.pop(&mut out).is_none());
    }
}
