//! One watch: what the client asked for, and how far it has come.

use std::sync::Arc;

use bytes::Bytes;
use etcd_api::etcdserverpb::WatchCreateRequest;
use etcd_api::etcdserverpb::watch_create_request::FilterType;
use etcd_api::mvccpb::event::EventType;

use super::event::KeyEvent;
use crate::key_range::KeyRange;

/// What the client asked for; never changes.
#[derive(Debug)]
pub(crate) struct Watcher {
    /// Unique within the stream.
    pub id: i64,
    pub key: Bytes,
    pub range_end: Bytes,
    /// First revision of interest; 0: whatever comes.
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

    /// The client wants this kind of event.
    pub fn wants(&self, event: &KeyEvent) -> bool {
        match event.kind {
            EventType::Put => !self.no_put,
            EventType::Delete => !self.no_delete,
        }
    }
}

/// Where a watcher stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// The hub hands it what is published at or after `from`.
    Synced {
        /// First revision it takes.
        from: i64,
    },
    /// It reads history itself.
    Behind {
        /// First revision it has not read.
        next: i64,
    },
    /// Canceled because history was compacted; its id stays taken until the
    /// client cancels, as in etcd.
    Compacted,
}

/// A watcher in its stream.
#[derive(Debug)]
pub(crate) struct Registered {
    pub watcher: Arc<Watcher>,
    pub progress: Progress,
    /// No event since the last tick of the progress timer.
    pub quiet: bool,
}
