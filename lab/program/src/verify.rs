//! Verification that acknowledged writes are there after a run.
//!
//! ```text
//!   client: put(key, stamp) ── begun ── ended ──►  ClientWrites, one for each client
//!   after:  reopen or kill and restart, read keys  ──►  Ledger: may this be there?
//! ```
//!
//! A key may hold the value of any write that is not known to be replaced. A write is
//! replaced when an acknowledged write began after it had ended. A failed write may or may
//! not have happened, at any time after it began.
//!
//! Clients remember all writes of the keys that they watch. When there are too many, they
//! watch half of the keys, then a quarter, and so on.

use std::collections::BTreeMap;

use crate::record::Verification;
use crate::workload::{Stamp, Values, mixed};

/// Number of writes that all clients together remember, at 32 bytes each. Their memory
/// counts as the embedded target's, so it must be small; if a target loses one write in
/// ten thousand, at least a dozen of the remembered ones are among the lost.
const WRITES_MAX: usize = 1 << 18;
const EXAMPLES_KEPT: usize = 5;

/// One write of a sampled key. Times are nanoseconds; the end of a failed write is
/// `u64::MAX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Write {
    key: u64,
    stamp: Stamp,
    begun: u64,
    ended: u64,
}

/// Writes of one client to sampled keys, acknowledged or failed.
#[derive(Clone, Debug)]
pub struct ClientWrites {
    writes: Vec<Write>,
    writes_max: usize,
    /// One key of `1 << halvings` is sampled.
    halvings: u32,
}

impl ClientWrites {
    /// An empty list for one of `clients` clients.
    pub fn new(clients: u32) -> ClientWrites {
        ClientWrites {
            writes: Vec::new(),
            writes_max: (WRITES_MAX / clients as usize).max(1024),
            halvings: 0,
        }
    }

    /// Remembers a write, if its key is sampled.
    pub fn note(&mut self, key: u64, stamp: Stamp, begun: u64, ended: u64) {
        if !is_sampled(key, self.halvings) {
            return;
        }
        self.writes.push(Write {
            key,
            stamp,
            begun,
            ended,
        });
        if self.writes.len() >= self.writes_max {
            self.halvings += 1;
            let halvings = self.halvings;
            self.writes.retain(|write| is_sampled(write.key, halvings));
        }
    }

    /// Adds `nanoseconds` to all times, to compare them with those of another plan.
    pub fn shift(&mut self, nanoseconds: u64) {
        for write in &mut self.writes {
            write.begun += nanoseconds;
            write.ended = write.ended.saturating_add(nanoseconds);
        }
    }
}

/// Whether a key is watched. Each halving watches a subset of the keys before it.
fn is_sampled(key: u64, halvings: u32) -> bool {
    mixed(key) & ((1 << halvings) - 1) == 0
}

/// Writes of all clients, by key, and the result of the verification.
#[derive(Debug)]
pub struct Ledger {
    writes: BTreeMap<u64, Vec<Write>>,
    preloaded: u64,
    halvings: u32,
    verification: Verification,
}

impl Ledger {
    /// The ledger of all clients; the first `preloaded` keys were written by the preload.
    pub fn new(clients: Vec<ClientWrites>, preloaded: u64) -> Ledger {
        let halvings = clients.iter().map(|client| client.halvings).max();
        let halvings = halvings.unwrap_or(0);
        let mut writes: BTreeMap<u64, Vec<Write>> = BTreeMap::new();
        for client in clients {
            for write in client.writes {
                if is_sampled(write.key, halvings) {
                    writes.entry(write.key).or_default().push(write);
                }
            }
        }
        Ledger {
            writes,
            preloaded,
            halvings,
            verification: Verification::default(),
        }
    }

