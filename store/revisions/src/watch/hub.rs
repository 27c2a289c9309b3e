//! The hub: apply publishes here, streams subscribe here.

use environment::Mutex;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, MutexGuard, Weak};

use engine::{Batch, Engine, KeyChange};

use super::event::KeyEvent;
use super::matcher::Matcher;
use super::stream::{Delivery, StreamShared, WatchStream};
use crate::WatchOptions;

/// Where streams subscribe and apply publishes.
#[derive(Debug)]
pub struct WatchHub {
    pub(crate) engine: Engine,
    options: WatchOptions,
    /// Bytes in the queues of all streams.
    total_queued_bytes: Arc<AtomicUsize>,
    state: Mutex<HubState>,
}

#[derive(Debug)]
pub(crate) struct HubState {
    /// Every revision up to here has been handed to all synced watchers.
    pub published: i64,
    pub matcher: Matcher,
    streams: HashMap<u64, Weak<StreamShared>>,
    next_stream: u64,
    closed: bool,
}

/// Counts of streams, watches and queued events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WatchStatistics {
    /// Open streams.
    pub streams: usize,
    /// Watches on them.
    pub watchers: usize,
    /// Watches that are catching up.
    pub behind: usize,
    /// Events waiting in queues.
    pub queued_events: usize,
}

impl WatchHub {
    pub(crate) fn new(engine: Engine, options: WatchOptions) -> WatchHub {
        let state = HubState {
            published: engine.snapshot().revision(),
            matcher: Matcher::default(),
            streams: HashMap::new(),
            next_stream: 0,
            closed: false,
        };
        WatchHub {
            engine,
            options,
            total_queued_bytes: Arc::default(),
            state: Mutex::new(state),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, HubState> {
        self.state.lock()
    }

    /// Opens a stream; the server opens one for each gRPC stream.
    pub fn subscribe(self: &Arc<Self>) -> WatchStream {
        let mut hub = self.lock();
        let id = hub.next_stream;
        hub.next_stream += 1;
        let shared = Arc::new(StreamShared::new(
            self.options,
            Arc::clone(&self.total_queued_bytes),
            hub.closed,
        ));
        hub.streams.insert(id, Arc::downgrade(&shared));
        WatchStream {
            hub: Arc::clone(self),
            id,
            shared,
        }
    }

    /// Ends every stream: `next` returns `None` once its queue is empty.
    pub fn close(&self) {
        let mut hub = self.lock();
        hub.closed = true;
        for stream in hub.streams.values().filter_map(Weak::upgrade) {
            stream.close();
        }
    }

    /// The newest revision that was published to synced watchers.
    pub fn revision(&self) -> i64 {
        self.lock().published
    }

    /// Counts for metrics; visits all streams.
    pub fn statistics(&self) -> WatchStatistics {
        let streams: Vec<_> = self
            .lock()
            .streams
            .values()
            .filter_map(Weak::upgrade)
            .collect();
        let mut sum = WatchStatistics::default();
        for stream in streams {
            stream.count(&mut sum);
        }
        sum
    }

    /// Continues after a revision that a snapshot has brought. Watchers that were synced fall
    /// behind and read the revisions that they missed, unless these are compacted.
    pub(crate) fn skip_to(&self, revision: i64) {
        let mut hub = self.lock();
        assert!(
            hub.published <= revision,
            "{revision} comes after {}",
            hub.published
        );
        let missed = hub.published + 1..=revision;
        hub.published = revision;
        for stream in hub.streams.values().filter_map(Weak::upgrade) {
            stream.miss(&missed);
        }
    }

    /// Publishes an applied batch to the watchers of its keys.
    pub(crate) fn publish(&self, batch: &Batch) {
        let changes: Vec<&KeyChange> = batch.keys().collect();
        if changes.is_empty() {
            return;
        }
        let mut hub = self.lock();
        for revision in changes.chunk_by(|a, b| a.revision.main == b.revision.main) {
            let main = revision[0].revision.main;
            assert!(
                hub.published < main,
                "revision {main} is published after {}",
                hub.published
            );
            hub.published = main;
            if revision.len() > self.options.large_revision_changes {
                hub.leave_to_read(main, revision);
            } else {
                hub.deliver(main, revision);
            }
        }
    }
}

impl HubState {
    /// Queues the changes of one revision; each watcher gets all of its events at once.
    fn deliver(&self, main: i64, changes: &[&KeyChange]) {
        let mut deliveries: Vec<(Arc<StreamShared>, Delivery)> = Vec::new();
        // Index of each watcher's delivery. A single change needs no look-up.
        let mut places: HashMap<usize, usize> = HashMap::new();
        for change in changes {
            let mut event = None;
            self.matcher.visit(&change.key, &mut |subscription| {
                let event = event.get_or_insert_with(|| KeyEvent::of(KeyChange::clone(change)));
                if !subscription.watcher.wants(event) {
                    return;
                }
                let watcher = Arc::as_ptr(&subscription.watcher) as usize;
                let place = match changes.len() {
                    1 => deliveries.len(),
                    _ => *places.entry(watcher).or_insert(deliveries.len()),
                };
                if place == deliveries.len() {
                    let delivery = Delivery {
                        watcher: Arc::clone(&subscription.watcher),
                        revision: main,
                        events: Vec::new(),
                    };
                    deliveries.push((Arc::clone(&subscription.stream), delivery));
                }
                deliveries[place].1.events.push(event.clone());
            });
        }
        for (stream, delivery) in deliveries {
            stream.offer(delivery);
        }
    }

    /// Makes the watchers of a large revision fall behind, so that they read it from the log.
    fn leave_to_read(&self, main: i64, changes: &[&KeyChange]) {
        let mut seen: HashSet<usize> = HashSet::new();
        for change in changes {
            self.matcher.visit(&change.key, &mut |subscription| {
                if seen.insert(Arc::as_ptr(&subscription.watcher) as usize) {
                    subscription
                        .stream
                        .leave_to_read(&subscription.watcher, main);
                }
            });
        }
    }

    pub(crate) fn forget_stream(&mut self, id: u64) {
        self.streams.remove(&id);
    }
}
