//! How much clients may send ahead of what is read: the HTTP/2 receive windows.
//!
//! ```text
//!   client ──bytes──► connection window ──► stream window ──► request task
//!                     a share of the pool    the same for all
//! ```
//!
//! The windows of a connection bound what it keeps in memory unread. All connections take
//! theirs from one pool, each a fixed part of what is left of it, so that together they are
//! bounded too: the first ones get large windows, and with many connections each gets less.
//!
//! The HTTP/2 library counts small frames that no task has read yet against half of the
//! connection window, and ends the connection when that is used up. So a window that is
//! too small would cut off clients that send many small messages, which flow control
//! should slow down instead.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that one stream may send ahead.
pub(crate) const STREAM_WINDOW_BYTES: u32 = 256 << 10;
/// The smallest window that HTTP/2 knows for a connection.
const SHARE_BYTES_MIN: u64 = 65_535;
const SHARE_BYTES_MAX: u64 = 32 << 20;
/// A connection gets this part of what is left.
const SHARE_PART: u64 = 32;
/// More than this the windows of all connections never need.
const POOL_BYTES_MAX: u64 = 1 << 30;
/// The pool is this part of the memory, where that is less.
const MEMORY_PART: u64 = 8;

/// The windows of all connections.
#[derive(Debug)]
pub(crate) struct WindowPool {
    left_bytes: AtomicU64,
}

impl WindowPool {
    /// A pool for a process that may count on so much memory.
    pub(crate) fn for_memory(memory_bytes: u64) -> WindowPool {
        let bytes = (memory_bytes / MEMORY_PART).min(POOL_BYTES_MAX);
        WindowPool {
            left_bytes: AtomicU64::new(bytes),
        }
    }

    /// A new connection's share. Where the pool is empty that is the smallest window, which
    /// the pool does not count.
    pub(crate) fn share(self: &Arc<WindowPool>) -> WindowShare {
        let part = |left: u64| (left / SHARE_PART).clamp(SHARE_BYTES_MIN, SHARE_BYTES_MAX);
        let take = |left: u64| Some(left.saturating_sub(part(left)));
        let order = Ordering::Relaxed;
        let before = self.left_bytes.fetch_update(order, order, take);
        let before = before.expect("the change is never declined");
        let bytes = part(before);
        WindowShare {
            pool: Arc::clone(self),
            bytes,
            counted_bytes: bytes.min(before),
        }
    }
}

/// One connection's part of the pool, which gets it back when this is dropped.
#[derive(Debug)]
pub(crate) struct WindowShare {
    pool: Arc<WindowPool>,
    bytes: u64,
    /// What the pool has counted of it.
    counted_bytes: u64,
}

impl WindowShare {
    /// The connection's window.
    pub(crate) fn bytes(&self) -> u32 {
        self.bytes as u32
    }
}

impl Drop for WindowShare {
    fn drop(&mut self) {
        let pool = &self.pool.left_bytes;
        pool.fetch_add(self.counted_bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_shrink_with_the_connections_and_never_exceed_the_pool() {
        let pool = Arc::new(WindowPool::for_memory(8 << 30));
        let shares: Vec<WindowShare> = (0..10_000).map(|_| pool.share()).collect();
        assert_eq!(u64::from(shares[0].bytes()), SHARE_BYTES_MAX);
        assert_eq!(u64::from(shares[9_999].bytes()), SHARE_BYTES_MIN);
        assert!(shares.is_sorted_by_key(|share| u32::MAX - share.bytes()));
        let counted: u64 = shares.iter().map(|share| share.counted_bytes).sum();
        assert_eq!(counted, POOL_BYTES_MAX);
        drop(shares);
        assert_eq!(pool.left_bytes.load(Ordering::Relaxed), POOL_BYTES_MAX);
    }

    #[test]
    fn a_small_machine_has_a_small_pool() {
        let pool = WindowPool::for_memory(64 << 20);
        assert_eq!(pool.left_bytes.load(Ordering::Relaxed), 8 << 20);
    }
}
