//! Curves over the number of clients: total throughput, throughput of each client, and
//! latency. The throughput of each client hides that the total falls, and the total hides
//! that each client starves, so both are drawn.

use crate::record::{ARM_NULL, Cell, Record, Run};
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
pub fn curves(record: &Record, workload: &str) -> Vec<LineChart> {
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
    let curves = CURVES.iter();
    let charts = curves.filter_map(|curve| chart(record, &cells, &clients, curve));
    charts.collect()
}

fn chart(record: &Record, cells: &[&Cell], clients: &[u32], curve: &Curve) -> Option<LineChart> {
    let rivals = arms(record).into_iter().filter(|arm| *arm != ARM_NULL);
    let series = rivals.map(|arm| Series {
        name: label(record, arm),
        class: class(record, arm),
        thin: false,
        points: points(record, arm, cells, curve),
    });
    let series: Vec<Series> = series.filter(|it| !it.points.is_empty()).collect();
    let points = series.iter().flat_map(|series| &series.points);
    let values: Vec<f64> = points
        .flat_map(|point| point.range.map_or([point.y; 2], Into::into))
        .collect();
    let ticks = clients.iter().map(|it| (f64::from(*it), it.to_string()));
    let x = Axis {
        ticks: ticks.collect(),
        ..Axis::new("clients", Spacing::Ratio, short)
    };
    let y = Axis::suiting(curve.label, curve.write, &values);
    let legend = series.iter().map(|it| (it.class.clone(), it.name.clone()));
    let chart = LineChart {
        name: format!("{} over the number of clients", curve.title),
        note: format!(
            "{} Medians; whiskers from the least to the greatest run.",
            curve.note
        ),
        legend: legend.collect(),
        series,
        apart: true,
        ..LineChart::new(curve.title, x, y)
    };
    chart.placed()
}

fn points(record: &Record, arm: &str, cells: &[&Cell], curve: &Curve) -> Vec<Point> {
    let name = label(record, arm);
    let points = cells.iter().filter_map(|cell| {
        let runs = record.valid_runs_of(cell).filter(|run| run.arm == arm);
        let values: Vec<f64> = runs.filter_map(curve.of).collect();
        let middle = median(&values)?;
        let (least, most) = (quantile(&values, 0.0)?, quantile(&values, 1.0)?);
        let clients = counted(u64::from(cell.clients), "client");
        let [shown, low, high] = [middle, least, most].map(curve.write);
        Some(Point {
            x: f64::from(cell.clients),
            y: middle,
            range: Some((least, most)),
            title: format!("{name}, {clients}: {shown} ({low} to {high})"),
        })
    });
    let mut points: Vec<Point> = points.collect();
    points.sort_by(|a, b| a.x.total_cmp(&b.x));
    points
}
