//! Flushing in the background: writes that are acknowledged from the page cache are on the
//! device a little later.
//!
//! ```text
//!   written ──► written ──► written          reported by the thread that writes the log
//!      │  `entries_max` or `interval` ─────► one flush for all of them, on a thread of its
//!      ▼                                     own, which no request waits for
//!   oldest that is not flushed
//! ```
//!
//! Only the device limits the window of unflushed entries: entries that are written during
//! a flush wait for the next one.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use engine::{Engine, Sequence};
use environment::{Clock, Instant, threads};
use tracing::error;

use crate::Error;
use crate::inbox::Inbox;
use crate::lock::lock;

/// When entries that were acknowledged from the page cache are flushed: at the limit that is
/// reached first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flushing {
    /// A flush begins when this many entries are not flushed; at least 1.
    pub entries_max: u64,
    /// A flush begins when the oldest entry has been unflushed for this time.
    pub interval: Duration,
}

impl Default for Flushing {
    fn default() -> Flushing {
        Flushing {
            entries_max: 1024,
            interval: Duration::from_millis(100),
        }
    }
}

/// The entries that a loss of power may take from a member now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unflushed {
    /// Number of entries.
    pub entries: u64,
    /// Age of the oldest of them.
    pub age: Duration,
}

#[derive(Debug)]
struct WindowState {
    written: Sequence,
    flushed: Sequence,
    /// When the oldest entry was written for which no flush has begun.
    oldest: Option<Instant>,
    /// When the oldest entry in the flush under way was written.
    flushing: Option<Instant>,
    stop: bool,
}

/// The entries that are written and not flushed.
#[derive(Debug)]
pub(crate) struct Window {
    policy: Flushing,
    clock: Arc<dyn Clock>,
    state: Mutex<WindowState>,
    /// Notified when a flush may be due, and at the end.
    changed: Condvar,
}

impl Window {
    /// An empty window. Opening the log has flushed everything up to `flushed`.
    pub fn new(policy: Flushing, clock: Arc<dyn Clock>, flushed: Sequence) -> Window {
        assert!(
            policy.entries_max > 0,
            "a flush is due after one entry or more"
        );
        Window {
            policy,
            clock,
            state: Mutex::new(WindowState {
                written: flushed,
                flushed,
                oldest: None,
                flushing: None,
                stop: false,
            }),
            changed: Condvar::new(),
        }
    }

    /// Notes that the log is in the page cache up to `sequence`.
    pub fn written(&self, sequence: Sequence) {
        let mut state = lock(&self.state);
        state.written = state.written.max(sequence);
        let first = state.oldest.is_none();
        state.oldest.get_or_insert_with(|| self.clock.now());
        let due = self.is_full(&state);
        drop(state);
        if first || due {
            self.changed.notify_all();
        }
    }

    fn is_full(&self, state: &WindowState) -> bool {
        state.written.0 - state.flushed.0 >= self.policy.entries_max
    }

    /// The entries that a loss of power would take now.
    pub fn unflushed(&self) -> Unflushed {
        let state = lock(&self.state);
        let oldest = state.flushing.or(state.oldest);
        Unflushed {
            entries: state.written.0 - state.flushed.0,
            age: oldest.map_or(Duration::ZERO, |it| self.clock.now().saturating_since(it)),
        }
    }

    /// Waits until a flush is due, and returns the sequence that it will reach at least; `None`
    /// at the end.
    fn wait(&self) -> Option<Sequence> {
        let mut state = lock(&self.state);
        loop {
            if state.stop {
                return None;
            }
            let waited = |oldest| self.clock.now().saturating_since(oldest);
            let left = |oldest| self.policy.interval.saturating_sub(waited(oldest));
            let left = state.oldest.map_or(Duration::MAX, left);
            if left.is_zero() || state.oldest.is_some() && self.is_full(&state) {
                state.flushing = state.oldest.take();
                return Some(state.written);
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn flushed(&self, sequence: Sequence) {
        let mut state = lock(&self.state);
        state.flushed = sequence;
        state.flushing = None;
    }

    fn stop(&self) {
        lock(&self.state).stop = true;
        self.changed.notify_all();
    }
}

/// The thread that flushes.
#[derive(Debug)]
pub(crate) struct Flusher {
    pub window: Arc<Window>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Flusher {
    /// Starts the thread. It reports a failed flush to the replica, like any failure of the log.
    pub fn start(
        policy: Flushing,
        clock: Arc<dyn Clock>,
        engine: Engine,
        inbox: Arc<Inbox>,
    ) -> Result<Flusher, Error> {
        let window = Arc::new(Window::new(policy, clock, engine.durable()));
        let shared = Arc::clone(&window);
        let run = move || {
            while let Some(sequence) = shared.wait() {
                match engine.flush() {
                    Ok(()) => shared.flushed(sequence),
                    Err(reason) => {
                        error!(%reason, "the log could not be flushed");
                        return inbox.persisted(Err(reason.to_string()));
                    }
                }
            }
        };
        let thread = threads::spawn("page-flush", run).map_err(Error::thread)?;
        Ok(Flusher {
            window,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Ends the thread. Closing the log flushes the rest.
    pub fn stop(&self) {
        self.window.stop();
        if let Some(thread) = lock(&self.thread).take()
            && thread.join().is_err()
        {
            error!("the thread that flushes the log panicked");
        }
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(test)]
mod tests {
    use environment::simulated::SimulatedClock;

    use super::*;

    fn window(clock: &SimulatedClock, entries_max: u64) -> Window {
        let interval = Duration::from_millis(100);
        let policy = Flushing {
            entries_max,
            interval,
        };
        Window::new(policy, Arc::new(clock.clone()), Sequence(10))
    }

    #[test]
    fn a_flush_is_due_when_entries_max_is_reached() {
        let clock = SimulatedClock::stepped();
        let window = window(&clock, 3);
        window.written(Sequence(13));
        assert_eq!(window.wait(), Some(Sequence(13)));
        window.written(Sequence(14));
        assert_eq!(window.unflushed().entries, 4, "the flush is not over");
        window.flushed(Sequence(13));
        assert_eq!(window.unflushed().entries, 1);
    }

    #[test]
    fn a_flush_is_due_when_the_interval_is_over() {
        let clock = SimulatedClock::stepped();
        let window = window(&clock, 1000);
        window.written(Sequence(11));
        clock.advance(Duration::from_millis(60));
        window.written(Sequence(12));
        clock.advance(Duration::from_millis(40));
        assert_eq!(window.wait(), Some(Sequence(12)));
        let unflushed = Unflushed {
            entries: 2,
            age: Duration::from_millis(100),
        };
        assert_eq!(window.unflushed(), unflushed, "until it is over");
        window.flushed(Sequence(12));
        assert_eq!(window.unflushed(), Unflushed::default());
    }

    #[test]
    fn stopping_ends_the_wait_for_a_flush() {
        let window = window(&SimulatedClock::stepped(), 1000);
        window.written(Sequence(11));
        window.stop();
        assert_eq!(window.wait(), None);
    }
}
