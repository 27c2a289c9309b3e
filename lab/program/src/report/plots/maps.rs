//! Heatmaps of reads over writes: connections on the horizontal axis, value sizes on the
//! vertical one, one row of maps for each ratio. The maps of all sides of a ratio have a
//! common scale.

use serde::Serialize;

use super::rivals;
use crate::record::{ARM_A_AGAIN, Cell, Record};
use crate::report::number::{bytes, change, change_within, grouped, short, three_digits};
use crate::report::quantity::{Spread, THROUGHPUT};
use crate::report::sides::{arms, label};
use crate::report::svg::heat_map::{Fill, HeatCell, HeatMap};
use crate::report::verdicts::{map_cells, map_verdicts};
use crate::statistics::log_ratio::percent;
use crate::verdict::{CellVerdict, Conclusion};

/// Logarithm of the change that has the full colour: twice as fast, or half.
const FULL_CHANGE: f64 = std::f64::consts::LN_2;

/// The maps of one ratio.
#[derive(Serialize)]
pub struct Facet {
    /// Title such as `4 reads for each write`.
    pub title: String,
    /// The sides first, their difference last.
    pub maps: Vec<HeatMap>,
}

/// The cells of one ratio, with the values of their axes.
struct Grid<'a> {
    cells: Vec<&'a Cell>,
    columns: Vec<u32>,
    rows: Vec<f64>,
}

/// The maps of a record by ratio; empty for a record without a map.
pub fn facets(record: &Record) -> Vec<Facet> {
    let cells = map_cells(record);
    let mut ratios: Vec<f64> = cells.iter().filter_map(|cell| cell.rw_ratio).collect();
    ratios.sort_by(f64::total_cmp);
    ratios.dedup();
    let verdicts = map_verdicts(record).map(|map| map.verdict.cells);
    ratios
        .into_iter()
        .map(|ratio| {
            let here = |cell: &&&Cell| cell.rw_ratio == Some(ratio);
            let grid = Grid::of(cells.iter().filter(here).copied().collect());
            let mut maps = amounts(record, &grid);
            if let Some(verdicts) = &verdicts {
                let of_cell = |cell: &Cell| {
                    let at = cells.iter().position(|known| known.name == cell.name)?;
                    verdicts.get(at)
                };
                let names = ["B against A", "what changed"].map(str::to_owned);
                maps.push(grid.map(names, |cell| changed(of_cell(cell)?, cell)));
            }
            Facet {
                title: title(ratio),
                maps,
            }
        })
        .collect()
}

fn title(ratio: f64) -> String {
    match ratio {
        ratio if ratio >= 1.0 => format!("{} reads for each write", three_digits(ratio)),
        ratio => format!("{} writes for each read", three_digits(1.0 / ratio)),
    }
}

impl<'a> Grid<'a> {
    fn of(cells: Vec<&'a Cell>) -> Grid<'a> {
        let mut columns: Vec<u32> = cells.iter().map(|cell| cell.connections).collect();
        columns.sort_unstable();
        columns.dedup();
        let mut rows: Vec<f64> = cells.iter().map(|cell| cell.value_bytes).collect();
        rows.sort_by(|a, b| b.total_cmp(a));
        rows.dedup();
        Grid {
            cells,
            columns,
            rows,
        }
    }

    fn map(&self, names: [String; 2], draw: impl Fn(&Cell) -> Option<HeatCell>) -> HeatMap {
        let columns: Vec<String> = self.columns.iter().map(u32::to_string).collect();
        let rows: Vec<String> = self.rows.iter().map(|row| bytes(*row)).collect();
        HeatMap::new(names, &columns, &rows, |row, column| {
            let (value, connections) = (self.rows[row], self.columns[column]);
            let mut cells = self.cells.iter();
            let here = cells.find(|it| it.value_bytes == value && it.connections == connections);
            here.and_then(|cell| draw(cell)).unwrap_or_else(|| {
                HeatCell::new(Fill::Missing, "–", String::new(), "not measured".to_owned())
            })
        })
    }
}

/// A map of throughput for each side except the copy of A.
fn amounts(record: &Record, grid: &Grid) -> Vec<HeatMap> {
    let rate = |cell: &Cell, arm: &str| {
        let sides = rivals(record, cell);
        let side = sides.iter().find(|side| side.arm == arm)?;
        THROUGHPUT.over(&side.runs)
    };
    let shown: Vec<&str> = arms(record)
        .into_iter()
        .filter(|arm| *arm != ARM_A_AGAIN)
        .filter(|arm| grid.cells.iter().any(|cell| rate(cell, arm).is_some()))
        .collect();
    let rates = || {
        let cells = grid.cells.iter();
        cells.flat_map(|cell| shown.iter().filter_map(|arm| rate(cell, arm)))
    };
    let most = rates()
        .map(|it| it.median)
        .fold(f64::MIN_POSITIVE, f64::max);
    shown
        .iter()
        .map(|arm| {
            let name = label(record, arm);
            let draw = |cell: &Cell| Some(amount(&rate(cell, arm)?, most, cell));
            let title = format!("{name}, operations per second");
            grid.map([title, format!("{name}: operations per second")], draw)
        })
        .collect()
}

fn amount(rate: &Spread, most: f64, cell: &Cell) -> HeatCell {
    let half = (rate.most - rate.least) / 2.0 / rate.median * 100.0;
    let detail = match rate.runs {
        0 | 1 => String::new(),
        _ => format!("±{}", change(half).trim_start_matches('+')),
    };
    let title = format!(
        "{}: {} op/s, {} to {} in {} runs",
        cell.name,
        grouped(rate.median),
        grouped(rate.least),
        grouped(rate.most),
        rate.runs
    );
    let fill = Fill::Amount(rate.median / most);
    HeatCell::new(fill, &short(rate.median), detail, title)
}

fn changed(verdict: &CellVerdict, cell: &Cell) -> Option<HeatCell> {
    let effect = verdict.effect.as_ref()?;
    let ends = [effect.middle, effect.low, effect.high].map(percent);
    let whole = change_within(ends[0], ends[1], ends[2]);
    let (text, detail) = whole.split_once(" [").unwrap_or((&whole, ""));
    let (fill, word) = match &verdict.conclusion {
        Conclusion::Better | Conclusion::Worse => {
            let word = verdict
                .conclusion
                .short(crate::verdict::Better::MoreIsFaster);
            (Fill::Change(effect.middle / FULL_CHANGE), word.to_owned())
        }
        Conclusion::Same => (Fill::Same, "same".to_owned()),
        open => (Fill::Open, open.remark().unwrap_or_default()),
    };
    let detail = match detail {
        "" => String::new(),
        detail => format!("[{detail}"),
    };
    let title = format!("{}: {whole}, {word}", cell.name);
    Some(HeatCell::new(fill, text, detail, title))
}
