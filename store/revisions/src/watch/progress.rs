//! Progress notices: "you have seen everything up to this revision".
//!
//! A notice is queued behind all events, under the hub's lock, so it is true when the client
//! reads it. A client's request for progress (watch id -1 in the answer) waits until every watch
//! of the stream has caught up; etcd drops such a request, and the client must repeat it.

use etcd_api::etcdserverpb::WatchResponse;

use super::hub::HubState;
use super::stream::{NO_WATCH, StreamState, WatchStream, watch_header};
use super::watcher::{Progress, Registered};

impl Registered {
    /// Returns whether the watch is synced at this revision and does not start in the future.
    fn has_seen(&self, revision: i64) -> bool {
        let synced = matches!(self.progress, Progress::Synced { .. });
        synced && self.watcher.start_revision <= revision
    }
}

impl WatchStream {
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

impl StreamState {
    /// Answers a pending request if no watch is behind. If there is no watch, or one that starts
    /// in the future, the request is dropped without an answer.
    pub fn answer_progress(&mut self, hub: &HubState) {
        let live = |it: &&Registered| it.progress != Progress::Compacted;
        let behind = |it: &Registered| matches!(it.progress, Progress::Behind { .. });
        if !self.progress_requested || self.watchers.values().any(behind) {
            return;
        }
        self.progress_requested = false;
        let mut live = self.watchers.values().filter(live).peekable();
        if live.peek().is_some() && live.all(|it| it.has_seen(hub.published)) {
            self.push_control(notice(NO_WATCH, hub.published));
        }
    }
}

fn notice(watch_id: i64, revision: i64) -> WatchResponse {
    WatchResponse {
        header: watch_header(revision),
        watch_id,
        ..WatchResponse::default()
    }
}
