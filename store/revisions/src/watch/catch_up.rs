//! Catching up: watchers that are behind read history themselves.
//!
//! ```text
//!   history   4   5   6   7   8   9 │ published
//!   watcher a     ▲ next            │
//!   watcher b             ▲ next    │   one pass from the smallest cursor serves both
//! ```
//!
//! One pass reads at most a chunk of history and finds at most a chunk of events for all its
//! watchers together, and it begins only when the stream's queue is empty. So memory is bounded by
//! the chunk, and no history is read for a client that does not receive. One revision is never
//! split: a pass may exceed the chunk by the events of its last revision.

use std::sync::Arc;

use engine::{Changes, Error};
use etcd_api::etcdserverpb::WatchResponse;

use super::event::KeyEvent;
use super::stream::{Delivery, StreamState, WatchStream, bytes_of, notice};
use super::watcher::{SyncState, Watcher};

/// A watcher that is behind, and the events that were found for it.
struct Reading {
    watcher: Arc<Watcher>,
    /// The first revision that it has not read.
    next: i64,
    found: Vec<KeyEvent>,
}

impl WatchStream {
    /// One step of catching up, for all watchers that are behind.
    pub(super) fn catch_up(&self) {
        let mut readings = self.cancel_compacted();
        let Some(from) = readings.iter().map(|reading| reading.next).min() else {
            return;
        };
        match self.read(from, &mut readings) {
            Ok(reached) => self.hand_over(readings, reached),
            // The history was compacted in between: the next step cancels the watchers that need
            // it.
            Err(Error::Compacted { .. }) => self.shared.lock().may_be_behind = true,
            Err(error) => self.give_up(&readings, &error),
        }
    }

    /// Returns the watchers that are behind, and cancels those that need compacted history.
    fn cancel_compacted(&self) -> Vec<Reading> {
        let compacted = self.hub.engine.snapshot().compacted();
        let mut state = self.shared.lock();
        let (mut readings, mut gone) = (Vec::new(), Vec::new());
        for (&id, registered) in &mut state.watchers {
            match registered.sync {
                SyncState::Behind { next } if next < compacted => {
                    registered.sync = SyncState::Compacted;
                    gone.push(id);
                }
                SyncState::Behind { next } => {
                    let watcher = Arc::clone(&registered.watcher);
                    readings.push(Reading {
                        watcher,
                        next,
                        found: Vec::new(),
                    });
                }
                _ => {}
            }
        }
        let cancel = |id| WatchResponse {
            // etcd's header has no revision here.
            canceled: true,
            compact_revision: compacted,
            ..notice(id, 0)
        };
        gone.into_iter()
            .for_each(|id| state.push_control(cancel(id)));
        readings
    }

    /// Reads a chunk of history and returns the last revision that was read. At the end of the
    /// history that is the newest applied revision, even if it has no change, as revision 1 of an
    /// empty store.
    fn read(&self, from: i64, readings: &mut [Reading]) -> Result<i64, Error> {
        let mut history = self.hub.engine.history(from)?;
        let mut reached = from - 1;
        let (mut read_bytes, mut found_bytes) = (0, 0);
        while read_bytes.max(found_bytes) < self.shared.options.catch_up_bytes {
            let Some(changes) = history.next() else {
                return Ok(reached.max(history.next_main() - 1));
            };
            let Changes { main, versions } = changes?;
            assert!(main > reached, "history goes back from {reached} to {main}");
            reached = main;
            let events: Vec<_> = versions.into_iter().map(KeyEvent::of).collect();
            read_bytes += bytes_of(&events);
            for reading in readings.iter_mut().filter(|reading| reading.next <= main) {
                found_bytes += reading.take(&events);
            }
        }
        Ok(reached)
    }

    /// Queues the events that were found and moves the cursors. Watchers that have read
    /// everything published become synced.
    fn hand_over(&self, readings: Vec<Reading>, reached: i64) {
        let hub = self.hub.lock();
        let mut state = self.shared.lock();
        assert!(
            readings
                .iter()
                .all(|reading| reading.next <= hub.published + 1),
            "a watcher waits for history that is not there yet"
        );
        let synced = hub.published <= reached;
        for Reading {
            watcher,
            next,
            found,
        } in readings
        {
            let from = next.max(reached + 1);
            let Some(registered) = state.registered(&watcher) else {
                continue;
            };
            assert_eq!(
                registered.sync,
                SyncState::Behind { next },
                "only next() moves it"
            );
            registered.sync = if synced {
                SyncState::Synced { from }
            } else {
                SyncState::Behind { next: from }
            };
            if !found.is_empty() {
                let delivery = Delivery {
                    watcher,
                    revision: reached,
                    events: found,
                };
                self.shared.queue(&mut state, delivery);
            }
        }
        state.may_be_behind |= !synced;
        state.answer_progress(&hub);
    }

    /// Cancels the watchers with the error that history cannot be read; the client may try
    /// another member.
    fn give_up(&self, readings: &[Reading], error: &Error) {
        tracing::error!(%error, "watches canceled: history cannot be read");
        let mut hub = self.hub.lock();
        let mut state = self.shared.lock();
        for Reading { watcher, .. } in readings {
            let StreamState { watchers, .. } = &mut *state;
            if watchers.remove(&watcher.id).is_none() {
                continue;
            }
            hub.matcher.remove(watcher);
            state.push_control(WatchResponse {
                canceled: true,
                cancel_reason: error.to_string(),
                ..notice(watcher.id, hub.published)
            });
        }
    }
}

impl Reading {
    /// Adds the events that the watcher wants; returns their bytes.
    fn take(&mut self, events: &[KeyEvent]) -> usize {
        let keys = self.watcher.keys();
        let wanted = events
            .iter()
            .filter(|event| keys.contains(&event.key) && self.watcher.wants(event));
        let before = self.found.len();
        self.found.extend(wanted.cloned());
        bytes_of(&self.found[before..])
    }
}
