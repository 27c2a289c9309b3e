//! Finds the watchers of a key.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;

use super::interval_map::IntervalMap;
use super::stream::StreamShared;
use super::watcher::Watcher;
use crate::key_range::End;

/// A watcher and the stream that its events are queued on.
#[derive(Clone, Debug)]
pub(crate) struct Subscription {
    pub stream: Arc<StreamShared>,
    pub watcher: Arc<Watcher>,
}

/// All watchers, by the keys that they watch.
#[derive(Debug, Default)]
pub(crate) struct Matcher {
    points: HashMap<Bytes, Vec<Subscription>>,
    ranges: IntervalMap<Subscription>,
}

impl Matcher {
    pub fn add(&mut self, subscription: Subscription) {
        let watcher = Arc::clone(&subscription.watcher);
        match watcher.keys().end {
            End::Point => self
                .points
                .entry(watcher.key.clone())
                .or_default()
                .push(subscription),
            End::Open => self.ranges.insert(watcher.key.clone(), None, subscription),
            End::Before(_) => {
                let end = Some(watcher.range_end.clone());
                self.ranges.insert(watcher.key.clone(), end, subscription);
            }
        }
    }

    pub fn remove(&mut self, watcher: &Arc<Watcher>) {
        let same = |other: &Subscription| Arc::ptr_eq(&other.watcher, watcher);
        match watcher.keys().end {
            End::Point => self.remove_point(watcher, same),
            End::Open => self.ranges.remove(&watcher.key, None, same),
            End::Before(end) => self.ranges.remove(&watcher.key, Some(end), same),
        }
    }

    fn remove_point(&mut self, watcher: &Watcher, same: impl Fn(&Subscription) -> bool) {
        if let Some(subscriptions) = self.points.get_mut(&watcher.key) {
            let before = subscriptions.len();
            subscriptions.retain(|other| !same(other));
            assert_eq!(
                subscriptions.len() + 1,
                before,
                "a watcher is registered once"
            );
            if subscriptions.is_empty() {
                self.points.remove(&watcher.key);
            }
        }
    }

    /// Visits every watcher of a key.
    pub fn visit(&self, key: &[u8], visit: &mut impl FnMut(&Subscription)) {
        self.points
            .get(key)
            .into_iter()
            .flatten()
            .for_each(&mut *visit);
        self.ranges.visit(key, visit);
    }
}
