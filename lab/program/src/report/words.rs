//! A record in words and numbers: the variables that all templates have.

use minijinja::value::Serde;
use minijinja::{Value, context};

use super::noise::noise;
use super::number::{grouped, time};
use super::provenance::Provenance;
use super::published::beside;
use super::results::{Results, failure};
use super::verdicts::{map_verdicts, verdicts};
use crate::record::{Record, Run};
use crate::verdict::evidence::{ceiling, taints_of};
use crate::verdict::measures::percentile;

/// The variables for a record.
pub fn of(record: &Record) -> Value {
    context! {
        title => &record.title,
        verb => &record.verb,
        seed => record.seed,
        incomplete => &record.incomplete_because,
        provenance => Serde(Provenance::of(record)),
        map => Serde(map_verdicts(record)),
        verdicts => Serde(verdicts(record)),
        noise => Serde(noise(record)),
        results => Serde(Results::of(record)),
        beside => Serde(beside(record)),
        runs => record.runs.iter().map(run).collect::<Vec<_>>(),
        ceilings => Serde(ceilings(record)),
        warnings => Serde(&record.environment.warnings),
    }
}

/// Operations per second of the generator alone, by cell.
fn ceilings(record: &Record) -> Vec<(&str, String)> {
    let cells = record.cells().into_iter();
    let known = cells.filter_map(|cell| {
        let runs: Vec<&Run> = record.valid_runs_of(cell).collect();
        Some((cell.name.as_str(), grouped(ceiling(&runs)?)))
    });
    known.collect()
}

fn run(run: &Run) -> Value {
    let bad = failure(&run.outcome);
    let (rate, p99) = match (&bad, run.load.saturated) {
        (Some(_), _) => (None, None),
        (None, true) => (Some(run.operations_per_second()), None),
        (None, false) => (Some(run.operations_per_second()), percentile(run, 99.0)),
    };
    context! {
        number => run.number,
        cell => &run.cell.name,
        side => &run.arm,
        pair => run.pair + 1,
        rate => rate.map(grouped),
        p99 => p99.map(time),
        saturated => run.load.saturated,
        replaced => run.replaced,
        is_bad => bad.is_some(),
        outcome => bad.unwrap_or_else(|| "measured".to_owned()),
        disturbed => taints_of(run).join(", "),
        keys_checked => grouped(run.verification.keys_checked as f64),
        verification => Serde(&run.verification),
        errors => Serde(&run.load.errors),
    }
}