    /// A sample of about `count_max` watched keys to read: written ones first, spread evenly,
    /// then preloaded ones.
    pub fn keys(&self, count_max: usize) -> Vec<u64> {
        let written = self.writes.len();
        let step = written.div_ceil(count_max.max(1)).max(1);
        let mut keys: Vec<u64> = self.writes.keys().copied().step_by(step).collect();
        let room = count_max.saturating_sub(keys.len()) as u64;
        if room > 0 && self.preloaded > 0 {
            let step = self.preloaded.div_ceil(room).max(1);
            let others = (0..self.preloaded)
                .step_by(step as usize)
                .filter(|key| is_sampled(*key, self.halvings) && !self.writes.contains_key(key));
            keys.extend(others);
        }
        keys
    }

    /// Checks the value that was found under a key; `None` means that the key is missing.
    pub fn check(&mut self, values: &Values, key: u64, found: Option<&Vec<u8>>) {
        self.verification.keys_checked += 1;
        let acceptable = self.acceptable(key);
        let Some(found) = found else {
            let must_be_there = !acceptable.is_empty() && !acceptable.contains(&None);
            if must_be_there {
                self.verification.keys_missing += 1;
                self.example(format!("key {key} is not there"));
            }
            return;
        };
        if !values.tell_writes_apart() {
            return;
        }
        let stamp = values.stamp(key, found);
        if stamp.is_none() || !acceptable.contains(&stamp) {
            self.verification.keys_wrong += 1;
            self.example(match stamp {
                Some(stamp) => format!("key {key} holds an older write, {stamp:?}"),
                None => format!("key {key} holds {} bytes that no client wrote", found.len()),
            });
        }
    }

    /// The writes that a key may show; `None` stands for no value at all.
    fn acceptable(&self, key: u64) -> Vec<Option<Stamp>> {
        let none = Vec::new();
        let writes = self.writes.get(&key).unwrap_or(&none);
        // The value before all of these writes.
        let before = (key < self.preloaded).then_some(Stamp::PRELOAD);
        let first_end = writes.iter().map(|write| write.ended).min();
        let mut acceptable = Vec::new();
        if first_end.is_none_or(|ended| ended == u64::MAX) {
            acceptable.push(before);
        }
        // A write is replaced for certain if an acknowledged write began after its end.
        let last_begin = writes
            .iter()
            .filter(|write| write.ended != u64::MAX)
            .map(|write| write.begun)
            .max();
        let stays = |write: &&Write| last_begin.is_none_or(|begun| write.ended >= begun);
        acceptable.extend(writes.iter().filter(stays).map(|write| Some(write.stamp)));
        acceptable
    }

    fn example(&mut self, what: String) {
        if self.verification.examples.len() < EXAMPLES_KEPT {
            self.verification.examples.push(what);
        }
    }

