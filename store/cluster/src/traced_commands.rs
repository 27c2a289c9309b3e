//! Reports of the commands that other members have forwarded to this one, for distributed traces.
//!
//! A command that belongs to a trace is noted when it arrives, and reported when its answer
//! leaves. Other commands cost one load of a counter.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use environment::{Clock, Instant};
use revisions::TraceContext;

use crate::lock::lock;
use crate::{Observer, PeerMessage};

/// A command without an answer stays noted, so all are forgotten at this number.
const WAITING_MAX: usize = 4096;

#[derive(Debug)]
pub(crate) struct TracedCommands {
    clock: Arc<dyn Clock>,
    observer: Option<Arc<dyn Observer>>,
    /// By member and the member's number for the command.
    waiting: Mutex<HashMap<(u64, u64), (TraceContext, Instant)>>,
    count: AtomicUsize,
}

impl TracedCommands {
    pub fn new(clock: Arc<dyn Clock>, observer: Option<Arc<dyn Observer>>) -> TracedCommands {
        TracedCommands {
            clock,
            observer,
            waiting: Mutex::default(),
            count: AtomicUsize::new(0),
        }
    }

    /// Notes a message that this member receives.
    pub fn received(&self, from: u64, message: &PeerMessage) {
        let PeerMessage::Command { number, command } = message else {
            return;
        };
        let (Some(trace), true) = (command.trace(), self.observer.is_some()) else {
            return;
        };
        let mut waiting = lock(&self.waiting);
        if waiting.len() >= WAITING_MAX {
            waiting.clear();
        }
        waiting.insert((from, *number), (trace, self.clock.now()));
        self.count.store(waiting.len(), Ordering::Relaxed);
    }

    /// Notes a message that this member sends.
    pub fn sent(&self, to: u64, message: &PeerMessage) {
        let PeerMessage::Answer {
            number, outcome, ..
        } = message
        else {
            return;
        };
        if self.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut waiting = lock(&self.waiting);
        let noted = waiting.remove(&(to, *number));
        self.count.store(waiting.len(), Ordering::Relaxed);
        drop(waiting);
        if let (Some((trace, began)), Some(observer)) = (noted, &self.observer) {
            let took = self.clock.now().saturating_since(began);
            observer.carried_out(&trace, outcome.is_ok(), took);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use environment::simulated::SimulatedClock;
    use etcd_api::etcdserverpb::{PutRequest, PutResponse};
    use revisions::{Command, Response};

    use super::*;
    use crate::observer::testing::Seen;

    fn command(number: u64) -> PeerMessage {
        let trace = TraceContext {
            trace: [7; 16],
            span: [8; 8],
            flags: 1,
        };
        let command = Command::Put(PutRequest::default()).with_trace(trace);
        PeerMessage::Command { number, command }
    }

    fn answer(number: u64) -> PeerMessage {
        PeerMessage::Answer {
            number,
            index: 1,
            outcome: Box::new(Ok(Response::Put(PutResponse::default()))),
        }
    }

    #[test]
    fn a_traced_command_is_reported_once_with_its_time() {
        let (clock, seen) = (SimulatedClock::stepped(), Arc::new(Seen::default()));
        let observer = Arc::clone(&seen) as Arc<dyn Observer>;
        let commands = TracedCommands::new(Arc::new(clock.clone()), Some(observer));
        commands.received(2, &command(5));
        let command = Command::Put(PutRequest::default());
        commands.received(2, &PeerMessage::Command { number: 6, command });
        clock.advance(Duration::from_millis(4));
        commands.sent(3, &answer(5));
        commands.sent(2, &answer(6));
        assert!(seen.take().is_empty());
        for _ in 0..2 {
            commands.sent(2, &answer(5));
        }
        assert_eq!(seen.take(), ["carried out 0707 true 4ms"]);
    }

    #[test]
    fn commands_without_answers_are_bounded() {
        let seen = Arc::new(Seen::default()) as Arc<dyn Observer>;
        let clock = Arc::new(SimulatedClock::stepped());
        let commands = TracedCommands::new(clock, Some(seen));
        for number in 0..3 * WAITING_MAX as u64 {
            commands.received(2, &command(number));
            assert!(lock(&commands.waiting).len() <= WAITING_MAX);
        }
    }
}
