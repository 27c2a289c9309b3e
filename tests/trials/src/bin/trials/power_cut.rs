//! Cuts the power below the real server, and checks that no acknowledged write is lost.
//!
//! ```text
//!   load ─► freeze ─► ext4 loses its power ─► kill -9 ─► mount ─► start ─► verify ─► start ─┐
//!    ▲                                                          (timed)            same sum │
//!    └──────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! `crash` cannot detect a missing sync, because the page cache survives a kill. Here the
//! file system loses everything that was not made durable, while clients write, delete, commit
//! transactions and compact. In some cycles the server continues to run for a moment without its
//! disk: it must not acknowledge a write that was sent after the cut.
//!
//! Each cut should also lose a file that was not synced; a run in which no cut did
//! has proved nothing and fails.

mod freeze;
mod history;
mod load;
mod store;
mod totals;
pub mod volume;

use std::{
    path::PathBuf,
    sync::{Arc, atomic::AtomicU64},
    time::{Duration, Instant},
};

use environment::randomness::Random;
use tokio::signal::unix::{SignalKind, signal};

use crate::{
    live_line,
    machine::Machine,
    process::{Outcome, inkstone_binary, is_root},
    server_process::{Program, Server},
};
use history::History;
use load::{Phase, Scene, Seen};
use store::Sum;
use totals::Totals;
use volume::Volume;

/// Time limit for calls that the server should answer at once.
const PATIENCE: Duration = Duration::from_secs(60);
/// Cycles between two lines if the output is not a terminal.
const LINE_CYCLES: u32 = 10;
const LOAD_MILLISECONDS_MAX: u64 = 500;
const DRAINING: Duration = Duration::from_millis(20);
/// Longest time for which the server continues to run without its disk.
const AFTERMATH_MILLISECONDS_MAX: u64 = 40;

#[derive(clap::Args)]
pub struct Options {
    /// Power cuts
    #[arg(long, default_value_t = 100)]
    cycles: u32,
    /// Clients at work at the same time
    #[arg(long, default_value_t = 16)]
    clients: u32,
    /// Decides the operations and the moments of the cuts
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The server to test; etcd's own binary works too [default: ours, built now]
    #[arg(long, value_name = "BINARY")]
    server: Option<PathBuf>,
    /// One more flag for the server. To test the trial itself, run etcd with
    /// `--server-flag=--unsafe-no-fsync`, which must fail
    #[arg(long, value_name = "FLAG", allow_hyphen_values = true)]
    server_flag: Vec<String>,
}

/// State that lasts longer than one cycle.
struct Trial {
    program: Program,
    random: Random,
    history: History,
    totals: Totals,
    /// Numbers the writes of all clients and cycles.
    counter: Arc<AtomicU64>,
    clients: u32,
    /// The last acknowledged compaction.
    compacted: Option<i64>,
}

pub fn run(options: &Options) -> Outcome {
    if !is_root() {
        return Err(
            "power-cut NEEDS ROOT: it mounts an ext4 and takes its power away. \
             NOTHING WAS TESTED. Build as yourself (`cargo build --release --bin inkstone`), \
             then run this verb as root with `--server target/release/inkstone`"
                .into(),
        );
    }
    let binary = inkstone_binary(options.server.as_deref())?;
    println!("{}, seed {}", Machine::here()?.line(), options.seed);
    volume::enter_private_namespace()?;
    let mut volume = Volume::create()?;
    let mut program = Program::new(&binary, &volume.root().join("data"));
    program.log = volume.outside().join("server.log");
    program.flags = options.server_flag.clone();
    let mut trial = Trial {
        program,
        random: Random::from_seed(options.seed),
        history: History::new(),
        totals: Totals::default(),
        counter: Arc::new(AtomicU64::new(1)),
        clients: options.clients,
        compacted: None,
    };
    let runtime = tokio::runtime::Runtime::new()?;
    let verdict = runtime.block_on(async {
        tokio::select! {
            verdict = trial.cycles(&volume, options.cycles) => Some(verdict),
            () = interruption() => None,
        }
    });
    println!("\n{}", trial.totals);
    match verdict {
        None => Err("interrupted; the mounts are gone".into()),
        Some(Err(error)) => {
            let image = volume.keep();
            let cycle = trial.totals.cycles + 1;
            let (seed, image) = (options.seed, image.display());
            Err(
                format!("cycle {cycle}, seed {seed}: {error}\nthe file system is kept, its log beside it: {image}")
                    .into(),
            )
        }
        Some(Ok(())) => Ok(()),
    }
}

/// Waits for Ctrl-C or SIGTERM.
async fn interruption() {
    let mut terminate = signal(SignalKind::terminate()).expect("SIGTERM can be caught");
    tokio::select! {
        _ = terminate.recv() => (),
        outcome = tokio::signal::ctrl_c() => outcome.expect("SIGINT can be caught"),
    }
}

impl Trial {
    async fn cycles(&mut self, volume: &Volume, cycles: u32) -> Outcome {
        let mut server = self.program.start()?;
        for cycle in 1..=cycles {
            let seen = self.load_and_cut(&mut server, volume).await?;
            volume.remount()?;
            self.totals.cuts_that_bit += u32::from(volume.lost_unsynced()?);
            server = self.restart_and_verify(&seen).await?;
            self.totals.cycles = cycle;
            self.print(cycles);
        }
        if cycles > 0 && self.totals.cuts_that_bit == 0 {
            return Err("no cut took the unsynced file: nothing was proved".into());
        }
        Ok(())
    }

