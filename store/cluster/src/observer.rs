//! Events of the replica and of the connections, for metrics.
//!
//! The node has no metrics of its own. It reports events to an observer, and reads the clock
//! for them only if there is one.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use environment::{Clock, Instant};
use revisions::{Command, TraceContext};

/// The direction of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// This member sends it.
    Sent,
    /// This member receives it.
    Received,
}

/// Receives events. The methods are called on the threads of the replica, of the connections
/// and of the snapshots, and must return quickly.
pub trait Observer: Debug + Send + Sync {
    /// A command was evaluated in the time `took`. `done` is false if the state machine refused
    /// it.
    fn evaluated(&self, command: &Command, done: bool, took: Duration);

    /// Everything that compactions gave up was dropped, in the time `took` since the sweep
    /// began.
    fn swept(&self, took: Duration);

    /// A message went to this other member, and its answer came back, in the time `took`. Of no
    /// interest by default.
    fn round_trip(&self, _member: u64, _took: Duration) {}

    /// This member, as the leader, has carried out a command of another one that belongs to a
    /// trace, from its arrival to its answer in the time `took`; `done` is false if it was refused.
    /// Of no interest by default.
    fn carried_out(&self, _trace: &TraceContext, _done: bool, _took: Duration) {}

    /// The first piece of a snapshot was sent to this other member, or came from it. Of no
    /// interest by default.
    fn snapshot_began(&self, _transfer: Transfer, _member: u64) {}

    /// A snapshot that has begun has ended, after the time `took`. Of no interest by default.
    fn snapshot_ended(&self, _transfer: Transfer, _member: u64, _success: bool, _took: Duration) {}
}

/// The observer, if there is one, and the times that it needs.
#[derive(Debug)]
pub(crate) struct Observing {
    pub(crate) observer: Option<Arc<dyn Observer>>,
    pub(crate) clock: Arc<dyn Clock>,
    /// When the sweep under way was first seen.
    pub(crate) sweep_began: Option<Instant>,
}

impl Observing {
    /// The current time, if there is an observer.
    pub(crate) fn now(&self) -> Option<Instant> {
        self.observer.as_ref().map(|_| self.clock.now())
    }

    /// Reports that a command was evaluated, beginning at `began`.
    pub(crate) fn evaluated(&self, command: &Command, done: bool, began: Option<Instant>) {
        if let (Some(observer), Some(began)) = (&self.observer, began) {
            observer.evaluated(command, done, self.clock.now().saturating_since(began));
        }
    }

    /// Reports the end of a sweep. To be called before and after each step of upkeep, with
    /// whether a sweep is under way.
    pub(crate) fn sweeping(&mut self, under_way: bool) {
        if under_way {
            self.sweep_began = self.sweep_began.or_else(|| self.now());
        } else if let Some(began) = self.sweep_began.take()
            && let Some(observer) = &self.observer
        {
            observer.swept(self.clock.now().saturating_since(began));
        }
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use std::sync::Mutex;

    use super::*;
    use crate::lock::lock;

    /// Keeps the events of connections, as texts.
    #[derive(Debug, Default)]
    pub(crate) struct Seen(Mutex<Vec<String>>);

    impl Seen {
        pub(crate) fn take(&self) -> Vec<String> {
            std::mem::take(&mut lock(&self.0))
        }
    }

    impl Observer for Seen {
        fn evaluated(&self, _: &Command, _: bool, _: Duration) {}

        fn swept(&self, _: Duration) {}

        fn round_trip(&self, member: u64, took: Duration) {
            lock(&self.0).push(format!("round trip {member} {took:?}"));
        }

        fn carried_out(&self, trace: &TraceContext, done: bool, took: Duration) {
            let [first, second, ..] = trace.trace;
            let text = format!("carried out {first:02x}{second:02x} {done} {took:?}");
            lock(&self.0).push(text);
        }

        fn snapshot_began(&self, transfer: Transfer, member: u64) {
            lock(&self.0).push(format!("began {transfer:?} {member}"));
        }

        fn snapshot_ended(&self, transfer: Transfer, member: u64, success: bool, took: Duration) {
            let text = format!("ended {transfer:?} {member} {success} {took:?}");
            lock(&self.0).push(text);
        }
    }
}
