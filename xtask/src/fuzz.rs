//! Random operations beside etcd, and clients that damage, flood or never read.
//!
//! What is done and compared is the crate `trials`; the tests of `cli` run each
//! of its trials for seconds. Here they run for as long as one likes, against
//! the optimised server, and end in a table.

mod decoders;

use std::path::PathBuf;

use clap::Subcommand;
use trials::{Length, Outcome as TrialOutcome, Report, Subject};

use crate::process::{Outcome, inkstone_binary, root};

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  cargo xtask fuzz kv --seconds 600                 ten minutes beside etcd
  cargo xtask fuzz kv --seed 7 --operations 4211    one story again
  cargo xtask fuzz all --seconds 60                 each for a minute, and a table

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
    /// Bad HTTP/2 and bad gRPC at the client port, while another client is served
    Http2(SharedOptions),
    /// Bad frames at the peer ports of three members, while a client is served
    Peer(SharedOptions),
    /// Feed damaged input to every decoder (needs nightly and cargo-fuzz)
    Decoders(decoders::Options),
}

#[derive(clap::Args)]
struct KvOptions {
    #[command(flatten)]
    shared: SharedOptions,
    /// One round of so many operations, instead of a time
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    operations: Option<u64>,
}

#[derive(clap::Args)]
struct SharedOptions {
    /// How long to go on
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// What the randomness begins with; round n takes seed + n
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
            etcd: trials::servers::etcd_binary(&root()),
        })
    }
}

pub fn run(options: &Options) -> Outcome {
    match &options.trial {
        Trial::Kv(kv) => {
            let mut length = kv.shared.length();
            length.operations = kv.operations.map(|operations| operations as usize);
            play(&kv.shared, async |subject| {
                trials::kv::run(subject, length).await
            })
        }
        Trial::Http2(shared) => play(shared, async |subject| {
            trials::http2::run(subject, shared.length()).await
        }),
        Trial::Peer(shared) => play(shared, async |subject| {
            trials::peer::run(subject, shared.length()).await
        }),
        Trial::Decoders(decoders) => decoders::run(decoders),
    }
}

fn play(
    options: &SharedOptions,
    trial: impl AsyncFnOnce(&Subject) -> TrialOutcome<Report>,
) -> Outcome {
    let subject = options.subject()?;
    let runtime = tokio::runtime::Runtime::new()?;
    match runtime.block_on(trial(&subject)) {
        Ok(report) => {
            println!("{report}");
            Ok(())
        }
        Err(error) => {
            eprintln!("{error}");
            Err("the trial found what is printed above".into())
        }
    }
}
