//! Verdicts in words: the statements that a comparison supports, with their uncertainty.

use serde::Serialize;

use super::number::{change, change_within, counted};
use super::quantity;
use super::sides::names;
use crate::record::{Cell, Outcome, Record};
use crate::statistics::log_ratio::{LogRatio, percent};
use crate::verdict::evidence::{compares, comparison, map_cell};
use crate::verdict::exit::exit_of_conclusion;
use crate::verdict::{Better, Conclusion, Exit, MapVerdict, Verdict, judge_map};

/// Greatest band that is written as `±`: beyond it, the distances of its two ends from zero
/// differ too much in percent.
const ALIKE_PERCENT: f64 = 12.0;

/// The verdict on one metric.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    pub metric: String,
    /// The verdict in one or two words.
    pub word: String,
    /// Style class of the verdict's colour in the page.
    pub tone: &'static str,
    /// Relative change with its interval, such as `+7 % [4, 10]`; empty without numbers.
    pub change: String,
    /// Difference that A and its copy show by chance, such as `±2.1 %`; empty without a copy.
    pub band: String,
    /// The same as a logarithm; 0 without a copy.
    #[serde(skip)]
    band_log: f64,
    /// Medians of A and B.
    pub medians: [String; 2],
    /// The next step, or the reason for a refusal; may be empty.
    pub remark: String,
    /// The exit code depends on this metric.
    pub decides: bool,
    /// The verdict as a sentence.
    pub sentence: String,
}

impl Line {
    /// Values that a side with this median may reach by chance; `None` without a band.
    pub fn band_around(&self, median: f64) -> Option<(f64, f64)> {
        let band = self.band_log;
        let is_shown = band > 0.0 && band.is_finite() && !self.band.is_empty();
        is_shown.then(|| (median * (-band).exp(), median * band.exp()))
    }
}

/// The verdicts of one cell.
#[derive(Clone, Debug, Serialize)]
pub struct CellVerdicts {
    pub cell: String,
    /// The line that represents the cell: the first that decides, or else the first.
    pub headline: Option<Line>,
    /// Verdicts on the metrics, the most important first.
    pub lines: Vec<Line>,
    /// Remarks on order effects and repeated triples.
    pub remarks: Vec<String>,
    /// Exit code of a record with this cell alone.
    #[serde(skip)]
    pub exit: Exit,
}

/// The verdict on a map.
#[derive(Clone, Debug, Serialize)]
pub struct MapVerdicts {
    /// The verdict as a sentence.
    pub sentence: String,
    /// Style class of the verdict's colour in the page.
    pub tone: &'static str,
    /// The verdict in one or two words.
    pub word: String,
    /// Verdicts on the cells, in the order of [`map_cells`].
    #[serde(skip)]
    pub verdict: MapVerdict,
    #[serde(skip)]
    pub exit: Exit,
}

/// The verdicts of a record with a comparison, by cell; empty for other records.
pub fn verdicts(record: &Record) -> Vec<CellVerdicts> {
    if !compares(record) {
        return Vec::new();
    }
    let cells = record.cells().into_iter();
    cells.map(|cell| of_cell(record, cell)).collect()
}

fn of_cell(record: &Record, cell: &Cell) -> CellVerdicts {
    let names = names(record);
    let judgement = comparison(record, cell).judge();
    let lines = judgement.verdicts.iter().map(|it| line(it, &names));
    let lines: Vec<Line> = lines.collect();
    let deciding = lines.iter().find(|line| line.decides);
    CellVerdicts {
        cell: cell.name.clone(),
        headline: deciding.or(lines.first()).cloned(),
        lines,
        remarks: judgement.remarks,
        exit: judgement.exit,
    }
}

fn line(verdict: &Verdict, names: &[String; 2]) -> Line {
    let metric = &verdict.metric;
    let word = verdict.conclusion.short(metric.better);
    let change = verdict.effect.as_ref().map(|it| shown(it, metric.sign()));
    let change = change.unwrap_or_default();
    let band = match verdict.band {
        band if band > 0.0 && band.is_finite() => within(band),
        _ => String::new(),
    };
    let remark = verdict.conclusion.remark().unwrap_or_default();
    Line {
        sentence: sentence(verdict, names, &change, &band),
        metric: metric.name.clone(),
        word: word.to_owned(),
        tone: verdict.conclusion.tone(),
        medians: verdict.medians.map(|it| quantity::shown(&metric.name, it)),
        change,
        band,
        band_log: verdict.band,
        remark,
        decides: metric.decides,
    }
}

