//! Conversion between records and etcd's rw-heatmap CSV.
//!
//! The file has rates but no durations. An imported run therefore gets a length of
//! [`NOMINAL_SECONDS`], in which a rate with the file's four decimals is a whole number of
//! operations, so that export returns the rates of the import.

use std::collections::BTreeMap;

use super::ReportError::{self, Impossible};
use super::sides::arms;
use crate::heatmap_csv::{Iteration, RwCell, RwHeatmap};
use crate::record::{
    ARM_NULL, Cell, DurabilityJudgement, Environment, FORMAT, Judged, Kind, KindResult, LoadResult,
    Outcome, Planned, Record, Run, TargetIdentity, Verification,
};
use crate::report::number::counted;
use crate::report::verdicts::map_cells;
use crate::workload::{Clients, Load, Mix, RangeSpec, ValueLength, ValueSpec, Workload};

/// Length that imported runs get.
pub const NOMINAL_SECONDS: f64 = 10_000.0;
/// Name of the script that wrote the file, which stands for the command line of an imported
/// record.
const SCRIPT: &str = "rw-benchmark.sh";

/// A record of the file's runs; reports call their side `side`.
pub fn from_map(file: &str, map: &RwHeatmap, side: &str) -> Result<Record, ReportError> {
    let mut record = Record {
        format: FORMAT,
        verb: "import".to_owned(),
        title: format!("{file}: reads and writes, imported from etcd's rw-heatmap"),
        command_line: vec![SCRIPT.to_owned(), map.parameters.clone()],
        tool: env!("CARGO_PKG_VERSION").to_owned(),
        complete: true,
        environment: Environment {
            commit: parameter(map, "commit").unwrap_or_default().to_owned(),
            warnings: vec![
                "The file does not say when, for how long, and on what machine it was measured."
                    .to_owned(),
            ],
            ..Environment::default()
        },
        ..Record::default()
    };
    if map.cells.is_empty() {
        return Err(Impossible(format!(
            "{file}: there is no DATA row; the script writes one for each cell that it finished"
        )));
    }
    for (point, row) in map.cells.iter().enumerate() {
        let cell = cell_of(file, row)?;
        if record.cells().iter().any(|known| known.name == cell.name) {
            return Err(Impossible(format!(
                "{file}: two rows are the cell `{}`; keep one of them",
                cell.name
            )));
        }
        for (pair, iteration) in row.iterations.iter().enumerate() {
            let number = record.runs.len() as u32;
            record.schedule.push(Planned {
                cell: cell.name.clone(),
                arm: side.to_owned(),
                pair: pair as u32,
                point: point as u32,
            });
            record.runs.push(Run {
                pair: pair as u32,
                number,
                ..run_of(map, row, &cell, iteration, side)
            });
        }
    }
    Ok(record)
}

fn parameter<'a>(map: &'a RwHeatmap, name: &str) -> Option<&'a str> {
    let mut fields = map.parameters.split(',');
    fields.find_map(|field| field.trim().strip_prefix(name)?.strip_prefix('='))
}

fn cell_of(file: &str, row: &RwCell) -> Result<Cell, ReportError> {
    let connections = u32::try_from(row.connections).map_err(|_| {
        Impossible(format!(
            "{file}: conn_size is `{}`; no machine has as many connections",
            row.connections
        ))
    })?;
    Ok(Cell {
        name: format!(
            "R/W {}, {} B, {}",
            row.reads_per_write,
            row.value_bytes,
            counted(u64::from(connections), "connection")
        ),
        workload: "rw-heatmap".to_owned(),
        clients: connections,
        connections,
        value_bytes: row.value_bytes as f64,
        rw_ratio: Some(row.reads_per_write),
    })
}

fn run_of(map: &RwHeatmap, row: &RwCell, cell: &Cell, it: &Iteration, side: &str) -> Run {
    let operations = |rate: f64| KindResult {
        operations: (rate * NOMINAL_SECONDS).round() as u64,
        ..KindResult::default()
    };
    let kinds = BTreeMap::from([
        (Kind::Range, operations(it.reads)),
        (Kind::Put, operations(it.writes)),
    ]);
    let remark = Some(row.comment.clone()).filter(|comment| !comment.is_empty());
    Run {
        cell: cell.clone(),
        arm: side.to_owned(),
        target: TargetIdentity {
            name: side.to_owned(),
            product: side.to_owned(),
            version: parameter(map, "commit").unwrap_or_default().to_owned(),
            members: 1,
            ..TargetIdentity::default()
        },
        workload: workload_of(map, row, cell),
        outcome: match it.failed() {
            false => Outcome::Measured,
            true => Outcome::Failed {
                because: "the file has 0:0, which its script writes for a run that failed".into(),
            },
        },
        load: LoadResult {
            seconds: NOMINAL_SECONDS,
            kinds,
            errors: remark.into_iter().collect(),
            ..LoadResult::default()
        },
        verification: Verification {
            skipped_because: Some("imported".to_owned()),
            ..Verification::default()
        },
        durability: DurabilityJudgement {
            judged: Judged::Unknown,
            because: "imported: the file does not say".to_owned(),
        },
        ..Run::default()
    }
}

