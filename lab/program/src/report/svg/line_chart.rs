//! Line charts: latencies over percentiles, rates over time and over clients.

use serde::Serialize;

use super::axis::Axis;

/// Distance between the edges of the frame and the outermost points, where points are
/// separate measurements.
const INSET: f64 = 18.0;
/// Distance between whiskers of neighbouring lines at the same `x`.
const DODGE: f64 = 5.0;
/// Room above and below the lines, as a share of the span of their values.
const ROOM_SHARE: f64 = 0.05;

/// Edges of the part of a picture that shows data, in coordinates of the picture.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Frame {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

pub const FRAME: Frame = Frame {
    left: 74.0,
    right: 602.0,
    top: 24.0,
    bottom: 272.0,
};

#[derive(Clone, Debug, Serialize)]
pub struct Point {
    pub x: f64,
    pub y: f64,
    /// Least and greatest value of the runs; `y` is their median.
    pub range: Option<(f64, f64)>,
    /// Tooltip.
    pub title: String,
}

/// One line.
#[derive(Clone, Debug, Serialize)]
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
#[derive(Serialize)]
pub struct LineChart {
    pub title: String,
    /// Explanation below the title; may be empty.
    pub note: String,
    /// Description for screen readers.
    pub name: String,
    /// Style class and name of each line.
    pub legend: Vec<(String, String)>,
    pub x: Axis,
    pub y: Axis,
    pub series: Vec<Series>,
    /// The range of `x` that belongs to the warm-up, which has another background.
    pub warmup: Option<(f64, f64)>,
    /// Name of that range.
    pub warmup_name: &'static str,
    /// Whether points are separate measurements, which are drawn as dots with a distance to
    /// each other and to the edges, or only form a line.
    pub apart: bool,
    pub frame: Frame,
}

impl LineChart {
    /// A chart without lines.
    pub fn new(title: &str, x: Axis, y: Axis) -> LineChart {
        LineChart {
            title: title.to_owned(),
            note: String::new(),
            name: String::new(),
            legend: Vec::new(),
            x,
            y,
            series: Vec::new(),
            warmup: None,
            warmup_name: "warm-up",
            apart: false,
            frame: FRAME,
        }
    }

    /// The chart with places in the picture instead of values; `None` without points.
    pub fn placed(mut self) -> Option<LineChart> {
        let points = || self.series.iter().flat_map(|series| &series.points);
        points().next()?;
        let inset = if self.apart { INSET } else { 0.0 };
        let ends = [FRAME.left + inset, FRAME.right - inset];
        let x = self.x.scale(points().map(|point| point.x), ends, 0.0);
        let heights = points().flat_map(|point| {
            let (low, high) = point.range.unwrap_or((point.y, point.y));
            [point.y, low, high]
        });
        let y = self.y.scale(heights, [FRAME.bottom, FRAME.top], ROOM_SHARE);
        self.x.place_below(&x, FRAME.right);
        self.y.place_left(&y);
        self.warmup = self.warmup.map(|(from, to)| (x.place(from), x.place(to)));
        let middle = (self.series.len() - 1) as f64 / 2.0;
        for (at, series) in self.series.iter_mut().enumerate() {
            let aside = if self.apart { DODGE } else { 0.0 } * (at as f64 - middle);
            for point in &mut series.points {
                point.x = x.place(point.x) + aside;
                point.y = y.place(point.y);
                let range = point.range.filter(|(low, high)| low < high);
                point.range = range.map(|(low, high)| (y.place(low), y.place(high)));
            }
        }
        Some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::super::drawn;
    use super::super::scale::Spacing;
    use super::*;
    use crate::report::number;

    fn chart(points: usize) -> Option<LineChart> {
        let axis = |label: &str| Axis {
            from_zero: true,
            ..Axis::new(label, Spacing::Even, number::short)
        };
        let point = |at: usize| Point {
            x: at as f64,
            y: at as f64,
            range: None,
            title: format!("point {at} </title><script>"),
        };
        let chart = LineChart {
            name: "a \"name\" & <b>".to_owned(),
            series: vec![Series {
                name: "one".to_owned(),
                class: "s0".to_owned(),
                thin: false,
                points: (0..points).map(point).collect(),
            }],
            ..LineChart::new("a chart", axis("seconds"), axis("per second"))
        };
        chart.placed()
    }

    fn svg(points: usize) -> String {
        drawn("line_chart", chart(points).unwrap())
    }

    #[test]
    fn a_chart_without_points_is_no_picture() {
        assert!(chart(0).is_none());
    }

    #[test]
    fn one_point_is_a_dot_and_no_line() {
        let svg = svg(1);
        assert!(svg.contains("<title>point 0") && !svg.contains("<path"));
    }

    #[test]
    fn points_of_a_line_have_invisible_dots_with_tooltips() {
        let svg = svg(100);
        assert!(svg.contains("<path") && svg.contains(r#"class="feel""#));
    }

    #[test]
    fn markup_in_names_is_escaped() {
        let svg = svg(2);
        assert!(!svg.contains("<script>") && svg.contains("&lt;script&gt;"));
        assert!(svg.contains("a &quot;name&quot; &amp; &lt;b&gt;"));
    }
}
