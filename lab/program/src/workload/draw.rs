//! Draws of keys.
//!
//! A permutation spreads popular keys over the key space: multiplication with a number that is
//! coprime to the number of keys. Popular keys are thus not adjacent, and no table is needed.

use rand::{Rng, RngExt};
use rand_distr::{Distribution as _, Zipf};

use super::Distribution;

/// Exponent of the distance to the latest write, as in YCSB.
const LATEST_EXPONENT: f64 = 0.99;

/// Draws the keys of one client.
#[derive(Clone, Debug)]
pub struct Draw {
    keys: u64,
    shape: Shape,
    /// First key and number of keys of this client's own part of the key space.
    part: (u64, u64),
    /// Number of draws from the client's own part so far.
    count: u64,
    inserts: Inserts,
    multiplier: u64,
}

/// Numbers of the keys that one client inserts: of n clients, each takes every n-th number.
#[derive(Clone, Copy, Debug)]
struct Inserts {
    first: u64,
    step: u64,
    /// Number of keys inserted so far.
    count: u64,
}

impl Inserts {
    fn number(&self, index: u64) -> u64 {
        self.first + index * self.step
    }
}

#[derive(Clone, Debug)]
enum Shape {
    Uniform,
    Zipf(Zipf<f64>),
    Latest(Zipf<f64>),
    Sequential,
    Hot { keys: u64, operations: f64 },
}

impl Draw {
    /// Draws for client number `client` of `clients`.
    pub fn new(distribution: Distribution, keys: u64, client: u32, clients: u32) -> Draw {
        assert!(keys > 0 && client < clients, "a client of a load with keys");
        let part = part(keys, client, clients);
        let shape = match distribution {
            Distribution::Uniform => Shape::Uniform,
            Distribution::Zipf(exponent) => Shape::Zipf(zipf(keys, exponent)),
            Distribution::Latest => Shape::Latest(zipf(part.1, LATEST_EXPONENT)),
            Distribution::Sequential => Shape::Sequential,
            Distribution::Hot {
                keys: share,
                operations,
            } => Shape::Hot {
                keys: ((keys as f64 * share) as u64).clamp(1, keys),
                operations,
            },
        };
        Draw {
            keys,
            shape,
            part,
            count: 0,
            inserts: Inserts {
                first: keys + u64::from(client),
                step: u64::from(clients),
                count: 0,
            },
            multiplier: coprime_near_golden(keys),
        }
    }

    /// The same draws, with inserts from number 0 on: no key exists before them.
    pub fn of_nothing(mut self) -> Draw {
        self.inserts.first -= self.keys;
        self
    }

    /// The next key to insert.
    pub fn to_insert(&mut self) -> u64 {
        let number = self.inserts.number(self.inserts.count);
        self.inserts.count += 1;
        if let Shape::Latest(back) = &mut self.shape {
            *back = zipf(self.part.1 + self.inserts.count, LATEST_EXPONENT);
        }
        number
    }

    /// The next key to write.
    pub fn to_write(&mut self, random: &mut impl Rng) -> u64 {
        match self.shape {
            Shape::Latest(_) | Shape::Sequential => self.next_of_part(),
            _ => self.anywhere(random),
        }
    }

    /// The next key to read, one of the existing keys.
    pub fn to_read(&mut self, random: &mut impl Rng) -> u64 {
        match &self.shape {
            Shape::Sequential => self.next_of_part(),
            Shape::Latest(back) => {
                let back = back.sample(random) as u64;
                if self.inserts.count > 0 {
                    return self.behind_newest(back);
                }
                // Before the first write, the last key of the part counts as the newest.
                self.part.0 + (self.count + self.part.1 * 2 - back) % self.part.1
            }
            _ => self.anywhere(random),
        }
    }

    /// The number of a key that is never written.
    pub fn missing(&self, random: &mut impl Rng) -> u64 {
        self.keys + random.random_range(0..self.keys)
    }

    /// The key at this distance from the newest one, which has the distance 1: the inserted
    /// keys, and behind them those of the client's part.
    fn behind_newest(&self, back: u64) -> u64 {
        match self.inserts.count.checked_sub(back) {
            Some(index) => self.inserts.number(index),
            None => self.part.0 + self.part.1 - (back - self.inserts.count).min(self.part.1),
        }
    }

    fn next_of_part(&mut self) -> u64 {
        let key = self.part.0 + self.count % self.part.1;
        self.count += 1;
        key
    }

    fn anywhere(&self, random: &mut impl Rng) -> u64 {
        match &self.shape {
            Shape::Zipf(zipf) => self.spread(zipf.sample(random) as u64 - 1),
            Shape::Hot { keys, operations } if random.random::<f64>() < *operations => {
                self.spread(random.random_range(0..*keys))
            }
            Shape::Hot { keys, .. } if *keys < self.keys => {
                self.spread(random.random_range(*keys..self.keys))
            }
            _ => random.random_range(0..self.keys),
        }
    }

    /// The key of rank `rank` in popularity, from 0.
    fn spread(&self, rank: u64) -> u64 {
        let product = u128::from(rank.min(self.keys - 1)) * u128::from(self.multiplier);
        (product % u128::from(self.keys)) as u64
    }
}

fn zipf(keys: u64, exponent: f64) -> Zipf<f64> {
    Zipf::new(keys as f64, exponent).expect("workloads are checked")
}

/// First key and number of keys of a client's part. Where there are more clients than keys,
/// clients share keys.
fn part(keys: u64, client: u32, clients: u32) -> (u64, u64) {
    let (client, clients) = (u128::from(client), u128::from(clients));
    let bound = |client: u128| (u128::from(keys) * client / clients) as u64;
    let first = bound(client).min(keys - 1);
    (first, (bound(client + 1) - bound(client)).max(1))
}

