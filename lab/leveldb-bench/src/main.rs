//! LevelDB's `fillrandom` and `readrandom` with T threads, on the unmodified library of
//! the system, and the comparison of its own locks with handoff's.
//!
//! LevelDB's own `db_bench` misleads with many threads, so this program
//!
//! * builds the random data once, before the clock starts, for all threads;
//! * divides by the time on the wall, not by the sum of the threads' times, which
//!   rewards those that finish early;
//! * reports the fairness among the threads;
//! * reports the cost of an operation: processor time and context switches.

mod arguments;
mod compare;
mod data;
mod database;
mod measure;
mod record;
mod run;

use std::process::ExitCode;

const HELP: &str = "\
leveldb-bench run [options]       one run, one line of JSON
leveldb-bench prepare [options]   makes the database that readrandom reads
leveldb-bench compare [options]   native, native again and preloaded in turn

  --benchmark NAME     fillrandom or readrandom; compare: several with commas (both)
  --threads T          compare: several with commas (1,8,64,256)
  --seconds S          length of a run (5)
  --operations N       instead: operations of all threads together
  --keys N             keys to choose from (1000000)
  --value-bytes N      (100)
  --directory PATH     where databases are made (/dev/shm)
  --database PATH      readrandom: made by prepare
  --leveldb PATH       the library (libleveldb.so.1d)
  --seed N             of keys, values and the order of runs (1)
  --preload PATH       compare: libhandoff_preload.so
  --rounds N           compare (3)";

fn main() -> ExitCode {
    match arguments::parse(std::env::args().skip(1)).and_then(work) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("leveldb-bench: {why}\n\n{HELP}");
            ExitCode::from(2)
        }
    }
}

fn work(arguments: arguments::Arguments) -> Result<(), String> {
    match arguments.verb.as_str() {
        "run" => run::one(&arguments).map(|record| println!("{}", record.to_json())),
        "prepare" => run::prepare(&arguments),
        "compare" => compare::compare(&arguments),
        other => Err(format!("`{other}` is no verb: run, prepare or compare")),
    }
}
