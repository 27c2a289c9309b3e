//! Measures the puts of several threads in a second, in total and by thread.
//!
//! ```text
//! cargo run --release -p inkstone --example writers -- 64 os
//! ```
//!
//! For quick experiments only: the laboratory (docs/use/lab.md) measures with more care.

#![expect(clippy::disallowed_methods, reason = "it measures real time")]

use std::error::Error;
use std::thread;
use std::time::{Duration, Instant};

use environment::randomness::Random;
use inkstone::{Durability, Options, Store};

const LENGTH: Duration = Duration::from_secs(1);
/// Number of different keys.
const KEYS: u64 = 1_000_000;
const VALUE: &[u8] = &[7; 100];

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let threads: u64 = arguments.next().map_or(Ok(1), |it| it.parse())?;
    let durability = match arguments.next().as_deref() {
        None | Some("durable") => Durability::Durable,
        Some("os") => Durability::Os,
        Some(other) => return Err(format!("{other}: write durable or os").into()),
    };
    let directory = tempfile::tempdir()?;
    let store = Options::new(directory.path().join("data"))
        .durability(durability)
        .open()?;
    let store = &store;
    let ends = Instant::now() + LENGTH;
    let puts: Vec<u64> = thread::scope(|scope| {
        let writers: Vec<_> = (0..threads)
            .map(|number| scope.spawn(move || write(store, number, ends)))
            .collect();
        let all = writers.into_iter();
        all.map(|it| it.join().expect("a writer says why it ends"))
            .collect::<Result<_, _>>()
    })?;
    let all: u64 = puts.iter().sum();
    println!("{:.0} puts a second", all as f64 / LENGTH.as_secs_f64());
    let (least, most) = (puts.iter().min(), puts.iter().max());
    if let (Some(least), Some(most)) = (least, most) {
        println!("of one thread: {least} to {most}");
    }
    Ok(())
}

/// Puts until `ends`; returns the number of puts.
fn write(store: &Store, number: u64, ends: Instant) -> Result<u64, inkstone::Error> {
    let mut puts = 0;
    let mut random = Random::from_seed(number);
    while Instant::now() < ends {
        let key = random.below(KEYS);
        store.put(format!("{key:016}"), VALUE)?;
        puts += 1;
    }
    Ok(puts)
}
