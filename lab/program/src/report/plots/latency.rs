//! Response times by percentile. The horizontal axis gives equal space to each further nine
//! (90 %, 99 %, 99.9 %), so that rare long answers are visible; the vertical one is
//! logarithmic.

use super::{legend, rivals};
use crate::record::{Cell, Histogram, Record};
use crate::report::number::{grouped, time};
use crate::report::svg::axis::Axis;
use crate::report::svg::line_chart::{LineChart, Point, Series};
use crate::report::svg::scale::Spacing;

/// Points of a curve between two nines.
const POINTS_PER_NINE: usize = 12;
/// Greatest end of the axis at which the label of the shortest answer fits beside the
/// median's.
const SHORTEST_NAMED_MAX: f64 = 1e4;
/// A percentile is drawn only where at least this many answers took longer.
const BEYOND_MIN: f64 = 10.0;

/// The picture of a cell; `None` if no side has a latency.
pub fn latency(record: &Record, cell: &Cell) -> Option<LineChart> {
    let sides = rivals(record, cell);
    let series = sides.iter().map(|side| {
        let runs = side.runs.iter().filter(|run| !run.load.saturated);
        let all: Vec<Histogram> = runs.map(|run| run.load.response()).collect();
        Series {
            name: side.label.clone(),
            class: side.class.clone(),
            thin: false,
            points: points(&Histogram::merged(all.iter()), &side.label),
        }
    });
    let series: Vec<Series> = series.collect();
    let places = series.iter().flat_map(|series| &series.points);
    let most = places.map(|point| point.x).fold(1.0, f64::max);
    let x = Axis {
        ticks: nines(most),
        ..Axis::new("of all answers", Spacing::Ratio, share)
    };
    let y = Axis::new("response time", Spacing::Ratio, time);
    let chart = LineChart {
        name: format!("{}: response time by percentile", cell.name),
        note: "From the intended start to the answer, the shortest at the left end; all runs of a \
               side together. Lower is better."
            .to_owned(),
        legend: legend(&sides),
        series,
        ..LineChart::new("Response time by percentile", x, y)
    };
    chart.placed()
}

/// The points of a side's curve. `x` is one over the share of answers that took longer: 1
/// is the shortest answer, 2 the median, 100 the 99th percentile.
fn points(histogram: &Histogram, side: &str) -> Vec<Point> {
    let count = histogram.count() as f64;
    if count < 2.0 * BEYOND_MIN {
        return Vec::new();
    }
    let last = count / BEYOND_MIN;
    let steps = (last.log10() * POINTS_PER_NINE as f64).floor() as usize;
    let mut places: Vec<f64> = (0..=steps)
        .map(|step| 10_f64.powf(step as f64 / POINTS_PER_NINE as f64))
        .chain([2.0, last])
        .collect();
    places.sort_by(f64::total_cmp);
    let named = named(last);
    let is_named = |place: f64| named.iter().any(|it| (it - place).abs() < 1e-6 * place);
    let points = places.into_iter().map(|place| {
        let percent = 100.0 * (1.0 - 1.0 / place);
        let microseconds = histogram.percentile(percent) as f64 / 1e3;
        Point {
            x: place,
            y: microseconds,
            range: None,
            title: match is_named(place) || place == last {
                true => format!("{side}: {} within {}", share(place), time(microseconds)),
                false => String::new(),
            },
        }
    });
    points.collect()
}

/// Places that get a label: the median and the nines.
fn named(most: f64) -> Vec<f64> {
    let nines = (1..12).map(|nine| 10_f64.powi(nine));
    let places = [1.0, 2.0].into_iter().chain(nines);
    places.filter(|at| *at <= most * 1.001).collect()
}

fn nines(most: f64) -> Vec<(f64, String)> {
    let places = named(most).into_iter();
    let mut ticks: Vec<(f64, String)> = places.map(|place| (place, share(place))).collect();
    if most > SHORTEST_NAMED_MAX {
        ticks.remove(0);
    } else if let Some(first) = ticks.first_mut() {
        first.1 = "min".to_owned();
    }
    ticks
}

/// The percentile at a place: `99.9 %` for 1,000.
fn share(place: f64) -> String {
    let percent = 100.0 * (1.0 - 1.0 / place);
    let decimals = (place.log10() - 2.0).ceil().max(0.0) as usize;
    let text = match decimals {
        0 => grouped(percent.round()),
        decimals => format!("{percent:.decimals$}"),
    };
    format!("{text} %")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_show_their_nines() {
        let texts = [2.0, 10.0, 100.0, 1000.0, 100_000.0].map(share);
        assert_eq!(texts, ["50 %", "90 %", "99 %", "99.9 %", "99.999 %"]);
    }

    #[test]
    fn a_curve_ends_where_too_few_answers_took_longer() {
        let mut histogram = Histogram::default();
        for nanoseconds in 1..=10_000 {
            histogram.record(nanoseconds * 1000);
        }
        let points = points(&histogram, "a side");
        let last = points.last().unwrap();
        assert_eq!(last.x, 1000.0);
        assert!((last.y - 9990.0).abs() < 20.0, "{last:?}");
        assert_eq!(last.title, "a side: 99.9 % within 9.99 ms");
    }

    #[test]
    fn a_handful_of_answers_has_no_percentiles() {
        let mut histogram = Histogram::default();
        histogram.record(5);
        assert!(points(&histogram, "").is_empty());
    }
}
