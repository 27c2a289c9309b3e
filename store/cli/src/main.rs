//! The `inkstone` binary: one file per verb.
//!
//! ```text
//!   command line ──► clap ──► one verb ──► Ok | Failure ──► exit code
//!                                                0 success
//!                                                1 the operation failed, or damage found
//!                                                2 wrong use
//! ```
//!
//! If the reader of stdout closes it (`inkstone get .. | head`), that is no failure.

mod alarm;
mod auth;
mod backup;
mod called_as;
mod check;
mod client;
mod compaction;
mod completions;
mod cut_over;
mod defrag;
mod del;
mod directory;
mod downgrade;
mod elect;
mod endpoint;
mod failure;
mod follow;
mod gateway;
mod get;
mod inspect;
mod leading_flags;
mod lease;
mod lock;
mod make_mirror;
mod manual;
mod member;
mod move_leader;
mod progress;
mod put;
mod repair;
mod role;
mod serve;
mod snapshot;
mod survey;
mod table;
mod top;
mod txn;
mod user;
mod version;
mod watch;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use crate::client::run_to_end;
use crate::failure::Failure;

/// The command line of `inkstone`.
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
  inkstone serve                     run a durable node at etcd's port 2379 (in another window)
  inkstone put greeting hello        write a key
  inkstone get greeting              read it back
  inkstone watch greet --prefix      print changes of keys that begin with greet
  inkstone endpoint status -w table  print version, size and role of a member
  inkstone top --cluster             show members, rates and hottest keys, live
  inkstone user add root             add a user; `inkstone auth enable` then checks users
  inkstone check default.inkstone    verify every byte of a data directory
  inkstone snapshot status FILE      verify a snapshot of etcd, and show what it holds
  inkstone backup run --to DIR       back a running cluster up, every second

etcdctl and every etcd v3 client work with the server, too.
`inkstone VERB --help` shows the flags of a verb, with examples;
`inkstone --version` prints the versions of Inkstone and of etcd's API.";

#[derive(Debug, Subcommand)]
enum Verb {
    Serve(serve::Arguments),
    Get(get::Arguments),
    Put(put::Arguments),
    Del(del::Arguments),
    Watch(watch::Arguments),
    Txn(txn::Arguments),
    Lease(lease::Arguments),
    Lock(lock::Arguments),
    Elect(elect::Arguments),
    Compaction(compaction::Arguments),
    Endpoint(endpoint::Arguments),
    Member(member::Arguments),
    Alarm(alarm::Arguments),
    Defrag(defrag::Arguments),
    MoveLeader(move_leader::Arguments),
    Downgrade(downgrade::Arguments),
    Top(top::Arguments),
    MakeMirror(make_mirror::Arguments),
    Follow(follow::Arguments),
    CutOver(cut_over::Arguments),
    Backup(backup::Arguments),
    Auth(auth::Arguments),
    User(user::Arguments),
    Role(role::Arguments),
    Gateway(gateway::Arguments),
    Inspect(inspect::Arguments),
    Check(check::Arguments),
    Snapshot(snapshot::Arguments),
    Repair(repair::Arguments),
    Version(version::Arguments),
    Completions(completions::Arguments),
    Manual(manual::Arguments),
}

fn main() -> ExitCode {
    match called_as::understand(std::env::args_os().collect(), CommandLine::command()) {
        Ok(called_as::Call::Line(words)) => run(words),
        Ok(called_as::Call::Text(text)) => failure::exit(print(&text)),
        Err(failure) => failure::exit(Err(failure)),
    }
}

/// Runs one command line, program name included.
fn run(words: Vec<OsString>) -> ExitCode {
    match CommandLine::try_parse_from(words) {
        Ok(line) => failure::exit(dispatch(line.verb)),
        Err(error) => {
            // The reader of help and errors may have closed the output.
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
        Verb::Get(arguments) => run_to_end(get::run(arguments)),
        Verb::Put(arguments) => run_to_end(put::run(arguments)),
        Verb::Del(arguments) => run_to_end(del::run(arguments)),
        Verb::Watch(arguments) => run_to_end(watch::run(arguments)),
        Verb::Txn(arguments) => run_to_end(txn::run(arguments)),
        Verb::Lock(arguments) => run_to_end(lock::run(arguments)),
        Verb::Elect(arguments) => run_to_end(elect::run(arguments)),
        Verb::Lease(arguments) => run_to_end(lease::run(arguments)),
        Verb::Compaction(arguments) => run_to_end(compaction::run(arguments)),
        Verb::Endpoint(arguments) => run_to_end(endpoint::run(arguments)),
        Verb::Member(arguments) => run_to_end(member::run(arguments)),
        Verb::Alarm(arguments) => run_to_end(alarm::run(arguments)),
        Verb::Defrag(arguments) => run_to_end(defrag::run(arguments)),
        Verb::MoveLeader(arguments) => run_to_end(move_leader::run(arguments)),
        Verb::MakeMirror(arguments) => run_to_end(make_mirror::run(arguments)),
        Verb::Follow(arguments) => run_to_end(follow::run(arguments)),
        Verb::CutOver(arguments) => run_to_end(cut_over::run(arguments)),
        Verb::Top(arguments) => run_to_end(top::run(arguments)),
        Verb::Downgrade(arguments) => run_to_end(downgrade::run(arguments)),
        Verb::Backup(arguments) => backup::run(arguments),
        Verb::Auth(arguments) => run_to_end(auth::run(arguments)),
        Verb::User(arguments) => run_to_end(user::run(arguments)),
        Verb::Role(arguments) => run_to_end(role::run(arguments)),
        Verb::Gateway(arguments) => run_to_end(gateway::run(arguments)),
        Verb::Inspect(arguments) => inspect::run(&arguments),
        Verb::Check(arguments) => check::run(arguments),
        Verb::Snapshot(arguments) => snapshot::run(arguments),
        Verb::Repair(arguments) => repair::run(&arguments),
        Verb::Version(arguments) => version::run(&arguments),
        Verb::Completions(arguments) => completions::run(&arguments, CommandLine::command()),
        Verb::Manual(arguments) => manual::run(&arguments, CommandLine::command()),
    }
}

fn print(text: &str) -> Result<(), Failure> {
    use std::io::Write;
    Ok(std::io::stdout().write_all(text.as_bytes())?)
}
