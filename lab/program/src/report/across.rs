//! Comparison of two records that were not measured together.
//!
//! The state of a machine changes from hour to hour, so numbers of different hours are never
//! called faster, slower or the same here: they *differ*, or the comparison is
//! *inconclusive*. Where both records hold a comparison of B with A, the ratios of B to A in
//! the two records are compared as well. A ratio cancels the influence of the hour, so that
//! row decides.

use std::collections::BTreeSet;

use super::number::{change, change_within};
use super::quantity;
use super::sides::{arms, label};
use super::{ReportError, alike};
use crate::record::{ARM_A, ARM_A_AGAIN, ARM_B, ARM_NULL, Cell, Outcome, Record, Run};
use crate::statistics::log_ratio::percent;
use crate::verdict::evidence::map_cell;
use crate::verdict::measures::measures;
use crate::verdict::{Exit, Unpaired, compare_unpaired, effect_min};

/// Two records side by side.
#[derive(Clone, Debug)]
pub struct Across {
    /// Reasons why the comparison is doubtful, as sentences.
    pub cautions: Vec<String>,
    /// One row for each cell, side and metric that both records have.
    pub rows: Vec<Row>,
    pub exit: Exit,
}

/// One metric of one side in both records.
#[derive(Clone, Debug)]
pub struct Row {
    pub cell: String,
    pub side: String,
    pub metric: String,
    /// Medians of the first and of the second record.
    pub medians: [String; 2],
    /// Number of runs in each record.
    pub runs: [usize; 2],
    /// Relative change and its interval, such as `+7 % [4, 10]`.
    pub change: String,
    /// `differs` or `inconclusive`.
    pub word: &'static str,
    /// The exit code depends on this row.
    pub decides: bool,
    /// The second record is worse, if the two differ.
    pub is_worse: bool,
}

/// Compares the cells and sides that two records have in common. Fails where there are
/// none.
pub fn across(old: &Record, new: &Record) -> Result<Across, ReportError> {
    let shared: Vec<&Cell> = old
        .cells()
        .into_iter()
        .filter(|cell| new.cells().iter().any(|other| other.name == cell.name))
        .collect();
    if shared.is_empty() {
        return Err(ReportError::Impossible(format!(
            "the records have no cell in common: {} there, {} here; compare records of one workload",
            names(old),
            names(new)
        )));
    }
    let machines = alike::other_machine(&old.environment, &new.environment);
    let mut found = Across {
        cautions: machines.clone(),
        rows: Vec::new(),
        exit: Exit::Fine,
    };
    for cell in &shared {
        match other_work(old, new, cell) {
            Some(what) => found.cautions.push(what),
            None => found
                .rows
                .extend(of_cell(old, new, cell, machines.is_empty())),
        }
    }
    found.cautions.extend(left_out(old, new, &shared));
    if found.rows.is_empty() {
        let mut why = vec![format!(
            "{} there, {} here",
            measured_sides(old),
            measured_sides(new)
        )];
        why.append(&mut found.cautions);
        return Err(ReportError::Impossible(format!(
            "the records have no side with numbers in common: {}",
            why.join("; ")
        )));
    }
    found.exit = exit(&found.rows, new);
    Ok(found)
}

fn names(record: &Record) -> String {
    let cells = record.cells().into_iter();
    listed(cells.map(|cell| cell.name.as_str()))
}

fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    match Vec::from_iter(names) {
        names if names.is_empty() => "none".to_owned(),
        names => format!("`{}`", names.join("`, `")),
    }
}

/// Names of the sides with valid runs, without the generator's ceiling.
fn measured_sides(record: &Record) -> String {
    let runs = record.valid_runs().filter(|run| run.arm != ARM_NULL);
    let sides: BTreeSet<&str> = runs.map(|run| run.arm.as_str()).collect();
    listed(sides.into_iter())
}

/// A sentence if the two records ran different work in a cell.
fn other_work(old: &Record, new: &Record, cell: &Cell) -> Option<String> {
    let [old, new] = [old, new].map(|record| {
        let mut runs = record.runs.iter();
        let here = runs.find(|run| run.cell.name == cell.name && run.arm != ARM_NULL);
        here.map(|run| &run.workload)
    });
    let (old, new) = old.zip(new)?;
    let differing = alike::other_parts(old, new);
    (!differing.is_empty()).then(|| {
        format!(
            "{}: not the same work ({} differ): left out",
            cell.name,
            differing.join(", ")
        )
    })
}

