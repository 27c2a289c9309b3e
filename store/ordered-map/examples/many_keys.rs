//! The cost of many keys: memory while they are loaded, overwritten and read again after a restart,
//! the time of opening, and the bytes and the room that collecting garbage costs. Keys are random and
//! of 8 bytes, values of 128 bytes, and nothing is flushed.
//!
//! ```text
//! cargo run --release -p ordered-map --example many_keys -- DIRECTORY load KEYS
//! cargo run --release -p ordered-map --example many_keys -- DIRECTORY overwrite KEYS THREADS SECONDS
//! cargo run --release -p ordered-map --example many_keys -- DIRECTORY delete KEYS
//! cargo run --release -p ordered-map --example many_keys -- DIRECTORY compact
//! cargo run --release -p ordered-map --example many_keys -- DIRECTORY range PAIRS
//! cargo run --release -p ordered-map --example many_keys -- DIRECTORY visit PAIRS
//! cargo run --release -p ordered-map --example many_keys -- DIRECTORY
//! ```
//!
//! Each form opens the map first and says how long that took; several can follow one directory.
//! With `abort` as the last argument it ends as a process does that is killed, otherwise with a
//! clean stop.

use environment::randomness::Random;
use environment::real::RealClock;
use environment::{Clock, threads};
use ordered_map::{Compression, Durability, Error, Map, Options, Status, WriteBatch};
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const KEY_BYTES: usize = 8;
const VALUE_BYTES: usize = 128;
const BATCH: u64 = 100;
const SAMPLE: Duration = Duration::from_millis(50);
const USAGE: &str = "DIRECTORY [load KEYS] [overwrite KEYS THREADS SECONDS] [delete KEYS] [compact] [range PAIRS] [visit PAIRS] [abort]";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let abort = arguments.pop_if(|last| *last == "abort").is_some();
    let (directory, work) = arguments.split_first().ok_or(USAGE)?;
    let map = timed("open", || {
        let options = Options::new(directory).durability(Durability::Os);
        // All bytes of a value are equal: they stand for values that nothing compresses.
        options.compression(Compression::None).open()
    })?;
    println!("{} keys", map.len());
    let mut work = work;
    loop {
        work = match work {
            [] => break,
            ["load", keys, rest @ ..] => {
                let keys = keys.parse()?;
                let put = |batch: WriteBatch, key| batch.put(key, vec![7; VALUE_BYTES]);
                timed("load", || write_all(&map, keys, put))?;
                rest
            }
            ["overwrite", keys, threads, seconds, rest @ ..] => {
                let (keys, threads) = (keys.parse()?, threads.parse()?);
                let time = Duration::from_secs(seconds.parse()?);
                let before = map.status();
                let work = || {
                    Ok(sampled(
                        || room_mebibytes(directory),
                        || overwrite(&map, keys, threads, time),
                    ))
                };
                let (puts, room) = timed("overwrite", work)?;
                print_bytes(&before, &map.status(), puts?, &room);
                rest
            }
            ["delete", keys, rest @ ..] => {
                let keys = keys.parse()?;
                timed("delete", || write_all(&map, keys, WriteBatch::delete))?;
                rest
            }
            ["compact", rest @ ..] => {
                let before = map.status();
                timed("compact", || map.compact())?;
                let bytes = map.status().upkeep.relocated_bytes - before.upkeep.relocated_bytes;
                println!(
                    "{} MiB copied, room: {} MiB",
                    bytes >> 20,
                    room_mebibytes(directory)
                );
                rest
            }
            ["range", pairs, rest @ ..] => {
                let pairs = pairs.parse()?;
                println!("{} bytes", timed("range", || read_in_order(&map, pairs))?);
                rest
            }
            ["visit", pairs, rest @ ..] => {
                let pairs = pairs.parse()?;
                println!("{} bytes", timed("visit", || visit_in_order(&map, pairs))?);
                rest
            }
            _ => return Err(USAGE.into()),
        };
        println!("index: {} MiB", map.status().index_bytes >> 20);
    }
    if abort {
        std::process::abort();
    }
    timed("close", || {
        drop(map);
        Ok(())
    })?;
    Ok(())
}

/// Adds all keys to batches, and writes these.
fn write_all(
    map: &Map,
    keys: u64,
    add: impl Fn(WriteBatch, Vec<u8>) -> WriteBatch,
) -> Result<(), Error> {
    for first in (0..keys).step_by(BATCH as usize) {
        let numbers = first..keys.min(first + BATCH);
        let some = numbers.map(|number| key(number).to_vec());
        map.write(some.fold(WriteBatch::new(), &add))?;
    }
    Ok(())
}

