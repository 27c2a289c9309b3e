//! Measures the time of a put by one thread.
//!
//! ```text
//! cargo run --release -p inkstone --example one_put -- KEYS BEFORE PUTS PASSES
//! cargo run --release -p inkstone --example one_put -- 300000 300000 50000 6
//! ```
//!
//! Prints nanoseconds for each put in each pass, after BEFORE puts of keys drawn from KEYS. To
//! count instructions, run it under `valgrind --tool=callgrind` with one pass of 1,000 and one
//! of 21,000 puts, and divide the difference by 20,000.

#![expect(clippy::disallowed_methods, reason = "it measures real time")]

use std::error::Error;
use std::time::Instant;

use environment::randomness::Random;
use inkstone::{Durability, Options, Store};

const VALUE: &[u8] = &[7; 100];

fn main() -> Result<(), Box<dyn Error>> {
    let number = |it: String| it.parse().map_err(|error| format!("{it}: {error}"));
    let numbers = std::env::args().skip(1).map(number);
    let numbers: Vec<u64> = numbers.collect::<Result<_, _>>()?;
    let &[keys @ 1..=u64::MAX, before, puts @ 1..=u64::MAX, passes] = &numbers[..] else {
        return Err("write four numbers: KEYS BEFORE PUTS PASSES, KEYS and PUTS not 0".into());
    };
    let directory = tempfile::tempdir()?;
    let store = Options::new(directory.path().join("data"))
        .durability(Durability::Os)
        .open()?;
    let mut random = Random::from_seed(1);
    write(&store, &mut random, keys, before)?;
    for _ in 0..passes {
        let began = Instant::now();
        write(&store, &mut random, keys, puts)?;
        let took = began.elapsed();
        println!("{:.0} ns", took.as_nanos() as f64 / puts as f64);
    }
    Ok(())
}

fn write(store: &Store, random: &mut Random, keys: u64, puts: u64) -> Result<(), inkstone::Error> {
    for _ in 0..puts {
        let key = random.below(keys);
        store.put(format!("{key:016}"), VALUE)?;
    }
    Ok(())
}