fn left_out(old: &Record, new: &Record, shared: &[&Cell]) -> Vec<String> {
    let of_both = [(old, "first"), (new, "second")].into_iter();
    let alone = of_both.flat_map(|(record, which)| {
        let mut cells = record.cells();
        cells.retain(|cell| !shared.iter().any(|known| known.name == cell.name));
        let cells = cells.into_iter();
        cells.map(move |cell| format!("{}: only in the {which} record", cell.name))
    });
    alone.collect()
}

fn of_cell(old: &Record, new: &Record, cell: &Cell, one_machine: bool) -> Vec<Row> {
    let ratio = ratio_row(old, new, cell);
    let plain_decides = ratio.is_none() && one_machine;
    let mut rows: Vec<Row> = ratio.into_iter().collect();
    for arm in arms(old) {
        let known = arms(new).contains(&arm);
        if known && arm != ARM_NULL && arm != ARM_A_AGAIN {
            rows.extend(of_side(old, new, cell, arm, plain_decides));
        }
    }
    rows
}

fn of_side(old: &Record, new: &Record, cell: &Cell, arm: &str, decides: bool) -> Vec<Row> {
    let runs = [old, new].map(|record| -> Vec<&Run> {
        let here = record.valid_runs_of(cell);
        here.filter(|run| run.arm == arm).collect()
    });
    let open_loop = runs[1].iter().any(|run| run.load.rate_offered.is_some());
    let rows = measures(open_loop).into_iter().filter_map(|measure| {
        let values = [0, 1].map(|at| -> Vec<f64> {
            let values = runs[at].iter().filter_map(|run| (measure.of)(run));
            values.filter(|value| *value > 0.0).collect()
        });
        let found = compare_unpaired(&values[0], &values[1], effect_min())?;
        let metric = &measure.metric;
        Some(Row {
            cell: cell.name.clone(),
            side: label(new, arm),
            metric: metric.name.clone(),
            medians: found.medians.map(|it| quantity::shown(&metric.name, it)),
            runs: [values[0].len(), values[1].len()],
            change: change_of(&found),
            word: found.word(),
            decides: decides && metric.decides,
            is_worse: found.middle * metric.sign() < 0.0,
        })
    });
    rows.collect()
}

/// The change with its interval, such as `+7 % [4, 10]`.
pub(super) fn change_of(found: &Unpaired) -> String {
    change_within(
        percent(found.middle),
        percent(found.low),
        percent(found.high),
    )
}

/// The ratio of B to A in the first record, compared with the one in the second.
fn ratio_row(old: &Record, new: &Record, cell: &Cell) -> Option<Row> {
    let ratios = [old, new].map(|record| -> Vec<f64> {
        let pairs = map_cell(record, cell).effects;
        pairs.into_iter().map(f64::exp).collect()
    });
    let found = compare_unpaired(&ratios[0], &ratios[1], effect_min())?;
    let over = |ratio: Option<f64>| ratio.map_or("–".to_owned(), |it| change((it - 1.0) * 100.0));
    Some(Row {
        cell: cell.name.clone(),
        side: format!("{ARM_B} against {ARM_A}"),
        metric: "throughput".to_owned(),
        medians: found.medians.map(over),
        runs: [ratios[0].len(), ratios[1].len()],
        change: change_of(&found),
        word: found.word(),
        decides: true,
        is_worse: found.middle < 0.0,
    })
}

fn exit(rows: &[Row], new: &Record) -> Exit {
    let lost = new
        .runs
        .iter()
        .any(|run| matches!(run.outcome, Outcome::Lost { .. }));
    let mut exits: Vec<Exit> = rows
        .iter()
        .filter(|row| row.decides)
        .map(|row| match (row.word, row.is_worse) {
            ("differs", true) => Exit::Regression,
            ("differs", false) => Exit::Fine,
            _ => Exit::Inconclusive,
        })
        .collect();
    if lost {
        exits.push(Exit::Error);
    }
    exits.into_iter().max().unwrap_or(Exit::Inconclusive)
}
