//! What one change costs that is published at once, as an embedded store's put does it.
//!
//! `cargo run --release -p ordered-index --example publish_each [KEYS [CHANGES]]`
//! (default: 200000 100000). Keys are 16 decimal digits out of a million; a new
//! key also enters a tree of births (its revision, then the key), a replaced
//! one a tree of old versions. One process, one thread; the fastest of several
//! rounds counts. For instructions: `valgrind --tool=callgrind
//! --toggle-collect='*publish_each*change_all*'` with one round.
#![expect(
    clippy::disallowed_methods,
    reason = "a measurement needs the real clock, and no simulation runs it"
)]

use environment::randomness::Random;
use ordered_index::{Entry, Fanout, Writer};
use std::time::Instant;

const CURRENT: usize = 0;
const HISTORY: usize = 1;
const BIRTHS: usize = 2;
const KEY_SPACE: u64 = 1_000_000;
/// Inserts of a load that are published together.
const LOAD_BATCH: u64 = 1_000;
/// The engine forgets births beyond these.
const BIRTHS_MAX: u64 = 1 << 16;

fn main() {
    let mut numbers = std::env::args()
        .skip(1)
        .map(|number| number.parse::<u64>().expect("KEYS and CHANGES are numbers"));
    let keys = numbers.next().unwrap_or(200_000);
    let changes = numbers.next().unwrap_or(100_000);
    let rounds = numbers.next().unwrap_or(5);
    let mut random = Random::from_seed(1);
    let wide = Fanout::default();
    let narrow = Fanout { leaf: 32, ..wide };
    let (mut writer, _reader) = ordered_index::with_fanouts(&[wide, wide, narrow]);
    let mut revision = load(&mut writer, keys, &mut random);
    let loaded_bytes = writer.memory_bytes();
    let mut fastest_ns = f64::INFINITY;
    for _ in 0..rounds {
        let drawn: Vec<Vec<u8>> = (0..changes).map(|_| key(&mut random)).collect();
        let start = Instant::now();
        change_all(&mut writer, &drawn, &mut revision);
        let ns = start.elapsed().as_nanos() as f64 / changes as f64;
        fastest_ns = fastest_ns.min(ns);
    }
    let entries: u64 = (CURRENT..=BIRTHS).map(|tree| writer.len(tree)).sum();
    println!(
        "loaded {:.1} bytes a key; {fastest_ns:.0} ns a change; after {} changes {:.1} bytes an \
         entry, {} bytes spare, {} of garbage",
        loaded_bytes as f64 / keys as f64,
        changes * rounds,
        writer.memory_bytes() as f64 / entries as f64,
        writer.spare_bytes(),
        writer.garbage_bytes(),
    );
}

fn key(random: &mut Random) -> Vec<u8> {
    format!("{:016}", random.below(KEY_SPACE)).into_bytes()
}

/// Fills CURRENT, in large batches.
fn load(writer: &mut Writer, keys: u64, random: &mut Random) -> u64 {
    let mut revision = 1;
    while writer.len(CURRENT) < keys {
        revision += 1;
        writer.insert(CURRENT, &key(random), entry(revision));
        if revision.is_multiple_of(LOAD_BATCH) {
            writer.publish(revision);
        }
    }
    writer.publish(revision);
    revision
}

#[inline(never)]
fn change_all(writer: &mut Writer, keys: &[Vec<u8>], revision: &mut u64) {
    let mut other = Vec::new();
    for key in keys {
        *revision += 1;
        other.clear();
        match writer.insert(CURRENT, key, entry(*revision)) {
            Some(old) => {
                other.extend_from_slice(key);
                other.extend_from_slice(&(!old.stamp).to_be_bytes());
                writer.insert(HISTORY, &other, old);
            }
            None if writer.len(BIRTHS) < BIRTHS_MAX => {
                other.extend_from_slice(&revision.to_be_bytes());
                other.extend_from_slice(key);
                writer.insert(BIRTHS, &other, entry(0));
            }
            None => {}
        }
        writer.publish(*revision);
    }
}

fn entry(number: u64) -> Entry {
    Entry {
        value: number,
        stamp: number,
    }
}
