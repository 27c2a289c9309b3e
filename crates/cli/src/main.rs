//! The `inkstone` binary: one file per verb.
//!
//! ```text
//!   words typed ──► clap ──► one verb ──► Ok | Failure ──► exit code
//!                                                0 done
//!                                                1 tried and failed, damage
//!                                                2 wrong use
//! ```
//!
//! A reader that went away (`inkstone get .. | head`) is no failure.

mod check;
mod client;
mod completions;
mod del;
mod directory;
mod failure;
mod get;
mod inspect;
mod progress;
mod put;
mod repair;
mod serve;
mod survey;
mod table;
mod watch;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::failure::Failure;

/// Everything that can follow `inkstone`.
#[derive(Debug, Parser)]
#[command(
    name = "inkstone",
    about = "A key-value store with etcd's API, in which the log is the database",
    after_help = AFTER_HELP,
    subcommand_required = true,
    arg_required_else_help = true,
    disable_help_subcommand = true
)]
struct CommandLine {
    #[command(subcommand)]
    verb: Verb,
}

const AFTER_HELP: &str = "\
Start here:
  inkstone serve                     a durable node on etcd's ports, in another window
  inkstone put greeting hello        write a key
  inkstone get greeting              read it back
  inkstone watch greet --prefix      see changes as they happen
  inkstone check default.inkstone    verify every byte of a data directory

etcdctl and every etcd v3 client work as well.
`inkstone VERB --help` shows examples for each verb;
`inkstone --version` tells the versions of it and of etcd's API.";

#[derive(Debug, Subcommand)]
enum Verb {
    Serve(serve::Arguments),
    Get(get::Arguments),
    Put(put::Arguments),
    Del(del::Arguments),
    Watch(watch::Arguments),
    Inspect(inspect::Arguments),
    Check(check::Arguments),
    Repair(repair::Arguments),
    Completions(completions::Arguments),
}

fn main() -> ExitCode {
    run(serve::name_the_verb(std::env::args_os().collect()))
}

/// Runs one command line, program name included.
fn run(words: Vec<OsString>) -> ExitCode {
    match CommandLine::try_parse_from(words) {
        Ok(line) => failure::exit(dispatch(line.verb)),
        Err(error) => {
            // Help and complaints go to a reader that may have left.
            let _ = error.print();
            ExitCode::from(if error.use_stderr() {
                failure::WRONG_USE
            } else {
                0
            })
        }
    }
}

fn dispatch(verb: Verb) -> Result<(), Failure> {
    match verb {
        Verb::Serve(arguments) => serve::run(arguments),
        Verb::Get(arguments) => get::run(arguments),
        Verb::Put(arguments) => put::run(arguments),
        Verb::Del(arguments) => del::run(arguments),
        Verb::Watch(arguments) => watch::run(arguments),
        Verb::Inspect(arguments) => inspect::run(&arguments),
        Verb::Check(arguments) => check::run(&arguments),
        Verb::Repair(arguments) => repair::run(&arguments),
        Verb::Completions(arguments) => completions::run(&arguments),
    }
}
