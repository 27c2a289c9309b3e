//! Watches: cursors into the log, not queues.
//!
//! ```text
//!  apply ──► hub: which watchers match this key?      (points by hash, ranges by interval tree)
//!              │ only streams with a match are touched and woken
//!              ▼
//!            stream's queue, bounded ──next()──► client
//!              │ full
//!              ▼
//!            watcher falls behind: remembers one revision, costs nothing
//!              │ client reads again, queue empty
//!              ▼
//!            reads history from the log, chunk by chunk, until it has caught up
//! ```
//!
//! A watcher is *synced* (apply hands it events) or *behind* (it reads them
//! itself). Under the hub's lock, and nowhere else, it changes from behind to
//! synced, and only when it has read everything published. So it misses
//! nothing and sees nothing twice, however slow its client, and a slow client
//! slows nobody.
//!
//! Order within a stream is the order of its queue: a watch's "created" is put
//! in before the hub can hand it events, a "canceled" after the last one.
//!
//! Lock order: hub, then stream; both for moments, neither across I/O.

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
