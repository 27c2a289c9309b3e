//! A store follows a running cluster, and clients are moved to it.
//!
//! ```text
//!   writers ──► source ──inkstone follow──► store ──► watch        how late is each revision?
//!                 restarts, a compaction                           is HashKV always equal?
//!
//!   clients, watchers ──► source │ cut-over │ store ◄── the same   does the history hold across it?
//! ```
//!
//! The second part asks both judges of `faults` about what the clients saw on both sides.

mod moving;
mod pace;
mod pair;

use std::path::PathBuf;

use clap::ValueEnum;
use harness::Program;

use crate::{
    etcd,
    machine::Machine,
    options::{Common, until_interrupted},
    process::Outcome,
};
use pair::Programs;

#[derive(clap::Args)]
pub struct Options {
    /// How long the store follows; 0 leaves this part out
    #[arg(long, default_value_t = 10)]
    minutes: u64,
    /// Writes per second at the source
    #[arg(long, default_value_t = 5_000)]
    rate: u32,
    /// How long clients work before they are moved, and afterwards; 0 leaves this part out
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// Watches that are moved
    #[arg(long, default_value_t = 1_000)]
    watches: usize,
    /// The program of the source
    #[arg(long, value_enum, default_value = "etcd")]
    from: Source,
    /// etcd's binary [default: the one of `cargo xtask etcd`]
    #[arg(long, value_name = "BINARY")]
    etcd: Option<PathBuf>,
    #[command(flatten)]
    common: Common,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Source {
    Etcd,
    Inkstone,
}

pub fn run(options: &Options) -> Outcome {
    let inkstone = options.common.program()?;
    let source = match options.from {
        Source::Etcd => Program::new(match &options.etcd {
            Some(binary) => binary.clone(),
            None => etcd::binary("etcd")?,
        }),
        Source::Inkstone => inkstone.clone(),
    };
    println!("{}", Machine::here()?.line());
    let programs = Programs { source, inkstone };
    if options.minutes > 0 {
        until_interrupted(pace::run(&programs, options.minutes, options.rate))?;
    }
    if options.seconds > 0 {
        moving::run(
            &programs,
            options.seconds,
            options.watches,
            options.common.seed,
        )?;
    }
    Ok(())
}
