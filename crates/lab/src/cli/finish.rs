//! What every measuring verb does with its experiment: run it, keep the record,
//! show it, and end with the right code.

use std::path::{Path, PathBuf};
use std::process::Command;

use comfy_table::{Cell as TableCell, CellAlignment, Table, presets};

use super::Outcome;
use super::how::How;
use crate::doctor::environment;
use crate::record::{ARM_NULL, Cell, FORMAT, Judged, Outcome as RunOutcome, Record, Run};
use crate::report::number::{bytes, change_within, short, time};
use crate::schedule::ground::capture;
use crate::schedule::{Experiment, interrupt::Interrupt};
use crate::statistics::log_ratio::percent;
use crate::verdict::evidence::{compares, comparison};
use crate::verdict::{Exit, FailOn, Rules, Verdict};

/// Runs it all; the record, and the folder that it is in.
pub fn measure(
    verb: &str,
    title: &str,
    how: &How,
    experiment: &Experiment,
) -> Result<(Record, PathBuf), String> {
    let folder = match &how.out {
        Some(out) => out.clone(),
        None => Path::new("lab-results").join(format!("{}-{}", now(), verb.replace(' ', "-"))),
    };
    for folder in [&folder, &experiment.parent] {
        std::fs::create_dir_all(folder)
            .map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    let interrupt = Interrupt::on_signals().map_err(|error| error.to_string())?;
    let mut record = Record {
        format: FORMAT,
        verb: verb.to_owned(),
        title: title.to_owned(),
        command_line: std::env::args().map(without_folder).collect(),
        tool: env!("CARGO_PKG_VERSION").to_owned(),
        complete: false,
        incomplete_because: Some("it is running".into()),
        started_unix_ms: crate::worker::unix_ms(),
        seed: experiment.seed,
        environment: environment(&experiment.parent),
        schedule: Vec::new(),
        runs: Vec::new(),
    };
    if let Some(device) = &mut record.environment.device {
        device.private = experiment.loop_fs.is_some();
    }
    for warning in &record.environment.warnings {
        eprintln!("note: {warning}");
    }
    let file = folder.join("run.json");
    let done = experiment.run(&mut record, &file, &interrupt);
    done.map_err(|what| format!("{what}\nwhat was measured is in {}", file.display()))?;
    Ok((record, folder))
}

/// Shows a record, and says how the process ends.
pub fn finish(record: &Record, folder: &Path) -> Outcome {
    println!("{}", runs_table(record));
    let mut exits = vec![Exit::Fine];
    if compares(record) {
        exits.extend(
            record
                .cells()
                .into_iter()
                .map(|cell| show_verdicts(record, cell)),
        );
    }
    for run in &record.runs {
        if let RunOutcome::Failed { because } | RunOutcome::Lost { because } = &run.outcome {
            eprintln!("{}, {}: {because}", run.cell.name, run.target.name);
            exits.push(Exit::Error);
        }
    }
    if let Some(because) = &record.incomplete_because {
        eprintln!("incomplete: {because}; what was measured is kept");
        exits.push(Exit::Inconclusive);
    }
    println!("record: {}", folder.join("run.json").display());
    Ok(Exit::gravest(exits).unwrap_or(Exit::Fine))
}

fn show_verdicts(record: &Record, cell: &Cell) -> Exit {
    let judgement = comparison(record, cell).judge(&Rules::default(), FailOn::default());
    println!("\n{}: B against A", cell.name);
    for verdict in &judgement.verdicts {
        println!("  {}", verdict_line(verdict));
    }
    for remark in &judgement.remarks {
        println!("  {remark}");
    }
    judgement.exit
}

fn verdict_line(verdict: &Verdict) -> String {
    let word = verdict.word.short(verdict.metric.better);
    // In logarithms positive is better; people want to see the number move.
    let sign = verdict.metric.sign();
    let effect = verdict.effect.as_ref().map_or(String::new(), |effect| {
        let ends = [effect.low, effect.high].map(|end| percent(sign * end));
        change_within(
            percent(sign * effect.middle),
            ends[0].min(ends[1]),
            ends[0].max(ends[1]),
        )
    });
    let remark = verdict.word.remark().unwrap_or_default();
    format!("{:22} {word:14} {effect}  {remark}", verdict.metric.name)
}

const COLUMNS: [&str; 14] = [
    "cell",
    "side",
    "runs",
    "ops/s",
    "p50",
    "p99",
    "p99.9",
    "client CPU",
    "server CPU",
    "flushes/put",
    "device B/B",
    "memory",
    "disk",
    "durable",
];

/// One row for each cell and side: medians of its runs.
fn runs_table(record: &Record) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY);
    table.set_header(COLUMNS);
    for cell in record.cells() {
        for side in sides(record, cell) {
            let of_side = |run: &&Run| run.cell.name == cell.name && run.arm == side;
            let runs: Vec<&Run> = record.valid_runs().filter(of_side).collect();
            let row = row(&cell.name, side, &runs).into_iter().enumerate();
            table.add_row(row.map(|(at, text)| {
                TableCell::new(text).set_alignment(match at {
                    0 | 1 => CellAlignment::Left,
                    _ => CellAlignment::Right,
                })
            }));
        }
    }
    table
}