fn workload_of(map: &RwHeatmap, row: &RwCell, cell: &Cell) -> Workload {
    let number = |name: &str| parameter(map, name).and_then(|text| text.parse::<u64>().ok());
    let put = 1.0 / (1.0 + row.reads_per_write);
    Workload {
        name: "rw-heatmap".to_owned(),
        description: "etcd's rw-benchmark.sh: overwrites of one key beside ranges from the \
                      first key on"
            .to_owned(),
        load: Load {
            keys: number("key_space_size").unwrap_or(Load::default().keys),
            value: ValueSpec {
                length: ValueLength::Fixed(row.value_bytes),
                unique: false,
                ..ValueSpec::default()
            },
            ..Load::default()
        },
        mix: Mix {
            put,
            range: RangeSpec {
                share: 1.0 - put,
                limit: number("range_limit").unwrap_or(0),
                from_start: true,
                ..RangeSpec::default()
            },
            ..Mix::default()
        },
        clients: Clients {
            connections: cell.connections,
            clients: vec![cell.clients],
            generator: None,
        },
        ..Workload::default()
    }
}

/// The map of one side of a record. `side` may be `None` where there is only one.
pub fn to_map(record: &Record, side: Option<&str>) -> Result<RwHeatmap, ReportError> {
    let cells = map_cells(record);
    if cells.is_empty() {
        return Err(Impossible(format!(
            "`{}` is no map of reads over writes: `inkstone-lab heatmap` makes one",
            record.verb
        )));
    }
    let arm = chosen(record, side)?;
    let rows = cells.into_iter().map(|cell| row_of(record, cell, arm));
    Ok(RwHeatmap {
        parameters: parameters(record),
        cells: rows.collect::<Result<_, _>>()?,
    })
}

fn chosen<'a>(record: &'a Record, side: Option<&str>) -> Result<&'a str, ReportError> {
    let mut sides = arms(record);
    sides.retain(|arm| *arm != ARM_NULL);
    let listed = sides.join(", ");
    match (side, sides.as_slice()) {
        (None, [one]) => Ok(one),
        (None, _) => Err(Impossible(format!(
            "the file holds one side: write --side with one of {listed}"
        ))),
        (Some(side), _) => sides
            .into_iter()
            .find(|known| *known == side)
            .ok_or_else(|| Impossible(format!("there is no side `{side}`: write one of {listed}"))),
    }
}

fn row_of(record: &Record, cell: &Cell, arm: &str) -> Result<RwCell, ReportError> {
    let ratio = cell.rw_ratio.unwrap_or_default();
    if ratio < 0.0001 {
        return Err(Impossible(format!(
            "{}: the file has four decimals for the ratio and cannot say {ratio}",
            cell.name
        )));
    }
    let mut runs: Vec<&Run> = record
        .runs
        .iter()
        .filter(|run| run.cell.name == cell.name && run.arm == arm && !run.replaced)
        .collect();
    runs.sort_by_key(|run| (run.pair, run.number));
    let remark = runs.iter().find_map(|run| run.load.errors.first());
    Ok(RwCell {
        reads_per_write: ratio,
        connections: u64::from(cell.connections),
        value_bytes: cell.value_bytes.round() as u64,
        iterations: runs.iter().map(|run| iteration(run)).collect(),
        comment: remark.cloned().unwrap_or_default(),
    })
}

fn iteration(run: &Run) -> Iteration {
    // A run that failed has a rate of zero.
    let seconds = match run.outcome {
        Outcome::Measured => run.load.seconds.max(f64::MIN_POSITIVE),
        _ => f64::INFINITY,
    };
    let rate = |is_write: bool| {
        let kinds = run.load.kinds.iter();
        let alike = kinds.filter(|(kind, _)| kind.writes() == is_write);
        let rates = alike.map(|(_, result)| result.operations as f64 / seconds);
        rates.sum()
    };
    Iteration {
        reads: rate(false),
        writes: rate(true),
    }
}

/// The parameters for the `PARAM` row: those of an imported record, or the record's own
/// settings in the same form.
fn parameters(record: &Record) -> String {
    if let [script, parameters] = record.command_line.as_slice()
        && script == SCRIPT
    {
        return parameters.clone();
    }
    let Some(run) = record.runs.iter().find(|run| run.arm != ARM_NULL) else {
        return String::new();
    };
    let (load, mix) = (&run.workload.load, &run.workload.mix);
    let commit = match record.environment.commit.as_str() {
        "" => "N/A",
        commit => commit,
    };
    format!(
        "key_size={},key_space_size={},range_limit={},commit={commit}",
        load.key.size, load.keys, mix.range.limit
    )
}
