//! Revisions that snapshots and ranges still read at.

use environment::Mutex;
use std::collections::BTreeMap;
use std::sync::{Arc, MutexGuard};

/// Number of holds of each revision.
#[derive(Debug, Default)]
pub(crate) struct Held(Mutex<BTreeMap<i64, usize>>);

/// Keeps the versions that are visible at a revision from being compacted.
#[derive(Debug)]
pub(crate) struct Hold {
    held: Arc<Held>,
    pub revision: i64,
}

impl Held {
    /// Holds the revision that `newest` returns. No compaction comes in between.
    pub(crate) fn hold(self: &Arc<Held>, newest: impl FnOnce() -> i64) -> Hold {
        let mut held = self.lock();
        let revision = newest();
        *held.entry(revision).or_default() += 1;
        Hold {
            held: Arc::clone(self),
            revision,
        }
    }

    /// Runs `body` with the oldest held revision, if any. No other hold can begin
    /// before `body` returns, so it must not wait for anything.
    pub(crate) fn with_oldest(&self, body: impl FnOnce(Option<i64>)) {
        let held = self.lock();
        body(held.first_key_value().map(|(&revision, _)| revision));
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<i64, usize>> {
        self.0.lock()
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut held = self.held.lock();
        if let Some(count) = held.get_mut(&self.revision) {
            *count -= 1;
            if *count == 0 {
                held.remove(&self.revision);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn oldest(held: &Held) -> Option<i64> {
        let mut found = None;
        held.with_oldest(|oldest| found = oldest);
        found
    }

    #[test]
    fn the_oldest_revision_changes_when_its_last_hold_is_dropped() {
        let held = Arc::new(Held::default());
        let (seven, five, other_five) = (held.hold(|| 7), held.hold(|| 5), held.hold(|| 5));
        assert_eq!(oldest(&held), Some(5));
        drop(five);
        assert_eq!(oldest(&held), Some(5));
        drop(other_five);
        assert_eq!(oldest(&held), Some(7));
        drop(seven);
        assert_eq!(oldest(&held), None);
    }
}
