//! Checks that a server under a long mixed load does not grow.
//!
//! ```text
//!   start ─► base ─► load: writers, visitors, watchers, leases, compaction ─► end ─► rest
//!            threads,      each second: memory, threads, files, CPU, data            threads,
//!            files                                                                   files
//! ```
//!
//! The test passes if the straight line through the resident memory of the last half
//! rises by less than a given slope, threads and files are back at the base
//! after the load, no lease and no key of a lease is left, and no call was
//! refused that a healthy server answers. The load is paced, because a leak
//! shows in calls, not in calls per second.

mod diary;
mod leases;
mod sample;
mod scene;
mod trend;
mod watchers;
mod writers;

use std::{
    path::PathBuf,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use environment::randomness::Random;
use harness::{Member, Program};
use tokio::{task::JoinSet, time::MissedTickBehavior};

use crate::{
    live_line,
    machine::Machine,
    process::{Outcome, inkstone_binary},
};
use diary::Diary;
use sample::{Sample, Subject};
use scene::Scene;

const SECOND: Duration = Duration::from_secs(1);
/// Time limit for idle threads and connections to end.
const REST_SECONDS: u32 = 60;
/// Seconds between two lines if the output is not a terminal.
const LINE_SECONDS: u64 = 30;
const WATCHERS: u32 = 8;
const SULKERS: u32 = 3;

#[derive(clap::Args)]
pub struct Options {
    /// How long the load lasts; below about 6 the last half is still warm-up
    #[arg(long, default_value_t = 10)]
    minutes: u64,
    /// Operations per second of all writers together
    #[arg(long, default_value_t = 2_000)]
    rate: u32,
    /// Clients that read and write
    #[arg(long, default_value_t = 8)]
    clients: u32,
    /// Growth of resident memory in the last half that still counts as flat, in
    /// KiB per minute
    #[arg(long, default_value_t = 1_024)]
    slope_kib: u32,
    /// Decides the operations
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Writes every second's figures
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// The server to test; etcd's own binary works too [default: ours, built now]
    #[arg(long, value_name = "BINARY")]
    server: Option<PathBuf>,
}

/// Samples of the server before and after the load.
struct Frame {
    base: Sample,
    rest: Sample,
    files_on_disk: u64,
    leases_left: (usize, i64),
}

pub fn run(options: &Options) -> Outcome {
    let binary = inkstone_binary(options.server.as_deref())?;
    println!("{}", Machine::here()?.line());
    let temporary = tempfile::tempdir()?;
    let runtime = tokio::runtime::Runtime::new()?;
    let mut diary = Diary::default();
    let server = Member::alone(Program::new(binary), temporary.path())?;
    let scene = Arc::new(Scene::new(server.client_url()));
    let frame = runtime.block_on(async {
        tokio::select! {
            frame = soak(options, &server, &scene, &mut diary) => frame,
            _ = tokio::signal::ctrl_c() => Err("interrupted".into()),
        }
    });
    println!("\n{}", diary.table());
    println!("{}", counts(&scene));
    if let Some(path) = &options.csv {
        diary.write_csv(path)?;
    }
    let faults = judge(options, &scene, &diary, &frame?);
    if !faults.is_empty() {
        return Err(format!("NOT FLAT: {}", faults.join("; ")).into());
    }
    println!("verdict: flat");
    Ok(())
}

async fn soak(
    options: &Options,
    server: &Member,
    scene: &Arc<Scene>,
    diary: &mut Diary,
) -> Outcome<Frame> {
    let subject = Subject {
        process: server.pid().ok_or("no process runs")?,
        data: server.config.data.clone(),
    };
    leases::left(scene).await?;
    tokio::time::sleep(2 * SECOND).await;
    let base = subject.sample()?;
    let tasks = start_load(options, scene);
    watch_over(options, &subject, scene, diary).await?;
    scene.end();
    end_load(tasks).await?;
    let (rest, leases_left) = rest(scene, &subject, &base).await?;
    Ok(Frame {
        base,
        rest,
        files_on_disk: subject.files_on_disk()?,
        leases_left,
    })
}

fn start_load(options: &Options, scene: &Arc<Scene>) -> JoinSet<Outcome> {
    let mut random = Random::from_seed(options.seed);
    let interval = SECOND * options.clients.max(1) / options.rate.max(1);
    let mut tasks = JoinSet::new();
    for number in 0..options.clients {
        let seed = random.next_u64();
        tasks.spawn(writers::work(scene.clone(), number, seed, interval));
    }
    for _ in 0..WATCHERS {
        tasks.spawn(watchers::read(scene.clone(), random.next_u64()));
    }
    for _ in 0..SULKERS {
        tasks.spawn(watchers::sulk(scene.clone(), random.next_u64()));
    }
    tasks.spawn(writers::visit(
        scene.clone(),
        options.clients,
        random.next_u64(),
    ));
    tasks.spawn(writers::compact(scene.clone()));
    tasks.spawn(leases::grant(scene.clone(), random.next_u64()));
    tasks
}

/// Samples the server each second until the time is over.
async fn watch_over(
    options: &Options,
    subject: &Subject,
    scene: &Scene,
    diary: &mut Diary,
) -> Outcome {
    let mut ticks = tokio::time::interval(SECOND);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.tick().await;
    let mut before = Instant::now();
    for second in 1..=options.minutes * 60 {
        ticks.tick().await;
        let took = before.elapsed();
        before = Instant::now();
        let entry = diary.note(scene, subject.sample()?, took.as_secs_f64());
        let errors = scene.errors.load(Ordering::Relaxed);
        let (minutes, seconds) = (second / 60, second % 60);
        let line = format!(
            "{minutes:>3}:{seconds:02}  {}  {errors} errors",
            entry.line()
        );
        live_line::show(&line, second.is_multiple_of(LINE_SECONDS));
    }
    Ok(())
}

/// Waits for the calls of the load; a call without an answer within the time limit is a fault.
async fn end_load(mut tasks: JoinSet<Outcome>) -> Outcome {
    let ends = async {
        while let Some(task) = tasks.join_next().await {
            task??;
        }
        Ok(())
    };
    match tokio::time::timeout(REST_SECONDS * SECOND, ends).await {
        Ok(ended) => ended,
        Err(_) => Err(format!("some calls got no answer within {REST_SECONDS} s").into()),
    }
}

/// Waits until the server has its base values again, or the time limit is over.
async fn rest(scene: &Scene, subject: &Subject, base: &Sample) -> Outcome<(Sample, (usize, i64))> {
    let mut second = 0;
    loop {
        let left = leases::left(scene).await?;
        // What that took is to be gone too before we look.
        tokio::time::sleep(SECOND).await;
        let sample = subject.sample()?;
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

/// Errors; empty if the server did not grow.
fn judge(options: &Options, scene: &Scene, diary: &Diary, frame: &Frame) -> Vec<String> {
    let (base, rest) = (&frame.base, &frame.rest);
    let slope = diary.memory_slope_kib();
    println!(
        "last half: resident memory {slope:+.0} KiB/min (flat: below {}), data {:+.1} MiB/min\n\
         base: {} threads, {:?}, {:.1} MiB\n\
         rest: {} threads, {:?}, {:.1} MiB, {} files on disk",
        options.slope_kib,
        diary.data_slope_mib(),
        base.threads,
        base.files,
        base.resident_kib as f64 / 1024.0,
        rest.threads,
        rest.files,
        rest.resident_kib as f64 / 1024.0,
        frame.files_on_disk,
    );
    let checks = [
        (slope >= f64::from(options.slope_kib), "memory grows"),
        (rest.threads > base.threads, "threads stay"),
        (rest.files.other > base.files.other, "sockets stay"),
        (rest.files.removed > 0, "removed files stay open"),
        // One to write and one to read.
        (rest.files.data > 2 * frame.files_on_disk, "files stay open"),
        (frame.leases_left != (0, 0), "leases or their keys stay"),
    ];
    let faults = checks.into_iter().filter(|(wrong, _)| *wrong);
    let faults = faults.map(|(_, fault)| fault.to_owned());
    faults.chain(scene.stories()).collect()
}

fn counts(scene: &Scene) -> String {
    format!(
        "{} operations, {} errors, {} events, {} watches, {} leases, {} compactions, \
         {} connections, revision {}",
        scene.operations.load(Ordering::Relaxed),
        scene.errors.load(Ordering::Relaxed),
        scene.events.load(Ordering::Relaxed),
        scene.watches.load(Ordering::Relaxed),
        scene.leases.load(Ordering::Relaxed),
        scene.compactions.load(Ordering::Relaxed),
        scene.connections.load(Ordering::Relaxed),
        scene.revision.load(Ordering::Relaxed),
    )
}