fn coprime_near_golden(keys: u64) -> u64 {
    let mut candidate = ((keys as f64 * 0.618_033_988_75) as u64).max(1);
    while greatest_common_divisor(candidate, keys) != 1 {
        candidate += 1;
    }
    candidate
}

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{SeedableRng, rngs::Xoshiro256PlusPlus};

    const DRAWS: u32 = 100_000;

    fn counts(distribution: &str, keys: u64) -> Vec<u32> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(42);
        let mut draw = Draw::new(distribution.parse().unwrap(), keys, 0, 1);
        let mut counts = vec![0; keys as usize];
        for _ in 0..DRAWS {
            counts[draw.to_write(&mut random) as usize] += 1;
        }
        counts
    }

    fn chi_square(counts: &[u32], expected: impl Fn(usize) -> f64) -> f64 {
        let distance = |(index, count): (usize, &u32)| {
            let expected = expected(index);
            (f64::from(*count) - expected).powi(2) / expected
        };
        counts.iter().enumerate().map(distance).sum()
    }

    #[test]
    fn uniform_draws_each_key_equally_often() {
        let chi_square = chi_square(&counts("uniform", 100), |_| f64::from(DRAWS) / 100.0);
        assert!(chi_square < 160.0, "{chi_square}");
    }

    #[test]
    fn zipf_follows_its_law_by_popularity() {
        let mut counts = counts("zipf:0.99", 100);
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let weight = |rank: usize| (rank as f64 + 1.0).powf(-0.99);
        let all: f64 = (0..100).map(weight).sum();
        let chi_square = chi_square(&counts, |rank| f64::from(DRAWS) * weight(rank) / all);
        // Sorting fits the counts to the law a little.
        assert!(chi_square < 160.0, "{chi_square}");
    }

    #[test]
    fn popular_keys_are_not_neighbours() {
        let draw = Draw::new(Distribution::Zipf(0.99), 1000, 0, 1);
        let popular: Vec<u64> = (0..10).map(|rank| draw.spread(rank)).collect();
        assert!(
            popular
                .windows(2)
                .all(|pair| pair[0].abs_diff(pair[1]) > 10)
        );
        let all: std::collections::BTreeSet<u64> =
            (0..1000).map(|rank| draw.spread(rank)).collect();
        assert_eq!(all.len(), 1000, "spreading is a permutation");
    }

    #[test]
    fn a_hot_set_gets_its_share_of_operations() {
        let mut counts = counts("hot:0.1/0.9", 100);
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let hot: u32 = counts[..10].iter().sum();
        let share = f64::from(hot) / f64::from(DRAWS);
        assert!((0.895..0.905).contains(&share), "{share}");
    }

    #[test]
    fn sequential_clients_share_the_keys_without_overlap() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut seen = vec![0; 10];
        for client in 0..3 {
            let mut draw = Draw::new(Distribution::Sequential, 10, client, 3);
            for _ in 0..part(10, client, 3).1 {
                seen[draw.to_write(&mut random) as usize] += 1;
            }
        }
        assert_eq!(seen, [1; 10]);
    }

    #[test]
    fn latest_reads_the_last_written_key_most_often() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut draw = Draw::new(Distribution::Latest, 1000, 0, 1);
        for _ in 0..500 {
            draw.to_write(&mut random);
        }
        let mut counts = vec![0; 1000];
        for _ in 0..DRAWS {
            counts[draw.to_read(&mut random) as usize] += 1;
        }
        let most = (0..1000).max_by_key(|key| counts[*key]).unwrap();
        assert_eq!(most, 499);
    }

    #[test]
    fn inserts_of_several_clients_are_distinct_and_follow_the_existing_keys() {
        let mut numbers = Vec::new();
        for client in 0..3 {
            let mut draw = Draw::new(Distribution::Uniform, 10, client, 3);
            numbers.extend((0..4).map(|_| draw.to_insert()));
        }
        numbers.sort_unstable();
        assert_eq!(numbers, (10..22).collect::<Vec<u64>>());
        let mut first = Draw::new(Distribution::Uniform, 10, 0, 1).of_nothing();
        assert_eq!([first.to_insert(), first.to_insert()], [0, 1]);
    }

    #[test]
    fn latest_reads_the_last_inserted_key_most_often_and_no_key_that_does_not_exist() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut draw = Draw::new(Distribution::Latest, 100, 1, 2);
        for _ in 0..50 {
            draw.to_insert();
        }
        let inserted: Vec<u64> = (0..50).map(|index| 101 + 2 * index).collect();
        let mut counts = std::collections::BTreeMap::new();
        for _ in 0..DRAWS {
            *counts.entry(draw.to_read(&mut random)).or_insert(0_u32) += 1;
        }
        let exists = |key: &u64| (50..100).contains(key) || inserted.contains(key);
        assert!(counts.keys().all(exists), "{counts:?}");
        assert_eq!(counts.len(), 100, "old and new keys are read");
        let most = counts.iter().max_by_key(|(_, count)| **count).unwrap();
        assert_eq!(*most.0, 199);
    }

    #[test]
    fn missing_keys_are_outside_of_the_key_space() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let draw = Draw::new(Distribution::Uniform, 10, 0, 1);
        assert!((0..100).all(|_| draw.missing(&mut random) >= 10));
    }

    #[test]
    fn more_clients_than_keys_still_draw_keys() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        for client in 0..8 {
            let mut draw = Draw::new(Distribution::Sequential, 3, client, 8);
            assert!((0..10).all(|_| draw.to_write(&mut random) < 3));
        }
    }
}
