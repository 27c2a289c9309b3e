//! Calls that wait for their turn, and the accounts of all that are under way.
//!
//! A call counts from the moment it is queued until its future ends, whatever
//! ended it; [`UnderWay`] gives its share back.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use tokio::sync::oneshot;

use crate::doorbell::Bell;
use crate::link::Link;
use crate::member::Member;
use crate::message_lane::Reach;
use crate::shared::Shared;
use crate::{CallError, Limits};

/// Where the answer goes.
pub(crate) type Reply = oneshot::Sender<Result<Bytes, CallError>>;

/// A call that was not encoded yet.
pub(crate) struct Call {
    pub number: u64,
    pub kind: u8,
    pub body: Bytes,
    pub reply: Reply,
}

struct Queue {
    waiting: VecDeque<Call>,
    /// Numbers whose futures were dropped after they were encoded, or before.
    cancelled: Vec<u64>,
    /// Calls that have neither ended nor been dropped, and their bodies' bytes.
    under_way: usize,
    bytes: usize,
    /// Never used twice, so that a late answer finds nobody.
    next_number: u64,
    reach: Reach,
    /// Why the member cannot be reached.
    reason: String,
}

/// The Request lane to one member, seen from the caller.
pub(crate) struct CallLane {
    member: u64,
    pub link: Link,
    pub bell: Bell,
    calls_max: usize,
    bytes_max: usize,
    queue: Mutex<Queue>,
}

impl CallLane {
    pub fn new(member: u64, limits: &Limits) -> CallLane {
        CallLane {
            member,
            link: Link::default(),
            bell: Bell::default(),
            calls_max: limits.requests_max,
            bytes_max: limits.request_bytes_max,
            queue: Mutex::new(Queue {
                waiting: VecDeque::new(),
                cancelled: Vec::new(),
                under_way: 0,
                bytes: 0,
                next_number: 1,
                reach: Reach::Hopeful,
                reason: String::new(),
            }),
        }
    }

    /// The member that answers.
    pub fn member(&self) -> u64 {
        self.member
    }

    /// Queues a call: its number.
    fn push(&self, kind: u8, body: Bytes, reply: Reply) -> Result<u64, CallError> {
        let mut queue = self.lock();
        if queue.reach == Reach::Unreachable {
            return Err(self.unreachable(queue.reason.clone()));
        }
        let full = queue.under_way > 0 && queue.bytes + body.len() > self.bytes_max;
        if full || queue.under_way >= self.calls_max {
            self.link.counts.dropped_full(1);
            return Err(CallError::Overloaded(self.member));
        }
        let number = queue.next_number;
        queue.next_number += 1;
        queue.under_way += 1;
        queue.bytes += body.len();
        queue.waiting.push_back(Call {
            number,
            kind,
            body,
            reply,
        });
        Ok(number)
    }

    /// The next call that somebody still waits for.
    pub fn next(&self) -> Option<Call> {
        let mut queue = self.lock();
        loop {
            let call = queue.waiting.pop_front()?;
            if !call.reply.is_closed() {
                return Some(call);
            }
        }
    }

    pub fn take_cancelled(&self) -> Vec<u64> {
        std::mem::take(&mut self.lock().cancelled)
    }

    pub fn hope(&self) {
        self.lock().reach = Reach::Hopeful;
    }

    /// Those that wait, and those that come, hear that the member cannot be
    /// reached.
    pub fn give_up(&self, reason: &str) {
        let mut queue = self.lock();
        queue.reach = Reach::Unreachable;
        reason.clone_into(&mut queue.reason);
        queue.cancelled.clear();
        let waiting = std::mem::take(&mut queue.waiting);
        drop(queue);
        self.link.counts.dropped_unreachable(waiting.len() as u64);
        for call in waiting {
            // A caller that is gone needs no answer.
            let _ = call.reply.send(Err(self.unreachable(reason.to_owned())));
        }
    }

    pub fn queued_bytes(&self) -> usize {
        self.lock().bytes
    }

    pub fn broken(&self, reason: &str) -> CallError {
        CallError::Broken {
            member: self.member,
            reason: reason.to_owned(),
        }
    }

    pub fn overloaded(&self) -> CallError {
        CallError::Overloaded(self.member)
    }

    fn unreachable(&self, reason: String) -> CallError {
        CallError::Unreachable {
            member: self.member,
            reason,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue
            .lock()
            .expect("nobody panics with this lock held")
    }
}

/// Asks `member` and waits for the answer.
pub(crate) async fn call(
    shared: &Shared,
    member: Arc<Member>,
    kind: u8,
    body: Bytes,
) -> Result<Bytes, CallError> {
    let (reply, answer) = oneshot::channel();
    let bytes = body.len();
    let number = member.calls.push(kind, body, reply)?;
    let mut under_way = UnderWay {
        shared,
        lane: &member.calls,
        number,
        bytes,
        answered: false,
    };
    shared.doorbell.ring(&member.calls.bell);
    let result = answer.await;
    under_way.answered = true;
    result.unwrap_or_else(|_| {
        Err(member
            .calls
            .broken("the member was removed, or the connections were stopped"))
    })
}

/// A call's share of the limits, and the duty to cancel it.
struct UnderWay<'a> {
    shared: &'a Shared,
    lane: &'a CallLane,
    number: u64,
    bytes: usize,
    answered: bool,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let mut queue = self.lane.lock();
        assert!(queue.under_way > 0, "a call ended that never began");
        queue.under_way -= 1;
        assert!(
            queue.bytes >= self.bytes,
            "a call gave back what it never took"
        );
        queue.bytes -= self.bytes;
        if self.answered {
            return;
        }
        queue.cancelled.push(self.number);
        drop(queue);
        self.shared.doorbell.ring(&self.lane.bell);
    }
}
