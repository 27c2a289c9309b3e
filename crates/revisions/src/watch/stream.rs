//! A client's stream: its watches, and what waits to be sent.

use std::collections::{HashMap, VecDeque};
use std::ops::RangeInclusive;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use etcd_api::Error as Refusal;
use etcd_api::etcdserverpb::{ResponseHeader, WatchCreateRequest, WatchResponse};
use tokio::sync::Notify;

use super::event::KeyEvent;
use super::hub::{WatchHub, WatchStatistics};
use super::matcher::Subscription;
use super::watcher::{Progress, Registered, Watcher};
use crate::WatchOptions;
use crate::key_range::KeyRange;

/// Stands for "no watch" and "all watches" in responses.
pub(crate) const NO_WATCH: i64 = -1;
const EMPTY_RANGE: &str = "mvcc: watcher range is empty";
const DUPLICATE_ID: &str = "mvcc: duplicate watch ID provided on the WatchStream";

/// One client's watches. Share it (`Arc`) between the task that reads requests
/// and the one that writes responses; only one task may call `next`.
#[derive(Debug)]
pub struct WatchStream {
    pub(super) hub: Arc<WatchHub>,
    pub(super) id: u64,
    pub(super) shared: Arc<StreamShared>,
}

/// What the hub hands events to.
#[derive(Debug)]
pub(crate) struct StreamShared {
    pub options: WatchOptions,
    state: Mutex<StreamState>,
    /// Something was put into the queue, or the stream closed.
    arrived: Notify,
    /// A control answer was taken out.
    drained: Notify,
}

#[derive(Debug, Default)]
pub(crate) struct StreamState {
    pub watchers: HashMap<i64, Registered>,
    /// In the order in which it will be sent.
    pub queue: VecDeque<Item>,
    /// Bytes of the events in the queue.
    pub queued_bytes: usize,
    /// Control answers in the queue.
    pub controls: usize,
    /// Where the search for a free id goes on.
    next_id: i64,
    /// The client asked for progress while some watch was behind.
    pub progress_requested: bool,
    /// What is left of a response that was too large.
    pub fragments: VecDeque<WatchResponse>,
    closed: bool,
}

/// What waits to be sent.
#[derive(Debug)]
pub(crate) enum Item {
    /// Created, canceled, progress.
    Control(WatchResponse),
    /// Events of one watch, whole revisions.
    Events {
        watcher: Arc<Watcher>,
        /// For the header.
        revision: i64,
        events: Vec<KeyEvent>,
    },
}

impl StreamState {
    pub fn push_control(&mut self, response: WatchResponse) {
        self.controls += 1;
        self.queue.push_back(Item::Control(response));
    }

    pub fn push_events(&mut self, watcher: &Arc<Watcher>, revision: i64, events: Vec<KeyEvent>) {
        assert!(
            !events.is_empty(),
            "a response without events would mean progress"
        );
        if let Some(registered) = self.watchers.get_mut(&watcher.id) {
            registered.quiet = false;
        }
        self.queued_bytes += bytes_of(&events);
        self.queue.push_back(Item::Events {
            watcher: Arc::clone(watcher),
            revision,
            events,
        });
    }

    /// The registered watcher, if it still is this one.
    pub fn registered(&mut self, watcher: &Arc<Watcher>) -> Option<&mut Registered> {
        let registered = self.watchers.get_mut(&watcher.id)?;
        Arc::ptr_eq(&registered.watcher, watcher).then_some(registered)
    }

    fn free_id(&mut self) -> i64 {
        while self.watchers.contains_key(&self.next_id) {
            self.next_id += 1;
        }
        self.next_id += 1;
        self.next_id - 1
    }
}

pub(crate) fn bytes_of(events: &[KeyEvent]) -> usize {
    events.iter().map(KeyEvent::size_bytes).sum()
}

