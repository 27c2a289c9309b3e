//! A client's watch stream: its watches, and the queue of responses.

use environment::Mutex;
use std::collections::{HashMap, VecDeque};
use std::ops::RangeInclusive;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, MutexGuard};

use bytes::Bytes;
use etcd_api::Error as Refusal;
use etcd_api::etcdserverpb::{WatchCreateRequest, WatchResponse};
use tokio::sync::Notify;

use super::event::KeyEvent;
use super::hub::{WatchHub, WatchStatistics};
use super::matcher::Subscription;
use super::watcher::{Registered, SyncState, Watcher};
use crate::WatchOptions;
use crate::header::header;
use crate::key_range::KeyRange;

/// Stands for "no watch" and "all watches" in responses.
pub(crate) const NO_WATCH: i64 = -1;
const EMPTY_RANGE: &str = "mvcc: watcher range is empty";
const DUPLICATE_ID: &str = "mvcc: duplicate watch ID provided on the WatchStream";

/// Most events with previous versions that [`WatchStream::look`] reads itself; more are [`Work`].
const PREVIOUS_READ_AT_ONCE: usize = 16;
/// Divisor of a stream's limit of queued bytes while all streams together are at their limit.
const PART_WHEN_FULL: usize = 16;

/// The next step on a stream.
#[derive(Debug)]
pub enum Next {
    /// A response to send.
    Response(WatchResponse),
    /// Work that [`WatchStream::work`] must do before the next look; it reads the log.
    Work(Work),
    /// The caller must wait for [`WatchStream::arrived`].
    Nothing,
    /// The hub has closed, and the queue is empty.
    Closed,
}

/// Reads of the log for a stream. They may take long, so they belong on a thread that serves no
/// sockets.
#[derive(Debug)]
pub struct Work(Task);

#[derive(Debug)]
enum Task {
    /// Reads history for the watchers that are behind.
    CatchUp,
    /// Reads the previous versions of these events and makes the response.
    Respond(Delivery),
}

/// The watches of one client. The task that reads requests and the task that writes responses
/// share it (`Arc`); only one task may call `next`, or `look` and `work`.
#[derive(Debug)]
pub struct WatchStream {
    pub(super) hub: Arc<WatchHub>,
    pub(super) id: u64,
    pub(super) shared: Arc<StreamShared>,
}

/// The part of a stream that the hub queues events on.
#[derive(Debug)]
pub(crate) struct StreamShared {
    pub options: WatchOptions,
    /// Bytes in the queues of all streams.
    total_queued_bytes: Arc<AtomicUsize>,
    state: Mutex<StreamState>,
    /// Notified when something is queued or the stream is closed.
    arrived: Notify,
    /// Notified when a control response leaves the queue.
    drained: Notify,
}

#[derive(Debug, Default)]
pub(crate) struct StreamState {
    pub watchers: HashMap<i64, Registered>,
    /// Responses and events in the order of sending.
    pub queue: VecDeque<Queued>,
    /// Bytes of the events in the queue.
    pub queued_bytes: usize,
    /// Number of control responses in the queue.
    pub controls: usize,
    /// The id at which the search for a free one continues.
    next_id: i64,
    /// Whether a request for progress is not answered yet.
    pub progress_requested: bool,
    /// The remaining fragments of a split response.
    pub fragments: VecDeque<WatchResponse>,
    /// Whether a watcher may be behind.
    pub may_be_behind: bool,
    closed: bool,
}

/// An element of the queue.
#[derive(Debug)]
pub(crate) enum Queued {
    /// Created, canceled, progress.
    Control(WatchResponse),
    Events(Delivery),
}

/// Events of one watch, whole revisions.
#[derive(Debug)]
pub(crate) struct Delivery {
    pub watcher: Arc<Watcher>,
    /// Revision of the response's header.
    pub revision: i64,
    pub events: Vec<KeyEvent>,
}

impl StreamState {
    pub fn push_control(&mut self, response: WatchResponse) {
        self.controls += 1;
        self.queue.push_back(Queued::Control(response));
    }

    /// The registration of this watcher, if it has not been removed or replaced.
    pub fn registered(&mut self, watcher: &Arc<Watcher>) -> Option<&mut Registered> {
        let registered = self.watchers.get_mut(&watcher.id)?;
        Arc::ptr_eq(&registered.watcher, watcher).then_some(registered)
    }

    /// Returns whether the watcher is synced and wants this revision.
    fn takes(&mut self, watcher: &Arc<Watcher>, main: i64) -> bool {
        let progress = self.registered(watcher).map(|it| it.sync);
        matches!(progress, Some(SyncState::Synced { from }) if from <= main)
    }

