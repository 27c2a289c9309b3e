//! Every chore of the repository: a bare call lists the verbs.
//!
//! ```text
//!   on each change   check  fix  test  ports
//!   against the real server   crash  faults  walks  power-cut  soak  strain  hostile  device-work
//!                             etcd-tests  figures
//!   fetches etcd itself       etcd
//!   below handoff             scheduler  guest
//!   to try things on          cluster
//!   looks for bad input       fuzz
//!   looks into the locks      locks
//! ```
//!
//! Nothing has to be installed: verbs that need more than Rust's toolchain
//! (Go, root, a nightly compiler) say so in one line and end in failure, so
//! that a skipped check is never taken for a passed one. Checks never write to
//! the sources; `fix` does.
#![expect(
    clippy::disallowed_methods,
    reason = "chores start processes, read the sources and measure real time"
)]

mod check;
mod cluster;
mod crash;
mod device_work;
mod etcd;
mod etcd_tests;
mod faults;
mod figures;
mod fuzz;
mod group;
mod guest;
mod hostile;
mod house;
mod layers;
mod live_line;
mod locks;
mod machine;
mod member_command;
mod packages;
mod ports;
mod power_cut;
mod process;
mod puts;
mod scheduler;
mod server_process;
mod soak;
mod strain;
mod tidy;
mod walks;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(
    name = "cargo xtask",
    about = "Every chore of the repository.",
    arg_required_else_help = true
)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Format, lints, storeys and house rules; writes nothing
    Check,
    /// Format the code, apply simple lints, record changed formats
    Fix,
    /// Record byte layouts that changed together with their pages (part of fix)
    Formats,
    /// What the README names: check, documentation without warnings, every test
    Test,
    /// Three local members to try things on, until Ctrl-C
    Cluster(cluster::Options),
    /// Kill the real server with -9 under load, again and again
    Crash(crash::Options),
    /// Three members under faults, and a check of the answers that clients got
    Faults(faults::Options),
    /// Members killed, moved, added, promoted and removed at random, beside etcd (needs Go)
    Walks(walks::Options),
    /// Cut the power of a real ext4 below the server, again and again (needs root)
    PowerCut(power_cut::Options),
    /// Take ports and give them back at random, while a command runs
    Ports(ports::Options),
    /// A mixed load on the real server that must not make it grow
    Soak(soak::Options),
    /// Three members under load, and hostile frames at their peer ports
    Hostile(hostile::Options),
    /// One Go client with very large and very many requests, on our server and etcd (needs Go)
    Strain(strain::Options),
    /// Random operations beside etcd, and damaged, slow and hostile clients
    Fuzz(fuzz::Options),
    /// Models of the hand-off locks, Miri and the thread sanitizer (needs nightly)
    Locks(locks::Options),
    /// Build etcd, etcdctl, etcdutl, its benchmark and its tests (needs Go)
    Etcd,
    /// Run etcd's own tests/common against our server
    EtcdTests(etcd_tests::Options),
    /// Flushes and bytes that one put costs the device (needs root)
    DeviceWork(device_work::Options),
    /// Build what `handoff run --monitor` and `--sched fifo|hint` load into the kernel
    Scheduler(SchedulerOptions),
    /// Boot a kernel with sched_ext in qemu: the schedulers loaded, crashed, measured
    Guest(guest::Options),
    /// Our server and etcd in alternating runs of etcd's benchmark
    Figures(figures::Options),
    /// Measures of the sources: file and function lengths, assertions
    House,
}

#[derive(clap::Args)]
struct SchedulerOptions {
    /// Test it instead, in this machine's kernel (needs root)
    #[arg(long)]
    test: bool,
}

fn main() -> process::Outcome {
    match Arguments::parse().verb {
        Verb::Check => check::check(),
        Verb::Fix => check::fix(),
        Verb::Formats => check::formats(),
        Verb::Test => check::test(),
        Verb::Cluster(options) => cluster::run(&options),
        Verb::Crash(options) => crash::run(&options),
        Verb::Faults(options) => faults::run(&options),
        Verb::Walks(options) => walks::run(&options),
        Verb::Ports(options) => ports::run(&options),
        Verb::PowerCut(options) => power_cut::run(&options),
        Verb::Soak(options) => soak::run(&options),
        Verb::Hostile(options) => hostile::run(&options),
        Verb::Strain(options) => strain::run(&options),
        Verb::Fuzz(options) => fuzz::run(&options),
        Verb::Locks(options) => locks::run(&options),
        Verb::Etcd => etcd::build(),
        Verb::EtcdTests(options) => etcd_tests::run(&options),
        Verb::DeviceWork(options) => device_work::run(&options),
        Verb::Scheduler(options) if options.test => scheduler::test(),
        Verb::Scheduler(_) => scheduler::build().map(drop),
        Verb::Guest(options) => guest::run(&options),
        Verb::Figures(options) => figures::run(&options),
        Verb::House => house::print(),
    }
}
