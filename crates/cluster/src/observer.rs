//! Who counts what the replica thread does.
//!
//! The node has no metrics of its own: it tells an observer, and takes the
//! time only when there is one.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use environment::{Clock, Instant};
use revisions::Command;

/// Is told what happens, on the replica thread: it must neither wait nor work.
pub trait Observer: Debug + Send + Sync {
    /// A command was evaluated: `done`, unless the state machine refused it.
    fn evaluated(&self, command: &Command, done: bool, took: Duration);

    /// Everything that compactions had let go was dropped, this long after the
    /// first of them.
    fn swept(&self, took: Duration);
}

/// An observer, if there is one, and the watch that it needs.
#[derive(Debug)]
pub(crate) struct Observing {
    pub(crate) observer: Option<Arc<dyn Observer>>,
    pub(crate) clock: Arc<dyn Clock>,
    /// When the sweep under way was first seen.
    pub(crate) sweep_began: Option<Instant>,
}

impl Observing {
    /// The time, if anyone wants to know.
    pub(crate) fn now(&self) -> Option<Instant> {
        self.observer.as_ref().map(|_| self.clock.now())
    }

    /// A command was evaluated since `began`.
    pub(crate) fn evaluated(&self, command: &Command, done: bool, began: Option<Instant>) {
        if let (Some(observer), Some(began)) = (&self.observer, began) {
            observer.evaluated(command, done, self.clock.now().saturating_since(began));
        }
    }

    /// Whether a sweep is under way, asked before and after each of its steps.
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
