//! Heatmaps: cells with a colour and a text.

use super::{Anchor, Canvas, LETTER_WIDTH, shortened};

const CELL_HEIGHT: f64 = 44.0;
const CELL_WIDTH_MIN: f64 = 64.0;
const CELL_WIDTH_MAX: f64 = 150.0;
/// Backgrounds above this share of the full colour have a light text (on a dark page, a
/// dark one).
const STRONG_FROM: f64 = 0.65;
const WIDTH_WANTED: f64 = 385.0;

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
#[derive(Clone, Debug)]
pub struct HeatCell {
    pub fill: Fill,
    /// Large text.
    pub text: String,
    /// Small text below; may be empty.
    pub detail: String,
    /// Tooltip.
    pub title: String,
}

/// A heatmap; the first row is at the top.
#[derive(Clone, Debug)]
pub struct HeatMap {
    /// Description for screen readers.
    pub name: String,
    /// Label of the horizontal axis.
    pub column_label: String,
    /// Label of the vertical axis.
    pub row_label: String,
    /// Value of each column.
    pub columns: Vec<String>,
    /// Value of each row.
    pub rows: Vec<String>,
    /// Cells, row by row.
    pub cells: Vec<HeatCell>,
}

impl HeatMap {
    /// The map as SVG.
    pub fn draw(&self) -> String {
        assert_eq!(
            self.cells.len(),
            self.columns.len() * self.rows.len(),
            "a map has one cell for each row and column"
        );
        if self.cells.is_empty() {
            let mut canvas = Canvas::new(WIDTH_WANTED, 80.0);
            canvas.say_empty("no cell was measured");
            return canvas.finish(&self.name);
        }
        let longest = self.rows.iter().map(|row| row.chars().count()).max();
        let left = 34.0 + longest.unwrap_or(0).min(16) as f64 * LETTER_WIDTH + 8.0;
        let width = self.cell_width(left);
        let height = CELL_HEIGHT * self.rows.len() as f64;
        let mut canvas = Canvas::new(
            left + width * self.columns.len() as f64 + 8.0,
            height + 48.0,
        );
        for (at, cell) in self.cells.iter().enumerate() {
            let (row, column) = (at / self.columns.len(), at % self.columns.len());
            let corner = (left + column as f64 * width, row as f64 * CELL_HEIGHT);
            canvas.titled(&cell.title, |canvas| draw_cell(canvas, cell, corner, width));
        }
        self.draw_labels(&mut canvas, left, width, height);
        canvas.finish(&self.name)
    }

    fn cell_width(&self, left: f64) -> f64 {
        let text = self
            .cells
            .iter()
            .map(|cell| cell.text.chars().count().max(cell.detail.chars().count()))
            .max()
            .unwrap_or(0) as f64;
        let room = (WIDTH_WANTED - left) / self.columns.len() as f64;
        let needed = (text * (LETTER_WIDTH + 0.3) + 10.0).max(CELL_WIDTH_MIN);
        room.clamp(needed, CELL_WIDTH_MAX.max(needed))
    }

    fn draw_labels(&self, canvas: &mut Canvas, left: f64, width: f64, height: f64) {
        for (row, text) in self.rows.iter().enumerate() {
            let y = (row as f64 + 0.5) * CELL_HEIGHT + 4.0;
            let text = shortened(text, 16);
            canvas.text((left - 8.0, y), Anchor::End, "tick", &text);
        }
        let letters = (width / LETTER_WIDTH) as usize;
        for (column, text) in self.columns.iter().enumerate() {
            let x = left + (column as f64 + 0.5) * width;
            let text = shortened(text, letters);
            canvas.text((x, height + 17.0), Anchor::Middle, "tick", &text);
        }
        let middle = left + width * self.columns.len() as f64 / 2.0;
        canvas.text(
            (middle, height + 36.0),
            Anchor::Middle,
            "label",
            &self.column_label,
        );
        // In a map with few rows the label is longer than the vertical side.
        let half = self.row_label.chars().count() as f64 * LETTER_WIDTH / 2.0;
        canvas.text_upwards((14.0, (height / 2.0).max(half)), "label", &self.row_label);
    }
}

fn draw_cell(canvas: &mut Canvas, cell: &HeatCell, corner: (f64, f64), width: f64) {
    let inner = (
        (corner.0 + 1.0, corner.1 + 1.0),
        (width - 2.0, CELL_HEIGHT - 2.0),
    );
    let (class, style, strong) = background(cell.fill);
    canvas.rectangle(inner.0, inner.1, class, &style);
    let colour = if strong { " strong" } else { "" };
    let middle = corner.0 + width / 2.0;
    let rows = if cell.detail.is_empty() { 26.0 } else { 20.0 };
    let text = format!("cell{colour}");
    canvas.text((middle, corner.1 + rows), Anchor::Middle, &text, &cell.text);
    if !cell.detail.is_empty() {
        let detail = format!("detail{colour}");
        canvas.text(
            (middle, corner.1 + 34.0),
            Anchor::Middle,
            &detail,
            &cell.detail,
        );
    }
}

/// Class and style of a background, and whether it is so strong that the text must be light.
fn background(fill: Fill) -> (&'static str, String, bool) {
    let mixed = |name: &str, share: f64| {
        let percent = share.clamp(0.0, 1.0) * 100.0;
        format!("fill:color-mix(in oklab,var(--{name}) {percent:.0}%,var(--ground))")
    };
    match fill {
        Fill::Amount(share) => {
            let share = 0.12 + 0.88 * share.clamp(0.0, 1.0);
            ("heat", mixed("amount", share), share > STRONG_FROM)
        }
        Fill::Change(change) => {
            let name = if change < 0.0 { "worse" } else { "better" };
            let share = 0.18 + 0.82 * change.abs().min(1.0);
            ("heat", mixed(name, share), share > STRONG_FROM)
        }
        Fill::Same => ("heat same", String::new(), false),
        Fill::Open => ("heat open", String::new(), false),
        Fill::Missing => ("heat missing", String::new(), false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(rows: usize, columns: usize) -> HeatMap {
        let cell = HeatCell {
            fill: Fill::Change(-0.5),
            text: "-7 %".to_owned(),
            detail: "[-10, -4]".to_owned(),
            title: "seven less".to_owned(),
        };
        HeatMap {
            name: "a map".to_owned(),
            column_label: "connections".to_owned(),
            row_label: "value bytes".to_owned(),
            columns: (0..columns).map(|at| format!("{at}")).collect(),
            rows: (0..rows).map(|at| format!("{at}")).collect(),
            cells: vec![cell; rows * columns],
        }
    }

    #[test]
    fn each_cell_is_drawn_with_its_title() {
        let svg = map(2, 3).draw();
        assert_eq!(svg.matches("<title>seven less</title>").count(), 6);
        assert!(svg.contains("var(--worse)"));
    }

    #[test]
    fn a_map_without_cells_says_so() {
        assert!(map(0, 0).draw().contains("no cell was measured"));
    }

    #[test]
    fn cells_are_wide_enough_for_their_text() {
        let mut wide = map(1, 12);
        for cell in &mut wide.cells {
            cell.detail = "[-100.5, 1234.5]".to_owned();
        }
        assert!(wide.cell_width(60.0) >= 16.0 * LETTER_WIDTH);
    }
}
