//! Counters since open, for [`crate::Status`].

use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, number: u64) {
        self.0.fetch_add(number, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) checkpoints: Counter,
    pub(crate) checkpoint_bytes: Counter,
    pub(crate) relocated_bytes: Counter,
    pub(crate) released_segments: Counter,
    pub(crate) swept_versions: Counter,
}
