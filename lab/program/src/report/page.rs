//! A record as one HTML page from a template. Pictures are embedded; the page has no script
//! and loads nothing from elsewhere.

use minijinja::value::Serde;
use minijinja::{Value, context};

use super::plots::{curves, facets, latency, over_time, search, slowest, space};
use super::{ReportError, number, sides, template, words};
use crate::record::{ARM_NULL, Cell, Record, Run};
use crate::verdict::evidence::{ceiling, ceiling_share};

/// Pictures of the cells are unfolded at first in a record with at most this many cells.
const OPEN_CELLS_MAX: usize = 4;

/// The whole page.
pub fn render(record: &Record) -> Result<String, ReportError> {
    let variables = context! {
        facets => Serde(facets(record)),
        curves => curve_views(record),
        cells => cells(record),
        few_cells => record.cells().len() <= OPEN_CELLS_MAX,
        targets => targets(record),
        workloads => Serde(workloads(record)?),
        limits => Serde(&record.environment.limits),
        ..words::of(record)
    };
    template::render("report.html", variables)
}

fn curve_views(record: &Record) -> Vec<Value> {
    let names = record
        .cells()
        .into_iter()
        .map(|cell| cell.workload.as_str());
    let views = sides::distinct(names).into_iter().filter_map(|workload| {
        let pictures = curves(record, workload);
        let view = || context! { workload, pictures => Serde(&pictures) };
        (!pictures.is_empty()).then(view)
    });
    views.collect()
}

fn cells(record: &Record) -> Vec<Value> {
    let views = record.cells().into_iter().filter_map(|cell| {
        let pictures =
            [latency, over_time, slowest, space, search].map(|picture| picture(record, cell));
        let pictures: Vec<_> = pictures.into_iter().flatten().collect();
        let view = || {
            context! {
                name => &cell.name,
                pictures => Serde(&pictures),
                ceiling => ceiling_sentence(record, cell),
            }
        };
        (!pictures.is_empty()).then(view)
    });
    views.collect()
}

fn ceiling_sentence(record: &Record, cell: &Cell) -> Option<String> {
    let here: Vec<&Run> = record.valid_runs_of(cell).collect();
    let ceiling = ceiling(&here);
    let rivals = here.iter().filter(|run| run.arm != ARM_NULL);
    let shares = rivals.filter_map(|run| ceiling_share(run, ceiling));
    let most = shares.max_by(f64::total_cmp)?;
    let alone = ceiling.map_or(String::new(), |rate| {
        let rate = number::grouped(rate);
        format!("The load generator alone makes {rate} operations per second here. ")
    });
    let percent = match most * 100.0 {
        percent if percent < 0.1 => "less than 0.1".to_owned(),
        percent => format!("{percent:.1}"),
    };
    Some(format!(
        "{alone}The run that came nearest to the generator's own limit used {percent} % of it; \
         above 50 % there is no verdict."
    ))
}

/// Descriptions of the targets, each from one run of the side. It is a run with puts where
/// there is one, because only such a run has a judgement of durability.
fn targets(record: &Record) -> Vec<Value> {
    let arms = sides::arms(record).into_iter();
    let views = arms.filter_map(|arm| {
        let mut runs = record.runs.iter().filter(|run| run.arm == arm);
        let first = runs.clone().next()?;
        let run = runs.find(|run| run.user_bytes_written > 0).unwrap_or(first);
        let binary = run.target.binary.as_ref();
        Some(context! {
            side => sides::label(record, arm),
            class => sides::class(record, arm),
            binary => Serde(binary),
            size => binary.map(|it| number::bytes(it.bytes as f64)),
            command => super::provenance::command(&run.target.command),
            durable => match arm {
                ARM_NULL => "it keeps no data",
                _ => &run.durability.because,
            },
        })
    });
    views.collect()
}

/// The workload of each cell as TOML, from the first run of the cell.
fn workloads(record: &Record) -> Result<Vec<(String, String)>, ReportError> {
    let mut found = Vec::new();
    for cell in record.cells() {
        let rivals = record.runs.iter().filter(|run| run.arm != ARM_NULL);
        let mut here = rivals.filter(|run| run.cell.name == cell.name);
        if let Some(run) = here.next() {
            let text = toml::to_string(&run.workload)?;
            found.push((cell.name.clone(), text));
        }
    }
    Ok(found)
}
