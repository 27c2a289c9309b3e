//! A picture of a record to share: for a README, a page or a talk, with everything that a
//! number needs beside it.
//!
//! ```text
//!   title                          what was measured
//!   cell                 +30 % [10, 54]  faster
//!   etcd 3.7.3    ▒▒▒▒▒█──┤ 1,045           bar: median; line: least to most run
//!   inkstone      ████████──┤ 1,440         ▒: A against its own copy
//!   machine, date, commit
//! ```
//!
//! One file is readable on light and on dark ground, needs no font from elsewhere, and its
//! text stays text. The same record always gives the same bytes.

use minijinja::context;
use minijinja::value::Serde;
use serde::Serialize;

use super::provenance::Provenance;
use super::quantity::{Quantity, Spread, THROUGHPUT};
use super::sides::{self, Side, names, sides};
use super::svg::scale::{Scale, Spacing};
use super::svg::shortened;
use super::verdicts::{Line, verdicts};
use super::{ReportError, template};
use crate::record::{ARM_A, ARM_A_AGAIN, ARM_B, Cell, Record};
use crate::verdict::Better;
use crate::verdict::evidence::compares;
use crate::verdict::measures::measures;

/// More rows than this are no picture for a README.
const CELLS_MAX: usize = 12;

const WIDTH: f64 = 640.0;
const MARGIN: f64 = 24.0;
/// Places of the bars, and of the end of the longest.
const BARS: [f64; 2] = [MARGIN + 118.0, WIDTH - MARGIN - 74.0];
const BAR_HEIGHT: f64 = 13.0;
const BAR_STEP: f64 = 17.0;
/// Height of a cell's name, and the room below a cell.
const NAME_HEIGHT: f64 = 24.0;
const CELL_GAP: f64 = 15.0;
const TITLE_LETTERS: usize = 54;
const TITLE_STEP: f64 = 25.0;
const NOTE_LETTERS: usize = 92;
const NOTE_STEP: f64 = 17.0;
const SIDE_LETTERS: usize = 18;
/// A wider band is cut, so that the bars stay comparable.
const BAND_SHARE_MAX: f64 = 1.5;

/// Lines of text with the height of each.
type Lines = Vec<(f64, String)>;

/// The picture, as places for the template.
#[derive(Serialize)]
struct SharePicture {
    width: f64,
    height: f64,
    margin: f64,
    /// Right end of texts.
    right: f64,
    title: Lines,
    subtitle: Lines,
    rows: Vec<CellBars>,
    notes: Lines,
}

/// One cell.
#[derive(Serialize)]
struct CellBars {
    name: String,
    y: f64,
    /// Change with its interval; empty without a comparison.
    change: String,
    word: String,
    tone: &'static str,
    /// Left end, top, width and height of the A/A band.
    band: Option<[f64; 4]>,
    bars: Vec<SideBar>,
}

/// One side in a cell.
#[derive(Serialize)]
struct SideBar {
    name: String,
    class: String,
    y: f64,
    left: f64,
    width: f64,
    height: f64,
    /// Ends of the line from the least to the greatest run.
    range: Option<(f64, f64)>,
    text: String,
    text_x: f64,
}

/// The picture of a quantity as SVG, of all cells or of the named ones.
pub fn render(
    record: &Record,
    quantity: &Quantity,
    wanted: &[String],
) -> Result<String, ReportError> {
    let cells = chosen(record, wanted)?;
    if !record.valid_runs().any(|run| (quantity.of)(run).is_some()) {
        let what = format!(
            "no run has a value for `{}`: choose another --column",
            quantity.key
        );
        return Err(ReportError::Impossible(what));
    }
    let title = spread(wrapped(&record.title, TITLE_LETTERS), 42.0, TITLE_STEP);
    let mut y = below(&title, 42.0, TITLE_STEP) - 3.0;
    let subtitle = spread(subject(record, quantity), y, NOTE_STEP);
    y = below(&subtitle, y, NOTE_STEP) + 12.0;
    let verdicts = verdicts(record);
    let mut rows = Vec::new();
    for cell in cells {
        let verdict = verdicts.iter().find(|it| it.cell == cell.name);
        let lines = verdict.map_or(&[][..], |it| &it.lines);
        let line = lines.iter().find(|it| it.metric == quantity.metric);
        let row = CellBars::of(record, cell, quantity, (line, y));
        y += NAME_HEIGHT + BAR_STEP * row.bars.len() as f64 + CELL_GAP;
        rows.push(row);
    }
    let notes = notes(record, rows.iter().any(|row| row.band.is_some()));
    let notes = spread(notes, y + 8.0, NOTE_STEP);
    let picture = SharePicture {
        width: WIDTH,
        height: below(&notes, y, NOTE_STEP) + 4.0,
        margin: MARGIN,
        right: WIDTH - MARGIN,
        title,
        subtitle,
        rows,
        notes,
    };
    template::render(
        "share.svg",
        context! { it => Serde(picture), title => plain(&record.title) },
    )
}

