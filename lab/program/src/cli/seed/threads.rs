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

use super::{Options, Table, existing, measured, points, program, targets_or, written};
use crate::cli::Outcome;
use crate::cli::finish::finish;
use crate::cli::run::side_by_side;
use crate::report::published::threads::{FILL, PUBLISHED, READ};
use crate::schedule::Point;
use crate::targets::{HANDOFF, TargetSpec, offered};
use crate::workload::Workload;

const PUBLISHED_KEYS: u64 = 100_000;
/// Index of LevelDB among the targets.
const LEVELDB: usize = 2;

/// Measures both rows at every number of threads.
pub fn run(options: &Options) -> Outcome {
    let table = Table {
        title: "random writes and reads by 1 to 256 threads".into(),
        points: cells(options)?,
        arms: side_by_side(&targets(options)?)?,
        pairs: 1,
    };
    let (record, folder) = measured(options, table)?;
    finish(&record, &folder, options.measure.fail_on)
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
    let is_absent = |name: &&str| !offers.iter().any(|offer| offer.name == *name);
    match names.iter().find(|name| is_absent(name)) {
        Some(name) if options.targets.is_empty() => Err(format!(
            "seed 002 compares with `{name}`, which is not in this program: `cargo build \
             --release --manifest-path lab/lab-peers/Cargo.toml` makes inkstone-lab-peers, \
             which has it; or name other targets with --targets"
        )),
        Some(_) => Ok(targets),
        None => {
            if options.targets.is_empty() {
                let handoff = existing(
                    "targets",
                    program(HANDOFF),
                    "cargo build --release -p handoff-preload -p handoff-run",
                )?;
                let under = format!("{}@{}", names[LEVELDB], handoff.display());
                targets.insert(LEVELDB + 1, under.parse()?);
            }
            Ok(targets)
        }
    }
}

fn workloads(options: &Options) -> Result<Vec<Workload>, String> {
    let keys = match options.as_published {
        true => PUBLISHED_KEYS,
        false => 1_000_000,
    };
    let load = |preload: bool| {
        format!(
            "[load]\nkeys = {keys}\npreload = {preload}\n\
             key = {{ kind = \"dbbench-%016d\", size = 16 }}\n\
             value = {{ length = \"fixed:100\", unique = true, compressible = 0.5 }}\n"
        )
    };
    let threads = PUBLISHED
        .map(|(threads, ..)| threads.to_string())
        .join(", ");
    let rest = format!(
        "[clients]\nclients = [{threads}]\n[durability]\nlevel = \"os\"\n\
         [time]\nwarmup = \"1s\"\nmeasure = \"5s\"\n"
    );
    let rows = [
        (FILL, load(false), "[mix]\nput = 1.0\n"),
        (READ, load(true), "[mix]\nput = 0.0\nget = 1.0\n"),
    ];
    rows.iter()
        .map(|(name, load, mix)| written(name, &[load, mix, &rest]))
        .collect::<Result<_, _>>()
        .map_err(|mistake| mistake.to_string())
}

#[cfg(test)]
mod tests {
    use super::super::tests::options;
    use super::*;

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
