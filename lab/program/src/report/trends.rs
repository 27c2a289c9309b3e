//! A row over records: the same work of the same target, measured on several days.
//!
//! ```text
//!   records by time ──► rows: work (parts of the workload), target (product, members, flags)
//!                  ──► a trend for each row that two records have
//! ```
//!
//! Days differ even on one machine, so a trend never says "faster": as `compare` does, it says
//! that two records *differ*, or that they do not decide. Records of another machine than the
//! newest one are drawn hollow, and neither connected nor compared.

use std::collections::BTreeSet;

use serde::Serialize;

use super::across::change_of;
use super::alike::{other_facts, other_parts};
use super::number::short;
use super::quantity::{Quantity, Spread, THROUGHPUT};
use super::sides::{Side, sides};
use super::svg::LETTER_WIDTH;
use super::svg::scale::{Scale, Spacing};
use super::verdicts::{CellVerdicts, Line, verdicts};
use crate::record::{ARM_A_AGAIN, Cell, Record, Run};
use crate::targets::UNDER_HANDOFF;
use crate::verdict::{compare_unpaired, effect_min};

/// A row with fewer records has no trend.
const RECORDS_MIN: usize = 2;

/// Size of a picture, and the edges of the part that shows data.
const SIZE: [f64; 2] = [330.0, 158.0];
const ACROSS: [f64; 2] = [56.0, 306.0];
const UPWARDS: [f64; 2] = [120.0, 16.0];
const TICKS: usize = 3;
/// Room for a day below the axis.
const DAY_WIDTH: f64 = 7.0 * LETTER_WIDTH;

/// A record and the name of its folder.
#[derive(Debug)]
pub struct Filed {
    pub folder: String,
    pub record: Record,
}

/// A row over records, with places in its picture.
#[derive(Debug, Serialize)]
pub struct Trend {
    pub cell: String,
    pub side: String,
    /// The newest record against the one before, as a sentence.
    pub sentence: String,
    /// Records that are not compared, with the reason.
    pub cautions: Vec<String>,
    pub width: f64,
    pub height: f64,
    pub left: f64,
    pub right: f64,
    pub bottom: f64,
    /// Height and text of the labels left of the picture.
    pub ticks: Vec<(f64, String)>,
    pub points: Vec<TrendPoint>,
}

/// A record in a trend.
#[derive(Debug, Serialize)]
pub struct TrendPoint {
    pub folder: String,
    /// Month and day; empty where there is no room for it.
    pub day: String,
    pub title: String,
    /// The record is of the newest one's machine.
    pub is_alike: bool,
    pub x: f64,
    pub y: f64,
    /// Places of the greatest and of the least run.
    pub range: Option<(f64, f64)>,
    /// Top and height of the A/A band.
    pub band: Option<(f64, f64)>,
}

/// A side of a record in a cell.
struct Found<'a> {
    filed: &'a Filed,
    side: Side<'a>,
    spread: Spread,
    /// Values that the side may reach by chance.
    band: Option<(f64, f64)>,
}

/// The trends of a quantity, in the order of the newest record's rows. `records` are in the
/// order of time.
pub fn trends(records: &[Filed], quantity: &Quantity) -> Vec<Trend> {
    let mut rows: Vec<Vec<Found>> = Vec::new();
    for filed in records {
        for found in found_in(filed, quantity) {
            let known = rows.iter_mut().find(|row| is_same_row(&row[0], &found));
            match known {
                None => rows.push(vec![found]),
                Some(row) => {
                    // Of two builds of a product in one record, B is the newer one.
                    row.retain(|it| it.filed.folder != filed.folder);
                    row.push(found);
                }
            }
        }
    }
    rows.retain(|row| row.len() >= RECORDS_MIN);
    rows.iter().map(|row| trend(row, quantity)).collect()
}

fn found_in<'a>(filed: &'a Filed, quantity: &Quantity) -> Vec<Found<'a>> {
    let record = &filed.record;
    let verdicts = verdicts(record);
    let cells = record.cells().into_iter();
    let found = cells.flat_map(|cell| {
        let line = line(&verdicts, cell, quantity);
        let mut shown = sides(record, cell);
        shown.retain(|side| side.arm != ARM_A_AGAIN && !side.is_ceiling());
        let found = shown.into_iter().filter_map(move |side| {
            let spread = quantity.over(&side.runs)?;
            Some(Found {
                filed,
                side,
                band: line.and_then(|line| line.band_around(spread.median)),
                spread,
            })
        });
        found.collect::<Vec<_>>()
    });
    found.collect()
}

fn line<'v>(verdicts: &'v [CellVerdicts], cell: &Cell, quantity: &Quantity) -> Option<&'v Line> {
    let verdict = verdicts.iter().find(|it| it.cell == cell.name)?;
    let mut lines = verdict.lines.iter();
    lines.find(|it| it.metric == quantity.metric)
}

fn is_same_row(one: &Found, other: &Found) -> bool {
    let ([a, ..], [b, ..]) = (&one.side.runs[..], &other.side.runs[..]) else {
        return false;
    };
    a.cell.workload == b.cell.workload
        && target(a) == target(b)
        && other_parts(&a.workload, &b.workload).is_empty()
}

