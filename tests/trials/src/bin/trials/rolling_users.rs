//! Restarts of three members under clients with users, over TLS.
//!
//! The scene is in the crate `trials`, and a test of `cli` plays a small one. Here it has a
//! thousand clients, and ends with a record.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use trials::rolling_users::{Scene, Seen};

use crate::machine::Machine;
use crate::process::{Outcome, inkstone_binary};
use crate::report;

#[derive(clap::Args)]
pub struct Options {
    /// Clients, each with a login of its own
    #[arg(long, default_value = "1000")]
    clients: NonZeroUsize,
    /// Users; each has an equal part of the clients
    #[arg(long, default_value = "50")]
    users: NonZeroUsize,
    /// Connections to each member, which the clients share
    #[arg(long, default_value = "100")]
    connections: NonZeroUsize,
    /// Mean pause of a client before a put
    #[arg(long, default_value_t = 500)]
    pause_ms: u64,
    /// Time between a restart and the next one
    #[arg(long, default_value_t = 5)]
    settle_seconds: u64,
    /// How often all members are restarted, and the leader is killed
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// The server to restart, perhaps etcd [default: ours, built now]
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Directory for the record; without it none is written
    #[arg(long)]
    records: Option<PathBuf>,
}

const HEADS: [&str; 6] = [
    "step",
    "puts",
    "gets",
    "repeated",
    "unknown puts",
    "longest call, ms",
];

pub fn run(options: &Options) -> Outcome {
    let binary = inkstone_binary(options.binary.as_deref())?;
    let machine = Machine::here()?;
    let runtime = tokio::runtime::Runtime::new()?;
    let seen = runtime.block_on(trials::rolling_users::run(&binary, options.scene()))?;
    let version = harness::Program::new(&binary).version()?;
    let page = options.page(&machine, &version, &seen);
    let records = options.records.as_deref();
    report::record(records, &machine, "rolling-users", &page)?;
    match seen.wrong.rows.is_empty() {
        true => Ok(()),
        false => Err(format!("clients got wrong answers: {}", seen.wrong).into()),
    }
}

impl Options {
    fn scene(&self) -> Scene {
        Scene {
            clients: self.clients.get(),
            users: self.users.get(),
            connections: self.connections.get(),
            pause: Duration::from_millis(self.pause_ms),
            settle: Duration::from_secs(self.settle_seconds),
            rounds: self.rounds,
        }
    }

    fn page(&self, machine: &Machine, version: &str, seen: &Seen) -> String {
        let steps = seen.steps.iter().map(|(step, counts)| {
            vec![
                step.clone(),
                counts.puts.to_string(),
                counts.gets.to_string(),
                counts.repeated.to_string(),
                counts.unknown.to_string(),
                counts.longest.as_millis().to_string(),
            ]
        });
        let repeated = seen.repeated.iter();
        let repeated = repeated.map(|(error, [stops, kills])| {
            vec![error.clone(), stops.to_string(), kills.to_string()]
        });
        let wrong = seen.wrong.rows.iter();
        let wrong = wrong.map(|(error, count)| vec![error.clone(), count.clone()]);
        format!(
            "# Members restarted under clients with users, {}\n\n\
             {}. Three members of version {version} with TLS for clients and members, users \
             switched on, `--bcrypt-cost=4`; {} clients of {} users on {} connections to each member, \
             each logged in once; a put and a get of it after a mean pause of {} ms; {} s between \
             restarts. Written by `cargo trials rolling-users`.\n\n\
             {} logins took {:.1} s. At the end every member had the same {} puts, all acknowledged \
             ones among them; {} had no known outcome.\n\n{}\nErrors after which clients repeat the call, or do not know the outcome of a put:\n\n{}\n{}",
            machine.date,
            machine.line(),
            self.clients,
            self.users,
            self.connections,
            self.pause_ms,
            self.settle_seconds,
            seen.logins,
            seen.logins_took.as_secs_f64(),
            seen.found,
            seen.unknown,
            report::table(&HEADS, steps),
            report::table(&["error", "at SIGTERM", "at kill -9"], repeated),
            report::table(&["answer that no client repeats", "times"], wrong),
        )
    }
}
