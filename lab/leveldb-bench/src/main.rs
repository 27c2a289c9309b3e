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

use arguments::{CommandLine, Verb};
use clap::Parser;

fn main() -> ExitCode {
    let worked = match CommandLine::parse().verb {
        Verb::Run(arguments) => run::print(&arguments),
        Verb::Prepare(arguments) => run::prepare(&arguments),
        Verb::Compare(arguments) => compare::compare(&arguments),
    };
    match worked {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("leveldb-bench: {why}");
            ExitCode::from(2)
        }
    }
}