/// The parts of a target that stay the same over its versions: ports and paths are not.
fn target(run: &Run) -> (&str, bool, u32, BTreeSet<&str>) {
    let target = &run.target;
    let flags = target.command.iter().filter(|word| word.starts_with('-'));
    let flags = flags.filter_map(|word| word.split('=').next());
    let under_handoff = target.version.ends_with(UNDER_HANDOFF);
    (
        &target.product,
        under_handoff,
        target.members,
        flags.collect(),
    )
}

fn trend(row: &[Found], quantity: &Quantity) -> Trend {
    let newest = &row[row.len() - 1];
    let ends = row
        .iter()
        .map(|it| it.spread.most.max(it.band.map_or(0.0, |(_, to)| to)));
    let most = ends.filter(|it| it.is_finite()).fold(0.0, f64::max);
    let y = Scale::new(Spacing::Even, (0.0, most), UPWARDS);
    let x = Scale::new(Spacing::Even, (-0.5, row.len() as f64 - 0.5), ACROSS);
    let points = row.iter().enumerate();
    let points = points.map(|(at, it)| point(it, newest, quantity, (x.place(at as f64), &y)));
    let mut points: Vec<TrendPoint> = points.collect();
    hide_days(&mut points);
    let ticks = y.ticks(TICKS).into_iter();
    Trend {
        cell: newest.side.runs[0].cell.name.clone(),
        side: newest.side.label.clone(),
        sentence: sentence(row, quantity),
        cautions: cautions(row),
        width: SIZE[0],
        height: SIZE[1],
        left: ACROSS[0],
        right: ACROSS[1],
        bottom: UPWARDS[0],
        ticks: ticks
            .map(|tick| (y.place(tick), label(quantity, tick)))
            .collect(),
        points,
    }
}

fn label(quantity: &Quantity, tick: f64) -> String {
    match quantity.key == THROUGHPUT.key {
        true => short(tick),
        false => (quantity.show)(tick),
    }
}

fn point(found: &Found, newest: &Found, quantity: &Quantity, place: (f64, &Scale)) -> TrendPoint {
    let (x, y) = place;
    let spread = &found.spread;
    let environment = &found.filed.record.environment;
    let commit = match environment.commit.as_str() {
        "" => "unknown commit".to_owned(),
        commit => format!("commit {commit}"),
    };
    let range = match quantity.range(Some(spread)) {
        range if range.is_empty() => String::new(),
        range => format!(" ({range})"),
    };
    let text = quantity.text(Some(spread));
    TrendPoint {
        folder: found.filed.folder.clone(),
        day: environment.date.get(5..).unwrap_or_default().to_owned(),
        title: format!("{}: {text}{range}, {commit}", environment.date),
        is_alike: facts(found, newest).is_empty(),
        x,
        y: y.place(spread.median),
        range: (spread.least < spread.most).then(|| (y.place(spread.most), y.place(spread.least))),
        band: found
            .band
            .map(|(from, to)| (y.place(to), y.place(from) - y.place(to))),
    }
}

fn facts(found: &Found, newest: &Found) -> Vec<&'static str> {
    let [found, newest] = [found, newest].map(|it| &it.filed.record.environment);
    other_facts(found, newest)
}

/// Removes the days that would touch the one before.
fn hide_days(points: &mut [TrendPoint]) {
    let mut free_from = f64::NEG_INFINITY;
    for point in points {
        match point.x >= free_from {
            true => free_from = point.x + DAY_WIDTH,
            false => point.day.clear(),
        }
    }
}

/// The newest record against the one before it on the same machine.
fn sentence(row: &[Found], quantity: &Quantity) -> String {
    let newest = &row[row.len() - 1];
    let earlier = row[..row.len() - 1].iter();
    let Some(before) = earlier.rev().find(|it| facts(it, newest).is_empty()) else {
        return "No earlier record is of this machine.".to_owned();
    };
    let values = [before, newest].map(|it| -> Vec<f64> {
        let values = it.side.runs.iter().filter_map(|run| (quantity.of)(run));
        values.filter(|value| *value > 0.0).collect()
    });
    let date = &before.filed.record.environment.date;
    match compare_unpaired(&values[0], &values[1], effect_min()) {
        None => format!("Too few runs to compare with {date}."),
        Some(found) => format!("{} since {date}: {}.", change_of(&found), found.word()),
    }
}

fn cautions(row: &[Found]) -> Vec<String> {
    let newest = &row[row.len() - 1];
    let others = row.iter().filter_map(|it| {
        let facts = facts(it, newest);
        let date = &it.filed.record.environment.date;
        let caution = || format!("{date}: another machine (other {})", facts.join(", "));
        (!facts.is_empty()).then(caution)
    });
    let mut cautions: Vec<String> = others.collect();
    cautions.dedup();
    cautions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_that_would_touch_are_left_out() {
        let point = |x: f64| TrendPoint {
            folder: String::new(),
            day: "11-22".to_owned(),
            title: String::new(),
            is_alike: true,
            x,
            y: 0.0,
            range: None,
            band: None,
        };
        let mut points = [0.0, 20.0, 60.0].map(point);
        hide_days(&mut points);
        assert_eq!(points.map(|it| it.day), ["11-22", "", "11-22"]);
    }
}
