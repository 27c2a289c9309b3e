//! One watch: the client's request and the progress.

use std::sync::Arc;

use bytes::Bytes;
use etcd_api::etcdserverpb::WatchCreateRequest;
use etcd_api::etcdserverpb::watch_create_request::FilterType;
use etcd_api::mvccpb::event::EventType;

use super::event::KeyEvent;
use crate::key_range::KeyRange;

/// The client's request, which never changes.
#[derive(Debug)]
pub(crate) struct Watcher {
    /// Unique within the stream.
    pub id: i64,
    pub key: Bytes,
    pub range_end: Bytes,
    /// First revision that the client wants; 0 for all future ones.
    pub start_revision: i64,
    pub prev_kv: bool,
    pub fragment: bool,
    pub progress_notify: bool,
    no_put: bool,
    no_delete: bool,
}

impl Watcher {
    pub fn new(id: i64, request: WatchCreateRequest) -> Watcher {
        let filters = |wanted: FilterType| request.filters.contains(&(wanted as i32));
        Watcher {
            id,
            no_put: filters(FilterType::Noput),
            no_delete: filters(FilterType::Nodelete),
            start_revision: request.start_revision,
            prev_kv: request.prev_kv,
            fragment: request.fragment,
            progress_notify: request.progress_notify,
            key: request.key,
            range_end: request.range_end,
        }
    }

    pub fn keys(&self) -> KeyRange<'_> {
        KeyRange::of_request(&self.key, &self.range_end)
    }

    /// Returns whether the filters let this event pass.
    pub fn wants(&self, event: &KeyEvent) -> bool {
        match event.kind {
            EventType::Put => !self.no_put,
            EventType::Delete => !self.no_delete,
        }
    }
}

/// The progress of a watcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SyncState {
    /// The hub queues events that are published at or after `from`.
    Synced {
        /// The first revision that it gets from the hub.
        from: i64,
    },
    /// The watcher reads history from the log.
    Behind {
        /// The first revision that it has not read.
        next: i64,
    },
    /// Canceled because its history was compacted. Its id stays in use until the client cancels
    /// it, as in etcd.
    Compacted,
}

/// A watcher in its stream.
#[derive(Debug)]
pub(crate) struct Registered {
    pub watcher: Arc<Watcher>,
    pub sync: SyncState,
    /// Whether the watch had no event since the last tick of the progress timer.
    pub quiet: bool,
}
