//! A record as one HTML page from a template. Pictures are embedded; the page has no script
//! and loads nothing from elsewhere.

use minijinja::Environment;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use serde::Serialize;

use super::noise::{NoiseLine, noise};
use super::plots::{Facet, Picture, curves, facets, latency, over_time, search};
use super::provenance::Provenance;
use super::published::{Beside, beside};
use super::quantity::QUANTITIES;
use super::results::{Results, failure};
use super::verdicts::{CellVerdicts, Line, Tone, map_verdicts, verdicts};
use super::{ReportError, number, sides};
use crate::record::{ARM_NULL, Cell, Record, Run};
use crate::verdict::evidence::{ceiling, ceiling_share, taints_of};

mod table;

use table::ResultsView;

/// Pictures of the cells are unfolded at first in a record with at most this many cells.
const OPEN_CELLS_MAX: usize = 4;

/// The variables of the template.
#[derive(Serialize)]
struct Page<'a> {
    style: &'static str,
    title: &'a str,
    verb: &'a str,
    tool: String,
    seed: String,
    incomplete: Option<&'a str>,
    provenance: Vec<(&'static str, String)>,
    command: String,
    map: Option<MapView>,
    verdicts: Vec<VerdictView>,
    noise: Vec<NoiseLine>,
    results: ResultsView,
    beside: Option<Beside>,
    facets: Vec<Facet>,
    curves: Vec<CurvesView>,
    cells: Vec<CellView>,
    runs: Vec<RunView>,
    targets: Vec<TargetView>,
    workloads: Vec<(String, String)>,
    warnings: &'a [String],
    limits: &'a [String],
    meanings: Vec<(&'static str, &'static str)>,
}

/// The whole page.
pub fn render(record: &Record) -> Result<String, ReportError> {
    let syntax = SyntaxConfig::builder()
        .trim_blocks(true)
        .lstrip_blocks(true)
        .build();
    let mut environment = Environment::new();
    environment.set_syntax(syntax?);
    environment.add_template("report.html", include_str!("page/report.html"))?;
    let template = environment.get_template("report.html")?;
    Ok(template.render(Serde(page(record)?))?)
}

fn page(record: &Record) -> Result<Page<'_>, ReportError> {
    Ok(Page {
        style: include_str!("page/style.css"),
        title: &record.title,
        verb: &record.verb,
        tool: Provenance::of(record).tool,
        seed: record.seed.to_string(),
        incomplete: record.incomplete_because.as_deref(),
        provenance: facts(record),
        command: Provenance::of(record).command,
        map: map_verdicts(record).map(|map| MapView {
            tone: map.tone,
            word: map.word,
            sentence: unbroken(&map.sentence),
        }),
        verdicts: verdicts(record).into_iter().map(verdict_view).collect(),
        noise: noise(record),
        results: ResultsView::of(record),
        beside: beside(record),
        facets: facets(record),
        curves: curve_views(record),
        cells: cells(record),
        runs: record.runs.iter().map(run_view).collect(),
        targets: targets(record),
        workloads: workloads(record)?,
        warnings: &record.environment.warnings,
        limits: &record.environment.limits,
        meanings: meanings(record),
    })
}

fn facts(record: &Record) -> Vec<(&'static str, String)> {
    let known = Provenance::of(record);
    vec![
        ("date", known.date),
        ("machine", known.machine),
        ("device", known.device),
        ("commit", known.commit),
        ("repetitions", known.repetitions),
    ]
}

#[derive(Serialize)]
struct MapView {
    tone: Tone,
    word: String,
    sentence: String,
}

#[derive(Serialize)]
struct VerdictView {
    cell: String,
    headline: Option<Line>,
    lines: Vec<Line>,
    remarks: Vec<String>,
}

fn verdict_view(cell: CellVerdicts) -> VerdictView {
    let headline = cell.headline().map(|line| Line {
        sentence: unbroken(&line.sentence),
        ..line.clone()
    });
    VerdictView {
        headline,
        cell: cell.cell,
        lines: cell.lines,
        remarks: cell.remarks,
    }
}

/// The sentence with unbreakable blanks between a number and its unit and within intervals.
fn unbroken(sentence: &str) -> String {
    let mut within = false;
    let mut text = String::with_capacity(sentence.len());
    for (at, letter) in sentence.char_indices() {
        within = (within || letter == '[') && letter != ']';
        let before_unit = sentence[at..].starts_with(" %") || sentence[at..].starts_with(" [");
        text.push(match letter {
            ' ' if within || before_unit => '\u{a0}',
            letter => letter,
        });
    }
    text
}

#[derive(Serialize)]
struct CurvesView {
    workload: String,
    pictures: Vec<Picture>,
}

