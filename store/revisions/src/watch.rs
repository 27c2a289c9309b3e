//! Watches: a bounded queue while the client keeps up, a cursor into the log while it does not.
//!
//! ```text
//!  apply ──► hub: which watchers match this key?      (points by hash, ranges by interval tree)
//!              │ only streams with a match are touched and woken
//!              ▼
//!            stream's queue, bounded ──next()──► client
//!              │ full
//!              ▼
//!            watcher falls behind: keeps one revision number, no events
//!              │ client reads again, queue empty
//!              ▼
//!            reads history from the log, chunk by chunk, until it has caught up
//! ```
//!
//! A watcher is *synced* (apply hands it events) or *behind* (it reads them
//! itself). It changes from behind to synced only under the hub's lock, when it has read
//! everything published. So a watcher misses no event and gets none twice, however slow its
//! client is, and a slow client does not delay other clients.
//!
//! Responses leave a stream in the order of its queue: the "created" of a watch is queued before
//! the hub can queue its events, and its "canceled" after the last event.
//!
//! Lock order: hub, then stream. Both are held briefly, and never during I/O.

mod catch_up;
mod event;
mod hub;
mod interval_map;
mod matcher;
mod progress;
mod respond;
mod stream;
mod watcher;

pub use hub::{WatchHub, WatchStatistics};
pub use stream::{Next, WatchStream, Work};
