//! The prefixes with the most events, in bounded memory: the algorithm Space-Saving with
//! counters that fade, so that a burst of yesterday does not stay on top.
//!
//! ```text
//!   /registry/pods/a ──► /registry/pods/ ──► counter + 1; a new prefix takes the counter of the
//!                                            rarest one and its count, when all are in use
//! ```

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

const COUNTERS_MAX: usize = 1000;
/// Longer prefixes are cut off.
const PREFIX_BYTES_MAX: usize = 128;
/// Thousandths of an event, so that fading counts in whole numbers.
const EVENT: u64 = 1000;
/// Share of a count, in percent, that is left after an interval.
const KEPT_PERCENT: u64 = 80;

/// Counters of prefixes.
#[derive(Debug, Default)]
pub(super) struct HotPrefixes {
    counts: HashMap<Vec<u8>, u64>,
    /// The same, the rarest first.
    order: BTreeSet<(u64, Vec<u8>)>,
    /// Time that the counts stand for; the past counts less.
    seconds: f64,
    /// Why nothing is counted at the moment; empty if it is.
    interruption: String,
}

impl HotPrefixes {
    /// Counts an event on a key.
    pub(super) fn count(&mut self, key: &[u8]) {
        self.interruption.clear();
        let prefix = prefix_of(key);
        let before = match self.counts.get(prefix) {
            Some(count) => {
                self.order.remove(&(*count, prefix.to_vec()));
                *count
            }
            None if self.counts.len() < COUNTERS_MAX => 0,
            None => self.take_rarest(),
        };
        self.counts.insert(prefix.to_vec(), before + EVENT);
        self.order.insert((before + EVENT, prefix.to_vec()));
    }

    fn take_rarest(&mut self) -> u64 {
        let Some((count, prefix)) = self.order.pop_first() else {
            return 0;
        };
        self.counts.remove(&prefix);
        count
    }

    /// Notes that an interval has passed.
    pub(super) fn fade(&mut self, interval: Duration) {
        let old = std::mem::take(&mut self.order);
        self.counts.clear();
        for (count, prefix) in old {
            let kept = count * KEPT_PERCENT / 100;
            if kept > 0 {
                self.counts.insert(prefix.clone(), kept);
                self.order.insert((kept, prefix));
            }
        }
        let kept = KEPT_PERCENT as f64 / 100.0;
        self.seconds = (self.seconds + interval.as_secs_f64()) * kept;
    }

    /// Notes why nothing is counted until the next event.
    pub(super) fn interrupt(&mut self, reason: String) {
        self.interruption = reason;
    }

    pub(super) fn interruption(&self) -> &str {
        &self.interruption
    }

    /// The prefixes with the most events, and their events per second.
    pub(super) fn hottest(&self, number: usize) -> Vec<(&[u8], f64)> {
        let seconds = self.seconds.max(f64::MIN_POSITIVE);
        let rate = |count: u64| count as f64 / EVENT as f64 / seconds;
        let hottest = self.order.iter().rev().take(number);
        hottest
            .map(|(count, prefix)| (&prefix[..], rate(*count)))
            .collect()
    }
}

/// The key up to its second slash, or its first, or the whole key; a slash at its beginning
/// does not count.
fn prefix_of(key: &[u8]) -> &[u8] {
    let slashes = key
        .iter()
        .enumerate()
        .skip(1)
        .filter(|(_, byte)| **byte == b'/');
    let end = slashes.take(2).last().map_or(key.len(), |(at, _)| at + 1);
    &key[..end.min(PREFIX_BYTES_MAX)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_at_the_second_slash() {
        for (key, expected) in [
            ("/registry/pods/default/a", "/registry/pods/"),
            ("a/b/c/d", "a/b/"),
            ("a/b", "a/"),
            ("/a", "/a"),
            ("plain", "plain"),
            ("", ""),
        ] {
            assert_eq!(prefix_of(key.as_bytes()), expected.as_bytes(), "{key}");
        }
        assert_eq!(prefix_of(&[b'x'; 4096]).len(), PREFIX_BYTES_MAX);
    }

    #[test]
    fn a_frequent_prefix_survives_any_number_of_rare_ones() {
        let mut prefixes = HotPrefixes::default();
        for number in 0..20_000 {
            prefixes.count(b"hot/a");
            prefixes.count(format!("rare{number}/").as_bytes());
        }
        prefixes.fade(Duration::from_secs(10));
        assert_eq!(prefixes.counts.len(), COUNTERS_MAX);
        assert_eq!(prefixes.order.len(), COUNTERS_MAX);
        assert_eq!(prefixes.hottest(1), [(&b"hot/"[..], 2000.0)]);
    }

    #[test]
    fn a_prefix_without_events_fades_away() {
        let mut prefixes = HotPrefixes::default();
        prefixes.count(b"a/");
        for _ in 0..100 {
            prefixes.fade(Duration::from_secs(1));
        }
        assert!(prefixes.hottest(10).is_empty());
    }

    #[test]
    fn an_interruption_lasts_until_the_next_event() {
        let mut prefixes = HotPrefixes::default();
        prefixes.interrupt("permission denied".to_owned());
        assert_eq!(prefixes.interruption(), "permission denied");
        prefixes.count(b"a");
        assert_eq!(prefixes.interruption(), "");
    }
}
