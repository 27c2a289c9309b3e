//! Half-open handshakes and slow clients at the ports with TLS, beside clients that must not notice.
//!
//! The scenes are in the crate `trials`, and tests of `cli` play small ones. Here they have
//! thousands of connections, and end with a record.

use std::path::PathBuf;
use std::time::Duration;

use trials::tls_abuse::{Attack, Port, Scene};

use crate::machine::Machine;
use crate::process::{Outcome, inkstone_binary};
use crate::report;

#[derive(clap::Args)]
pub struct Options {
    /// Connections of a round with half-open handshakes
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    connections: u64,
    /// Connections of a round that send one byte a second
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    dripping: u64,
    /// How long new rounds are begun in each scene
    #[arg(long, default_value_t = 30)]
    seconds: u64,
    /// Only the scenes with this text in their name
    #[arg(long, default_value = "")]
    only: String,
    /// The server to attack [default: ours, built now]
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Directory for the record; without it none is written
    #[arg(long)]
    records: Option<PathBuf>,
}

const SCENES: [(Attack, Port); 9] = [
    (Attack::HalfOpen, Port::Client),
    (Attack::HalfOpen, Port::Http),
    (Attack::HalfOpen, Port::Metrics),
    (Attack::HalfOpen, Port::Peer),
    (Attack::DripBefore, Port::Client),
    (Attack::DripBefore, Port::Peer),
    (Attack::DripAfter, Port::Client),
    (Attack::DripAfter, Port::Http),
    (Attack::DripAfter, Port::Peer),
];

pub fn run(options: &Options) -> Outcome {
    let binary = inkstone_binary(options.binary.as_deref())?;
    let machine = Machine::here()?;
    let runtime = tokio::runtime::Runtime::new()?;
    let (mut sections, mut failed) = (String::new(), Vec::new());
    for (attack, port) in SCENES {
        let connections = match attack {
            Attack::HalfOpen => options.connections,
            Attack::DripBefore | Attack::DripAfter => options.dripping,
        };
        let scene = Scene {
            attack,
            port,
            connections,
            lasting: Duration::from_secs(options.seconds),
        };
        let name = scene.name();
        if !name.contains(&options.only) {
            continue;
        }
        println!("{name}: {connections} connections");
        let rows = match runtime.block_on(trials::tls_abuse::run(&binary, scene)) {
            Ok(report) => report.rows,
            Err(error) => {
                eprintln!("{error}");
                failed.push(name.clone());
                vec![("wrong".to_owned(), error.to_string())]
            }
        };
        let rows = rows.into_iter().map(|(what, seen)| vec![what, seen]);
        sections += &format!("## {name}\n\n{}\n", report::table(&["what", "seen"], rows));
        println!("{sections}");
    }
    let page = format!(
        "# Handshakes that do not end, {}\n\n\
         {}. Three members with TLS on all ports; the first is attacked. Beside it one client puts, \
         gets and watches on one connection, and others open new connections from the attackers' address and \
         from another; an error of any of them fails the scene. Written by `cargo trials tls-abuse \
         --connections {} --dripping {} --seconds {}`.\n\n{sections}",
        machine.date,
        machine.line(),
        options.connections,
        options.dripping,
        options.seconds,
    );
    report::record(options.records.as_deref(), &machine, "tls-abuse", &page)?;
    match failed.is_empty() {
        true => Ok(()),
        false => Err(format!("a scene was noticed: {}", failed.join("; ")).into()),
    }
}
