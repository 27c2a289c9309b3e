//! The command line: one file for each verb.
//!
//! Exit codes: 0 fine, 1 error, 2 a command line that is not understood, 3 something got
//! worse, 4 the runs do not decide.

#[macro_use]
pub(crate) mod output;

mod ab;
mod compare;
mod doctor;
mod export;
mod finish;
mod folder;
mod heatmap;
mod import;
mod index;
mod noise;
mod options;
mod pack;
mod readme;
mod report;
mod run;
mod scale;
mod seed;
mod selftest;
mod share;
mod workloads;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::targets::{Offer, offer_also, offered};
use crate::verdict::Exit;

/// Any error; its text names the place and the remedy.
pub type Error = Box<dyn std::error::Error>;
/// Result of a verb. `main` prints an error and exits with code 1.
pub type Outcome = Result<Exit, Error>;

#[derive(Parser)]
#[command(
    name = "inkstone-lab",
    about = "Measures key-value stores side by side, and says when it cannot tell.",
    after_help = "Exit codes: 0 fine, 1 error, 2 not understood, 3 something got worse, 4 it cannot \
                  be told.",
    version,
    arg_required_else_help = true
)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// What this machine is, and what its device can do
    Doctor(doctor::Options),
    /// One target, or several side by side, under one workload
    Run(run::Options),
    /// Whether B is faster or slower than A, beside a copy of A
    Ab(ab::Options),
    /// What this machine makes out of nothing: a target beside itself
    Noise(noise::Options),
    /// Reads over writes by value size by connections, of one target or two
    Heatmap(heatmap::Options),
    /// A predecessor's published table, as published and as it honestly should be
    Seed(seed::Options),
    /// Two records that were not measured together: what differs
    Compare(compare::Options),
    /// A record's tables and page, made again
    Report(report::Options),
    /// A page of all records: verdicts, links, and each row over the records
    Index(index::Options),
    /// A picture of a record for a README
    Share(share::Options),
    /// A record in a form for the repository: compressed, without pages
    Pack(pack::Options),
    /// A record of etcd's rw-heatmap CSV
    Import(import::Options),
    /// etcd's rw-heatmap CSV of a record
    Export(export::Options),
    /// The tables between markers of README.md and other pages, from records
    Readme(readme::Options),
    /// The lab's proof of itself: simulated experiments with known truths
    Selftest(selftest::Options),
    /// The workloads that come with the lab
    Workloads(workloads::Options),
    /// One run; for the lab itself
    #[command(hide = true)]
    Worker,
}

/// Runs the verb of the command line.
pub fn main() -> ExitCode {
    main_with(&[])
}

/// Runs the verb of the command line in a program that offers more targets than this crate.
pub fn main_with(offers: &[Offer]) -> ExitCode {
    offer_also(offers);
    let outcome = match Arguments::parse().verb {
        Verb::Doctor(options) => doctor::run(&options),
        Verb::Run(options) => run::run(&options),
        Verb::Ab(options) => ab::run(&options),
        Verb::Noise(options) => noise::run(&options),
        Verb::Heatmap(options) => heatmap::run(&options),
        Verb::Seed(options) => seed::run(&options),
        Verb::Compare(options) => compare::run(&options),
        Verb::Report(options) => report::run(&options),
        Verb::Index(options) => index::run(&options),
        Verb::Share(options) => share::run(&options),
        Verb::Pack(options) => pack::run(&options),
        Verb::Import(options) => import::run(&options),
        Verb::Export(options) => export::run(&options),
        Verb::Readme(options) => readme::run(&options),
        Verb::Selftest(options) => selftest::run(&options),
        Verb::Workloads(options) => workloads::run(&options),
        Verb::Worker => return crate::worker::main(&offered()),
    };
    match outcome {
        Ok(exit) => ExitCode::from(exit.code()),
        Err(what) => {
            print_error!("inkstone-lab: {what}");
            ExitCode::from(Exit::Error.code())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn every_option_is_declared_correctly() {
        Arguments::command().debug_assert();
    }
}
