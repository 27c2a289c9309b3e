//! Ends the server's process under load, again and again, and checks that no acknowledged
//! write is lost: by kill -9, or with the power of its file system.
//!
//! ```text
//!   load ─► kill -9, or: freeze ─► ext4 loses its power ─► kill -9 ─► mount ─┐
//!    ▲                                                                       ▼
//!    └───────────── start: same hash ◄─ end ◄─ judge ◄─ read all ◄─ start (timed)
//! ```
//!
//! Each client owns its keys and has one write in progress. After a restart the store must
//! show each acknowledged write at its revision, of the others each one whole or not at all,
//! and no gap; the keys must be the result of that history ([`Restarts`]).
//!
//! A kill alone cannot detect a missing sync, because the page cache survives it. A cut loses
//! everything that was not made durable. In some cycles the server continues to run for a
//! moment without its disk: it must not acknowledge a write that was sent after the cut. Each
//! cut should also lose a file that was not synced; a run in which no cut did has proved
//! nothing and fails.

mod freeze;
mod load;
mod totals;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use environment::randomness::Random;
use harness::{Member, MemberConfig, Program, initial_cluster};
use history::{Entry, Operation, Outcome as Known, Restarts};
use tokio::{
    signal::unix::{SignalKind, signal},
    task::JoinHandle,
};
use tonic::{Code, transport::Channel};

use crate::{
    client, live_line,
    machine::Machine,
    process::{Outcome, inkstone_binary, is_root},
    recorder::Recorder,
    volume::{self, Volume},
};
use load::{Load, Phase};
use totals::Totals;

/// Time limit for calls that the server should answer at once.
const PATIENCE: Duration = Duration::from_secs(60);
/// Cycles between two lines if the output is not a terminal.
const LINE_CYCLES: u32 = 10;
const LOAD_MILLISECONDS_MAX: u64 = 500;
const DRAINING: Duration = Duration::from_millis(20);
/// Longest time for which the server continues to run without its disk.
const AFTERMATH_MILLISECONDS_MAX: u64 = 40;
/// Most violations that an error shows.
const SHOWN_MAX: usize = 20;
/// Number of the client that reads everything after a restart.
const READER: u32 = 1_000;

#[derive(clap::Args)]
pub struct Options {
    /// Kills or power cuts
    #[arg(long, default_value_t = 100)]
    cycles: u32,
    /// Clients at work at the same time
    #[arg(long, default_value_t = 16)]
    clients: u32,
    /// Decides the operations and the moments of the ends
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The server to test; etcd's own binary works too [default: ours, built now]
    #[arg(long, value_name = "BINARY", alias = "binary")]
    server: Option<PathBuf>,
    /// One more flag for the server. To test the trial itself, cut the power of etcd with
    /// `--server-flag=--unsafe-no-fsync`, which must fail
    #[arg(long, value_name = "FLAG", allow_hyphen_values = true)]
    server_flag: Vec<String>,
}

#[derive(clap::Args)]
pub struct CrashOptions {
    #[command(flatten)]
    all: Options,
    /// Where to keep the data; must not exist [default: a new temporary folder]
    #[arg(long)]
    directory: Option<PathBuf>,
}

/// Kills the server again and again.
pub fn crash(options: &CrashOptions) -> Outcome {
    let temporary = tempfile::tempdir()?;
    let place = match &options.directory {
        Some(directory) if directory.exists() => {
            return Err(format!("{} exists; name a new directory", directory.display()).into());
        }
        Some(directory) => directory.clone(),
        None => temporary.path().to_owned(),
    };
    std::fs::create_dir_all(&place)?;
    let outcome = run(&options.all, &place, &place, None);
    if outcome.is_err() && options.directory.is_none() {
        eprintln!("data and log are kept in {}", temporary.keep().display());
    }
    outcome
}

/// Cuts the power of the server's file system again and again.
pub fn power_cut(options: &Options) -> Outcome {
    if !is_root() {
        return Err(
            "power-cut NEEDS ROOT: it mounts an ext4 and takes its power away. \
             NOTHING WAS TESTED. Build as yourself (`cargo build --release --bin inkstone`), \
             then run this verb as root with `--server target/release/inkstone`"
                .into(),
        );
    }
    volume::enter_private_namespace()?;
    let mut volume = Volume::create()?;
    let (root, outside) = (volume.root(), volume.outside().to_owned());
    let outcome = run(options, &root, &outside, Some(&volume));
    outcome.map_err(|error| {
        let image = volume.keep();
        let image = image.display();
        format!("{error}\nthe file system is kept, its log beside it: {image}").into()
    })
}