/// Threads put values of random keys, one at a time. Returns the number of puts.
fn overwrite(map: &Map, keys: u64, threads: u64, time: Duration) -> Result<u64, Error> {
    let (ended, puts) = (AtomicBool::new(false), AtomicU64::new(0));
    let put = &|seed| {
        let mut random = Random::from_seed(seed);
        while !ended.load(Ordering::Relaxed) {
            map.put(
                key(random.below(keys)),
                [random.next_u64() as u8; VALUE_BYTES],
            )?;
            puts.fetch_add(1, Ordering::Relaxed);
        }
        Ok::<(), Error>(())
    };
    std::thread::scope(|scope| {
        let start =
            |seed| threads::spawn_scoped(scope, "put", move || put(seed)).expect("a thread");
        let writers: Vec<_> = (0..threads).map(start).collect();
        RealClock.sleep(time);
        ended.store(true, Ordering::Relaxed);
        let mut ends = writers.into_iter().map(|writer| writer.join());
        ends.try_for_each(|end| end.expect("no panic"))
    })?;
    Ok(puts.into_inner())
}

/// Reads this number of pairs from the first key on, and again from there behind the last one.
/// Returns their bytes.
fn read_in_order(map: &Map, pairs: usize) -> Result<u64, Error> {
    let mut bytes = 0;
    let rounds = std::iter::repeat_with(|| map.range::<&[u8]>(..));
    for pair in rounds.take_while(|_| !map.is_empty()).flatten().take(pairs) {
        let (key, value) = pair?;
        bytes += (key.len() + value.len()) as u64;
    }
    Ok(bytes)
}

/// The same without keys and values of its own.
fn visit_in_order(map: &Map, pairs: usize) -> Result<u64, Error> {
    let (mut bytes, mut left) = (0, pairs);
    while left > 0 && !map.is_empty() {
        map.range::<&[u8]>(..).visit(|key, value| {
            bytes += (key.len() + value.len()) as u64;
            left -= 1;
            match left {
                0 => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        })?;
    }
    Ok(bytes)
}

fn key(number: u64) -> [u8; KEY_BYTES] {
    Random::from_seed(number).next_u64().to_be_bytes()
}

/// Prints what the device has to write besides the log, and the room that the map takes.
fn print_bytes(before: &Status, after: &Status, puts: u64, room: &Samples) {
    let pair_bytes = (KEY_BYTES + VALUE_BYTES) as f64;
    let of_puts = |bytes: u64| bytes as f64 / (puts as f64 * pair_bytes);
    let upkeep = (&before.upkeep, &after.upkeep);
    let copies = of_puts(upkeep.1.relocated_bytes - upkeep.0.relocated_bytes);
    let checkpoints = of_puts(upkeep.1.checkpoint_bytes - upkeep.0.checkpoint_bytes);
    let alive_bytes = after.keys as f64 * pair_bytes;
    let of_alive = |mebibytes: f64| mebibytes * f64::from(1 << 20) / alive_bytes;
    println!(
        "{puts} puts; for each byte of theirs {copies:.2} of copies and {checkpoints:.2} of checkpoints; \
         for each live byte {:.2} of room, at the peak {:.2}",
        of_alive(room.mean),
        of_alive(room.most as f64)
    );
}

/// Samples that were taken beside some work.
struct Samples {
    mean: f64,
    most: u64,
}

/// Samples something until the work is done.
fn sampled<T>(sample: impl Fn() -> u64 + Sync, work: impl FnOnce() -> T) -> (T, Samples) {
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let sampler = threads::spawn_scoped(scope, "sampler", || {
            let (mut sum, mut count, mut most) = (0, 0_u32, 0);
            while count == 0 || !ended.load(Ordering::Relaxed) {
                let one = sample();
                (sum, count, most) = (sum + one, count + 1, most.max(one));
                RealClock.sleep(SAMPLE);
            }
            let mean = sum as f64 / f64::from(count);
            Samples { mean, most }
        });
        let result = work();
        ended.store(true, Ordering::Relaxed);
        let samples = sampler.expect("a thread").join().expect("no panic");
        (result, samples)
    })
}

/// Prints the time that something takes, and the anonymous memory behind it and at its peak.
fn timed<T>(what: &str, work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    let start = RealClock.now();
    let (result, memory) = sampled(anonymous_mebibytes, work);
    let taken = RealClock.now().saturating_since(start);
    let now = anonymous_mebibytes();
    println!(
        "{what}: {taken:.2?}, then {now} MiB, at the peak {} MiB",
        memory.most.max(now)
    );
    result
}

/// Blocks of the directory's files; files that are removed count as nothing.
fn room_mebibytes(directory: &str) -> u64 {
    let files = std::fs::read_dir(directory).into_iter().flatten();
    let blocks = files.filter_map(|file| Some(file.ok()?.metadata().ok()?.blocks()));
    (blocks.sum::<u64>() * 512) >> 20
}

/// Of this process, as the system counts it; 0 where it does not say.
fn anonymous_mebibytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let of_line = |line: &str| {
        let kibibytes = line.strip_prefix("RssAnon:")?.trim().strip_suffix(" kB")?;
        kibibytes.parse::<u64>().ok()
    };
    status.lines().find_map(of_line).unwrap_or(0) >> 10
}
