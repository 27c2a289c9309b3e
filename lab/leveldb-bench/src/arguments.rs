//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, value_parser};

/// LevelDB with many threads, and its own locks beside handoff's
#[derive(Parser)]
#[command(name = "leveldb-bench")]
pub struct CommandLine {
    #[command(subcommand)]
    pub verb: Verb,
}

#[derive(Subcommand)]
pub enum Verb {
    /// One run, one line of JSON; with one --benchmark and one number of --threads
    Run(Arguments),
    /// Makes the database that readrandom reads
    Prepare(Arguments),
    /// Native, native again and preloaded in turn
    Compare(Arguments),
}

#[derive(Args, Clone)]
pub struct Arguments {
    /// fillrandom or readrandom; compare: several with commas
    #[arg(long = "benchmark", value_name = "NAME", value_delimiter = ',',
          value_parser = ["fillrandom", "readrandom"],
          default_values = ["fillrandom", "readrandom"])]
    pub benchmarks: Vec<String>,
    /// Compare: several with commas
    #[arg(long, value_name = "T", value_delimiter = ',',
          value_parser = value_parser!(u32).range(1..), default_values_t = [1, 8, 64, 256])]
    pub threads: Vec<u32>,
    /// Length of a run
    #[arg(long, value_name = "S", value_parser = seconds, default_value = "5")]
    pub seconds: Duration,
    /// Instead: operations of all threads together
    #[arg(long, value_name = "N")]
    pub operations: Option<u64>,
    /// Keys to choose from
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..),
          default_value_t = 1_000_000)]
    pub keys: u64,
    /// Length of a value, at most as long as all random data
    #[arg(long, value_name = "N", default_value_t = 100,
          value_parser = value_parser!(u32).range(1..=crate::data::BYTES as i64))]
    pub value_bytes: u32,
    /// Where databases are made
    #[arg(long, value_name = "PATH", default_value = "/dev/shm")]
    pub directory: PathBuf,
    /// readrandom: made by prepare
    #[arg(long, value_name = "PATH")]
    pub database: Option<PathBuf>,
    /// The library
    #[arg(long, value_name = "PATH", default_value = "libleveldb.so.1d")]
    pub leveldb: String,
    /// Of keys, values and the order of runs
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Compare: libhandoff_preload.so
    #[arg(long, value_name = "PATH")]
    pub preload: Option<PathBuf>,
    /// Compare: runs of each kind
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..),
          default_value_t = 3)]
    pub rounds: u32,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().map_err(|why| why.to_string())?;
    Duration::try_from_secs_f64(seconds).map_err(|why| why.to_string())
}
