//! Watches: cursors into the log, not queues.

use std::sync::Arc;

use etcd_api::etcdserverpb::{WatchCreateRequest, WatchResponse};

/// Where streams subscribe and apply publishes.
#[derive(Debug)]
pub struct WatchHub {}

impl WatchHub {
    /// A new stream, one per gRPC stream.
    pub fn subscribe(self: &Arc<Self>) -> WatchStream {
        panic!("not built yet")
    }
    /// Ends every stream: `next` returns `None` once its queue is empty.
    pub fn close(&self) {
        panic!("not built yet")
    }
}

/// One client's watches. Share it (`Arc`) between the task that reads requests
/// and the one that writes responses.
#[derive(Debug)]
pub struct WatchStream {}

impl WatchStream {
    /// Answers through [`WatchStream::next`], like everything here.
    pub fn create(&self, request: WatchCreateRequest) {
        panic!("not built yet")
    }
    /// Answers a refused create (a permission, say) in the stream's order.
    pub fn refuse(&self, cancel_reason: String) {
        panic!("not built yet")
    }
    /// Ends one watch; no answer when there is none of this id.
    pub fn cancel(&self, watch_id: i64) {
        panic!("not built yet")
    }
    /// The client asks for a progress notice of all its watches.
    pub fn request_progress(&self) {
        panic!("not built yet")
    }
    /// The server's timer (10 min by default): quiet watches that asked for it
    /// get a progress notice.
    pub fn progress_tick(&self) {
        panic!("not built yet")
    }
    /// Returns at once unless answers pile up because the client does not
    /// read; await it before taking the next request off the wire.
    pub async fn accepts_requests(&self) {
        panic!("not built yet")
    }
    /// The next response; `None` when the hub has closed. Cancel-safe.
    pub async fn next(&self) -> Option<WatchResponse> {
        panic!("not built yet")
    }
}
