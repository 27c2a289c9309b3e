//! Native, native again, and preloaded, one after the other in changing order.
//!
//! The second native run is the A/A comparison: it shows how much two equal runs differ on
//! this machine. A preloaded run is refused if its locks are not those of the preloaded
//! library.

use std::path::Path;
use std::process::Command;

use crate::arguments::Arguments;
use crate::data::Random;
use crate::record::Record;
use crate::run::scratch;

/// Places in a round: native, native again, preloaded.
const NATIVE: usize = 0;
const PRELOADED: usize = 2;

/// The runs of a round, by their places.
type Round = [Record; 3];

pub fn compare(arguments: &Arguments) -> Result<(), String> {
    let preload = arguments.preload.as_deref();
    let preload =
        preload.ok_or("compare wants --preload with the path of libhandoff_preload.so")?;
    let preload = std::fs::canonicalize(preload)
        .map_err(|why| format!("--preload {}: {why}", preload.display()))?;
    let database = scratch(arguments, "reads");
    child("prepare", arguments, &database.0, None)?;
    let mut random = Random::new(arguments.seed);
    let mut rows = Vec::new();
    for benchmark in &arguments.benchmarks {
        for &threads in &arguments.threads {
            let mut cell = arguments.clone();
            cell.benchmarks = vec![benchmark.clone()];
            cell.threads = vec![threads];
            // The first run of a cell has colder caches, so it does not count.
            run(NATIVE, &cell, &database.0, &preload)?;
            let rounds: Result<Vec<Round>, String> = (0..arguments.rounds)
                .map(|_| round(&cell, &database.0, &preload, &mut random))
                .collect();
            rows.push(row(benchmark, threads, &rounds?));
        }
    }
    eprintln!("{HEAD}");
    rows.iter().for_each(|row| eprintln!("{row}"));
    Ok(())
}

fn round(
    cell: &Arguments,
    database: &Path,
    preload: &Path,
    random: &mut Random,
) -> Result<Round, String> {
    let mut order = [0, 1, 2];
    for last in (1..order.len()).rev() {
        order.swap(last, random.below(last as u64 + 1) as usize);
    }
    let mut round = Round::default();
    for place in order {
        let (record, line) = run(place, cell, database, preload)?;
        println!("{line}");
        round[place] = record;
    }
    Ok(round)
}

fn run(
    place: usize,
    cell: &Arguments,
    database: &Path,
    preload: &Path,
) -> Result<(Record, String), String> {
    let preload = (place == PRELOADED).then_some(preload);
    let line = child("run", cell, database, preload)?;
    let record: Record = serde_json::from_str(&line)
        .map_err(|why| format!("the answer of a run, `{line}`: {why}"))?;
    let is_ours = preload.is_some_and(|path| Path::new(&record.locks) == path);
    if is_ours != preload.is_some() {
        let wanted = preload.map_or("the C library's locks".into(), Path::to_string_lossy);
        let locks = record.locks;
        return Err(format!(
            "a run that should have {wanted} got its locks from {locks}"
        ));
    }
    Ok((record, line))
}

fn child(
    verb: &str,
    arguments: &Arguments,
    database: &Path,
    preload: Option<&Path>,
) -> Result<String, String> {
    let program = std::env::current_exe().map_err(|why| why.to_string())?;
    let mut command = Command::new(program);
    command.arg(verb);
    if let Some(operations) = arguments.operations {
        command.arg(format!("--operations={operations}"));
    }
    command
        .arg(format!("--seconds={}", arguments.seconds.as_secs_f64()))
        .arg(format!("--benchmark={}", arguments.benchmarks[0]))
        .arg(format!("--threads={}", arguments.threads[0]))
        .arg(format!("--keys={}", arguments.keys))
        .arg(format!("--value-bytes={}", arguments.value_bytes))
        .arg(format!("--leveldb={}", arguments.leveldb))
        .arg(format!("--seed={}", arguments.seed))
        .arg("--directory")
        .arg(&arguments.directory)
        .arg("--database")
        .arg(database)
        .env_remove("LD_PRELOAD")
        .stderr(std::process::Stdio::inherit());
    if let Some(preload) = preload {
        command.env("LD_PRELOAD", preload);
    }
    let output = command.output().map_err(|why| format!("{verb}: {why}"))?;
    if !output.status.success() {
        return Err(format!("{verb} ended with {}", output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

const HEAD: &str = "\
benchmark  threads |  native k/s handoff k/s |   x (min-max)      A/A (min-max)    | \
Jain  native handoff | us cpu/op native handoff | switches/op native handoff | others' cores";

fn row(benchmark: &str, threads: u32, rounds: &[Round]) -> String {
    let of = |place: usize, value: fn(&Record) -> f64| {
        middle(rounds.iter().map(|round| value(&round[place])).collect())
    };
    let ratio = |place: usize| {
        let rates = rounds
            .iter()
            .map(|round| round[place].operations_per_second / round[0].operations_per_second);
        let (median, least, most) = spread(rates.collect());
        format!("{median:5.2} ({least:.2}-{most:.2})")
    };
    let rate = |record: &Record| record.operations_per_second / 1e3;
    let switches = |record: &Record| {
        record.voluntary_switches_per_operation + record.involuntary_switches_per_operation
    };
    let cpu = |record: &Record| record.cpu_micros_per_operation;
    let jain = |record: &Record| record.jain;
    let others = |record: &Record| record.cores_used_by_others;
    format!(
        "{benchmark} {threads:7} | {:11.1} {:11.1} | {:18} {:18} |      {:.3} {:.3}   |          \
         {:7.2} {:7.2}  |             {:.4} {:.4}   | {:.2} {:.2}",
        of(0, rate),
        of(2, rate),
        ratio(2),
        ratio(1),
        of(0, jain),
        of(2, jain),
        of(0, cpu),
        of(2, cpu),
        of(0, switches),
        of(2, switches),
        of(0, others),
        of(2, others),
    )
}

fn middle(values: Vec<f64>) -> f64 {
    spread(values).0
}

/// Median, least and most.
fn spread(mut values: Vec<f64>) -> (f64, f64, f64) {
    values.sort_by(f64::total_cmp);
    let last = values.len() - 1;
    let median = (values[last / 2] + values[values.len() / 2]) / 2.0;
    (median, values[0], values[last])
}
