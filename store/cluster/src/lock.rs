//! Locks that a panic elsewhere does not close: the thread that panicked ends the node.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks `mutex`.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