/// The cells of a picture, in the order of the record. An error lists the names.
fn chosen<'a>(record: &'a Record, wanted: &[String]) -> Result<Vec<&'a Cell>, ReportError> {
    let mut cells = record.cells();
    let known = cells.iter().map(|cell| format!("`{}`", cell.name));
    let known = known.collect::<Vec<_>>().join(", ");
    let is_known = |name: &&String| cells.iter().any(|cell| cell.name == **name);
    if let Some(name) = wanted.iter().find(|name| !is_known(name)) {
        let what = format!("there is no row `{name}`: write one of {known}");
        return Err(ReportError::Impossible(what));
    }
    cells.retain(|cell| wanted.is_empty() || wanted.contains(&cell.name));
    match cells.len() {
        0 => Err(ReportError::Impossible("the record has no run".to_owned())),
        1..=CELLS_MAX => Ok(cells),
        many => Err(ReportError::Impossible(format!(
            "{many} rows are too many for a picture: name at most {CELLS_MAX} with --row, of {known}"
        ))),
    }
}

/// The quantity and its better direction, and both sides of a comparison.
fn subject(record: &Record, quantity: &Quantity) -> Vec<String> {
    let all = measures(false);
    let measure = all.iter().find(|it| it.metric.name == quantity.metric);
    let better = measure.map(|it| match it.metric.better {
        Better::MoreIsFaster => ", more is better",
        Better::LessIsFaster | Better::LessIsThriftier => ", less is better",
    });
    let what = match quantity.key == THROUGHPUT.key {
        true => "operations per second",
        false => quantity.head,
    };
    let better = better.unwrap_or("");
    let what = format!("Bars: {what}{better}; each row has its own scale.");
    let texts = [what, versus(record)];
    let lines = texts.iter().flat_map(|text| wrapped(text, NOTE_LETTERS));
    lines.collect()
}

fn versus(record: &Record) -> String {
    let [a, b] = names(record);
    match compares(record) {
        true => format!("{b} against {a}, with the 95 % interval."),
        false => String::new(),
    }
}

/// The explanation of the marks and the provenance.
fn notes(record: &Record, has_band: bool) -> Vec<String> {
    let it = Provenance::of(record);
    let band = match has_band {
        true => "; shaded: the first against its own copy",
        false => "",
    };
    let marks = format!("Bar: median; line: least to greatest run{band}.");
    let machine = format!("{}, {}.", it.machine, it.device);
    let origin = format!("{}, commit {}, {}.", it.date, it.commit, it.repetitions);
    let incomplete = record.incomplete_because.as_ref();
    let incomplete = incomplete.map(|why| format!("Incomplete: {why}."));
    let texts = [Some(marks), Some(machine), Some(origin), incomplete];
    let texts = texts.iter().flatten();
    texts.flat_map(|text| wrapped(text, NOTE_LETTERS)).collect()
}

