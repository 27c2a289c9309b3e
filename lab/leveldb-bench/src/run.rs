//! One run: the threads start together and work until the time is over or the operations are
//! done.

#![allow(
    clippy::disallowed_methods,
    reason = "it measures another's library on the clock of the wall"
)]

use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use crate::arguments::Arguments;
use crate::data::{Cutter, Random, key, values};
use crate::database::Database;
use crate::measure::{Usage, jain, path_of_mutex_lock};
use crate::record::Record;

/// Stack of a thread, small because there may be 256 threads.
const STACK_BYTES: usize = 256 << 10;

#[derive(Clone, Copy, Default)]
struct Share {
    operations: u64,
    found: u64,
    seconds: f64,
}

struct Work<'a> {
    database: &'a Database,
    arguments: &'a Arguments,
    values: Vec<u8>,
    reads: bool,
    start: Barrier,
    stop: AtomicBool,
}

/// A directory that is removed with all it has.
pub struct Scratch(pub PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        // Best effort: the next run uses another name.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub fn scratch(arguments: &Arguments, name: &str) -> Scratch {
    let name = format!("leveldb-bench-{}-{name}", std::process::id());
    Scratch(arguments.directory.join(name))
}

/// Makes one run and prints its record.
pub fn print(arguments: &Arguments) -> Result<(), String> {
    if arguments.threads.len() != 1 || arguments.benchmarks.len() != 1 {
        return Err("run wants one --benchmark and one number of --threads".to_owned());
    }
    let record = serde_json::to_string(&one(arguments)?);
    println!("{}", record.map_err(|why| why.to_string())?);
    Ok(())
}

fn one(arguments: &Arguments) -> Result<Record, String> {
    let reads = arguments.benchmarks[0] == "readrandom";
    let made = scratch(arguments, "run");
    let directory: &Path = match &arguments.database {
        Some(database) if reads => database,
        None if reads => {
            fill(arguments, &made.0)?;
            &made.0
        }
        _ => &made.0,
    };
    let database = Database::open(&arguments.leveldb, directory)?;
    let work = Work {
        database: &database,
        arguments,
        values: values(arguments.seed),
        reads,
        start: Barrier::new(arguments.threads[0] as usize + 1),
        stop: AtomicBool::new(false),
    };
    work.measure()
}

/// Makes the database for reads.
pub fn prepare(arguments: &Arguments) -> Result<(), String> {
    let database = arguments.database.as_ref();
    fill(arguments, database.ok_or("prepare wants --database")?)
}

fn fill(arguments: &Arguments, directory: &Path) -> Result<(), String> {
    let database = Database::open(&arguments.leveldb, directory)?;
    let values = values(arguments.seed);
    let mut random = Random::new(arguments.seed);
    let mut cutter = Cutter::new(&values, arguments.value_bytes as usize, &mut random);
    (0..arguments.keys).try_for_each(|number| database.put(&key(number), cutter.next()))
}

/// Ends the process: the threads that have started wait for the missing ones and cannot be
/// joined.
fn gives_up(threads: u32, why: &std::io::Error) -> ! {
    eprintln!("leveldb-bench: cannot start {threads} threads: {why}; use fewer");
    std::process::exit(1)
}

impl Work<'_> {
    fn measure(&self) -> Result<Record, String> {
        let threads = self.arguments.threads[0];
        thread::scope(|scope| {
            let builder = || thread::Builder::new().stack_size(STACK_BYTES);
            let handles: Vec<_> = (0..threads)
                .map(|number| {
                    let handle = builder().spawn_scoped(scope, move || self.thread(number));
                    handle.unwrap_or_else(|why| gives_up(threads, &why))
                })
                .collect();
            self.start.wait();
            let (before, start) = (Usage::now(), Instant::now());
            if self.arguments.operations.is_none() {
                thread::sleep(self.arguments.seconds);
                self.stop.store(true, Ordering::Relaxed);
            }
            let shares: Result<Vec<Share>, String> = handles
                .into_iter()
                .map(|handle| handle.join().map_err(|_| "a thread panicked".to_owned())?)
                .collect();
            let seconds = start.elapsed().as_secs_f64();
            Ok(self.record(&shares?, seconds, Usage::now().since(before)))
        })
    }

    fn thread(&self, number: u32) -> Result<Share, String> {
        let arguments = self.arguments;
        let mut random = Random::new(arguments.seed.wrapping_add(1 + u64::from(number)));
        let mut cutter = Cutter::new(&self.values, arguments.value_bytes as usize, &mut random);
        let each = |all: u64| all / u64::from(arguments.threads[0]);
        let most = arguments.operations.map_or(u64::MAX, each);
        let mut share = Share::default();
        self.start.wait();
        let start = Instant::now();
        while share.operations < most {
            if self.stop.load(Ordering::Relaxed) {
                break;
            }
            let key = key(random.below(arguments.keys));
            if self.reads {
                share.found += u64::from(self.database.get(&key)?);
            } else {
                self.database.put(&key, cutter.next())?;
            }
            share.operations += 1;
        }
        share.seconds = start.elapsed().as_secs_f64();
        Ok(share)
    }

    fn record(&self, shares: &[Share], wall_seconds: f64, usage: Usage) -> Record {
        let rates: Vec<f64> = shares
            .iter()
            .map(|share| share.operations as f64 / share.seconds)
            .collect();
        let operations: u64 = shares.iter().map(|share| share.operations).sum();
        // Digits that the clock does not have are no use.
        let rounded = |number: f64| (number * 1e4).round() / 1e4;
        let each = |amount: f64| rounded(amount / operations as f64);
        let cores = |seconds: f64| rounded(seconds / wall_seconds);
        Record {
            benchmark: self.arguments.benchmarks[0].clone(),
            leveldb: self.database.version.clone(),
            locks: path_of_mutex_lock(),
            threads: shares.len() as u64,
            operations,
            found: shares.iter().map(|share| share.found).sum(),
            wall_seconds: rounded(wall_seconds),
            operations_per_second: rounded(operations as f64 / wall_seconds),
            per_thread_mean: rounded(rates.iter().sum::<f64>() / rates.len() as f64),
            slowest_thread: rounded(rates.iter().copied().fold(f64::INFINITY, f64::min)),
            fastest_thread: rounded(rates.iter().copied().fold(0.0, f64::max)),
            jain: rounded(jain(&rates)),
            voluntary_switches_per_operation: each(usage.voluntary as f64),
            involuntary_switches_per_operation: each(usage.involuntary as f64),
            cpu_micros_per_operation: each(usage.cpu_seconds * 1e6),
            cores_used: cores(usage.cpu_seconds),
            cores_used_by_others: cores(usage.busy_seconds - usage.cpu_seconds).max(0.0),
        }
    }
}
