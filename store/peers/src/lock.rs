//! Locks whose holders do not panic.

use std::sync::{Mutex, MutexGuard};

/// Locks `mutex`.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    let locked = mutex.lock();
    locked.expect("no code panics while it holds this lock")
}
