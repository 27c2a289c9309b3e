//! Linearizability under faults: three real members, concurrent clients, and the faults
//! of machine rooms, while members are added and removed.
//!
//! ```text
//!   clients, leases, watchers ──gRPC, no retries──► a   b   c   (d)   own clock, own disk
//!        │ what they saw                            └──proxy──┘      each behind a proxy
//!        ▼                                               ▲
//!   history ─► checker, porcupine        rounds: 1 to 3 faults ─► healed ─► all agree
//! ```
//!
//! A seed decides the operations and the faults. The machine decides how they
//! interleave, so a seed repeats the mixture but not the run. The history of the run
//! is kept.
//!
//! `--broken` tests the trial itself: it builds members that serve reads without
//! confirming their lead, and succeeds if both judges find stale reads.

mod broken;
mod changes;
mod clock;
pub mod cross_check;
mod ending;
mod injector;
mod kinds;
mod links;
mod owner;
mod recovery;
mod rounds;
mod trial;

use std::{
    fs::File,
    io::{BufReader, BufWriter, Write},
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use clap::ValueEnum;
use environment::randomness::Random;
use harness::Program;
use history::{Entry, History, Restarts};

use crate::{
    load::{Keys, Mix},
    machine::Machine,
    options::{Common, until_interrupted},
    process::{Outcome, root},
    recorder::Recorder,
    report, values,
};
use cross_check::Verdict;
use kinds::Kind;
use trial::{Ground, Trial};

const FOLLOWERS: u32 = 2;
const GLANCERS: u32 = 3;
const LEASEHOLDERS: u32 = 3;
/// Clients sometimes change to another member.
const CALLS_EACH: u64 = 50;
const CLIENTS: u32 = 12;
const KEYS: u64 = 5;
const AGE_SECONDS: u64 = 10;

#[derive(clap::Args)]
pub struct Options {
    /// How long faults are injected
    #[arg(long, default_value_t = 5)]
    minutes: u64,
    #[command(flatten)]
    common: Common,
    /// Operations per second of all clients together, while there is no fault
    #[arg(long, default_value_t = 500)]
    rate: u32,
    /// Members serve reads without confirmation, which must be detected; builds them, or
    /// takes those of `--server`
    #[arg(long)]
    broken: bool,
    /// Only these faults, comma-separated, to find the one that matters
    #[arg(long, value_name = "FAULT", value_delimiter = ',')]
    only: Vec<Kind>,
    /// Where the history goes [default: target/faults/history-SEED.jsonl]
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,
    /// Only judges a history that was recorded before
    #[arg(long, value_name = "FILE", conflicts_with_all = ["server", "broken", "history"])]
    judge: Option<PathBuf>,
}

pub fn run(options: &Options) -> Outcome {
    let other = cross_check::prepare()?;
    if let Some(recorded) = &options.judge {
        let name = |error: &dyn std::error::Error| format!("{}: {error}", recorded.display());
        let file = File::open(recorded).map_err(|error| name(&error))?;
        let history = history::read(BufReader::new(file)).map_err(|error| name(&error))?;
        return judge(&history, recorded, other.as_deref(), false);
    }
    let program = match options.broken && options.common.server.is_none() {
        true => Program::new(broken::build()?).with(&options.common.server_flag),
        false => options.common.program()?,
    };
    // Small segments: a run fills, recycles and reads back many.
    let program = match program.is_etcd() {
        true => program,
        false => program.with(&["--segment-bytes=4194304"]),
    };
    std::fs::create_dir_all(root().join("target/faults"))?;
    println!("{}", Machine::here()?.line());
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let again = format!("repeat with: cargo trials {}", arguments.join(" "));
    println!("{again}");
    let ground = Ground::prepare(&options.only)?;
    let outcome = rehearse(options, &program, &ground, other.as_deref());
    if outcome.is_err() {
        let kept = ground.keep();
        eprintln!("kept: {kept:?}\n{again}");
    }
    outcome
}

/// Runs the trial, writes its history, and asks both judges.
fn rehearse(
    options: &Options,
    program: &Program,
    ground: &Ground,
    other: Option<&Path>,
) -> Outcome {
    let recorder = Arc::new(Recorder::new());
    let mut begun = None;
    let mut ended = until_interrupted(async {
        let trial = begun.insert(Trial::begin(program, ground, &recorder).await?);
        perform(options, trial).await
    });
    if let Some(trial) = begun.take() {
        println!("\n{}", tables(&trial));
    }
    let path = options.history.clone().unwrap_or_else(|| {
        let name = if options.broken { "broken" } else { "history" };
        let seed = options.common.seed;
        root().join(format!("target/faults/{name}-{seed}.jsonl"))
    });
    let (operations, watches) = recorder.take();
    let history = History {
        clock_error_percent: clock::FASTER_PERCENT_MAX,
        operations,
        watches,
        ledger: ended.as_mut().map(std::mem::take).unwrap_or_default(),
        ..History::default()
    };
    let file = File::create(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut file = BufWriter::new(file);
    history::write(&history, &mut file)?;
    file.flush()?;
    println!("the history is in {}", path.display());
    ended?;
    judge(&history, &path, other, options.broken)
}

/// Puts the load on the cluster, injects faults, and returns the history of all members.
async fn perform(options: &Options, trial: &Arc<Trial>) -> Outcome<Vec<Entry>> {
    recovery::Probe::new(1_000, trial)
        .all_members(trial)
        .await?;
    let mut random = Random::from_seed(options.common.seed);
    let clients = options.common.clients.unwrap_or(CLIENTS);
    let mix = Mix {
        calls_each: CALLS_EACH,
        leaseholders: LEASEHOLDERS,
        glancers: GLANCERS,
        followers: FOLLOWERS,
        ..Mix::new(clients, Some(options.rate), keys, patience)
    };
    let store = Restarts::default();
    let load = mix.start(&trial.members, &trial.recorder, &mut random, &store);
    if !trial.look_at_clocks() && options.broken {
        return Err("--broken needs a C compiler called cc, for slow clocks".into());
    }
    let length = Duration::from_secs(60 * options.minutes);
    rounds::run(trial, options.broken, length, random).await?;
    ending::end(trial, load).await
}

/// How long a client waits for an answer: mostly as long as clients do.
fn patience(random: &mut Random) -> Duration {
    Duration::from_millis(match random.below(10) {
        0 => random.below(100) + 10,
        1..=7 => random.below(2_000) + 500,
        _ => 9_000,
    })
}

/// The keys of the present ten seconds. So the history of a key stays small enough for a
/// checker that tries orders, and requests for the old keys that are still in progress are
/// tested too.
fn keys(_: u32, recorder: &Recorder) -> Keys {
    Keys {
        prefix: format!("k{:05}/", recorder.elapsed().as_secs() / AGE_SECONDS),
        many: KEYS,
        value_bytes: values::mostly_small,
        are_own: false,
    }
}

/// Tables of the faults that were injected and not tried, and a line on the run.
fn tables(trial: &Trial) -> String {
    let recorder = &trial.recorder;
    let missing = trial.missing.lock().expect("no holder panics");
    let done = recorder.counted("fault");
    let kinds = Kind::value_variants().iter();
    let not_done = kinds.filter(|kind| !done.contains_key(&kind.name()));
    let not_done = not_done.map(|kind| {
        let why = missing.why(*kind).unwrap_or("not drawn, or prevented");
        vec![kind.name(), why.to_owned()]
    });
    let readings = trial.clocks.iter().map(|it| it.readings().unwrap_or(0));
    format!(
        "{}\n{}\n{:.0} s, {} events watched, {} MiB between members, {} readings of clocks of \
         their own",
        recorder.tables(),
        report::table(&["fault", "not tried, because"], not_done),
        recorder.elapsed().as_secs_f64(),
        recorder.events.load(Ordering::Relaxed),
        trial.links.carried_bytes.load(Ordering::Relaxed) >> 20,
        readings.sum::<u64>(),
    )
}

/// Asks both judges. Broken members must be caught.
fn judge(history: &History, path: &Path, other: Option<&Path>, broken: bool) -> Outcome {
    let violations = report::judge(history);
    let other = other.map(|it| cross_check::judge(it, path)).transpose()?;
    if broken {
        return broken::verdict(&violations, other);
    }
    let mut faults = Vec::new();
    if !violations.is_empty() {
        faults.push(format!("{} violations", violations.len()));
    }
    match other {
        Some(Verdict::Impossible) => faults.push("porcupine: impossible".to_owned()),
        Some(Verdict::Unknown) => println!("porcupine: UNKNOWN for some keys, none impossible"),
        Some(Verdict::Possible) => {}
        None => println!("porcupine was NOT asked: there is no Go on this machine"),
    }
    if !faults.is_empty() {
        return Err(format!("RED: {}", faults.join("; ")).into());
    }
    println!("verdict: linearizable");
    Ok(())
}