impl CellBars {
    /// The bars of a cell, which begin at the height `y`; `line` is the verdict on the quantity.
    fn of(
        record: &Record,
        cell: &Cell,
        quantity: &Quantity,
        (line, y): (Option<&Line>, f64),
    ) -> CellBars {
        let mut shown = sides(record, cell);
        // In a comparison the copy is the band.
        let has_band = |side: &Side| side.arm == ARM_A_AGAIN && compares(record);
        shown.retain(|side| !has_band(side) && !side.is_ceiling());
        let spreads = shown.iter().map(|side| quantity.over(&side.runs));
        let spreads: Vec<Option<Spread>> = spreads.collect();
        let band = spreads.first().copied().flatten().zip(line);
        let band = band.and_then(|(spread, line)| line.band_around(spread.median));
        let scale = scale_of(&spreads, band);
        let band = band.map(|(from, to)| (scale.place(from), scale.place(to)));
        let top = y + NAME_HEIGHT;
        let sides = shown.iter().zip(&spreads).enumerate();
        let bars = sides.map(|(at, (side, spread))| SideBar {
            name: shortened(&plain(&name(record, side.arm)), SIDE_LETTERS),
            class: side.class.clone(),
            text: quantity.text(spread.as_ref()),
            ..SideBar::at(top + BAR_STEP * at as f64, spread.as_ref(), &scale, band)
        });
        let height = BAR_STEP * shown.len() as f64 - BAR_STEP + BAR_HEIGHT;
        CellBars {
            name: plain(&cell.name),
            y: y + 13.0,
            change: line.map_or(String::new(), |it| it.change.clone()),
            word: line.map_or(String::new(), |it| it.word.clone()),
            tone: line.map_or("", |it| it.tone),
            bars: bars.collect(),
            band: band.map(|(from, to)| [from, top - 2.0, to - from, height + 4.0]),
        }
    }
}

/// A scale from zero to the greatest run, or to the end of the band where that is near.
fn scale_of(spreads: &[Option<Spread>], band: Option<(f64, f64)>) -> Scale {
    let most = spreads.iter().flatten().map(|it| it.most);
    let most = most.filter(|it| it.is_finite()).fold(0.0, f64::max);
    let band = band.map_or(0.0, |(_, to)| to.min(most * BAND_SHARE_MAX));
    Scale::new(Spacing::Even, (0.0, most.max(band)), BARS)
}

impl SideBar {
    /// A bar at the height `y`, without texts.
    fn at(y: f64, spread: Option<&Spread>, scale: &Scale, band: Option<(f64, f64)>) -> SideBar {
        let end = spread.map_or(BARS[0], |it| scale.place(it.median));
        let range = spread.filter(|it| it.least < it.most);
        let range = range.map(|it| (scale.place(it.least), scale.place(it.most)));
        let free_from = range.map_or(end, |(_, most)| most.max(end));
        // The shading would make a number within it harder to read.
        let within = band.filter(|(from, to)| (from - 4.0..*to).contains(&free_from));
        SideBar {
            name: String::new(),
            class: String::new(),
            y,
            left: BARS[0],
            width: end - BARS[0],
            height: BAR_HEIGHT,
            range,
            text: String::new(),
            text_x: within.map_or(free_from, |(_, to)| to) + 7.0,
        }
    }
}

/// The name of a side without the letter of its arm.
fn name(record: &Record, arm: &str) -> String {
    let [a, b] = names(record);
    match arm {
        ARM_A if compares(record) => a,
        ARM_B => b,
        _ => match sides::label(record, arm) {
            label if label.chars().count() <= SIDE_LETTERS => label,
            _ => sides::label_parts(record, arm).0,
        },
    }
}

/// Text without signs that a picture cannot show.
fn plain(text: &str) -> String {
    let letters = text
        .chars()
        .map(|it| if it.is_control() { ' ' } else { it });
    letters.collect()
}

/// The words of a text in lines of at most `letters_max` letters.
fn wrapped(text: &str, letters_max: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in plain(text).split_whitespace() {
        let word = shortened(word, letters_max);
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= letters_max => {
                line.push(' ');
                line.push_str(&word);
            }
            _ => lines.push(word),
        }
    }
    lines
}

fn spread(lines: Vec<String>, first: f64, step: f64) -> Lines {
    let lines = lines.into_iter().enumerate();
    lines
        .map(|(at, line)| (first + step * at as f64, line))
        .collect()
}

/// The height of the line after these.
fn below(lines: &Lines, first: f64, step: f64) -> f64 {
    lines.last().map_or(first, |(y, _)| y + step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_wrapped_between_words() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("unbreakable", 5), ["unbr…"]);
        assert_eq!(wrapped("a\u{1}b", 9), ["a b"]);
        assert!(wrapped(" ", 5).is_empty());
    }
}
