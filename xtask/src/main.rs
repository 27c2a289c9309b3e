//! Every chore of the repository: a bare call lists the verbs.
//!
//! ```text
//!   on each change   check  fix  test
//!   fetches etcd itself       etcd
//!   below handoff             scheduler
//!   to try things on          cluster
//!   to install                package
//!   to read                   site
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
mod etcd;
mod house;
mod kubernetes_fields;
mod layers;
mod locks;
mod markdown;
mod package;
mod scheduler;
mod site;
mod tidy;

use chores::{packages, process};
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
    /// Record byte layouts that changed together with their pages, lower ratchets (part of fix)
    Formats,
    /// Everything that CI runs: check, documentation without warnings, every test
    Test,
    /// Three local members to try things on, until Ctrl-C
    Cluster(cluster::Options),
    /// Models of the hand-off locks, Miri and the thread sanitizer (needs nightly)
    Locks(locks::Options),
    /// Build etcd, etcdctl, etcdutl, its benchmark and its tests (needs Go)
    Etcd,
    /// The table with which the page reads Kubernetes' objects, from its types
    KubernetesFields(kubernetes_fields::Options),
    /// Build what `handoff run --monitor` and `--sched fifo|hint` load into the kernel
    Scheduler(SchedulerOptions),
    /// Make a .deb, an .rpm and a .tar.gz
    Package(package::Options),
    /// The documentation as a site, in target/site; a broken link fails
    Site(site::Options),
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
        Verb::Locks(options) => locks::run(&options),
        Verb::Etcd => etcd::build(),
        Verb::KubernetesFields(options) => kubernetes_fields::write(&options),
        Verb::Scheduler(options) if options.test => scheduler::test(),
        Verb::Scheduler(_) => scheduler::build().map(drop),
        Verb::Package(options) => package::run(&options),
        Verb::Site(options) => site::run(&options),
        Verb::House => house::print(),
    }
}
