//! Line charts: latencies over percentiles, rates over time and over clients.

use super::axis::{Axis, Frame};
use super::{Anchor, Canvas};

const WIDTH: f64 = 620.0;
const HEIGHT: f64 = 320.0;

/// Distance between the edges of the frame and the outermost points, where points are
/// separate measurements.
const INSET: f64 = 18.0;
/// Distance between whiskers of neighbouring lines at the same `x`.
const DODGE: f64 = 5.0;

#[derive(Clone, Debug)]
pub struct Point {
    pub x: f64,
    pub y: f64,
    /// Least and greatest value of the runs; `y` is their median.
    pub range: Option<(f64, f64)>,
    /// Tooltip.
    pub title: String,
}

/// One line.
#[derive(Clone, Debug)]
pub struct Series {
    /// Tooltip.
    pub name: String,
    /// Style class of the colour, `s0` to `s7`, with `again` for a dashed line.
    pub class: String,
    /// One run of several: drawn thinner.
    pub thin: bool,
    /// Points, ascending by `x`.
    pub points: Vec<Point>,
}

/// A whole chart.
pub struct LineChart {
    /// Description for screen readers.
    pub name: String,
    pub x: Axis,
    pub y: Axis,
    pub series: Vec<Series>,
    /// A range of `x` with another background, and its label.
    pub shaded: Option<(f64, f64, String)>,
    /// Whether points are separate measurements, which are drawn as dots with a distance to
    /// each other and to the edges, or only form a line.
    pub apart: bool,
    /// Text of a chart without points.
    pub empty: String,
}

impl LineChart {
    /// The chart as SVG.
    pub fn draw(&self) -> String {
        let mut canvas = Canvas::new(WIDTH, HEIGHT);
        if self.series.iter().all(|series| series.points.is_empty()) {
            canvas.say_empty(&self.empty);
            return canvas.finish(&self.name);
        }
        let frame = Frame {
            left: 74.0,
            right: WIDTH - 18.0,
            top: 24.0,
            bottom: HEIGHT - 48.0,
        };
        let points = || self.series.iter().flat_map(|series| &series.points);
        let inset = if self.apart { INSET } else { 0.0 };
        let ends = (frame.left + inset, frame.right - inset);
        let x = self.x.scale(points().map(|point| point.x), ends);
        let heights = points().flat_map(|point| {
            let (low, high) = point.range.unwrap_or((point.y, point.y));
            [point.y, low, high]
        });
        let y = self.y.scale_with_room(heights, (frame.bottom, frame.top));
        if let Some((from, to, label)) = &self.shaded {
            let (left, right) = (x.place(*from), x.place(*to));
            let size = (right - left, frame.bottom - frame.top);
            canvas.rectangle((left, frame.top), size, "shade", "");
            if right - left > 60.0 {
                // The label is above the frame, because lines would cross it within.
                let place = (left, frame.top - 7.0);
                canvas.text(place, Anchor::Start, "tick", label);
            }
        }
        self.y.draw_left(&mut canvas, &frame, &y);
        self.x.draw_below(&mut canvas, &frame, &x);
        for (at, series) in self.series.iter().enumerate() {
            let middle = (self.series.len() - 1) as f64 / 2.0;
            let aside = if self.apart {
                DODGE * (at as f64 - middle)
            } else {
                0.0
            };
            let placed: Vec<(f64, f64)> = series
                .points
                .iter()
                .map(|point| (x.place(point.x) + aside, y.place(point.y)))
                .collect();
            let reach = |value: f64| y.place(value);
            draw_series(&mut canvas, series, &placed, self.apart, reach);
        }
        canvas.finish(&self.name)
    }
}

fn draw_series(
    canvas: &mut Canvas,
    series: &Series,
    placed: &[(f64, f64)],
    apart: bool,
    height: impl Fn(f64) -> f64,
) {
    let weight = if series.thin { " thin" } else { "" };
    let class = format!("curve {}{weight}", series.class);
    if placed.len() > 1 {
        canvas.path(placed, &class, &series.name);
    }
    for (point, place) in series.points.iter().zip(placed) {
        if let Some((low, high)) = point.range.filter(|(low, high)| low < high) {
            let (bottom, top) = (height(low), height(high));
            let whisker = format!("whisker {}", series.class);
            canvas.line((place.0, bottom), (place.0, top), &whisker);
        }
        let dot = format!("dot {}{weight}", series.class);
        // A line of one point is invisible, so it becomes a dot.
        if apart || placed.len() == 1 {
            let radius = if series.thin { 2.5 } else { 3.5 };
            canvas.dot(*place, radius, &dot, &point.title);
        } else if !point.title.is_empty() {
            canvas.dot(*place, 7.0, "feel", &point.title);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::scale::Spacing;
    use super::*;
    use crate::report::number;

    fn chart(points: usize) -> LineChart {
        let axis = |label: &str| Axis {
            label: label.to_owned(),
            spacing: Spacing::Even,
            write: number::short,
            ticks: Vec::new(),
            from_zero: true,
        };
        let point = |at: usize| Point {
            x: at as f64,
            y: at as f64,
            range: None,
            title: format!("point {at}"),
        };
        LineChart {
            name: "a chart".to_owned(),
            x: axis("seconds"),
            y: axis("per second"),
            series: vec![Series {
                name: "one".to_owned(),
                class: "s0".to_owned(),
                thin: false,
                points: (0..points).map(point).collect(),
            }],
            shaded: None,
            apart: false,
            empty: "nothing was measured".to_owned(),
        }
    }

    #[test]
    fn a_chart_without_points_says_so() {
        assert!(chart(0).draw().contains("nothing was measured"));
    }

    #[test]
    fn one_point_is_a_dot_and_no_line() {
        let svg = chart(1).draw();
        assert!(svg.contains("<title>point 0</title>") && !svg.contains("<path"));
    }

    #[test]
    fn points_of_a_line_have_invisible_dots_with_tooltips() {
        let svg = chart(100).draw();
        assert!(svg.contains("<path") && svg.contains(r#"class="feel""#));
    }
}