/// The change of the metric itself with its interval. In the logarithms, positive always
/// means better; `sign` turns them back.
pub fn shown(ratio: &LogRatio, sign: f64) -> String {
    let ends = [ratio.low, ratio.high].map(|end| percent(sign * end));
    change_within(
        percent(sign * ratio.middle),
        ends[0].min(ends[1]),
        ends[0].max(ends[1]),
    )
}

/// A band around "equal", as a logarithm: `±4.9 %`; `-43 to +76 %` where its two
/// sides are no longer alike in percent.
pub fn within(band: f64) -> String {
    let (low, high) = (percent(-band), percent(band));
    match high {
        high if high > 999.0 => format!("{} to > +999 %", change(low).replace(" %", "")),
        high if high > ALIKE_PERCENT => {
            format!("{} to {}", change(low).replace(" %", ""), change(high))
        }
        high => format!("±{}", change(high).trim_start_matches('+')),
    }
}

fn sentence(verdict: &Verdict, [a, b]: &[String; 2], change: &str, band: &str) -> String {
    let name = &verdict.metric.name;
    let word = verdict.conclusion.short(verdict.metric.better);
    let remark = verdict.conclusion.remark().unwrap_or_default();
    let beside = match band {
        "" => String::new(),
        band => format!("; {a} against its own copy makes {band} out of nothing"),
    };
    match &verdict.conclusion {
        Conclusion::Better | Conclusion::Worse => match verdict.metric.better {
            Better::LessIsThriftier => {
                format!("{b} needs {word} than {a}: {name} {change}{beside}.")
            }
            _ => format!("{b} is {word} than {a}: {name} {change}{beside}."),
        },
        Conclusion::Same if change.is_empty() => {
            format!("No difference: {name} is zero on both sides.")
        }
        Conclusion::Same => format!("No difference that matters: {name} {change}, within 2 %."),
        Conclusion::Inconclusive { .. } => {
            format!("These pairs do not tell: {name} {change}{beside}; {remark}.")
        }
        Conclusion::Refused(_) => format!("No verdict on {name}: {remark}."),
    }
}

/// The cells of a record's map; empty for a record without one.
pub fn map_cells(record: &Record) -> Vec<&Cell> {
    let cells = record.cells().into_iter();
    cells.filter(|cell| cell.rw_ratio.is_some()).collect()
}

/// The verdict on the map of a record that compares.
pub fn map_verdicts(record: &Record) -> Option<MapVerdicts> {
    let cells = map_cells(record);
    if cells.is_empty() || !compares(record) {
        return None;
    }
    let found: Vec<_> = cells.iter().map(|cell| map_cell(record, cell)).collect();
    let verdict = judge_map(&found);
    let exits = [
        exit_of_conclusion(&verdict.conclusion),
        match verdict.changed[1] {
            0 => Exit::Fine,
            _ => Exit::Regression,
        },
    ];
    let word = verdict.conclusion.short(Better::MoreIsFaster).to_owned();
    Some(MapVerdicts {
        sentence: map_sentence(&verdict, &word, &names(record)[1]),
        tone: verdict.conclusion.tone(),
        word,
        exit: exits.into_iter().max().unwrap_or(Exit::Fine),
        verdict,
    })
}

fn map_sentence(verdict: &MapVerdict, word: &str, b: &str) -> String {
    let [better, worse] = verdict.changed;
    let cells = format!(
        "of {} {better} {} faster and {worse} slower, the others no different or not told",
        counted(verdict.cells.len() as u64, "cell"),
        if better == 1 { "is" } else { "are" },
    );
    let headline = verdict.headline.as_ref();
    let change = headline.map_or(String::new(), |it| shown(it, 1.0));
    match &verdict.conclusion {
        Conclusion::Better | Conclusion::Worse => {
            format!("{b} is {word} over the whole map: {change} (geometric mean); {cells}.")
        }
        Conclusion::Same => {
            format!("The same over the whole map: {change} (geometric mean); {cells}.")
        }
        open => format!(
            "No word on the whole map: {change} (geometric mean), {}; {cells}.",
            open.remark().unwrap_or_default()
        ),
    }
}

/// The exit code of a verb that shows this record.
pub fn exit(record: &Record) -> Exit {
    let mut exits = vec![Exit::Fine];
    match map_verdicts(record) {
        Some(map) => exits.push(map.exit),
        None => exits.extend(verdicts(record).iter().map(|cell| cell.exit)),
    }
    let mut outcomes = record.runs.iter().map(|run| &run.outcome);
    if outcomes.any(|it| matches!(it, Outcome::Failed { .. } | Outcome::Lost { .. })) {
        exits.push(Exit::Error);
    }
    if !record.complete {
        exits.push(Exit::Inconclusive);
    }
    exits.into_iter().max().unwrap_or(Exit::Fine)
}