/// Runs all cycles with the data below `root` and the log below `outside`.
fn run(options: &Options, root: &Path, outside: &Path, volume: Option<&Volume>) -> Outcome {
    let binary = inkstone_binary(options.server.as_deref())?;
    println!("{}, seed {}", Machine::here()?.line(), options.seed);
    let mut config = MemberConfig::on_reserved_ports("server", root)?;
    config.log = outside.join("server.log");
    config.initial_cluster = initial_cluster([&config]);
    let program = Program::new(binary).with(&options.server_flag);
    let recorder = Arc::new(Recorder::new());
    let mut trial = Trial {
        server: Member::new(program, config),
        volume,
        random: Random::from_seed(options.seed),
        restarts: Restarts::default(),
        totals: Totals::new(volume.is_some()),
        clients: options.clients,
        recorder,
        compacted: None,
    };
    let runtime = tokio::runtime::Runtime::new()?;
    let ended = runtime.block_on(async {
        tokio::select! {
            ended = trial.cycles(options.cycles) => ended,
            () = interruption() => Err("interrupted".into()),
        }
    });
    println!("\n{}", trial.totals);
    let cycle = trial.totals.cycles + 1;
    ended.map_err(|error| format!("cycle {cycle}, seed {}: {error}", options.seed).into())
}

/// Waits for Ctrl-C or SIGTERM.
async fn interruption() {
    let mut terminate = signal(SignalKind::terminate()).expect("SIGTERM can be caught");
    tokio::select! {
        _ = terminate.recv() => (),
        outcome = tokio::signal::ctrl_c() => outcome.expect("SIGINT can be caught"),
    }
}

/// State that lasts longer than one cycle.
struct Trial<'a> {
    server: Member,
    /// The file system that loses its power; without one the server is only killed.
    volume: Option<&'a Volume>,
    random: Random,
    restarts: Restarts,
    totals: Totals,
    clients: u32,
    recorder: Arc<Recorder>,
    /// The last acknowledged compaction.
    compacted: Option<i64>,
}

