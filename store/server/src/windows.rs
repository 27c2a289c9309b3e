//! The HTTP/2 receive windows: how much clients may send ahead of what is read.
//!
//! ```text
//!   client ──bytes──► connection window ──► stream window ──► request task
//!                     a share of the pool    the same for all
//! ```
//!
//! The windows of a connection bound its unread bytes in memory. All connections take
//! their windows from one pool, each a fixed part of what is left of it, so that their sum
//! is bounded, too: the first connections get large windows, later ones smaller windows.
//!
//! The HTTP/2 library counts small frames that no task has read yet against half of the
//! connection window, and ends the connection when that is used up. So a window that is
//! too small would cut off clients that send many small messages, which flow control
//! should slow down instead.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that one stream may send ahead.
pub(crate) const STREAM_WINDOW_BYTES: u32 = 256 << 10;
/// The smallest window that HTTP/2 allows for a connection.
const SHARE_BYTES_MIN: u64 = 65_535;
const SHARE_BYTES_MAX: u64 = 32 << 20;
/// A connection gets the rest of the pool divided by this.
const SHARE_PART: u64 = 32;
/// Largest size of the pool.
const POOL_BYTES_MAX: u64 = 1 << 30;
/// The pool is the process's memory divided by this, if that is less.
const MEMORY_PART: u64 = 8;

/// The windows of all connections.
#[derive(Debug)]
pub(crate) struct WindowPool {
    left_bytes: AtomicU64,
}

impl WindowPool {
    /// A pool for a process that may use `memory_bytes` of memory.
    pub(crate) fn for_memory(memory_bytes: u64) -> WindowPool {
        let bytes = (memory_bytes / MEMORY_PART).min(POOL_BYTES_MAX);
        WindowPool {
            left_bytes: AtomicU64::new(bytes),
        }
    }

    /// A new connection's share. If the pool is empty, that is the smallest window, which
    /// is not taken from the pool.
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

/// One connection's part of the pool; dropping it gives the part back.
#[derive(Debug)]
pub(crate) struct WindowShare {
    pool: Arc<WindowPool>,
    bytes: u64,
    /// Bytes taken from the pool.
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
