//! What a small write to a file of zeros costs, by the size of the pieces that the zeros
//! were written in: `cargo run --release -p environment --example small_writes -- DIRECTORY`.
//!
//! The page cache takes a file in folios as large as the writes that bring it in, and on
//! some file systems (ext4) a write looks at every block of the folio that it hits.
//! Medians of several rounds, the sizes in turn; nothing else should run.

#![expect(
    clippy::disallowed_methods,
    reason = "a program that measures real time"
)]

use std::path::{Path, PathBuf};
use std::time::Instant;

use environment::real::RealDisk;
use environment::{Disk, OpenMode};

const FILE_BYTES: u64 = 64 << 20;
const PIECES: [usize; 6] = [4 << 10, 8 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20];
const SMALL: [u8; 192] = [7; 192];
/// Written durably behind the others.
const DURABLE: u64 = 500;
const ROUNDS: usize = 7;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = std::env::args_os().nth(1).map_or(".".into(), PathBuf::from);
    let file = directory.join("small-writes.tmp");
    let mut taken = vec![[const { Vec::new() }; 4]; PIECES.len()];
    for _ in 0..ROUNDS {
        for (pieces, taken) in PIECES.into_iter().zip(&mut taken) {
            let round = round(&file, pieces);
            RealDisk.remove(&file)?;
            for (all, one) in taken.iter_mut().zip(round?) {
                all.push(one);
            }
        }
    }
    println!("zeros in pieces of   filled   flushed   192 B written   192 B written durably");
    for (pieces, taken) in PIECES.into_iter().zip(taken) {
        let [filled, flushed, small, durable] = taken.map(median);
        println!(
            "{:>14} KiB {:>9.0} ms {:>6.0} ms {:>12.0} ns {:>19.0} us",
            pieces >> 10,
            filled * 1e3,
            flushed * 1e3,
            small * 1e9,
            durable * 1e6
        );
    }
    Ok(())
}

/// Seconds: the file filled, and flushed; one small write, and one durable.
fn round(path: &Path, pieces: usize) -> std::io::Result<[f64; 4]> {
    let file = RealDisk.open(path, OpenMode::CreateNew)?;
    let zeros = vec![0; pieces];
    let began = Instant::now();
    for offset in (0..FILE_BYTES).step_by(pieces) {
        file.write_at(&[&zeros], offset)?;
    }
    let filled = began.elapsed().as_secs_f64();
    file.sync_data()?;
    let flushed = began.elapsed().as_secs_f64() - filled;
    let (step, end) = (SMALL.len(), FILE_BYTES / 2);
    let began = Instant::now();
    for offset in (0..end).step_by(step) {
        file.write_at(&[&SMALL], offset)?;
    }
    let small = began.elapsed().as_secs_f64() / end.div_ceil(step as u64) as f64;
    file.sync_data()?;
    let began = Instant::now();
    for number in 0..DURABLE {
        file.write_durable_at(&[&SMALL], end + number * 4096)?;
    }
    let durable = began.elapsed().as_secs_f64() / DURABLE as f64;
    Ok([filled, flushed, small, durable])
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
