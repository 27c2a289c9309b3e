//! Locks under which no code panics.

use std::sync::{Mutex, MutexGuard};

/// Locks `mutex`.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    let locked = mutex.lock();
    locked.expect("no code panics while it holds this lock")
}
