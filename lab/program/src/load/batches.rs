//! Batches of puts that make the data set before the measured part.
//!
//! ```text
//!   preload   every key once, in ascending order of the numbers
//!   rounds    rounds x keys puts under drawn keys: most of what was written is garbage then
//! ```
//!
//! A batch never holds a key twice: etcd refuses such a transaction.

use std::collections::HashSet;
use std::iter::Peekable;

use rand::{SeedableRng, rngs::Xoshiro256PlusPlus};

use super::Plan;
use crate::targets::Failure;
use crate::workload::{Draw, Stamp, mixed};

/// Most entries and bytes of a batch; a batch has at least one entry.
#[derive(Clone, Copy, Debug)]
pub struct BatchLimits {
    pub entries: usize,
    pub bytes: usize,
}

/// Puts that a target performs in one call.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Keys and values.
    pub entries: Vec<(Vec<u8>, Vec<u8>)>,
    /// Number of the key of each entry, and stamp of its value.
    pub written: Vec<(u64, Stamp)>,
    /// Share of all puts that is done with this batch, from 0 to 1.
    pub share: f64,
}

/// Receives each batch that was written, with the times at which it began and ended, in
/// nanoseconds since the plan's origin. An error ends the writing.
pub type OnBatch<'a> = dyn FnMut(&Batch, (u64, u64)) -> Result<(), Failure> + 'a;

/// A sequence of puts, cut into batches.
#[derive(Debug)]
pub struct Batches<'a, Puts: Iterator<Item = (u64, Stamp)>> {
    plan: &'a Plan,
    puts: Peekable<Puts>,
    done: u64,
    count: u64,
    limits: BatchLimits,
}

/// Every key once.
pub fn preload(plan: &Plan, limits: BatchLimits) -> impl Iterator<Item = Batch> {
    let keys = plan.workload.load.keys;
    let puts = (0..keys).map(|number| (number, Stamp::PRELOAD));
    Batches::new(plan, puts, keys, limits)
}

/// The rounds of the workload, drawn from its distribution. Their values have the stamps of
/// one client more than the plan has.
pub fn rounds(plan: &Plan, limits: BatchLimits) -> impl Iterator<Item = Batch> {
    let load = &plan.workload.load;
    let count = u64::from(load.rounds) * load.keys;
    let mut random = Xoshiro256PlusPlus::seed_from_u64(mixed(plan.seed ^ mixed(u64::MAX)));
    let mut draw = Draw::new(plan.workload.access.distribution, load.keys, 0, 1);
    let client = plan.clients;
    let puts = (0..count).map(move |put| (draw.to_write(&mut random), Stamp::of(client, put)));
    Batches::new(plan, puts, count, limits)
}

impl<'a, Puts: Iterator<Item = (u64, Stamp)>> Batches<'a, Puts> {
    fn new(plan: &'a Plan, puts: Puts, count: u64, limits: BatchLimits) -> Batches<'a, Puts> {
        Batches {
            plan,
            puts: puts.peekable(),
            done: 0,
            count,
            limits,
        }
    }
}

impl<Puts: Iterator<Item = (u64, Stamp)>> Iterator for Batches<'_, Puts> {
    type Item = Batch;

    fn next(&mut self) -> Option<Batch> {
        let mut batch = Batch::default();
        let mut keys = HashSet::new();
        let mut bytes = 0;
        while batch.entries.len() < self.limits.entries && bytes < self.limits.bytes {
            // The put of a key that the batch has already begins the next batch.
            let Some((number, stamp)) = self.puts.next_if(|(number, _)| keys.insert(*number))
            else {
                break;
            };
            let (mut key, mut value) = (Vec::new(), Vec::new());
            self.plan.keys.write(number, &mut key);
            self.plan.values.write(number, stamp, &mut value);
            bytes += key.len() + value.len();
            batch.entries.push((key, value));
            batch.written.push((number, stamp));
        }
        self.done += batch.entries.len() as u64;
        batch.share = self.done as f64 / self.count as f64;
        (!batch.entries.is_empty()).then_some(batch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::parse;

    const SMALL: BatchLimits = BatchLimits {
        entries: 10,
        bytes: 1 << 20,
    };

    fn plan(text: &str) -> Plan {
        let workload = parse("test", &format!("name = \"test\"\n{text}")).unwrap();
        Plan::new(&workload, 1, None)
    }

    #[test]
    fn a_preload_writes_every_key_once_and_ends_with_a_share_of_one() {
        let plan = plan("[load]\nkeys = 95\n");
        let batches: Vec<Batch> = preload(&plan, SMALL).collect();
        assert_eq!((batches.len(), batches[9].entries.len()), (10, 5));
        let written = batches.iter().flat_map(|batch| &batch.written);
        assert!(written.eq(&(0..95).map(|key| (key, Stamp::PRELOAD)).collect::<Vec<_>>()));
        assert_eq!(batches[9].share, 1.0);
    }

    #[test]
    fn a_batch_ends_at_its_bytes_and_has_at_least_one_entry() {
        let plan = plan("[load]\nkeys = 3\n");
        let limits = BatchLimits {
            entries: 10,
            bytes: 1,
        };
        let batches = preload(&plan, limits).map(|batch| batch.entries.len());
        assert_eq!(batches.collect::<Vec<_>>(), [1, 1, 1]);
    }

    #[test]
    fn rounds_write_as_often_as_they_say_and_no_key_twice_in_a_batch() {
        let plan = plan("[load]\nkeys = 50\nrounds = 3\n[access]\ndistribution = \"zipf:0.99\"\n");
        let mut stamps = HashSet::new();
        for batch in rounds(&plan, SMALL) {
            let keys: HashSet<u64> = batch.written.iter().map(|(key, _)| *key).collect();
            assert_eq!(keys.len(), batch.entries.len());
            assert!(keys.iter().all(|key| *key < 50));
            stamps.extend(batch.written.iter().map(|(_, stamp)| *stamp));
            for ((number, stamp), (_, value)) in batch.written.iter().zip(&batch.entries) {
                assert_eq!(plan.values.stamp(*number, value), Some(*stamp));
            }
        }
        assert_eq!(stamps.len(), 150, "every put has a value of its own");
    }

    #[test]
    fn equal_seeds_make_equal_rounds_and_no_rounds_make_no_batch() {
        let text = "[load]\nkeys = 50\nrounds = 2\n";
        let all = |plan: &Plan| -> Vec<_> {
            rounds(plan, SMALL)
                .flat_map(|batch| batch.written)
                .collect()
        };
        assert_eq!(all(&plan(text)), all(&plan(text)));
        assert_eq!(all(&plan("")), []);
    }
}
