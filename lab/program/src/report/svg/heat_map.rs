//! Heatmaps: cells with a colour and a text.

use serde::Serialize;

use super::{LETTER_WIDTH, shortened};

const CELL_HEIGHT: f64 = 44.0;
const CELL_WIDTH_MIN: f64 = 64.0;
const CELL_WIDTH_MAX: f64 = 150.0;
/// Backgrounds above this share of the full colour have a light text (on a dark page, a
/// dark one).
const STRONG_FROM: f64 = 0.65;
const WIDTH_WANTED: f64 = 385.0;
/// Greatest number of characters in the label of a row.
const ROW_LETTERS_MAX: usize = 16;

/// Background of a cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fill {
    /// From nothing (0) to most (1), in one colour.
    Amount(f64),
    /// From worst (-1) through no change (0) to best (1).
    Change(f64),
    /// The difference is too small to matter.
    Same,
    /// The difference is not significant; the cell is hatched.
    Open,
    /// The cell was not measured.
    Missing,
}

/// One cell.
#[derive(Clone, Debug, Serialize)]
pub struct HeatCell {
    /// Style class of the background.
    class: &'static str,
    /// Style of the background; may be empty.
    style: String,
    /// The background is so strong that the text must be light.
    strong: bool,
    /// Large text.
    pub text: String,
    /// Small text below; may be empty.
    pub detail: String,
    /// Tooltip.
    pub title: String,
}

/// A heatmap; the first row is at the top.
#[derive(Clone, Debug, Serialize)]
pub struct HeatMap {
    pub title: String,
    /// Description for screen readers.
    pub name: String,
    /// Value of each column.
    columns: Vec<String>,
    /// Value and cells of each row.
    rows: Vec<(String, Vec<HeatCell>)>,
    /// Left edge of the cells.
    left: f64,
    /// Width of a cell.
    width: f64,
    /// Height of a cell.
    height: f64,
    letter_width: f64,
}

impl HeatCell {
    pub fn new(fill: Fill, text: &str, detail: String, title: String) -> HeatCell {
        let (class, style, strong) = background(fill);
        HeatCell {
            class,
            style,
            strong,
            text: text.to_owned(),
            detail,
            title,
        }
    }
}

impl HeatMap {
    /// A map of columns and rows with their values; `cell` makes one from the places of its
    /// row and column.
    pub fn new(
        [title, name]: [String; 2],
        columns: &[String],
        rows: &[String],
        cell: impl Fn(usize, usize) -> HeatCell,
    ) -> HeatMap {
        let longest = rows.iter().map(|row| row.chars().count()).max();
        let longest = longest.unwrap_or(0).min(ROW_LETTERS_MAX);
        let left = 34.0 + longest as f64 * LETTER_WIDTH + 8.0;
        let rows: Vec<(String, Vec<HeatCell>)> = rows
            .iter()
            .enumerate()
            .map(|(row, label)| {
                let cells = (0..columns.len()).map(|column| cell(row, column));
                (shortened(label, ROW_LETTERS_MAX), cells.collect())
            })
            .collect();
        let room = (WIDTH_WANTED - left) / columns.len() as f64;
        let width = cell_width(room, rows.iter().flat_map(|(_, cells)| cells));
        let letters = (width / LETTER_WIDTH) as usize;
        let columns = columns.iter().map(|label| shortened(label, letters));
        HeatMap {
            title,
            name,
            columns: columns.collect(),
            rows,
            left,
            width,
            height: CELL_HEIGHT,
            letter_width: LETTER_WIDTH,
        }
    }
}

/// Width of each cell, where `room` is left for it.
fn cell_width<'a>(room: f64, cells: impl Iterator<Item = &'a HeatCell>) -> f64 {
    let letters = cells.map(|cell| cell.text.chars().count().max(cell.detail.chars().count()));
    let longest = letters.max().unwrap_or(0) as f64;
    let needed = (longest * (LETTER_WIDTH + 0.3) + 10.0).max(CELL_WIDTH_MIN);
    room.clamp(needed, CELL_WIDTH_MAX.max(needed))
}

/// Class and style of a background, and whether it is so strong that the text must be light.
fn background(fill: Fill) -> (&'static str, String, bool) {
    let mixed = |name: &str, share: f64| {
        let percent = share * 100.0;
        let style = format!("fill:color-mix(in oklab,var(--{name}) {percent:.0}%,var(--ground))");
        ("heat", style, share > STRONG_FROM)
    };
    match fill {
        Fill::Amount(share) => mixed("amount", 0.12 + 0.88 * share.clamp(0.0, 1.0)),
        Fill::Change(change) => {
            let name = if change < 0.0 { "worse" } else { "better" };
            mixed(name, 0.18 + 0.82 * change.abs().min(1.0))
        }
        Fill::Same => ("heat same", String::new(), false),
        Fill::Open => ("heat open", String::new(), false),
        Fill::Missing => ("heat missing", String::new(), false),
    }
}

#[cfg(test)]
mod tests {
    use super::super::drawn;
    use super::*;

    fn map(rows: usize, columns: usize, detail: &str) -> HeatMap {
        let labels =
            |count: usize| -> Vec<String> { (0..count).map(|it| it.to_string()).collect() };
        let names = ["a map", "a map"].map(str::to_owned);
        HeatMap::new(names, &labels(columns), &labels(rows), |_, _| {
            let title = "seven less".to_owned();
            HeatCell::new(Fill::Change(-0.5), "-7 %", detail.to_owned(), title)
        })
    }

    #[test]
    fn each_cell_is_drawn_with_its_title() {
        let svg = drawn("heat_map", map(2, 3, "[-10, -4]"));
        assert_eq!(svg.matches("<title>seven less</title>").count(), 6);
        assert!(svg.contains("var(--worse)"));
    }

    #[test]
    fn cells_are_wide_enough_for_their_text() {
        assert!(map(1, 12, "[-100.5, 1234.5]").width >= 16.0 * LETTER_WIDTH);
    }
}
