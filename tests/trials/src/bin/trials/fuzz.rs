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
use crate::record;

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
    Kv(KvOptions),
    /// Watches and ranges as streams: the same events in the same order as etcd
    Watch(SharedOptions),
    /// Bad HTTP/2 and bad gRPC at the client port, while another client is served
    Http2(SharedOptions),
    /// Bad frames at the peer ports of three members, while a client is served
    Peer(SharedOptions),
    /// Clients that read and write a few bytes a second, and watches never read
    Slow(SlowOptions),
    /// Each of these in turn, and a table at the end
    All(SharedOptions),
    /// Feed damaged input to every decoder (needs nightly and cargo-fuzz)
    Decoders(decoders::Options),
}

#[derive(clap::Args)]
struct KvOptions {
    #[command(flatten)]
    shared: SharedOptions,
    /// One round with this number of operations, instead of a time
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    operations: Option<u64>,
}

#[derive(clap::Args)]
struct SlowOptions {
    #[command(flatten)]
    shared: SharedOptions,
    /// Clients that ask for 10 MiB and take 8 bytes a second
    #[arg(long, default_value_t = SLOW.readers)]
    readers: u64,
    /// Watches of values of 1 MiB that are never read
    #[arg(long, default_value_t = SLOW.watchers)]
    watchers: u64,
    /// Clients that put 1 MiB, 8 bytes a second
    #[arg(long, default_value_t = SLOW.writers)]
    writers: u64,
}

const SLOW: Crowd = Crowd {
    readers: 200,
    watchers: 100,
    writers: 100,
};

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

impl SharedOptions {
    fn length(&self) -> Length {
        Length::seconds(self.seconds, self.seed)
    }

    fn subject(&self) -> Outcome<Subject> {
        Ok(Subject {
            inkstone: inkstone_binary(self.binary.as_deref())?,
            etcd: harness::etcd_binary(&root()),
        })
    }
}

pub fn run(options: &Options) -> Outcome {
    match &options.trial {
        Trial::Kv(kv) => {
            let mut length = kv.shared.length();
            length.operations = kv.operations.map(|operations| operations as usize);
            play(&kv.shared, &[Kv], length, SLOW)
        }
        Trial::Watch(shared) => play(shared, &[Watch], shared.length(), SLOW),
        Trial::Http2(shared) => play(shared, &[Http2], shared.length(), SLOW),
        Trial::Peer(shared) => play(shared, &[Peer], shared.length(), SLOW),
        Trial::Slow(slow) => {
            let crowd = Crowd {
                readers: slow.readers,
                watchers: slow.watchers,
                writers: slow.writers,
            };
            play(&slow.shared, &[Slow], slow.shared.length(), crowd)
        }
        Trial::All(shared) => play(
            shared,
            &[Kv, Watch, Http2, Peer, Slow],
            shared.length(),
            SLOW,
        ),
        Trial::Decoders(decoders) => decoders::run(decoders),
    }
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Kv,
    Watch,
    Http2,
    Peer,
    Slow,
}
use Kind::{Http2, Kv, Peer, Slow, Watch};

/// Runs each trial, even after a failed one, and prints a table of their results.
fn play(options: &SharedOptions, kinds: &[Kind], length: Length, crowd: Crowd) -> Outcome {
    let subject = options.subject()?;
    let runtime = tokio::runtime::Runtime::new()?;
    let (mut rows, mut failed) = (Vec::new(), Vec::new());
    for kind in kinds {
        let name = format!("{kind:?}").to_lowercase();
        println!("{name}, {} s, seed {}", options.seconds, options.seed);
        let found = runtime.block_on(async {
            match kind {
                Kv => trials::kv::run(&subject, length).await,
                Watch => trials::watch::run(&subject, length).await,
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
    println!("{}", record::table(&["trial", "what", "seen"], rows));
    match failed.is_empty() {
        true => Ok(()),
        false => Err(format!("found something: {}", failed.join(", ")).into()),
    }
}