fn sides<'a>(record: &'a Record, cell: &Cell) -> Vec<&'a str> {
    let mut sides: Vec<&str> = Vec::new();
    for run in &record.runs {
        if run.cell.name == cell.name && !sides.contains(&run.arm.as_str()) {
            sides.push(&run.arm);
        }
    }
    sides.sort_unstable();
    sides
}

fn row(cell: &str, side: &str, runs: &[&Run]) -> Vec<String> {
    let of = |value: fn(&Run) -> Option<f64>, show: fn(f64) -> String| {
        let mut values: Vec<f64> = runs.iter().filter_map(|run| value(run)).collect();
        values.sort_by(f64::total_cmp);
        match values.len() {
            0 => "–".to_owned(),
            count => show(f64::midpoint(values[(count - 1) / 2], values[count / 2])),
        }
    };
    let name = match runs.first() {
        Some(run) if run.target.name != side => format!("{side} {}", run.target.name),
        _ => side.to_owned(),
    };
    let is_null = side == ARM_NULL;
    vec![
        cell.to_owned(),
        name,
        runs.len().to_string(),
        of(|run| Some(run.operations_per_second()), short),
        of(|run| percentile(run, 50.0), time),
        of(|run| percentile(run, 99.0), time),
        of(|run| percentile(run, 99.9), time),
        of(|run| Some(run.client_cpu_us_per_operation()), time),
        of(Run::server_cpu_us_per_operation, time),
        of(Run::flushes_per_put, |count| format!("{count:.3}")),
        of(Run::device_bytes_per_user_byte, |ratio| {
            format!("{ratio:.2}")
        }),
        of(memory, bytes),
        of(|run| run.footprint_bytes.map(|bytes| bytes as f64), bytes),
        if is_null { "–".into() } else { durable(runs) },
    ]
}

/// In microseconds; none past saturation.
fn percentile(run: &Run, percent: f64) -> Option<f64> {
    let time = run.load.response().percentile(percent) as f64 / 1e3;
    (!run.load.saturated).then_some(time)
}

/// Of the servers, or of the process that an embedded target lives in.
fn memory(run: &Run) -> Option<f64> {
    let process = run.server.as_ref().unwrap_or(&run.client);
    Some(process.resident_bytes_peak as f64)
}

fn durable(runs: &[&Run]) -> String {
    let word = |run: &&Run| match run.durability.judged {
        Judged::Durable => "yes",
        Judged::NotDurable => "NOT DURABLE",
        Judged::NotAsked => "not asked",
        Judged::Unknown => "cannot tell",
    };
    let mut words: Vec<&str> = runs.iter().map(word).collect();
    words.sort_unstable();
    words.dedup();
    words.join(", ")
}

/// For the names of folders: 2026-11-21-143015.
fn now() -> String {
    let said = capture(Command::new("date").args(["-u", "+%F-%H%M%S"]));
    said.unwrap_or_default().trim().to_owned()
}

/// A record is no place for anybody's paths.
fn without_folder(word: String) -> String {
    match word.rsplit_once('/') {
        Some((front, file)) if !word.contains("://") => {
            let kept = front.rfind([':', '=', '@']).map_or("", |at| &front[..=at]);
            format!("{kept}{file}")
        }
        _ => word,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_keeps_names_and_loses_folders() {
        let kept = |word: &str| without_folder(word.to_owned());
        assert_eq!(kept("/builds/x/inkstone-lab"), "inkstone-lab");
        assert_eq!(kept("server:/a/b/etcd,members=3"), "server:etcd,members=3");
        assert_eq!(kept("old=engine@/a/lab"), "old=engine@lab");
        assert_eq!(kept("--workload=put"), "--workload=put");
    }
}