impl StreamShared {
    pub fn new(options: WatchOptions, closed: bool) -> StreamShared {
        let state = StreamState {
            closed,
            ..StreamState::default()
        };
        let (arrived, drained) = (Notify::new(), Notify::new());
        StreamShared {
            options,
            state: Mutex::new(state),
            arrived,
            drained,
        }
    }

    pub fn lock(&self) -> MutexGuard<'_, StreamState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn close(&self) {
        self.lock().closed = true;
        self.arrived.notify_one();
    }

    pub fn count(&self, sum: &mut WatchStatistics) {
        let state = self.lock();
        let behind = |it: &&Registered| matches!(it.progress, Progress::Behind { .. });
        let queued = state.queue.iter().map(|item| match item {
            Item::Events { events, .. } => events.len(),
            Item::Control(_) => 0,
        });
        sum.streams += 1;
        sum.watchers += state.watchers.len();
        sum.behind += state.watchers.values().filter(behind).count();
        sum.queued_events += queued.sum::<usize>();
    }

    /// The hub's side: these revisions are handed to nobody.
    pub fn miss(&self, missed: &RangeInclusive<i64>) {
        let mut state = self.lock();
        for registered in state.watchers.values_mut() {
            if let Progress::Synced { from } = registered.progress
                && from <= *missed.end()
            {
                let next = from.max(*missed.start());
                registered.progress = Progress::Behind { next };
            }
        }
        drop(state);
        self.arrived.notify_one();
    }

    /// The hub's side: one revision's events for one watcher. A full queue
    /// makes the watcher fall behind instead.
    pub fn offer(&self, watcher: &Arc<Watcher>, main: i64, events: Vec<KeyEvent>) {
        let mut state = self.lock();
        let full = state.queued_bytes >= self.options.queue_bytes_max;
        let Some(registered) = state.registered(watcher) else {
            return;
        };
        match registered.progress {
            Progress::Synced { from } if from <= main => {}
            _ => return,
        }
        if full {
            registered.progress = Progress::Behind { next: main };
            return;
        }
        state.push_events(watcher, main, events);
        drop(state);
        self.arrived.notify_one();
    }
}

impl WatchStream {
    /// Starts a watch. Answers through [`WatchStream::next`], like everything
    /// here.
    pub fn create(&self, mut request: WatchCreateRequest) {
        if request.key.is_empty() {
            // The smallest key there is.
            request.key = Bytes::from_static(&[0]);
        }
        if request.start_revision < 0 {
            return self.refuse(Refusal::Compacted.message().to_owned());
        }
        if KeyRange::of_request(&request.key, &request.range_end).is_empty() {
            return self.refuse(EMPTY_RANGE.to_owned());
        }
        let mut hub = self.hub.lock();
        let mut state = self.shared.lock();
        let id = match request.watch_id {
            0 => state.free_id(),
            taken if state.watchers.contains_key(&taken) => {
                drop((state, hub));
                return self.refuse(DUPLICATE_ID.to_owned());
            }
            chosen => chosen,
        };
        let watcher = Arc::new(Watcher::new(id, request));
        let progress = match watcher.start_revision {
            past if 0 < past && past <= hub.published => Progress::Behind { next: past },
            start => Progress::Synced {
                from: start.max(hub.published + 1),
            },
        };
        let header = watch_header(hub.published);
        state.push_control(WatchResponse {
            header,
            watch_id: id,
            created: true,
            ..Default::default()
        });
        state.watchers.insert(
            id,
            Registered {
                watcher: Arc::clone(&watcher),
                progress,
                quiet: true,
            },
        );
        hub.matcher.add(Subscription {
            stream: Arc::clone(&self.shared),
            watcher,
        });
        drop((state, hub));
        self.shared.arrived.notify_one();
    }

    /// Answers a create that is refused (no permission, say), in order.
    pub fn refuse(&self, cancel_reason: String) {
        let header = watch_header(self.hub.revision());
        self.push(WatchResponse {
            header,
            watch_id: NO_WATCH,
            created: true,
            canceled: true,
            cancel_reason,
            ..Default::default()
        });
    }

