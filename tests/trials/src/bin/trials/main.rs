//! Torments the real server, and checks what it has kept: a bare call lists the verbs.
//!
//! ```text
//!   does a store keep its promises?    crash  power-cut  soak
//!   does a cluster?                    faults  walks  hostile  tls-abuse  rolling-users
//!   can clients move from etcd?         follow
//!   do clients get what etcd gives?    fuzz  strain  etcd-tests  kube-storage  watch-beside-ranges
//!   do tests on a busy machine?        ports
//!   do the locks' schedulers?          guest
//! ```
//!
//! Verbs that need more than Rust's toolchain (Go, root, a nightly compiler) say so in one
//! line and end in failure, so that a skipped trial is never taken for a passed one.
#![expect(
    clippy::disallowed_methods,
    reason = "trials start processes, open sockets and measure real time"
)]

mod caller;
mod client;
mod etcd_tests;
mod faults;
mod follow;
mod fuzz;
mod guest;
mod hostile;
mod kube_storage;
mod live_line;
mod load;
mod member;
mod options;
mod peer_secret;
mod ports;
mod recorder;
mod report;
mod request;
mod restarts;
mod rolling_users;
mod soak;
mod strain;
mod tls_abuse;
mod values;
mod volume;
mod walks;
mod watch_beside_ranges;

use chores::{etcd, packages, process};
use clap::{Parser, Subcommand};
use trials::{machine, requests, servers};

#[derive(Parser)]
#[command(
    name = "cargo trials",
    about = "Trials of the real server.",
    arg_required_else_help = true
)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Kill the real server with -9 under load, again and again
    Crash(restarts::CrashOptions),
    /// Cut the power of a real ext4 below the server, again and again (needs root)
    PowerCut(restarts::Options),
    /// A mixed load on the real server that must not make it grow
    Soak(soak::Options),
    /// Three members under faults, and a check of the answers that clients got
    Faults(faults::Options),
    /// Members killed, moved, added, promoted and removed at random, beside etcd (needs Go)
    Walks(walks::Options),
    /// Three members under load, and hostile frames at their peer ports
    Hostile(hostile::Options),
    /// Thousands of TLS handshakes that do not end, and clients that send one byte a second
    TlsAbuse(tls_abuse::Options),
    /// Three members restarted under a thousand clients with users and TLS
    RollingUsers(rolling_users::Options),
    /// A store follows etcd through restarts, and clients are moved to it
    Follow(follow::Options),
    /// Random operations beside etcd, and damaged, slow and hostile clients
    Fuzz(fuzz::Options),
    /// One Go client with very large and very many requests, on our server and etcd (needs Go)
    Strain(strain::Options),
    /// A watch that shares a TLS connection with large ranges: its delay, here and on etcd
    WatchBesideRanges(watch_beside_ranges::Options),
    /// Run etcd's own suites, tests/common and tests/e2e, against our server (needs Go)
    EtcdTests(etcd_tests::Options),
    /// Run the tests of kube-apiserver's storage layer against our server (needs Go)
    KubeStorage(kube_storage::Options),
    /// Take ports and give them back at random, while a command runs
    Ports(ports::Options),
    /// Boot a kernel with sched_ext in qemu: the schedulers loaded, crashed, measured
    Guest(guest::Options),
}

fn main() -> process::Outcome {
    match Arguments::parse().verb {
        Verb::Crash(options) => restarts::crash(&options),
        Verb::PowerCut(options) => restarts::power_cut(&options),
        Verb::Soak(options) => soak::run(&options),
        Verb::Faults(options) => faults::run(&options),
        Verb::Walks(options) => walks::run(&options),
        Verb::Hostile(options) => hostile::run(&options),
        Verb::TlsAbuse(options) => tls_abuse::run(&options),
        Verb::RollingUsers(options) => rolling_users::run(&options),
        Verb::Follow(options) => follow::run(&options),
        Verb::Fuzz(options) => fuzz::run(&options),
        Verb::Strain(options) => strain::run(&options),
        Verb::WatchBesideRanges(options) => watch_beside_ranges::run(&options),
        Verb::EtcdTests(options) => etcd_tests::run(&options),
        Verb::KubeStorage(options) => kube_storage::run(&options),
        Verb::Ports(options) => ports::run(&options),
        Verb::Guest(options) => guest::run(&options),
    }
}
