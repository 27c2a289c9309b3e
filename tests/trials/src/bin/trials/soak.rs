//! Checks that a server under a long mixed load does not grow.
//!
//! ```text
//!   start ─► base ─► load: clients, watchers, leases, compaction ─► end ─► rest
//!            threads,      each second: memory, threads, files,            threads,
//!            files                      CPU, data                          files
//! ```
//!
//! The test passes if the straight line through the resident memory of the last half
//! rises by less than a given slope, threads and files are back at the base
//! after the load, no lease and no key of a lease is left, and no call was
//! refused that a healthy server answers. The load is paced, because a leak
//! shows in calls, not in calls per second.

mod diary;
mod sample;
mod trend;

use std::{
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use environment::randomness::Random;
use history::{Request, Restarts};
use tokio::time::MissedTickBehavior;

use crate::{
    caller::Caller,
    client::{self, Connection},
    live_line::Progress,
    load::{self, Keys, Mix, leases},
    machine::Machine,
    member::Member,
    options::{Common, until_interrupted},
    process::Outcome,
    recorder::Recorder,
};
use diary::Diary;
use sample::Sample;

const SECOND: Duration = Duration::from_secs(1);
/// Time limit for idle threads and connections to end.
const REST_SECONDS: u32 = 60;
const CLIENTS: u32 = 8;
const GLANCERS: u32 = 8;
const SULKERS: u32 = 3;
const LEASEHOLDERS: u32 = 24;
/// Each client opens a new connection once in this many calls.
const CALLS_EACH: u64 = 400;
/// Keys that are written again and again.
const KEYS: u64 = 10_000;
const VALUE_BYTES_MAX: u64 = 2_000;
const COMPACTION_INTERVAL: Duration = Duration::from_secs(3);
/// Revisions that stay readable.
const HISTORY_REVISIONS: i64 = 5_000;

#[derive(clap::Args)]
pub struct Options {
    /// How long the load lasts; below about 6 the last half is still warm-up
    #[arg(long, default_value_t = 10)]
    minutes: u64,
    /// Operations per second of all clients together
    #[arg(long, default_value_t = 2_000)]
    rate: u32,
    /// Growth of resident memory in the last half that still counts as flat, in
    /// KiB per minute
    #[arg(long, default_value_t = 1_024)]
    slope_kib: u32,
    /// Writes every second's figures
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    #[command(flatten)]
    common: Common,
}

/// Samples of the server before and after the load.
struct Frame {
    base: Sample,
    rest: Sample,
    /// Leases, and keys of leases.
    left: (usize, usize),
}

/// A server under load.
struct Trial<'a> {
    options: &'a Options,
    server: Arc<Member>,
    data: &'a Path,
    recorder: Arc<Recorder>,
}

pub fn run(options: &Options) -> Outcome {
    let program = options.common.program()?;
    println!("{}", Machine::here()?.line());
    let temporary = tempfile::tempdir()?;
    let data = temporary.path().join("server");
    let trial = Trial {
        options,
        server: Member::alone(program, temporary.path(), temporary.path())?,
        data: &data,
        recorder: Arc::new(Recorder::that_counts()),
    };
    let mut diary = Diary::default();
    let frame = until_interrupted(trial.soak(&mut diary));
    println!("\n{}\n{}", diary.table(), trial.recorder.tables());
    if let Some(path) = &options.csv {
        let written = std::fs::write(path, diary.csv());
        written.map_err(|error| format!("{}: {error}", path.display()))?;
    }
    let faults = trial.judge(&diary, &frame?);
    if !faults.is_empty() {
        return Err(format!("NOT FLAT: {}", faults.join("; ")).into());
    }
    println!("verdict: flat");
    Ok(())
}

/// The bounded space of keys.
fn keys(_: u32, _: &Recorder) -> Keys {
    Keys {
        prefix: "k/".to_owned(),
        many: KEYS,
        value_bytes: |random| random.below(VALUE_BYTES_MAX),
        are_own: false,
    }
}

