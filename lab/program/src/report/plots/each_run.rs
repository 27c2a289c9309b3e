//! Pictures with a line for each run: operations per second over time, from the warm-up on, the
//! slowest answers, the space on disk from the end of the preload on, and the rates that a search
//! tried, with the latency at each.

use super::{legend, rivals};
use crate::record::{Cell, Record, Run};
use crate::report::number::{grouped, short, time};
use crate::report::svg::axis::Axis;
use crate::report::svg::line_chart::{LineChart, Point, Series};
use crate::report::svg::scale::Spacing;

/// The picture of a cell over time; `None` if no run has a series.
pub fn over_time(record: &Record, cell: &Cell) -> Option<LineChart> {
    each_run(record, cell, rates, |times, rates| {
        let begin = times.iter().copied().fold(0.0, f64::min);
        let seconds = "seconds from the beginning of the measured part";
        let x = Axis::new(seconds, Spacing::Even, short);
        let y = Axis::suiting("operations per second", short, rates);
        LineChart {
            name: format!("{}: operations per second over time", cell.name),
            note: "One line for each run. A level line is a steady target; steps and slopes are \
                   not."
                .to_owned(),
            warmup: (begin < 0.0).then_some((begin, 0.0)),
            ..LineChart::new("Throughput over time", x, y)
        }
    })
}

/// The picture of a cell's slowest answers over time; `None` if no run has them.
pub fn slowest(record: &Record, cell: &Cell) -> Option<LineChart> {
    each_run(record, cell, slowest_of, |times, latencies| {
        let begin = times.iter().copied().fold(0.0, f64::min);
        let seconds = "seconds from the beginning of the measured part";
        let x = Axis::new(seconds, Spacing::Even, short);
        let y = Axis::suiting("99.9th percentile of each interval", time, latencies);
        LineChart {
            name: format!("{}: 99.9th percentile over time", cell.name),
            note: "Response times that 999 of 1,000 answers of an interval did not exceed, to \
                   within an eighth. Peaks are stalls, as of a collection of garbage."
                .to_owned(),
            warmup: (begin < 0.0).then_some((begin, 0.0)),
            ..LineChart::new("p99.9 over time", x, y)
        }
    })
}

/// The picture of a cell's space on disk; `None` if no run has samples of it.
pub fn space(record: &Record, cell: &Cell) -> Option<LineChart> {
    each_run(record, cell, ratios, |times, ratios| {
        let begin = times.iter().copied().fold(0.0, f64::min);
        let seconds = "seconds from the beginning of the measured part";
        let x = Axis::new(seconds, Spacing::Even, short);
        let y = Axis::suiting("bytes on disk for each live byte", short, ratios);
        LineChart {
            name: format!("{}: space on disk over time", cell.name),
            note: "Blocks of the files over the bytes of existing keys and values, from the end \
                   of the preload on. Rounds of overwrites are before the warm-up."
                .to_owned(),
            warmup: (begin < 0.0).then_some((begin, 0.0)),
            warmup_name: "before the measured part",
            ..LineChart::new("Space over time", x, y)
        }
    })
}

/// The picture of a cell's search; `None` if no run searched.
pub fn search(record: &Record, cell: &Cell) -> Option<LineChart> {
    each_run(record, cell, steps, |rates, latencies| {
        let x = Axis::suiting("offered operations per second", short, rates);
        let y = Axis::suiting("latency of the objective", time, latencies);
        LineChart {
            name: format!("{}: latency over the offered rate", cell.name),
            note: "Rates that a search tried; those at which the target was saturated have no \
                   latency."
                .to_owned(),
            apart: true,
            ..LineChart::new("Latency over the offered rate", x, y)
        }
    })
}

/// A picture with a line for each run that has points; `chart` makes it without lines from all
/// values of `x` and of `y`.
fn each_run(
    record: &Record,
    cell: &Cell,
    points: fn(&Run) -> Vec<Point>,
    chart: impl FnOnce(&[f64], &[f64]) -> LineChart,
) -> Option<LineChart> {
    let sides = rivals(record, cell);
    let lines = sides.iter().flat_map(|side| {
        side.runs.iter().map(|run| Series {
            name: format!("{}, run {}", side.label, run.number),
            class: side.class.clone(),
            thin: side.runs.len() > 1,
            points: points(run),
        })
    });
    let series: Vec<Series> = lines.filter(|line| !line.points.is_empty()).collect();
    let all = series.iter().flat_map(|line| &line.points);
    let (x, y): (Vec<f64>, Vec<f64>) = all.map(|point| (point.x, point.y)).unzip();
    let chart = LineChart {
        legend: legend(&sides),
        series,
        ..chart(&x, &y)
    };
    chart.placed()
}

fn rates(run: &Run) -> Vec<Point> {
    let whole = run.load.series.iter().filter(|it| it.seconds > 0.0);
    let points = whole.map(|interval| Point {
        x: interval.at_seconds + interval.seconds / 2.0,
        y: interval.operations as f64 / interval.seconds,
        range: None,
        title: String::new(),
    });
    points.collect()
}

fn slowest_of(run: &Run) -> Vec<Point> {
    let known = run.load.series.iter().filter(|it| it.p999_us > 0.0);
    let points = known.map(|interval| Point {
        x: interval.at_seconds + interval.seconds / 2.0,
        y: interval.p999_us,
        range: None,
        title: String::new(),
    });
    points.collect()
}

fn ratios(run: &Run) -> Vec<Point> {
    let points = run.space.per_live_byte().map(|(sample, ratio)| Point {
        x: sample.at_seconds,
        y: ratio,
        range: None,
        title: String::new(),
    });
    points.collect()
}

fn steps(run: &Run) -> Vec<Point> {
    let points = run.load.search.iter().filter_map(|step| {
        let latency = step.latency_us?;
        let held = if step.held { "held" } else { "did not hold" };
        Some(Point {
            x: step.rate,
            y: latency,
            range: None,
            title: format!("{} op/s: {}, {held}", grouped(step.rate), time(latency)),
        })
    });
    let mut points: Vec<Point> = points.collect();
    points.sort_by(|a, b| a.x.total_cmp(&b.x));
    points
}