    /// Ends one watch; no answer when there is none of this id.
    pub fn cancel(&self, watch_id: i64) {
        let mut hub = self.hub.lock();
        let mut state = self.shared.lock();
        let Some(registered) = state.watchers.remove(&watch_id) else {
            return;
        };
        hub.matcher.remove(&registered.watcher);
        let header = watch_header(hub.published);
        state.push_control(WatchResponse {
            header,
            watch_id,
            canceled: true,
            ..Default::default()
        });
        drop((state, hub));
        self.shared.arrived.notify_one();
    }

    fn push(&self, response: WatchResponse) {
        self.shared.lock().push_control(response);
        self.shared.arrived.notify_one();
    }

    pub(super) fn wake(&self) {
        self.shared.arrived.notify_one();
    }

    /// Returns at once unless answers pile up because the client does not
    /// read; await it before taking the next request off the wire.
    pub async fn accepts_requests(&self) {
        loop {
            let mut drained = pin!(self.shared.drained.notified());
            drained.as_mut().enable();
            if self.shared.lock().controls < self.shared.options.control_responses_max {
                return;
            }
            drained.await;
        }
    }

    /// The next response; `None` when the hub has closed. Cancel-safe.
    pub async fn next(&self) -> Option<WatchResponse> {
        loop {
            if let Some(response) = self.take() {
                return Some(response);
            }
            if self.shared.lock().closed {
                return None;
            }
            if self.catch_up() {
                // A long history must not keep other tasks from running.
                tokio::task::yield_now().await;
                continue;
            }
            self.shared.arrived.notified().await;
        }
    }

    /// Takes out what comes next, without waiting.
    fn take(&self) -> Option<WatchResponse> {
        let mut state = self.shared.lock();
        if let Some(fragment) = state.fragments.pop_front() {
            return Some(fragment);
        }
        match state.queue.pop_front()? {
            Item::Control(response) => {
                assert!(state.controls > 0, "a control answer that was not counted");
                state.controls -= 1;
                self.shared.drained.notify_one();
                Some(response)
            }
            Item::Events {
                watcher,
                revision,
                events,
            } => {
                state.queued_bytes -= bytes_of(&events);
                let (revision, events) = self.gather(&mut state, &watcher, revision, events);
                let drained = state.queue.is_empty();
                assert!(
                    !drained || state.queued_bytes == 0,
                    "bytes left in an empty queue"
                );
                drop(state);
                Some(self.respond(&watcher, revision, events))
            }
        }
    }

    /// Adds the same watch's next revisions while the response stays small.
    fn gather(
        &self,
        state: &mut StreamState,
        watcher: &Arc<Watcher>,
        mut revision: i64,
        mut events: Vec<KeyEvent>,
    ) -> (i64, Vec<KeyEvent>) {
        let mut bytes = bytes_of(&events);
        while bytes < self.shared.options.catch_up_bytes
            && let Some(Item::Events { watcher: next, .. }) = state.queue.front()
            && Arc::ptr_eq(next, watcher)
            && let Some(Item::Events {
                revision: later,
                events: more,
                ..
            }) = state.queue.pop_front()
        {
            bytes += bytes_of(&more);
            state.queued_bytes -= bytes_of(&more);
            revision = later;
            events.extend(more);
        }
        (revision, events)
    }
}

impl Drop for WatchStream {
    fn drop(&mut self) {
        let mut hub = self.hub.lock();
        hub.forget_stream(self.id);
        let mut state = self.shared.lock();
        for (_, registered) in state.watchers.drain() {
            hub.matcher.remove(&registered.watcher);
        }
    }
}

/// A header that knows the revision; the caller fills in the rest.
pub(crate) fn watch_header(revision: i64) -> Option<ResponseHeader> {
    crate::range::header(revision)
}