impl Trial<'_> {
    async fn cycles(&mut self, cycles: u32) -> Outcome {
        self.server.start_and_wait()?;
        for cycle in 1..=cycles {
            self.load_and_end().await?;
            if let Some(volume) = self.volume {
                volume.remount()?;
                self.totals.cuts_that_bit += u32::from(volume.lost_unsynced()?);
            }
            self.restart_and_judge().await?;
            self.totals.cycles = cycle;
            let matters = cycle.is_multiple_of(LINE_CYCLES) || cycle == cycles;
            live_line::show(&self.totals.line(cycles), matters);
        }
        if self.volume.is_some() && cycles > 0 && self.totals.cuts_that_bit == 0 {
            return Err("no cut took the unsynced file: nothing was proved".into());
        }
        Ok(())
    }

    /// Clients write until the server is gone.
    async fn load_and_end(&mut self) -> Outcome {
        let load = Arc::new(Load::new(self.server.client_url(), &self.recorder));
        let clients: Vec<_> = (0..self.clients)
            .map(|number| {
                let prefix = load::prefix_of(number);
                let keys = self.restarts.keys();
                let keys = keys.filter(|key| key.starts_with(&prefix));
                let keys = keys.map(str::to_owned).collect();
                let seed = self.random.next_u64();
                tokio::spawn(load::write(load.clone(), number, keys, seed))
            })
            .collect();
        let duration = Duration::from_millis(20 + self.random.below(LOAD_MILLISECONDS_MAX));
        let compaction = self.compact_now_and_then(&load, duration);
        tokio::time::sleep(duration).await;
        load.enter(Phase::Ending);
        match self.volume {
            Some(volume) => self.cut(volume, &load).await?,
            None => self.server.kill()?,
        }
        for client in clients {
            self.totals.overtaken += client.await??;
        }
        if let Some((revision, compaction)) = compaction {
            let agreed = compaction.await??;
            self.totals.compactions += u32::from(agreed);
            self.compacted = agreed.then_some(revision).or(self.compacted);
        }
        Ok(())
    }

    /// Freezes the server, cuts the power, sometimes lets the server run without its disk, and
    /// kills it.
    async fn cut(&mut self, volume: &Volume, load: &Load) -> Outcome {
        let pid = self.server.pid().ok_or("no process runs")?;
        volume.write_unsynced()?;
        freeze::freeze(pid)?;
        volume.cut()?;
        load.enter(Phase::Cut);
        if self.random.chance(1, 4) {
            // In this time, answers from before the freeze arrive.
            tokio::time::sleep(DRAINING).await;
            load.enter(Phase::RunningOn);
            freeze::thaw(pid)?;
            let more = self.random.below(AFTERMATH_MILLISECONDS_MAX);
            tokio::time::sleep(Duration::from_millis(more)).await;
            self.totals.ran_on += 1;
        }
        self.server.kill()
    }

    /// In one of three cycles, compacts the history so far at a random moment.
    fn compact_now_and_then(
        &mut self,
        load: &Arc<Load>,
        within: Duration,
    ) -> Option<(i64, JoinHandle<Outcome<bool>>)> {
        let revision = self.restarts.newest();
        if !self.random.chance(1, 3) || revision == self.restarts.floor() {
            return None;
        }
        self.restarts.may_be_compacted(revision);
        let delay = Duration::from_micros(self.random.below(within.as_micros() as u64));
        // With the server killed, the answer to a physical one would rarely be there in time.
        let physical = self.volume.is_none() && self.random.chance(1, 2);
        let task = load::compact(load.clone(), revision, physical, delay);
        Some((revision, tokio::spawn(task)))
    }

    /// Reads and judges everything, restarts once more, and compares the hashes.
    async fn restart_and_judge(&mut self) -> Outcome {
        let started = Instant::now();
        self.server.start_and_wait()?;
        let channel = self.connect().await?;
        let all = self.read(&channel, 0).await;
        self.totals.restarts.push(started.elapsed());
        let Known::Done(answer) = &all.outcome else {
            return Err(format!("a read of all keys: {:?}", all.outcome).into());
        };
        let newest = answer.revision;
        let shown = self.shown(channel.clone(), newest).await?;
        let (operations, _) = self.recorder.take();
        let verdict = self.restarts.judge(operations, shown);
        self.totals.add(&verdict, newest);
        if !verdict.violations.is_empty() {
            let shown = verdict.violations.iter().take(SHOWN_MAX);
            let shown: Vec<String> = shown.map(ToString::to_string).collect();
            let many = verdict.violations.len();
            return Err(format!("{many} violations\n{}", shown.join("\n")).into());
        }
        self.verify_compaction(&channel).await?;
        let before = self.hash().await?;
        match self.random.chance(1, 2) {
            true => drop(self.server.stop()?),
            false => self.server.kill()?,
        }
        self.server.start_and_wait()?;
        let after = self.hash().await?;
        if before != after {
            let (before, after) = (format!("{before:?}"), format!("{after:?}"));
            return Err(format!("HashKV moved over a restart: {before}, then {after}").into());
        }
        Ok(())
    }

    async fn connect(&self) -> Outcome<Channel> {
        client::dial(self.server.client_url()).await
    }

    /// Reads all keys at a revision; 0: the newest.
    async fn read(&self, channel: &Channel, revision: i64) -> Operation {
        let all = client::read_of_all(revision);
        client::ask((READER, 0), channel, all, PATIENCE, &self.recorder).await
    }

    /// Every revision after the floor.
    async fn shown(&self, channel: Channel, newest: i64) -> Outcome<Vec<Entry>> {
        let first = self.restarts.floor() + 1;
        let shown = client::revisions(channel, first, newest);
        let shown = tokio::time::timeout(PATIENCE, shown).await;
        shown.map_err(|_| format!("the history {first} to {newest} does not come"))?
    }

    /// Hash, and the revisions from and up to which it was computed.
    async fn hash(&self) -> Outcome<(u32, i64, i64)> {
        let hash = client::hash(self.connect().await?, 0);
        let hash = tokio::time::timeout(PATIENCE, hash).await??;
        Ok((hash.hash, hash.compact_revision, hash.hash_revision))
    }

    /// An acknowledged compaction is durable like any other write.
    async fn verify_compaction(&self, channel: &Channel) -> Outcome {
        let Some(compacted) = self.compacted.filter(|revision| *revision > 2) else {
            return Ok(());
        };
        let compacted_code = format!("{:?}", Code::OutOfRange);
        match self.read(channel, compacted - 1).await.outcome {
            Known::Refused { reason } if reason.starts_with(&compacted_code) => Ok(()),
            Known::Done(_) => {
                Err(format!("LOST compaction up to {compacted}, acknowledged").into())
            }
            other => Err(format!("a read of the past: {other:?}").into()),
        }
    }
}
