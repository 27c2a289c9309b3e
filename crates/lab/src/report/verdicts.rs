//! Verdicts in words: what a comparison may say, and how sure it is.

use serde::Serialize;

use super::number::{change, change_within, counted};
use super::quantity::QUANTITIES;
use super::sides::names;
use crate::record::{Cell, Record};
use crate::statistics::log_ratio::{LogRatio, percent};
use crate::verdict::evidence::{compares, comparison, map_cell};
use crate::verdict::exit::exit_of_word;
use crate::verdict::{Better, Exit, MapVerdict, Rules, Verdict, Word, judge_map};

/// Up to here "12 % more" and "12 % less" undo each other well enough to be
/// written as one.
const ALIKE_PERCENT: f64 = 12.0;

/// How a verdict is to be taken at a glance; pages know it as a style class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Tone {
    /// B is ahead.
    Better,
    /// B is behind.
    Worse,
    /// There is no difference that matters.
    Same,
    /// It cannot be told.
    Open,
    /// No number means anything.
    Refused,
}

impl Tone {
    /// Of a word.
    pub fn of(word: &Word) -> Tone {
        match word {
            Word::Better => Tone::Better,
            Word::Worse => Tone::Worse,
            Word::Same => Tone::Same,
            Word::Inconclusive { .. } => Tone::Open,
            Word::Refused(_) => Tone::Refused,
        }
    }
}

/// The verdict on one metric.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// What was compared.
    pub metric: String,
    /// One or two words.
    pub word: String,
    /// How to take it.
    pub tone: Tone,
    /// `+7 % [4, 10]`; empty without numbers.
    pub change: String,
    /// `±2.1 %`: what A and its copy differ by, by chance; empty without.
    pub band: String,
    /// Medians of A and B.
    pub medians: [String; 2],
    /// What to do next, or why there is no verdict; may be empty.
    pub remark: String,
    /// The exit code depends on it.
    pub decides: bool,
    /// All of it in a sentence.
    pub sentence: String,
}

/// The verdicts of one cell.
#[derive(Clone, Debug)]
pub struct CellVerdicts {
    /// Which.
    pub cell: String,
    /// The most telling first.
    pub lines: Vec<Line>,
    /// What belongs beside them: order effects, repeated triples.
    pub remarks: Vec<String>,
    /// What the cell alone would end the process with.
    pub exit: Exit,
}

impl CellVerdicts {
    /// The line that speaks for the cell.
    pub fn headline(&self) -> Option<&Line> {
        let deciding = self.lines.iter().find(|line| line.decides);
        deciding.or(self.lines.first())
    }
}

/// The verdict on a map.
#[derive(Clone, Debug)]
pub struct MapVerdicts {
    /// All of it in a sentence.
    pub sentence: String,
    /// How to take it.
    pub tone: Tone,
    /// One or two words.
    pub word: String,
    /// Cell by cell, in the order of [`map_cells`].
    pub verdict: MapVerdict,
    /// What the process ends with.
    pub exit: Exit,
}

/// All verdicts of a record that compares; nothing of others.
pub fn verdicts(record: &Record) -> Vec<CellVerdicts> {
    if !compares(record) {
        return Vec::new();
    }
    let cells = record.cells().into_iter();
    cells.map(|cell| of_cell(record, cell)).collect()
}

fn of_cell(record: &Record, cell: &Cell) -> CellVerdicts {
    let names = names(record);
    let judgement = comparison(record, cell).judge(&Rules::default());
    CellVerdicts {
        cell: cell.name.clone(),
        lines: judgement
            .verdicts
            .iter()
            .map(|verdict| line(verdict, &names))
            .collect(),
        remarks: judgement.remarks,
        exit: judgement.exit,
    }
}

fn line(verdict: &Verdict, names: &[String; 2]) -> Line {
    let metric = &verdict.metric;
    let word = verdict.word.short(metric.better);
    let change = verdict.effect.as_ref().map(|it| shown(it, metric.sign()));
    let change = change.unwrap_or_default();
    let band = match verdict.band {
        band if band > 0.0 && band.is_finite() => within(band),
        _ => String::new(),
    };
    let show = QUANTITIES.iter().find(|it| it.metric == metric.name);
    let median = |value: Option<f64>| match (value, show) {
        (None, _) => "–".to_owned(),
        (Some(value), Some(quantity)) => (quantity.show)(value),
        (Some(value), None) if metric.unit.starts_with("µs") => super::number::time(value),
        (Some(value), None) => super::number::short(value),
    };
    let remark = verdict.word.remark().unwrap_or_default();
    Line {
        sentence: sentence(verdict, names, &change, &band),
        metric: metric.name.clone(),
        word: word.to_owned(),
        tone: Tone::of(&verdict.word),
        medians: verdict.medians.map(median),
        change,
        band,
        remark,
        decides: metric.decides,
    }
}

/// In logarithms positive is better; people want to see the number move.
fn shown(ratio: &LogRatio, sign: f64) -> String {
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
    let word = verdict.word.short(verdict.metric.better);
    let remark = verdict.word.remark().unwrap_or_default();
    let beside = match band {
        "" => String::new(),
        band => format!("; {a} against its own copy makes {band} out of nothing"),
    };
    match &verdict.word {
        Word::Better | Word::Worse => match verdict.metric.better {
            Better::LessIsThriftier => {
                format!("{b} needs {word} than {a}: {name} {change}{beside}.")
            }
            _ => format!("{b} is {word} than {a}: {name} {change}{beside}."),
        },
        Word::Same if change.is_empty() => format!("No difference: {name} is zero on both sides."),
        Word::Same => format!("No difference that matters: {name} {change}, within 2 %."),
        Word::Inconclusive { .. } => {
            format!("These pairs do not tell: {name} {change}{beside}; {remark}.")
        }
        Word::Refused(_) => format!("No verdict on {name}: {remark}."),
    }
}

/// The cells of a map, of a record that has one.
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
    let verdict = judge_map(&found, &Rules::default());
    let exits = [
        exit_of_word(&verdict.word),
        match verdict.changed[1] {
            0 => Exit::Fine,
            _ => Exit::Regression,
        },
    ];
    let word = verdict.word.short(Better::MoreIsFaster).to_owned();
    Some(MapVerdicts {
        sentence: map_sentence(&verdict, &word, &names(record)[1]),
        tone: Tone::of(&verdict.word),
        word,
        exit: Exit::gravest(exits).unwrap_or(Exit::Fine),
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
    match &verdict.word {
        Word::Better | Word::Worse => {
            format!("{b} is {word} over the whole map: {change} (geometric mean); {cells}.")
        }
        Word::Same => format!("The same over the whole map: {change} (geometric mean); {cells}."),
        open => format!(
            "No word on the whole map: {change} (geometric mean), {}; {cells}.",
            open.remark().unwrap_or_default()
        ),
    }
}

/// How the process ends that shows this record.
pub fn exit(record: &Record) -> Exit {
    let mut exits = vec![Exit::Fine];
    match map_verdicts(record) {
        Some(map) => exits.push(map.exit),
        None => exits.extend(verdicts(record).iter().map(|cell| cell.exit)),
    }
    let without_numbers = |run: &&crate::record::Run| {
        use crate::record::Outcome::{Failed, Lost};
        matches!(run.outcome, Failed { .. } | Lost { .. })
    };
    if record.runs.iter().any(|run| without_numbers(&run)) {
        exits.push(Exit::Error);
    }
    if !record.complete {
        exits.push(Exit::Inconclusive);
    }
    Exit::gravest(exits).unwrap_or(Exit::Fine)
}