impl Trial<'_> {
    async fn soak(&self, diary: &mut Diary) -> Outcome<Frame> {
        self.server.start_and_wait()?;
        self.leases_left().await?;
        tokio::time::sleep(2 * SECOND).await;
        let base = self.sample()?;
        let mix = Mix {
            calls_each: CALLS_EACH,
            leaseholders: LEASEHOLDERS,
            glancers: GLANCERS,
            sulkers: SULKERS,
            ..Mix::new(
                self.options.common.clients.unwrap_or(CLIENTS),
                Some(self.options.rate),
                keys,
                |_| REST_SECONDS * SECOND,
            )
        };
        let mut random = Random::from_seed(self.options.common.seed);
        let members = [Arc::clone(&self.server)];
        let mut load = mix.start(&members, &self.recorder, &mut random, &Restarts::default());
        let compacter = Caller::new(400, u64::MAX, &members, &self.recorder, 0);
        load.tasks.spawn(compact(compacter));
        self.watch_over(diary).await?;
        self.recorder.end();
        // A call without an answer within the time limit is a fault.
        load::join(load.tasks, REST_SECONDS * SECOND, "a client's call").await?;
        let (rest, left) = self.rest(&base).await?;
        Ok(Frame { base, rest, left })
    }

    fn sample(&self) -> Outcome<Sample> {
        let process = self.server.process().ok_or("no process runs")?;
        Sample::of(process, self.data)
    }

    /// Samples the server each second until the time is over.
    async fn watch_over(&self, diary: &mut Diary) -> Outcome {
        let mut ticks = tokio::time::interval(SECOND);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks.tick().await;
        let mut progress = Progress::begin();
        let mut before = Instant::now();
        for _ in 0..self.options.minutes * 60 {
            ticks.tick().await;
            let seconds = before.elapsed().as_secs_f64();
            before = Instant::now();
            let line = diary.note(&self.recorder, self.sample()?, seconds);
            progress.show(&format!("{line}  {} errors", self.recorder.errors()));
        }
        Ok(())
    }

    /// Waits until the server has its base values again, or the time limit is over.
    async fn rest(&self, base: &Sample) -> Outcome<(Sample, (usize, usize))> {
        let mut second = 0;
        loop {
            let left = self.leases_left().await?;
            // Memory and threads that this took must be free again before the last reading.
            tokio::time::sleep(SECOND).await;
            let sample = self.sample()?;
            let is_back = sample.threads <= base.threads
                && sample.files.other <= base.files.other
                && sample.files.removed == 0
                && left == (0, 0);
            second += 1;
            if is_back || second == REST_SECONDS {
                println!("\nat rest {second} s after the load: {left:?} leases and keys left");
                return Ok((sample, left));
            }
        }
    }

    /// How many leases and how many of their keys the server still has.
    async fn leases_left(&self) -> Outcome<(usize, usize)> {
        let channel = client::dial(self.server.url()).await?;
        let (key, end) = leases::RANGE;
        let keys = client::read(key, end, 0);
        let keys = Connection::over(channel.clone()).send(&keys).await?;
        Ok((client::leases(channel).await?, keys.versions.len()))
    }

    /// Errors; empty if the server did not grow.
    fn judge(&self, diary: &Diary, frame: &Frame) -> Vec<String> {
        let Frame { base, rest, left } = frame;
        let slope = diary.memory_slope_kib();
        let slope_max = self.options.slope_kib;
        println!(
            "last half: resident memory {slope:+.0} KiB/min (flat: below {slope_max}), \
             data {:+.1} MiB/min\nbase: {base}\nrest: {rest}\nrevision {}",
            diary.data_slope_mib(),
            self.recorder.revision.load(Ordering::Relaxed),
        );
        let checks = [
            (slope >= f64::from(slope_max), "memory grows"),
            (rest.threads > base.threads, "threads stay"),
            (rest.files.other > base.files.other, "sockets stay"),
            (rest.files.removed > 0, "removed files stay open"),
            // One to write and one to read.
            (rest.files.data > 2 * rest.files_on_disk, "files stay open"),
            (*left != (0, 0), "leases or their keys stay"),
        ];
        let faults = checks.into_iter().filter(|(wrong, _)| *wrong);
        let faults = faults.map(|(_, fault)| fault.to_owned());
        let errors = self.recorder.first_errors().into_iter();
        faults.chain(errors.map(|(_, error)| error)).collect()
    }
}

/// Compacts old history, until the end.
async fn compact(mut caller: Caller) -> Outcome {
    let recorder = Arc::clone(&caller.recorder);
    let mut compacted = 0;
    while !recorder.has_ended() {
        recorder.rest(COMPACTION_INTERVAL).await;
        let revision = recorder.revision.load(Ordering::Relaxed) - HISTORY_REVISIONS;
        if revision > compacted {
            let request = Request::Compact { revision };
            caller.call(request, REST_SECONDS * SECOND).await;
            compacted = revision;
        }
    }
    Ok(())
}