fn curve_views(record: &Record) -> Vec<CurvesView> {
    let mut names: Vec<&str> = Vec::new();
    for cell in record.cells() {
        if !names.contains(&cell.workload.as_str()) {
            names.push(&cell.workload);
        }
    }
    let views = names.into_iter().map(|workload| CurvesView {
        workload: workload.to_owned(),
        pictures: curves(record, workload),
    });
    views.filter(|view| !view.pictures.is_empty()).collect()
}

#[derive(Serialize)]
struct CellView {
    name: String,
    open: bool,
    pictures: Vec<Picture>,
    ceiling: Option<String>,
}

fn cells(record: &Record) -> Vec<CellView> {
    let cells = record.cells();
    let open = cells.len() <= OPEN_CELLS_MAX;
    let views = cells.into_iter().map(|cell| CellView {
        name: cell.name.clone(),
        open,
        pictures: [
            latency(record, cell),
            over_time(record, cell),
            search(record, cell),
        ]
        .into_iter()
        .flatten()
        .collect(),
        ceiling: ceiling_sentence(record, cell),
    });
    views.filter(|view| !view.pictures.is_empty()).collect()
}

fn ceiling_sentence(record: &Record, cell: &Cell) -> Option<String> {
    let here: Vec<&Run> = record
        .valid_runs()
        .filter(|run| run.cell.name == cell.name)
        .collect();
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

#[derive(Serialize)]
struct RunView {
    number: u32,
    cell: String,
    side: String,
    pair: u32,
    rate: String,
    p99: String,
    replaced: bool,
    outcome: String,
    is_bad: bool,
    disturbed: String,
    verified: String,
    errors: Vec<String>,
}

fn run_view(run: &Run) -> RunView {
    let bad = failure(&run.outcome);
    let p99 = crate::verdict::measures::percentile(run, 99.0);
    let is_measured = bad.is_none();
    RunView {
        number: run.number,
        cell: run.cell.name.clone(),
        side: run.arm.clone(),
        pair: run.pair + 1,
        rate: match is_measured {
            true => number::grouped(run.operations_per_second()),
            false => "–".to_owned(),
        },
        p99: match (is_measured, run.load.saturated) {
            (false, _) => "–".to_owned(),
            (_, true) => "saturated".to_owned(),
            _ => p99.map_or("–".to_owned(), number::time),
        },
        replaced: run.replaced,
        is_bad: bad.is_some(),
        outcome: bad.unwrap_or_else(|| "measured".to_owned()),
        disturbed: taints_of(run).join(", "),
        verified: verified(run),
        errors: run.load.errors.clone(),
    }
}

fn verified(run: &Run) -> String {
    let checked = &run.verification;
    if let Some(because) = &checked.skipped_because {
        return format!("not looked for: {because}");
    }
    let found = format!(
        "{} keys looked up",
        number::grouped(checked.keys_checked as f64)
    );
    match checked.is_good() {
        true => format!("{found}, none missing ({})", checked.after),
        false => format!(
            "{found}, {} missing, {} wrong ({})",
            checked.keys_missing, checked.keys_wrong, checked.after
        ),
    }
}

#[derive(Serialize)]
struct TargetView {
    side: String,
    class: String,
    binary: String,
    command: String,
    durable: String,
}

/// Descriptions of the targets, each from one run of the side. It is a run with puts where
/// there is one, because only such a run has a judgement of durability.
fn targets(record: &Record) -> Vec<TargetView> {
    let arms = sides::arms(record).into_iter();
    let views = arms.filter_map(|arm| {
        let mut runs = record.runs.iter().filter(|run| run.arm == arm);
        let first = runs.clone().next()?;
        let run = runs.find(|run| run.user_bytes_written > 0).unwrap_or(first);
        let binary = run.target.binary.as_ref();
        Some(TargetView {
            side: sides::label(record, arm),
            class: sides::class(record, arm),
            binary: binary.map_or("foreign endpoint".to_owned(), |binary| {
                let size = number::bytes(binary.bytes as f64);
                format!("{}, {size}, SHA-1 {}", binary.file_name, binary.sha1)
            }),
            command: super::provenance::command(&run.target.command),
            durable: match arm {
                ARM_NULL => "it keeps no data".to_owned(),
                _ => run.durability.because.clone(),
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

fn meanings(record: &Record) -> Vec<(&'static str, &'static str)> {
    let known = Results::of(record).columns;
    let is_known = |key: &str| known.iter().any(|column| column.key == key);
    QUANTITIES
        .iter()
        .filter(|it| is_known(it.key))
        .map(|it| (it.head, it.meaning))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_is_not_broken_within_an_interval_or_before_its_percent() {
        let sentence = unbroken("up +7 % [4, 10] now");
        assert_eq!(sentence, "up +7\u{a0}%\u{a0}[4,\u{a0}10] now");
    }
}
