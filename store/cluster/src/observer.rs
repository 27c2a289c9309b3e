//! Events of the replica, for metrics.
//!
//! The node has no metrics of its own. It reports events to an observer, and reads the clock
//! for them only if there is one.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use environment::{Clock, Instant};
use revisions::Command;

/// Receives events. The methods are called on the thread that runs the replica, and must
/// return quickly.
pub trait Observer: Debug + Send + Sync {
    /// A command was evaluated in the time `took`. `done` is false if the state machine refused
    /// it.
    fn evaluated(&self, command: &Command, done: bool, took: Duration);

    /// Everything that compactions gave up was dropped, in the time `took` since the sweep
    /// began.
    fn swept(&self, took: Duration);
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
