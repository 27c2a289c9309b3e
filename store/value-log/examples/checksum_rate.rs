//! How fast two libraries compute CRC-32C: `cargo run --release -p value-log --example checksum_rate`.
//!
//! Of inputs that are in the processor's cache, and of inputs that lie one behind the other in
//! 20 MiB. Best of several rounds.

#![expect(
    clippy::disallowed_methods,
    reason = "a program, not the engine: it measures real time"
)]

use std::hint::black_box;
use std::time::{Duration, Instant};

const ROUNDS: u32 = 5;
const ROUND: Duration = Duration::from_millis(150);
const LENGTHS: [usize; 7] = [64, 128, 192, 256, 512, 1_024, 4_096];

fn main() {
    let cached: Vec<u8> = (0..LENGTHS[6]).map(|at| (at * 7) as u8).collect();
    let memory: Vec<u8> = (0..20 << 20).map(|at| (at * 7 % 251) as u8).collect();
    println!("GB/s, in the cache and in 20 MiB");
    println!("{:>7}  {:>12}  {:>12}", "bytes", "crc-fast", "crc32c");
    for length in LENGTHS {
        let rates = [crc_fast::crc32_iscsi as fn(&[u8]) -> u32, crc32c::crc32c].map(|sum| {
            [&cached, &memory].map(|bytes| {
                (0..ROUNDS)
                    .map(|_| rate(bytes, length, sum))
                    .fold(0.0, f64::max)
            })
        });
        let [[fast, fast_memory], [instruction, instruction_memory]] = rates;
        println!(
            "{length:>7}  {fast:5.1}  {fast_memory:5.1}  {instruction:5.1}  {instruction_memory:5.1}"
        );
    }
}

fn rate(bytes: &[u8], length: usize, sum: impl Fn(&[u8]) -> u32) -> f64 {
    let (start, mut summed) = (Instant::now(), 0);
    while start.elapsed() < ROUND {
        for input in bytes.chunks_exact(length) {
            black_box(sum(black_box(input)));
            summed += length;
        }
    }
    summed as f64 / start.elapsed().as_nanos() as f64
}
