//! Seed 002: LevelDB's fillrandom and readrandom by 1 to 256 threads.
//!
//! | | as published | honest |
//! |---|---|---|
//! | figure | throughput of one thread: a million over the mean microseconds of an operation |
//! throughput of all threads together, and of one |
//! | keys | 100,000, which fit into every cache | 1,000,000 |
//! | engines | with default settings | with caches and filters |
//!
//! In both variants the lab makes the random bytes before the clock starts and shares them
//! among all threads (db_bench makes a megabyte for each thread while it measures). Every
//! thread works for the same time (the mean of db_bench shrinks when threads end early).
//! Writes are not flushed. The published benchmark read only the first 100,000 keys of its
//! database of 1,000,000.
//!
//! Inkstone takes part twice: as the engine alone, which does the same as LevelDB, and as
//! the embedded store, which gives each put a revision as etcd does. LevelDB also runs under
//! `handoff run`: the same worker and library with the mutexes of handoff, which continue
//! the predecessor's work.

use super::{Options, existing, points, program, targets_or};
use crate::cli::finish::Measurement;
use crate::cli::run::side_by_side;
use crate::cli::workloads::find;
use crate::report::published::threads::{FILL, READ};
use crate::schedule::Point;
use crate::targets::{HANDOFF, TargetSpec, offered};
use crate::workload::{Span, Warmup, Workload};

const PUBLISHED_KEYS: u64 = 100_000;
/// Index of LevelDB among the targets.
const LEVELDB: usize = 2;

/// Both rows at every number of threads.
pub fn table(options: &Options) -> Result<Measurement, String> {
    let title = "random writes and reads by 1 to 256 threads";
    let arms = side_by_side(&targets(options)?)?;
    Ok(options.measurement(title, cells(options)?, arms, 1))
}

fn cells(options: &Options) -> Result<Vec<Point>, String> {
    let mut cells = points(options, workloads(options)?)?;
    if options.as_published && options.changes.keys.is_none() {
        // The published number is small already: with a tenth of it, all reads would be
        // answered from memory tables.
        for cell in &mut cells {
            cell.workload.load.keys = PUBLISHED_KEYS;
        }
    }
    Ok(cells)
}

fn targets(options: &Options) -> Result<Vec<TargetSpec>, String> {
    let names = match options.as_published {
        true => ["engine", "store", "leveldb-defaults", "rocksdb-defaults"],
        false => ["engine", "store", "leveldb", "rocksdb"],
    };
    let mut targets = targets_or(options, &names)?;
    let offers = offered();
    if !options.targets.is_empty() {
        return Ok(targets);
    }
    let is_absent = |name: &&&str| !offers.iter().any(|offer| offer.name == **name);
    if let Some(name) = names.iter().find(is_absent) {
        return Err(format!(
            "seed 002 compares with `{name}`, which is not in this program: `cargo build \
             --release --manifest-path lab/lab-peers/Cargo.toml` makes inkstone-lab-peers, \
             which has it; or name other targets with --targets"
        ));
    }
    let remedy = "cargo build --release -p handoff-preload -p handoff-run";
    let handoff = existing("targets", program(HANDOFF), remedy)?;
    let under = format!("{}@{}", names[LEVELDB], handoff.display());
    targets.insert(LEVELDB + 1, under.parse()?);
    Ok(targets)
}

/// The workloads of these names, measured for a shorter time.
fn workloads(options: &Options) -> Result<Vec<Workload>, String> {
    let shorter = |name| {
        let mut workload = find(name)?;
        workload.description.clear();
        workload.time.warmup = Warmup::Fixed(Span::seconds(1.0));
        workload.time.measure = Span::seconds(5.0);
        if options.as_published {
            workload.load.keys = PUBLISHED_KEYS;
        }
        Ok(workload)
    };
    [FILL, READ].into_iter().map(shorter).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::options;
    use super::*;
    use crate::report::published::threads::PUBLISHED;

    #[test]
    fn both_rows_have_all_nine_numbers_of_threads() {
        for words in [&["002"][..], &["002", "--as-published"]] {
            for workload in workloads(&options(words)).unwrap() {
                assert_eq!(workload.clients.clients, PUBLISHED.map(|row| row.0));
            }
        }
    }

    #[test]
    fn the_published_keys_are_the_same_in_every_scale() {
        let keys = |words: &[&str]| cells(&options(words)).unwrap()[0].workload.load.keys;
        assert_eq!(keys(&["002", "--scale", "quick"]), 100_000);
        assert_eq!(keys(&["002"]), 1_000_000);
        let published = ["002", "--as-published", "--scale", "quick"];
        assert_eq!(keys(&published), PUBLISHED_KEYS);
        assert_eq!(keys(&[&published[..], &["--keys", "7"]].concat()), 7);
    }

    #[test]
    fn the_error_for_missing_peers_names_the_program_that_has_them() {
        let error = targets(&options(&["002"])).unwrap_err();
        assert!(error.contains("`leveldb`") && error.contains("inkstone-lab-peers"));
        let named = targets(&options(&["002", "--targets", "engine,file"])).unwrap();
        assert_eq!(named.len(), 2);
    }
}
