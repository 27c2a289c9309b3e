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
mod totals;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use environment::randomness::Random;
use etcd_api::etcdserverpb::{CompactionRequest, kv_client::KvClient};
use harness::Signal;
use history::{Entry, Moment, Operation, Outcome as Known, Restarts};
use tokio::{
    task::JoinHandle,
    time::{sleep, timeout},
};
use tonic::{Code, transport::Channel};

use crate::{
    caller::Caller,
    client,
    live_line::Progress,
    load::{self, Keys, Mix},
    machine::Machine,
    member::Member,
    options::{Common, until_interrupted},
    process::{Outcome, is_root},
    recorder::Recorder,
    report,
    volume::{self, Volume},
};
use totals::Totals;

/// Time limit for calls that the server should answer at once.
const PATIENCE: Duration = Duration::from_secs(60);
/// Size of the image of the file system.
const VOLUME_BYTES: u64 = 8 << 30;
const LOAD_MILLISECONDS_MAX: u64 = 500;
const DRAINING: Duration = Duration::from_millis(20);
/// Longest time for which the server continues to run without its disk.
const AFTERMATH_MILLISECONDS_MAX: u64 = 40;
const CLIENTS: u32 = 16;
/// Number of the client that reads everything after a restart.
const READER: u32 = 1_000;

#[derive(clap::Args)]
pub struct Options {
    /// Kills or power cuts
    #[arg(long, default_value_t = 100)]
    cycles: u32,
    #[command(flatten)]
    common: Common,
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
    let mut volume = Volume::create(VOLUME_BYTES)?;
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
    let seed = options.common.seed;
    let program = options.common.program()?;
    println!("{}, seed {seed}", Machine::here()?.line());
    let mut trial = Trial {
        server: Member::alone(program, root, outside)?,
        volume,
        random: Random::from_seed(seed),
        restarts: Restarts::default(),
        totals: Totals::default(),
        clients: options.common.clients.unwrap_or(CLIENTS),
        recorder: Arc::new(Recorder::new()),
        compacted: None,
    };
    let ended = until_interrupted(trial.cycles(options.cycles));
    println!("\n{}", trial.totals.table(volume.is_some()));
    let cycle = trial.totals.cycles + 1;
    ended.map_err(|error| format!("cycle {cycle}, seed {seed}: {error}").into())
}

/// State that lasts longer than one cycle.
struct Trial<'a> {
    server: Arc<Member>,
    /// The file system that loses its power; without one the server is only killed.
    volume: Option<&'a Volume>,
    random: Random,
    restarts: Restarts,
    totals: Totals,
    clients: u32,
    /// Of the present cycle.
    recorder: Arc<Recorder>,
    /// The last acknowledged compaction.
    compacted: Option<i64>,
}

/// When a server lost its disk, and when it ran on.
type Aftermath = (Moment, Moment);

