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

/// The maps of a record by ratio; empty for a record without a map.
pub fn facets(record: &Record) -> Vec<Facet> {
    let cells = map_cells(record);
    let verdicts = map_verdicts(record).map(|map| map.verdict.cells);
    let facets = ascending(cells.iter().filter_map(|cell| cell.rw_ratio)).into_iter();
    let facets = facets.map(|ratio| {
        let mut here = cells.clone();
        here.retain(|cell| cell.rw_ratio == Some(ratio));
        let mut maps = amounts(record, &here);
        if let Some(verdicts) = &verdicts {
            let names = ["B against A", "what changed"].map(str::to_owned);
            maps.push(map(names, &here, |cell| {
                let at = cells.iter().position(|known| known.name == cell.name)?;
                changed(verdicts.get(at)?, cell)
            }));
        }
        Facet {
            title: title(ratio),
            maps,
        }
    });
    facets.collect()
}

fn ascending(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    values
}

fn title(ratio: f64) -> String {
    match ratio {
        ratio if ratio >= 1.0 => format!("{} reads for each write", three_digits(ratio)),
        ratio => format!("{} writes for each read", three_digits(1.0 / ratio)),
    }
}

/// The map of some cells; a place without a cell is empty.
fn map(names: [String; 2], cells: &[&Cell], draw: impl Fn(&Cell) -> Option<HeatCell>) -> HeatMap {
    let columns = ascending(cells.iter().map(|cell| f64::from(cell.connections)));
    let mut rows = ascending(cells.iter().map(|cell| cell.value_bytes));
    rows.reverse();
    let labels: Vec<String> = columns.iter().map(f64::to_string).collect();
    let row_labels: Vec<String> = rows.iter().map(|row| bytes(*row)).collect();
    HeatMap::new(names, &labels, &row_labels, |row, column| {
        let here = |cell: &Cell| {
            cell.value_bytes == rows[row] && f64::from(cell.connections) == columns[column]
        };
        let cell = cells.iter().find(|cell| here(cell));
        cell.and_then(|cell| draw(cell)).unwrap_or_else(|| {
            HeatCell::new(Fill::Missing, "–", String::new(), "not measured".to_owned())
        })
    })
}

/// A map of throughput for each side except the copy of A.
fn amounts(record: &Record, cells: &[&Cell]) -> Vec<HeatMap> {
    let rate = |cell: &Cell, arm: &str| {
        let sides = rivals(record, cell);
        let side = sides.iter().find(|side| side.arm == arm)?;
        THROUGHPUT.over(&side.runs)
    };
    let mut shown = arms(record);
    shown.retain(|arm| *arm != ARM_A_AGAIN && cells.iter().any(|cell| rate(cell, arm).is_some()));
    let pairs = cells
        .iter()
        .flat_map(|cell| shown.iter().map(move |arm| (cell, arm)));
    let rates = pairs.filter_map(|(cell, arm)| Some(rate(cell, arm)?.median));
    let most = rates.fold(f64::MIN_POSITIVE, f64::max);
    let maps = shown.iter().map(|arm| {
        let name = label(record, arm);
        let title = format!("{name}, operations per second");
        map(
            [title, format!("{name}: operations per second")],
            cells,
            |cell| Some(amount(&rate(cell, arm)?, most, cell)),
        )
    });
    maps.collect()
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
