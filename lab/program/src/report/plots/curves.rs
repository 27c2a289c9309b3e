//! Curves over the number of clients: total throughput, throughput of each client, and
//! latency. The throughput of each client hides that the total falls, and the total hides
//! that each client starves, so both are drawn.

use super::{Picture, axis};
use crate::record::{Cell, Record, Run};
use crate::report::number::{counted, short, time};
use crate::report::sides::{arms, class, label};
use crate::report::svg::axis::Axis;
use crate::report::svg::line_chart::{LineChart, Point, Series};
use crate::report::svg::scale::Spacing;
use crate::statistics::summary::{median, quantile};
use crate::verdict::measures::percentile;

/// A quantity that is drawn over the number of clients.
struct Curve {
    title: &'static str,
    note: &'static str,
    label: &'static str,
    of: fn(&Run) -> Option<f64>,
    write: fn(f64) -> String,
}

const CURVES: [Curve; 3] = [
    Curve {
        title: "Throughput of all clients together",
        note: "Higher is better; a curve that falls has passed its best number of clients.",
        label: "operations per second",
        of: |run| Some(run.operations_per_second()),
        write: short,
    },
    Curve {
        title: "Throughput of each client",
        note: "The same divided by the clients, as LevelDB's db_bench reports it.",
        label: "operations per second and client",
        of: |run| Some(run.operations_per_second() / f64::from(run.cell.clients.max(1))),
        write: short,
    },
    Curve {
        title: "99th percentile of the response time",
        note: "Lower is better.",
        label: "p99 of the response time",
        of: |run| percentile(run, 99.0),
        write: time,
    },
];

/// The pictures of a workload that was run with several numbers of clients.
pub fn curves(record: &Record, workload: &str) -> Vec<Picture> {
    let cells: Vec<&Cell> = record
        .cells()
        .into_iter()
        .filter(|cell| cell.workload == workload && cell.rw_ratio.is_none())
        .collect();
    let mut clients: Vec<u32> = cells.iter().map(|cell| cell.clients).collect();
    clients.sort_unstable();
    clients.dedup();
    if clients.len() < 2 {
        return Vec::new();
    }
    let drawn = CURVES.iter();
    drawn
        .filter_map(|curve| draw(record, &cells, &clients, curve))
        .collect()
}

fn draw(record: &Record, cells: &[&Cell], clients: &[u32], curve: &Curve) -> Option<Picture> {
    let of_arm = |arm: &str| Series {
        name: label(record, arm),
        class: class(record, arm),
        thin: false,
        points: points(record, arm, cells, curve),
    };
    let rivals = arms(record)
        .into_iter()
        .filter(|arm| *arm != crate::record::ARM_NULL);
    let series: Vec<Series> = rivals
        .map(of_arm)
        .filter(|series| !series.points.is_empty())
        .collect();
    if series.is_empty() {
        return None;
    }
    let entry = |series: &Series| (series.class.clone(), series.name.clone());
    let legend = series.iter().map(entry).collect();
    let values: Vec<f64> = series
        .iter()
        .flat_map(|series| &series.points)
        .flat_map(|point| {
            let (least, most) = point.range.unwrap_or((point.y, point.y));
            [least, most]
        })
        .collect();
    let chart = LineChart {
        name: format!("{} over the number of clients", curve.title),
        x: Axis {
            label: "clients".to_owned(),
            spacing: Spacing::Ratio,
            write: short,
            ticks: clients
                .iter()
                .map(|count| (f64::from(*count), count.to_string()))
                .collect(),
            from_zero: false,
        },
        y: axis(curve.label, curve.write, &values),
        series,
        shaded: None,
        apart: true,
        empty: "no run counts".to_owned(),
    };
    Some(Picture {
        title: curve.title.to_owned(),
        note: format!(
            "{} Medians; whiskers from the least to the greatest run.",
            curve.note
        ),
        svg: chart.draw(),
        legend,
    })
}

fn points(record: &Record, arm: &str, cells: &[&Cell], curve: &Curve) -> Vec<Point> {
    let mut points: Vec<Point> = cells
        .iter()
        .filter_map(|cell| {
            let here = |run: &&Run| run.arm == arm && run.cell.name == cell.name;
            let values: Vec<f64> = record
                .valid_runs()
                .filter(here)
                .filter_map(curve.of)
                .collect();
            let middle = median(&values)?;
            let ends = (quantile(&values, 0.0)?, quantile(&values, 1.0)?);
            let shown = [middle, ends.0, ends.1].map(curve.write);
            let name = label(record, arm);
            Some(Point {
                x: f64::from(cell.clients),
                y: middle,
                range: Some(ends),
                title: format!(
                    "{name}, {}: {} ({} to {})",
                    counted(u64::from(cell.clients), "client"),
                    shown[0],
                    shown[1],
                    shown[2]
                ),
            })
        })
        .collect();
    points.sort_by(|a, b| a.x.total_cmp(&b.x));
    points
}