    /// Clients write until the power and then the server is gone.
    async fn load_and_cut(&mut self, server: &mut Server, volume: &Volume) -> Outcome<Vec<Seen>> {
        let scene = Arc::new(Scene::new(server.url(), self.counter.clone()));
        let clients: Vec<_> = (0..self.clients)
            .map(|number| {
                let living = self.history.keys_of(number);
                let seed = self.random.next_u64();
                tokio::spawn(load::run(scene.clone(), number, living, seed))
            })
            .collect();
        let duration = Duration::from_millis(20 + self.random.below(LOAD_MILLISECONDS_MAX));
        let compaction = self.compact_now_and_then(&scene, duration);
        tokio::time::sleep(duration).await;
        self.cut(server, volume, &scene).await?;
        let mut seen = Vec::new();
        for client in clients {
            seen.push(client.await??);
        }
        if let Some((revision, compaction)) = compaction {
            let agreed = compaction.await??;
            self.totals.compactions += u32::from(agreed);
            self.compacted = agreed.then_some(revision).or(self.compacted);
        }
        Ok(seen)
    }

    /// Freezes the server, cuts the power, sometimes lets the server run without its disk, and
    /// kills it.
    async fn cut(&mut self, server: &mut Server, volume: &Volume, scene: &Scene) -> Outcome {
        volume.write_unsynced()?;
        scene.enter(Phase::Freezing);
        freeze::freeze(server.pid())?;
        volume.cut()?;
        scene.enter(Phase::Cut);
        if self.random.chance(1, 4) {
            // In this time, answers from before the freeze arrive.
            tokio::time::sleep(DRAINING).await;
            scene.enter(Phase::RunningOn);
            freeze::thaw(server.pid())?;
            let more = self.random.below(AFTERMATH_MILLISECONDS_MAX);
            tokio::time::sleep(Duration::from_millis(more)).await;
            self.totals.ran_on += 1;
        }
        server.kill()
    }

    /// In one of three cycles, compacts the history so far at a random moment.
    fn compact_now_and_then(
        &mut self,
        scene: &Arc<Scene>,
        within: Duration,
    ) -> Option<(i64, tokio::task::JoinHandle<Outcome<bool>>)> {
        let revision = self.history.newest();
        if !self.random.chance(1, 3) || revision == self.history.floor() {
            return None;
        }
        let delay = self.random.below(within.as_micros() as u64);
        self.history.may_be_compacted(revision);
        let delay = Duration::from_micros(delay);
        let task = tokio::spawn(load::compact(scene.clone(), revision, delay));
        Some((revision, task))
    }

    /// Verifies everything, restarts once more, and compares the sums.
    async fn restart_and_verify(&mut self, seen: &[Seen]) -> Outcome<Server> {
        let started = Instant::now();
        let mut server = self.program.start()?;
        let url = server.url();
        patiently("a first read", store::is_compacted(&url, 0)).await?;
        self.totals.restarts.push(started.elapsed());
        let read = store::read(&url, self.history.floor());
        let found = patiently("keys and history", read).await?;
        let verdict = self.history.verify(seen, &found);
        self.totals.add(&verdict);
        self.totals.revision = found.revision;
        if !verdict.faults.is_empty() {
            return Err(verdict.faults.join("\n").into());
        }
        self.verify_compaction(&url).await?;
        let before = patiently("HashKV", store::sum(&url)).await?;
        match self.random.chance(1, 2) {
            true => server.stop()?,
            false => server.kill()?,
        }
        let server = self.program.start()?;
        let after = patiently("HashKV", store::sum(&server.url())).await?;
        same(before, after)?;
        Ok(server)
    }

    /// An acknowledged compaction is durable like any other write.
    async fn verify_compaction(&self, url: &str) -> Outcome {
        let Some(compacted) = self.compacted.filter(|revision| *revision > 2) else {
            return Ok(());
        };
        let is_compacted = store::is_compacted(url, compacted - 1);
        match patiently("a read of the past", is_compacted).await? {
            true => Ok(()),
            false => Err(format!("LOST compaction up to {compacted}, acknowledged").into()),
        }
    }

    fn print(&self, cycles: u32) {
        let cycle = self.totals.cycles;
        let matters = cycle.is_multiple_of(LINE_CYCLES) || cycle == cycles;
        live_line::show(&self.totals.line(cycles), matters);
    }
}

async fn patiently<T>(what: &str, answer: impl Future<Output = Outcome<T>>) -> Outcome<T> {
    let answer = tokio::time::timeout(PATIENCE, answer).await;
    let answer = answer.map_err(|_| format!("{what}: no answer in {} s", PATIENCE.as_secs()))?;
    Ok(answer.map_err(|error| format!("{what}: {error}"))?)
}

fn same(before: Sum, after: Sum) -> Outcome {
    if before != after {
        return Err(format!("HashKV moved over a restart: {before:?}, then {after:?}").into());
    }
    Ok(())
}
