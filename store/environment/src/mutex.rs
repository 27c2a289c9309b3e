//! A lock that a panic does not close.

use std::sync::{MutexGuard, PoisonError};

/// [`std::sync::Mutex`] without poison: what it guards is whole at each step, so the threads
/// that are left go on after a panic of the holder.
#[derive(Debug, Default)]
pub struct Mutex<T>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    /// An unlocked one.
    pub const fn new(value: T) -> Mutex<T> {
        Mutex(std::sync::Mutex::new(value))
    }

    /// Waits for its turn.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
