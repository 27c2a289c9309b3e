//! The arguments of `handoff`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

#[derive(Debug, Parser)]
#[command(
    name = "handoff",
    version,
    about = "Locks for programs with more threads than cores",
    arg_required_else_help = true,
    disable_help_subcommand = true
)]
pub(crate) struct CommandLine {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Run(Arguments),
}

/// Start a program with handoff's locks in place of its POSIX mutexes and condition variables
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// How the kernel shares the cores among the program's threads
    #[arg(long, value_enum, default_value_t = Sched::None)]
    pub(crate) sched: Sched,

    /// Watch the kernel switch threads: a thread that waits for a holder without a core parks
    /// at once (needs root)
    #[arg(long, conflicts_with = "no_preload")]
    pub(crate) monitor: bool,

    /// Leave the program its own locks, to compare
    #[arg(long)]
    pub(crate) no_preload: bool,

    /// Path of the library [default: libhandoff_preload.so beside this program]
    #[arg(long, value_name = "PATH", conflicts_with = "no_preload")]
    pub(crate) library: Option<PathBuf>,

    /// Have each process print its counts when it ends, and print how many had the locks
    #[arg(long, conflicts_with = "no_preload")]
    pub(crate) stat: bool,

    /// The program and its arguments, after `--`
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    pub(crate) command: Vec<OsString>,
}

impl Arguments {
    /// Whether the kernel reads the hints of the threads.
    pub(crate) fn wants_hints(&self) -> bool {
        self.monitor || self.sched == Sched::Hint
    }
}

/// Rules by which the kernel shares the cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sched {
    /// The kernel's own rules
    None,
    /// SCHED_BATCH with slices of 20 ms; needs no rights, but Linux 6.12
    Batch,
    /// One queue, without preemption by threads that wake, for the whole machine; needs root
    /// and sched_ext
    Fifo,
    /// The same, but threads that hold a lock go first
    Hint,
}

const AFTER_HELP: &str = "\
Examples:
  handoff run -- db_bench --threads=256           with handoff's locks
  handoff run --stat -- db_bench --threads=256    and with counts on standard error
  handoff run --sched batch -- db_bench           and with long slices
  handoff run --monitor -- db_bench               and with a look into the kernel
  handoff run --no-preload -- db_bench            without, to compare

The exit code is the program's, 128 and the signal's number if one killed it, or:
  124  the program has run, but the library was not loaded or not in use, or the
       kernel has removed the scheduler
  125  nothing was started: wrong use, no library or one that does not work, or a
       program that loads none (static, setuid, of another architecture)
  126  the program cannot be executed
  127  the program was not found

SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1 and SIGUSR2 are passed on.";
