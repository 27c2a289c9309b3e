//! What one change costs that is published at once, as an embedded store's put does it.
//!
//! `cargo run --release -p ordered-index --example publish_each [KEYS [CHANGES [ROUNDS]]]`
//! (default: 200000 100000 5). Keys are 16 decimal digits out of a million; the
//! old entry of a replaced key goes into a second tree, under the key and its
//! age. One process, one thread; the fastest round counts. For instructions:
//! `valgrind --tool=callgrind --toggle-collect='*publish_each*change_all*'` and
//! one round.
#![expect(
    clippy::disallowed_methods,
    reason = "a measurement needs the real clock, and no simulation runs it"
)]

use environment::randomness::Random;
use ordered_index::{IndexEntry, Writer};
use std::time::Instant;

const CURRENT: usize = 0;
const HISTORY: usize = 1;
const KEY_SPACE: u64 = 1_000_000;
/// Inserts of the load that are published together.
const LOAD_BATCH: u64 = 1_000;

fn main() {
    let mut numbers = std::env::args()
        .skip(1)
        .map(|number| number.parse::<u64>().expect("the arguments are numbers"));
    let keys = numbers.next().unwrap_or(200_000);
    let changes = numbers.next().unwrap_or(100_000);
    let rounds = numbers.next().unwrap_or(5);
    let mut random = Random::from_seed(1);
    let (mut writer, _reader) = ordered_index::new(2);
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
    let entries = writer.len(CURRENT) + writer.len(HISTORY);
    println!("{fastest_ns:.0} ns a change");
    println!(
        "{:.1} bytes a key after the load, {:.1} bytes an entry at the end; {} bytes spare, {} of garbage",
        loaded_bytes as f64 / keys as f64,
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
    let mut history_key = Vec::new();
    for key in keys {
        *revision += 1;
        if let Some(old) = writer.insert(CURRENT, key, entry(*revision)) {
            history_key.clear();
            history_key.extend_from_slice(key);
            history_key.extend_from_slice(&(!old.stamp).to_be_bytes());
            writer.insert(HISTORY, &history_key, old);
        }
        writer.publish(*revision);
    }
}

fn entry(number: u64) -> IndexEntry {
    IndexEntry {
        value: number,
        stamp: number,
    }
}
