//! One client of etcd's Go library with very large and very many requests, on this server and on
//! etcd: thousands of leases, very many watches, the largest allowed requests.
//!
//! Each scene runs on fresh servers, this one and etcd in turn, while busy threads of
//! this process take their share of the cores. The results are lost leases, closed
//! connections, the waiting time of other clients, whether the leader kept its
//! lead, and the peak memory of a member.

mod findings;
mod scenes;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::{
    etcd,
    machine::Machine,
    process::{Outcome, capture, go_program, inkstone_binary, root},
    report,
    servers::{self, Servers},
};
use scenes::{Asked, Scene};
use trials::Report;

#[derive(clap::Args)]
pub struct Options {
    /// How long leases are renewed
    #[arg(long, default_value_t = 300)]
    seconds: u64,
    /// Runs of each side in each scene
    #[arg(long, default_value_t = 1)]
    rounds: usize,
    /// Threads that keep the cores busy during the scenes
    #[arg(long, default_value_t = 2)]
    busy: usize,
    /// Only the scenes with this text in their name
    #[arg(long, default_value = "")]
    only: String,
    /// Our server alone, where etcd is not wanted
    #[arg(long)]
    without_etcd: bool,
    /// The server to strain [default: ours, built now]
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Where the servers keep their data [default: a temporary folder]
    #[arg(long)]
    directory: Option<PathBuf>,
    /// Where the record goes [default: lab/records]
    #[arg(long)]
    records: Option<PathBuf>,
}

pub fn run(options: &Options) -> Outcome {
    let program = go_program("go-client", root().join("target/strain/go-client"))?;
    let program = program.ok_or(
        "SKIPPED: there is no Go on this machine. Install Go 1.26 or newer \
         (https://go.dev/dl) and call again.",
    )?;
    let mut sides = vec![("inkstone", inkstone_binary(options.binary.as_deref())?)];
    if !options.without_etcd {
        sides.push(("etcd", etcd::binary("etcd")?));
    }
    let machine = Machine::here()?;
    let mut page = format!(
        "# A client that asks for very much at once, {}\n\n\
         {}. One client of etcd's Go library (client/v3 3.7.3, grpc-go); servers with \
         default flags, on fresh directories; {} threads kept the cores busy;  \
         leases were renewed for {} s. Written by `cargo trials strain`.\n",
        machine.date,
        machine.line(),
        options.busy,
        options.seconds
    );
    for scene in scenes::all(options.seconds) {
        if !scene.name.contains(&options.only) {
            continue;
        }
        let (mut heads, mut rows) = (Vec::new(), Vec::new());
        for round in 0..options.rounds {
            for turn in 0..sides.len() {
                let (side, binary) = &sides[(turn + round) % sides.len()];
                println!("{}, round {}, {side}", scene.name, round + 1);
                let findings = play(&scene, &program, binary, options)?;
                println!("  {findings}");
                let side = (String::new(), (*side).to_owned());
                let cells = [side].into_iter().chain(findings.rows);
                let (names, row): (Vec<String>, Vec<String>) = cells.unzip();
                rows.push(row);
                heads = names;
            }
        }
        let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
        let table = report::table(&heads, rows);
        page.push_str(&format!("\n## {}\n\n{table}", scene.name));
    }
    let records = root().join("lab/records");
    let records = options.records.as_ref().unwrap_or(&records);
    report::record(Some(records), &machine, "strain", &page)
}

/// One scene on fresh servers.
fn play(scene: &Scene, program: &Path, binary: &Path, options: &Options) -> Outcome<Report> {
    let folder = servers::folder(options.directory.as_deref())?;
    let mut servers = Servers::start_in(folder, binary, scene.members, &["--log-level=error"])?;
    servers.settle()?;
    let asked = match scene.asked {
        Asked::Leader => servers.cluster.leader(),
        Asked::Follower => servers.cluster.follower(),
    };
    let mut command = Command::new(program);
    command.args([scene.verb, asked.client_address()]);
    command.args(&scene.words);
    let printed = while_busy(options.busy, || capture(&mut command))?;
    let mut findings = findings::read(scene.verb, &printed)?;
    let peak = servers.resident_bytes_peak()? >> 20;
    findings.add("most memory of a member", format!("{peak} MiB"));
    servers.cluster.stop_all()?;
    Ok(findings)
}

/// Runs `something` while `threads` threads compute without a pause.
fn while_busy<T>(threads: usize, something: impl FnOnce() -> T) -> T {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let outcome = something();
        over.store(true, Ordering::Relaxed);
        outcome
    })
}
