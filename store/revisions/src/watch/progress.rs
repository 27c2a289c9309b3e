//! Progress notices: "you have seen everything up to this revision".
//!
//! A notice is queued behind all events, under the hub's lock, so it is true when the client
//! reads it. A client's request for progress (watch id -1 in the answer) waits until every watch
//! of the stream has caught up; etcd drops such a request, and the client must repeat it.

use super::hub::HubState;
use super::stream::{NO_WATCH, StreamState, notice};
use super::watcher::{Registered, SyncState};

impl Registered {
    /// Returns whether the watch is synced at this revision and does not start in the future.
    pub fn has_seen(&self, revision: i64) -> bool {
        let synced = matches!(self.sync, SyncState::Synced { .. });
        synced && self.watcher.start_revision <= revision
    }
}

impl StreamState {
    /// Answers a pending request if no watch is behind. If there is no watch, or one that starts
    /// in the future, the request is dropped without an answer.
    pub fn answer_progress(&mut self, hub: &HubState) {
        let live = |it: &&Registered| it.sync != SyncState::Compacted;
        let behind = |it: &Registered| matches!(it.sync, SyncState::Behind { .. });
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
