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
mod call;
mod changes;
mod clients;
mod clock;
mod cross_check;
mod ending;
mod injector;
mod kinds;
mod leases;
mod links;
mod member;
mod owner;
mod recovery;
mod report;
mod rounds;
mod trial;
mod watchers;

use std::{
    fs::File,
    io::{BufReader, BufWriter},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use clap::ValueEnum;
use environment::randomness::Random;
use history::{History, Violation};
use tokio::task::JoinSet;

use crate::{
    machine::Machine,
    process::{Outcome, inkstone_binary, root},
    recorder, values,
};
use cross_check::Verdict;
use kinds::Kind;
use recorder::Recorder;
use rounds::Scene;
use trial::{Ground, Trial};

const FOLLOWERS: u32 = 2;
const GLANCERS: u32 = 3;
const HOLDERS: u32 = 3;
/// Most violations of one rule that are printed.
const SHOWN_MAX: usize = 5;

#[derive(clap::Args)]
pub struct Options {
    /// How long faults are injected
    #[arg(long, default_value_t = 5)]
    minutes: u64,
    /// Decides the operations and the faults
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Clients that read and write
    #[arg(long, default_value_t = 12)]
    clients: u32,
    /// Operations per second of all clients together, while there is no fault
    #[arg(long, default_value_t = 500)]
    rate: u32,
    /// The server to test; etcd's own binary works too [default: ours, built now]
    #[arg(long, value_name = "BINARY")]
    server: Option<PathBuf>,
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

/// Results of both judges.
struct Judgement {
    violations: Vec<Violation>,
    /// Porcupine's verdict; `None` if there is no Go on this machine.
    other: Option<Verdict>,
}

pub fn run(options: &Options) -> Outcome {
    if let Some(recorded) = &options.judge {
        let file =
            File::open(recorded).map_err(|error| format!("{}: {error}", recorded.display()))?;
        let history = history::read(BufReader::new(file));
        let history = history.map_err(|error| format!("{}: {error}", recorded.display()))?;
        let other = cross_check::prepare()?;
        return verdict(&judge(&history, recorded, other.as_deref())?);
    }
    let binary = match (options.broken, &options.server) {
        (true, None) => broken::build()?,
        (_, server) => inkstone_binary(server.as_deref())?,
    };
    std::fs::create_dir_all(root().join("target/faults"))?;
    let other = cross_check::prepare()?;
    println!("{}", Machine::here()?.line());
    println!("repeat with: {}", command(options));
    let ground = Ground::prepare()?;
    let outcome = rehearse(options, &binary, &ground, other.as_deref());
    if outcome.is_err() {
        let kept: Vec<String> = ground
            .keep()
            .iter()
            .map(|it| it.display().to_string())
            .collect();
        eprintln!(
            "kept: {}\nrepeat with: {}",
            kept.join(", "),
            command(options)
        );
    }
    outcome
}

fn command(options: &Options) -> String {
    let mut command = format!(
        "cargo trials faults --minutes {} --seed {} --clients {} --rate {}",
        options.minutes, options.seed, options.clients, options.rate
    );
    if options.broken {
        command.push_str(" --broken");
    }
    if !options.only.is_empty() {
        let only = options.only.iter().filter_map(Kind::to_possible_value);
        let only: Vec<String> = only.map(|it| it.get_name().to_owned()).collect();
        command.push_str(&format!(" --only {}", only.join(",")));
    }
    if let Some(server) = &options.server {
        command.push_str(&format!(" --server {}", server.display()));
    }
    command
}

/// Runs the trial, writes its history, and asks both judges.
fn rehearse(options: &Options, binary: &Path, ground: &Ground, other: Option<&Path>) -> Outcome {
    let recorder = Arc::new(Recorder::new());
    let runtime = tokio::runtime::Runtime::new()?;
    let ended = runtime.block_on(async {
        let trial = Trial::begin(binary, ground, &recorder).await?;
        let missing = || trial.missing.lock().expect("no holder panics");
        missing().keep_only(&options.only);
        let ended = tokio::select! {
            ended = perform(options, &trial, &recorder) => ended,
            _ = tokio::signal::ctrl_c() => Err("interrupted".into()),
        };
        println!("\n{}", report::tables(&trial, &recorder));
        ended
    });
    runtime.shutdown_timeout(Duration::from_secs(5));
    let path = history_path(options);
    let (operations, watches) = recorder.take();
    let mut history = History {
        clock_error_percent: clock::FASTER_PERCENT_MAX,
        operations,
        watches,
        ..History::default()
    };
    let hashes = match ended {
        Ok(ending) => {
            history.ledger = ending.ledger;
            ending.hashes
        }
        Err(error) => {
            save(&history, &path)?;
            return Err(error);
        }
    };
    save(&history, &path)?;
    println!("{}", report::hashes(&hashes));
    let judgement = judge(&history, &path, other)?;
    match options.broken {
        true => broken::verdict(&judgement.violations, judgement.other),
        false => verdict(&judgement),
    }
}

async fn perform(
    options: &Options,
    trial: &Arc<Trial>,
    recorder: &Arc<Recorder>,
) -> Outcome<ending::Ending> {
    recovery::Probe::new(1_000, trial, recorder)
        .all_members(trial)
        .await?;
    let mut random = Random::from_seed(options.seed);
    let (last, follow) = tokio::sync::watch::channel(None);
    let (mut clients, mut watchers) = (JoinSet::new(), JoinSet::new());
    let shared = || (trial.members.clone(), Arc::clone(recorder));
    let pause = Duration::from_secs(1) * options.clients.max(1) / options.rate.max(1);
    for number in 0..options.clients {
        let (members, recorder) = shared();
        let seed = random.next_u64();
        clients.spawn(clients::work(number, members, recorder, seed, pause));
    }
    for number in 0..HOLDERS {
        let (members, recorder) = shared();
        clients.spawn(leases::work(
            100 + number,
            members,
            recorder,
            random.next_u64(),
        ));
    }
    for number in 0..GLANCERS {
        let (members, recorder) = shared();
        let seed = random.next_u64();
        clients.spawn(watchers::glance(
            200 + number,
            members,
            recorder,
            seed,
            follow.clone(),
        ));
    }
    for number in 0..FOLLOWERS {
        let (members, recorder) = shared();
        let seed = random.next_u64();
        watchers.spawn(watchers::follow(
            300 + number,
            members,
            recorder,
            seed,
            follow.clone(),
        ));
    }
    let scene = match (options.broken, trial.look_at_clocks()) {
        (false, _) => Scene::Everything(trial.missing.lock().expect("no holder panics").clone()),
        (true, true) => Scene::SlowLeaderCutOff,
        (true, false) => {
            return Err("--broken needs a C compiler called cc, for slow clocks".into());
        }
    };
    let length = Duration::from_secs(60 * options.minutes);
    rounds::run(trial, recorder, &scene, length, random).await?;
    ending::end(trial, recorder, clients, watchers, last).await
}

fn history_path(options: &Options) -> PathBuf {
    let name = match options.broken {
        true => format!("target/faults/broken-{}.jsonl", options.seed),
        false => format!("target/faults/history-{}.jsonl", options.seed),
    };
    options.history.clone().unwrap_or_else(|| root().join(name))
}

fn save(history: &History, path: &Path) -> Outcome {
    let file = File::create(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut file = BufWriter::new(file);
    history::write(history, &mut file)?;
    std::io::Write::flush(&mut file)?;
    println!("the history is in {}", path.display());
    Ok(())
}

fn judge(history: &History, path: &Path, other: Option<&Path>) -> Outcome<Judgement> {
    let began = std::time::Instant::now();
    let violations = history::check(history);
    println!(
        "checker: {} operations, {} watches, {} revisions, {:.1} s: {} violations",
        history.operations.len(),
        history.watches.len(),
        history.ledger.len(),
        began.elapsed().as_secs_f64(),
        violations.len()
    );
    report::violations(&violations, SHOWN_MAX);
    let other = other
        .map(|other| cross_check::judge(other, path))
        .transpose()?;
    Ok(Judgement { violations, other })
}

fn verdict(judgement: &Judgement) -> Outcome {
    let mut faults = Vec::new();
    if !judgement.violations.is_empty() {
        faults.push(format!("{} violations", judgement.violations.len()));
    }
    match judgement.other {
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