    /// The result; `after` says what was done to the target before reading.
    pub fn verification(self, after: &str) -> Verification {
        Verification {
            after: after.to_owned(),
            ..self.verification
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::ValueSpec;

    fn values() -> Values {
        Values::new(&ValueSpec::default(), 1)
    }

    fn value(values: &Values, key: u64, stamp: Stamp) -> Vec<u8> {
        let mut value = Vec::new();
        values.write(key, stamp, &mut value);
        value
    }

    fn ledger(writes: &[(u64, u64, u64)], preloaded: u64) -> Ledger {
        let mut client = ClientWrites::new(1);
        for (number, (key, begun, ended)) in writes.iter().enumerate() {
            client.note(*key, Stamp::of(0, number as u64), *begun, *ended);
        }
        Ledger::new(vec![client], preloaded)
    }

    fn verdict(mut ledger: Ledger, key: u64, found: Option<Stamp>) -> (u64, u64) {
        let values = values();
        let found = found.map(|stamp| value(&values, key, stamp));
        ledger.check(&values, key, found.as_ref());
        let verification = ledger.verification("a test");
        (verification.keys_missing, verification.keys_wrong)
    }

    const GOOD: (u64, u64) = (0, 0);
    const MISSING: (u64, u64) = (1, 0);
    const WRONG: (u64, u64) = (0, 1);

    #[test]
    fn the_last_acknowledged_write_must_be_there() {
        let writes = [(7, 0, 1), (7, 2, 3)];
        assert_eq!(verdict(ledger(&writes, 0), 7, Some(Stamp::of(0, 1))), GOOD);
        assert_eq!(verdict(ledger(&writes, 0), 7, Some(Stamp::of(0, 0))), WRONG);
        assert_eq!(verdict(ledger(&writes, 0), 7, None), MISSING);
    }

    #[test]
    fn either_of_two_concurrent_writes_is_accepted() {
        let writes = [(7, 0, 5), (7, 2, 3)];
        for write in 0..2 {
            assert_eq!(
                verdict(ledger(&writes, 0), 7, Some(Stamp::of(0, write))),
                GOOD
            );
        }
    }

    #[test]
    fn a_failed_write_may_be_there_or_not() {
        let writes = [(7, 0, 1), (7, 2, u64::MAX)];
        for write in 0..2 {
            assert_eq!(
                verdict(ledger(&writes, 0), 7, Some(Stamp::of(0, write))),
                GOOD
            );
        }
        let failed_only = [(7, 2, u64::MAX)];
        assert_eq!(verdict(ledger(&failed_only, 0), 7, None), GOOD);
        assert_eq!(
            verdict(ledger(&failed_only, 10), 7, Some(Stamp::PRELOAD)),
            GOOD
        );
        assert_eq!(verdict(ledger(&failed_only, 10), 7, None), MISSING);
    }

    #[test]
    fn a_preloaded_key_stays_until_it_is_written() {
        assert_eq!(verdict(ledger(&[], 10), 7, Some(Stamp::PRELOAD)), GOOD);
        assert_eq!(verdict(ledger(&[], 10), 7, None), MISSING);
        let written = [(7, 0, 1)];
        assert_eq!(
            verdict(ledger(&written, 10), 7, Some(Stamp::PRELOAD)),
            WRONG
        );
    }

    #[test]
    fn bytes_that_no_client_wrote_are_wrong() {
        let mut ledger = ledger(&[], 10);
        ledger.check(&values(), 7, Some(&vec![1; 256]));
        let verification = ledger.verification("a test");
        assert_eq!(verification.keys_wrong, 1);
        assert!(
            verification.examples[0].contains("key 7"),
            "{verification:?}"
        );
    }

    #[test]
    fn one_forgotten_write_among_many_is_found() {
        let writes: Vec<(u64, u64, u64)> = (0..10_000).map(|key| (key, key, key + 1)).collect();
        let mut ledger = ledger(&writes, 0);
        let values = values();
        for key in ledger.keys(100_000) {
            let found = (key != 4321).then(|| value(&values, key, Stamp::of(0, key)));
            ledger.check(&values, key, found.as_ref());
        }
        let verification = ledger.verification("a test");
        assert_eq!(
            (verification.keys_checked, verification.keys_missing),
            (10_000, 1)
        );
    }

    #[test]
    fn too_many_writes_halve_the_watched_keys_and_keep_all_writes_of_the_rest() {
        let mut client = ClientWrites::new(u32::MAX);
        for write in 0..5000 {
            client.note(write % 100, Stamp::of(0, write), write, write + 1);
        }
        assert!(client.halvings > 0 && client.writes.len() < 1024);
        let ledger = Ledger::new(vec![client], 0);
        let keys = ledger.keys(1000);
        assert!(!keys.is_empty() && keys.len() < 100);
        for key in keys {
            assert_eq!(ledger.writes[&key].len(), 50, "all writes of a watched key");
        }
    }

    #[test]
    fn a_sample_is_spread_over_all_keys() {
        let writes: Vec<(u64, u64, u64)> = (0..1000).map(|key| (key, 0, 1)).collect();
        let keys = ledger(&writes, 0).keys(10);
        assert_eq!(keys.len(), 10);
        assert!(keys.contains(&0) && keys.last() >= Some(&900));
    }
}