impl Trial<'_> {
    async fn cycles(&mut self, cycles: u32) -> Outcome {
        let mut progress = Progress::begin();
        self.server.start_and_wait()?;
        for cycle in 1..=cycles {
            let aftermath = self.load_and_end().await?;
            if let Some(volume) = self.volume {
                volume.remount()?;
                self.totals.cuts_that_bit += u64::from(volume.lost_unsynced()?);
            }
            self.restart_and_judge(aftermath).await?;
            self.totals.cycles = cycle;
            progress.show(&self.totals.line(cycles));
        }
        if self.volume.is_some() && cycles > 0 && self.totals.cuts_that_bit == 0 {
            return Err("no cut took the unsynced file: nothing was proved".into());
        }
        Ok(())
    }

    /// Clients write until the server is gone; a refused write before that fails the trial.
    async fn load_and_end(&mut self) -> Outcome<Option<Aftermath>> {
        self.recorder = Arc::new(Recorder::new());
        let recorder = Arc::clone(&self.recorder);
        let mix = Mix::new(self.clients, None, keys, |_| PATIENCE);
        let members = [Arc::clone(&self.server)];
        let load = mix.start(&members, &recorder, &mut self.random, &self.restarts);
        let duration = Duration::from_millis(20 + self.random.below(LOAD_MILLISECONDS_MAX));
        let compaction = self.compact_now_and_then(duration);
        sleep(duration).await;
        let ending = recorder.moment();
        let aftermath = match self.volume {
            Some(volume) => self.cut(volume).await?,
            None => None,
        };
        self.server.server().kill()?;
        recorder.end();
        load::join(load.tasks, PATIENCE, "a client's write").await?;
        if let Some((revision, compaction)) = compaction
            && compaction.await?
        {
            self.totals.compactions += 1;
            self.compacted = Some(revision);
        }
        match recorder.first_errors().first() {
            Some((at, error)) if *at < ending => {
                Err(format!("refused before the end: {error}").into())
            }
            _ => Ok(aftermath),
        }
    }

    /// Freezes the server, cuts the power, and sometimes lets the server run without its disk.
    async fn cut(&mut self, volume: &Volume) -> Outcome<Option<Aftermath>> {
        let pid = self.server.process().ok_or("no process runs")?;
        volume.write_unsynced()?;
        freeze::freeze(pid)?;
        volume.cut()?;
        let cut = self.recorder.moment();
        if !self.random.chance(1, 4) {
            return Ok(None);
        }
        // In this time, answers from before the freeze arrive.
        sleep(DRAINING).await;
        let ran_on = self.recorder.moment();
        self.server.signal(Signal::CONT)?;
        let more = self.random.below(AFTERMATH_MILLISECONDS_MAX);
        sleep(Duration::from_millis(more)).await;
        self.totals.ran_on += 1;
        Ok(Some((cut, ran_on)))
    }

    /// In one of three cycles, compacts the history so far at a random moment. The task returns
    /// whether the server acknowledged it.
    fn compact_now_and_then(&mut self, within: Duration) -> Option<(i64, JoinHandle<bool>)> {
        let revision = self.restarts.newest();
        if !self.random.chance(1, 3) || revision == self.restarts.floor() {
            return None;
        }
        self.restarts.may_be_compacted(revision);
        let delay = Duration::from_micros(self.random.below(within.as_micros() as u64));
        // With the server killed, the answer to a physical one would rarely be there in time.
        let physical = self.volume.is_none() && self.random.chance(1, 2);
        let (url, recorder) = (self.server.url(), Arc::clone(&self.recorder));
        let compact = async move {
            sleep(delay).await;
            let request = CompactionRequest { revision, physical };
            let mut client = KvClient::new(client::dial(url).await?);
            client.compact(request).await?;
            Outcome::Ok(())
        };
        let task = tokio::spawn(async move {
            let compacted = compact.await;
            let complain = |error| recorder.complain("compaction", error);
            compacted.map_err(complain).is_ok()
        });
        Some((revision, task))
    }

    /// Reads and judges everything, restarts once more, and compares the hashes.
    async fn restart_and_judge(&mut self, aftermath: Option<Aftermath>) -> Outcome {
        let started = Instant::now();
        self.server.start_and_wait()?;
        let all = self.read(0).await?;
        self.totals.restarts.push(started.elapsed());
        let Known::Done(answer) = &all.outcome else {
            return Err(format!("a read of all keys: {:?}", all.outcome).into());
        };
        let newest = answer.revision;
        let shown = self.shown(newest).await?;
        let operations = self.operations(aftermath);
        let verdict = self.restarts.judge(operations, shown);
        self.totals.add(&verdict, newest);
        if !verdict.violations.is_empty() {
            report::print_violations(&verdict.violations);
            return Err(format!("{} violations", verdict.violations.len()).into());
        }
        self.verify_compaction().await?;
        let before = self.hash().await?;
        match self.random.chance(1, 2) {
            true => drop(self.server.server().stop()?),
            false => self.server.server().kill()?,
        }
        self.server.start_and_wait()?;
        let after = self.hash().await?;
        if before != after {
            return Err(format!("HashKV moved over a restart: {before:?}, then {after:?}").into());
        }
        Ok(())
    }

    /// The recorded operations. A write that was sent before a cut and acknowledged after it may
    /// be absent: the kernel may have reported success for a flush that the cut interrupted
    /// (`freeze.rs` has the reason).
    fn operations(&mut self, aftermath: Option<Aftermath>) -> Vec<Operation> {
        let (mut operations, _) = self.recorder.take();
        let (cut, ran_on) = aftermath.unwrap_or((0, Moment::MAX));
        for operation in &mut operations {
            let is_overtaken = operation.called < cut && operation.returned >= ran_on;
            if is_overtaken && operation.answer().is_some() {
                self.totals.overtaken += 1;
                operation.outcome = Known::unknown("answered by a server without its disk");
            }
        }
        operations
    }

    async fn connect(&self) -> Outcome<Channel> {
        client::dial(self.server.url()).await
    }

    /// Reads all keys at a revision; 0: the newest.
    async fn read(&self, revision: i64) -> Outcome<Operation> {
        let members = [Arc::clone(&self.server)];
        let mut caller = Caller::to_one(READER, 0, &members, &self.recorder);
        let called = caller.call(client::read_of_all(revision), PATIENCE).await;
        called.ok_or_else(|| "no connection for a read of all keys".into())
    }

    /// Every revision after the floor.
    async fn shown(&self, newest: i64) -> Outcome<Vec<Entry>> {
        let first = self.restarts.floor() + 1;
        let shown = client::revisions(self.connect().await?, first, newest);
        let shown = timeout(PATIENCE, shown).await;
        shown.map_err(|_| format!("the history {first} to {newest} does not come"))?
    }

    /// Hash, and the revisions from and up to which it was computed.
    async fn hash(&self) -> Outcome<(u32, i64, i64)> {
        let hash = client::hash(self.connect().await?, 0);
        let hash = timeout(PATIENCE, hash).await??;
        Ok((hash.hash, hash.compact_revision, hash.hash_revision))
    }

    /// An acknowledged compaction is durable like any other write.
    async fn verify_compaction(&self) -> Outcome {
        let Some(compacted) = self.compacted.filter(|revision| *revision > 2) else {
            return Ok(());
        };
        let compacted_code = format!("{:?}", Code::OutOfRange);
        match self.read(compacted - 1).await?.outcome {
            Known::Refused { reason } if reason.starts_with(&compacted_code) => Ok(()),
            Known::Done(_) => {
                Err(format!("LOST compaction up to {compacted}, acknowledged").into())
            }
            other => Err(format!("a read of the past: {other:?}").into()),
        }
    }
}

/// The keys of a client.
fn keys(client: u32, _: &Recorder) -> Keys {
    Keys {
        prefix: format!("k/{client:03}/"),
        many: 200,
        value_bytes: |random| random.below(3_000),
        are_own: true,
    }
}