    /// Makes a synced watcher fall behind at this revision, which it will read from the log.
    fn fall_behind(&mut self, watcher: &Arc<Watcher>, main: i64) {
        if self.takes(watcher, main)
            && let Some(registered) = self.registered(watcher)
        {
            registered.sync = SyncState::Behind { next: main };
            self.may_be_behind = true;
        }
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
    pub fn new(
        options: WatchOptions,
        total_queued_bytes: Arc<AtomicUsize>,
        closed: bool,
    ) -> StreamShared {
        let state = StreamState {
            closed,
            ..StreamState::default()
        };
        let (arrived, drained) = (Notify::new(), Notify::new());
        StreamShared {
            options,
            total_queued_bytes,
            state: Mutex::new(state),
            arrived,
            drained,
        }
    }

    pub fn lock(&self) -> MutexGuard<'_, StreamState> {
        self.state.lock()
    }

    pub fn queue(&self, state: &mut StreamState, delivery: Delivery) {
        assert!(
            !delivery.events.is_empty(),
            "a response without events would mean progress"
        );
        let bytes = bytes_of(&delivery.events);
        state.queued_bytes += bytes;
        self.total_queued_bytes.fetch_add(bytes, Ordering::Relaxed);
        if let Some(registered) = state.watchers.get_mut(&delivery.watcher.id) {
            registered.quiet = false;
        }
        state.queue.push_back(Queued::Events(delivery));
    }

