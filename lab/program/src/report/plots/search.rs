//! The rates that a search tried, with the latency at each.

use super::{each_run, legend, rivals};
use crate::record::{Cell, Record, Run};
use crate::report::number::{grouped, short, time};
use crate::report::svg::axis::Axis;
use crate::report::svg::line_chart::{LineChart, Point};

/// The picture of a cell; `None` if no run searched.
pub fn search(record: &Record, cell: &Cell) -> Option<LineChart> {
    let sides = rivals(record, cell);
    let series = each_run(&sides, points);
    let points = || series.iter().flat_map(|series| &series.points);
    let rates: Vec<f64> = points().map(|point| point.x).collect();
    let latencies: Vec<f64> = points().map(|point| point.y).collect();
    let x = Axis::suiting("offered operations per second", short, &rates);
    let y = Axis::suiting("latency of the objective", time, &latencies);
    let chart = LineChart {
        name: format!("{}: latency over the offered rate", cell.name),
        note: "Rates that a search tried; those at which the target was saturated have no latency."
            .to_owned(),
        legend: legend(&sides),
        series,
        apart: true,
        ..LineChart::new("Latency over the offered rate", x, y)
    };
    chart.placed()
}

fn points(run: &Run) -> Vec<Point> {
    let mut points: Vec<Point> = run
        .load
        .search
        .iter()
        .filter_map(|step| {
            let latency = step.latency_us?;
            let held = if step.held { "held" } else { "did not hold" };
            Some(Point {
                x: step.rate,
                y: latency,
                range: None,
                title: format!("{} op/s: {}, {held}", grouped(step.rate), time(latency)),
            })
        })
        .collect();
    points.sort_by(|a, b| a.x.total_cmp(&b.x));
    points
}
