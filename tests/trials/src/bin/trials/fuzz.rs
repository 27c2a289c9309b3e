//! Random operations beside etcd, and clients that damage, flood or never read.
//!
//! The trials are in the crate `trials`, and the tests of `cli` run each
//! of them for seconds. Here they run for any time, against
//! the optimised server, and end with a table.

mod decoders;

use std::path::PathBuf;

use clap::Subcommand;
use trials::slow::Crowd;
use trials::{Length, Subject};

use crate::process::{Outcome, inkstone_binary, root};
use crate::report;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  cargo trials fuzz kv --seconds 600                 ten minutes beside etcd
  cargo trials fuzz kv --seed 7 --operations 4211    one story again
  cargo trials fuzz all --seconds 60                 each for a minute, and a table

A trial that finds something ends in failure and prints its seed. Those that
compare with etcd take the one that INKSTONE_ETCD names, or the one that
`cargo xtask etcd` built.")]
pub struct Options {
    #[command(subcommand)]
    trial: Trial,
}

#[derive(Subcommand)]
enum Trial {
    /// Keys, transactions, leases, compactions and hashes: each answer as etcd's
    Kv {
        #[command(flatten)]
        shared: SharedOptions,
        /// One round with this number of operations, instead of a time
        #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
        operations: Option<u64>,
    },
    /// Watches and ranges as streams: the same events in the same order as etcd
    Watch(SharedOptions),
    /// Users, roles and permissions: each decision as etcd's
    Users(SharedOptions),
    /// Bad HTTP/2 and bad gRPC at the client port, while another client is served
    Http2(SharedOptions),
    /// Bad frames at the peer ports of three members, while a client is served
    Peer(SharedOptions),
    /// Clients that read and write a few bytes a second, and watches never read
    Slow {
        #[command(flatten)]
        shared: SharedOptions,
        #[command(flatten)]
        crowd: Crowd,
    },
    /// Each of these in turn, and a table at the end
    All(SharedOptions),
    /// Feed damaged input to every decoder (needs nightly and cargo-fuzz)
    Decoders(decoders::Options),
}

#[derive(clap::Args)]
struct SharedOptions {
    /// How long to go on
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// Seed of the first round; round n takes seed + n
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The server to try [default: ours, built now]
    #[arg(long)]
    binary: Option<PathBuf>,
}

pub fn run(options: &Options) -> Outcome {
    let usual = Crowd::USUAL;
    match &options.trial {
        Trial::Kv { shared, operations } => play(shared, &[Kv], *operations, usual),
        Trial::Watch(shared) => play(shared, &[Watch], None, usual),
        Trial::Users(shared) => play(shared, &[Users], None, usual),
        Trial::Http2(shared) => play(shared, &[Http2], None, usual),
        Trial::Peer(shared) => play(shared, &[Peer], None, usual),
        Trial::Slow { shared, crowd } => play(shared, &[Slow], None, *crowd),
        Trial::All(shared) => play(shared, &[Kv, Watch, Users, Http2, Peer, Slow], None, usual),
        Trial::Decoders(decoders) => decoders::run(decoders),
    }
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Kv,
    Watch,
    Users,
    Http2,
    Peer,
    Slow,
}
use Kind::{Http2, Kv, Peer, Slow, Users, Watch};

/// Runs each trial, even after a failed one, and prints a table of their results.
fn play(options: &SharedOptions, kinds: &[Kind], operations: Option<u64>, crowd: Crowd) -> Outcome {
    let subject = Subject {
        inkstone: inkstone_binary(options.binary.as_deref())?,
        etcd: harness::etcd_binary(&root()),
    };
    let length = Length {
        operations: operations.map(|operations| operations as usize),
        ..Length::seconds(options.seconds, options.seed)
    };
    let runtime = tokio::runtime::Runtime::new()?;
    let (mut rows, mut failed) = (Vec::new(), Vec::new());
    for kind in kinds {
        let name = format!("{kind:?}").to_lowercase();
        println!("{name}, {} s, seed {}", options.seconds, options.seed);
        let found = runtime.block_on(async {
            match kind {
                Kv => trials::kv::run(&subject, length).await,
                Watch => trials::watch::run(&subject, length).await,
                Users => trials::users::run(&subject, length).await,
                Http2 => trials::http2::run(&subject, length).await,
                Peer => trials::peer::run(&subject, length).await,
                Slow => trials::slow::run(&subject, length, crowd).await,
            }
        });
        match found {
            Ok(report) => {
                let seen = report.rows.into_iter();
                rows.extend(seen.map(|(what, seen)| vec![name.clone(), what, seen]));
            }
            Err(error) => {
                eprintln!("{error}");
                rows.push(vec![name.clone(), "found".into(), "see above".into()]);
                failed.push(name);
            }
        }
    }
    println!("{}", report::table(&["trial", "what", "seen"], rows));
    match failed.is_empty() {
        true => Ok(()),
        false => Err(format!("found something: {}", failed.join(", ")).into()),
    }
}