    /// Subtracts events that have left the queue from the queued bytes.
    fn unqueue(&self, state: &mut StreamState, events: &[KeyEvent]) {
        let bytes = bytes_of(events);
        state.queued_bytes -= bytes;
        self.total_queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn is_full(&self, state: &StreamState) -> bool {
        let all = self.total_queued_bytes.load(Ordering::Relaxed);
        let bytes_max = match all < self.options.total_queue_bytes_max {
            true => self.options.queue_bytes_max,
            false => self.options.queue_bytes_max / PART_WHEN_FULL,
        };
        state.queued_bytes >= bytes_max
    }

    pub fn close(&self) {
        self.lock().closed = true;
        self.arrived.notify_one();
    }

    pub fn count(&self, sum: &mut WatchStatistics) {
        let state = self.lock();
        let behind = |it: &&Registered| matches!(it.sync, SyncState::Behind { .. });
        let queued = state.queue.iter().map(|queued| match queued {
            Queued::Events(delivery) => delivery.events.len(),
            Queued::Control(_) => 0,
        });
        sum.streams += 1;
        sum.watchers += state.watchers.len();
        sum.behind += state.watchers.values().filter(behind).count();
        sum.queued_events += queued.sum::<usize>();
    }

    /// Called by the hub after a snapshot: synced watchers fall behind at the first missed
    /// revision.
    pub fn miss(&self, missed: &RangeInclusive<i64>) {
        let mut state = self.lock();
        for registered in state.watchers.values_mut() {
            if let SyncState::Synced { from } = registered.sync
                && from <= *missed.end()
            {
                let next = from.max(*missed.start());
                registered.sync = SyncState::Behind { next };
            }
        }
        state.may_be_behind = true;
        drop(state);
        self.arrived.notify_one();
    }

    /// Called by the hub with one revision's events for one watcher. If the queue is full, the
    /// watcher falls behind instead.
    pub fn offer(&self, delivery: Delivery) {
        let mut state = self.lock();
        if self.is_full(&state) {
            state.fall_behind(&delivery.watcher, delivery.revision);
        } else if state.takes(&delivery.watcher, delivery.revision) {
            self.queue(&mut state, delivery);
            drop(state);
            self.arrived.notify_one();
        }
    }

    /// Called by the hub for a large revision, which the watcher must read from the log.
    pub fn leave_to_read(&self, watcher: &Arc<Watcher>, main: i64) {
        self.lock().fall_behind(watcher, main);
        self.arrived.notify_one();
    }
}

impl WatchStream {
    /// Starts a watch. The answer is queued for [`WatchStream::next`].
    pub fn create(&self, mut request: WatchCreateRequest) {
        if request.key.is_empty() {
            // The smallest possible key.
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
        let sync = match watcher.start_revision {
            past if 0 < past && past <= hub.published => SyncState::Behind { next: past },
            start => SyncState::Synced {
                from: start.max(hub.published + 1),
            },
        };
        state.may_be_behind |= matches!(sync, SyncState::Behind { .. });
        state.push_control(WatchResponse {
            created: true,
            ..notice(id, hub.published)
        });
        state.watchers.insert(
            id,
            Registered {
                watcher: Arc::clone(&watcher),
                sync,
                quiet: true,
            },
        );
        hub.matcher.add(Subscription {
            stream: Arc::clone(&self.shared),
            watcher,
        });
        drop((state, hub));
        self.wake();
    }

    /// Queues the answer to a create request that is refused, for want of permission for example.
    pub fn refuse(&self, cancel_reason: String) {
        let refusal = WatchResponse {
            created: true,
            canceled: true,
            cancel_reason,
            ..notice(NO_WATCH, self.hub.revision())
        };
        self.shared.lock().push_control(refusal);
        self.wake();
    }

    /// Ends a watch. Queues no answer if there is no watch with this id.
    pub fn cancel(&self, watch_id: i64) {
        let mut hub = self.hub.lock();
        let mut state = self.shared.lock();
        let Some(registered) = state.watchers.remove(&watch_id) else {
            return;
        };
        hub.matcher.remove(&registered.watcher);
        state.push_control(WatchResponse {
            canceled: true,
            ..notice(watch_id, hub.published)
        });
        drop((state, hub));
        self.wake();
    }

    fn wake(&self) {
        self.shared.arrived.notify_one();
    }

    /// Waits while too many control responses are queued because the client does not read. The
    /// server awaits it before it reads the next request.
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

    /// Returns the next response, or `None` after the hub has closed. Cancel-safe. Reads the log
    /// on the calling thread if necessary.
    pub async fn next(&self) -> Option<WatchResponse> {
        loop {
            match self.look() {
                Next::Response(response) => return Some(response),
                Next::Work(work) => {
                    if let Some(response) = self.work(work) {
                        return Some(response);
                    }
                    // A long history must not keep other tasks from running.
                    tokio::task::yield_now().await;
                }
                Next::Nothing => self.arrived().await,
                Next::Closed => return None,
            }
        }
    }

    /// Returns the next step, without waiting and with few reads at most. The caller must do the
    /// returned work before the next look.
    pub fn look(&self) -> Next {
        let mut state = self.shared.lock();
        if let Some(fragment) = state.fragments.pop_front() {
            return Next::Response(fragment);
        }
        match state.queue.pop_front() {
            Some(Queued::Control(response)) => {
                assert!(state.controls > 0, "a control response was not counted");
                state.controls -= 1;
                self.shared.drained.notify_one();
                Next::Response(response)
            }
            Some(Queued::Events(delivery)) => self.look_at_events(state, delivery),
            None if state.closed => Next::Closed,
            None if state.may_be_behind => {
                state.may_be_behind = false;
                Next::Work(Work(Task::CatchUp))
            }
            None => Next::Nothing,
        }
    }

    fn look_at_events(
        &self,
        mut state: MutexGuard<'_, StreamState>,
        mut delivery: Delivery,
    ) -> Next {
        self.shared.unqueue(&mut state, &delivery.events);
        self.gather(&mut state, &mut delivery);
        let drained = state.queue.is_empty();
        assert!(
            !drained || state.queued_bytes == 0,
            "bytes left in an empty queue"
        );
        drop(state);
        if delivery.watcher.prev_kv && delivery.events.len() > PREVIOUS_READ_AT_ONCE {
            return Next::Work(Work(Task::Respond(delivery)));
        }
        Next::Response(self.respond(delivery))
    }

    /// Does the work that [`WatchStream::look`] returned. Returns the response, if the work makes
    /// one.
    pub fn work(&self, work: Work) -> Option<WatchResponse> {
        match work.0 {
            Task::CatchUp => {
                self.catch_up();
                None
            }
            Task::Respond(delivery) => Some(self.respond(delivery)),
        }
    }

    /// Waits until [`WatchStream::look`] may have something to return.
    pub async fn arrived(&self) {
        self.shared.arrived.notified().await;
    }

    /// Adds the same watch's next revisions while the response stays small.
    fn gather(&self, state: &mut StreamState, delivery: &mut Delivery) {
        let mut bytes = bytes_of(&delivery.events);
        while bytes < self.shared.options.catch_up_bytes
            && let Some(Queued::Events(next)) = state.queue.front()
            && Arc::ptr_eq(&next.watcher, &delivery.watcher)
            && let Some(Queued::Events(next)) = state.queue.pop_front()
        {
            bytes += bytes_of(&next.events);
            self.shared.unqueue(state, &next.events);
            delivery.revision = next.revision;
            delivery.events.extend(next.events);
        }
    }

    /// Requests a progress notice for all watches of the stream.
    pub fn request_progress(&self) {
        let hub = self.hub.lock();
        let mut state = self.shared.lock();
        state.progress_requested = true;
        state.answer_progress(&hub);
        drop((state, hub));
        self.wake();
    }

    /// Queues a progress notice for each watch that asked for them and had no event since the
    /// last call. The server's timer calls this, every 10 minutes by default.
    pub fn progress_tick(&self) {
        let hub = self.hub.lock();
        let mut state = self.shared.lock();
        let mut seen = Vec::new();
        for (&id, registered) in &mut state.watchers {
            if registered.watcher.progress_notify {
                if registered.quiet && registered.has_seen(hub.published) {
                    seen.push(id);
                }
                registered.quiet = true;
            }
        }
        seen.into_iter()
            .for_each(|id| state.push_control(notice(id, hub.published)));
        drop((state, hub));
        self.wake();
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
        let queued_bytes = std::mem::take(&mut state.queued_bytes);
        let total = &self.shared.total_queued_bytes;
        total.fetch_sub(queued_bytes, Ordering::Relaxed);
    }
}

pub(super) fn notice(watch_id: i64, revision: i64) -> WatchResponse {
    WatchResponse {
        header: header(revision),
        watch_id,
        ..WatchResponse::default()
    }
}
