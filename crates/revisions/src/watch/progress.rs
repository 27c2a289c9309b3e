//! Progress notices: "you have seen everything up to this revision".
//!
//! A notice is put behind all events in the queue and under the hub's lock, so
//! it is true when it is read. A client's own request (watch id -1 in the
//! answer) waits until every watch of the stream has caught up; etcd drops it
//! instead, and clients ask again.

use etcd_api::etcdserverpb::WatchResponse;

use super::hub::HubState;
use super::stream::{NO_WATCH, StreamState, WatchStream, watch_header};
use super::watcher::{Progress, Registered};

impl Registered {
    /// It has been handed everything up to this revision, and some of that
    /// could have concerned it.
    fn has_seen(&self, revision: i64) -> bool {
        let synced = matches!(self.progress, Progress::Synced { .. });
        synced && self.watcher.start_revision <= revision
    }
}

impl WatchStream {
    /// The client asks for a progress notice of all its watches.
    pub fn request_progress(&self) {
        let hub = self.hub.lock();
        let mut state = self.shared.lock();
        state.progress_requested = true;
        state.answer_progress(&hub);
        drop((state, hub));
        self.wake();
    }

    /// The server's timer (10 min by default): quiet watches that asked for
    /// it get a progress notice.
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
    /// Answers a pending request if every watch has caught up. Watches that
    /// start in the future leave it unanswered, and so does their absence.
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
