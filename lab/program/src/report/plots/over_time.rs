//! Operations per second over time, a line for each run, from the warm-up on.

use super::{each_run, legend, rivals};
use crate::record::{Cell, Record, Run};
use crate::report::number::short;
use crate::report::svg::axis::Axis;
use crate::report::svg::line_chart::{LineChart, Point};
use crate::report::svg::scale::Spacing;

/// The picture of a cell; `None` if no run has a series.
pub fn over_time(record: &Record, cell: &Cell) -> Option<LineChart> {
    let sides = rivals(record, cell);
    let series = each_run(&sides, points);
    let points = || series.iter().flat_map(|series| &series.points);
    let rates: Vec<f64> = points().map(|point| point.y).collect();
    let begin = points().map(|point| point.x).fold(0.0, f64::min);
    let seconds = "seconds from the beginning of the measured part";
    let x = Axis::new(seconds, Spacing::Even, short);
    let y = Axis::suiting("operations per second", short, &rates);
    let chart = LineChart {
        name: format!("{}: operations per second over time", cell.name),
        note: "One line for each run. A level line is a steady target; steps and slopes are not."
            .to_owned(),
        legend: legend(&sides),
        series,
        warmup: (begin < 0.0).then_some((begin, 0.0)),
        ..LineChart::new("Throughput over time", x, y)
    };
    chart.placed()
}

fn points(run: &Run) -> Vec<Point> {
    let whole = run.load.series.iter().filter(|it| it.seconds > 0.0);
    whole
        .map(|interval| Point {
            x: interval.at_seconds + interval.seconds / 2.0,
            y: interval.operations as f64 / interval.seconds,
            range: None,
            title: String::new(),
        })
        .collect()
}
