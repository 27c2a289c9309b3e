//! Axes with labels that do not overlap.

use serde::Serialize;

use super::LETTER_WIDTH;
use super::scale::{Scale, Spacing};

/// Greatest ratio of values on a linear axis. Beyond it the axis is logarithmic, because
/// small values would be indistinguishable from zero.
const EVEN_SPREAD_MAX: f64 = 12.0;

/// Width of the margin right of a frame that a label may use.
const EDGE: f64 = 8.0;

/// Labels and spacing of an axis.
#[derive(Serialize)]
pub struct Axis {
    /// Meaning and unit of the values.
    pub label: String,
    #[serde(skip)]
    pub spacing: Spacing,
    /// Formats a value.
    #[serde(skip)]
    pub write: fn(f64) -> String,
    /// Values with labels; where empty, round values are chosen.
    #[serde(skip)]
    pub ticks: Vec<(f64, String)>,
    /// Whether the axis begins at zero; for even spacing only.
    #[serde(skip)]
    pub from_zero: bool,
    /// The ticks at their places in the picture.
    pub marks: Vec<Mark>,
}

/// A tick in a picture.
#[derive(Serialize)]
pub struct Mark {
    place: f64,
    /// Place of the label.
    label: f64,
    /// The label; empty where it would touch the one before.
    text: String,
}

impl Axis {
    pub fn new(label: &str, spacing: Spacing, write: fn(f64) -> String) -> Axis {
        Axis {
            label: label.to_owned(),
            spacing,
            write,
            ticks: Vec::new(),
            from_zero: false,
            marks: Vec::new(),
        }
    }

    /// An axis, linear from zero or logarithmic as suits the values.
    pub fn suiting(label: &str, write: fn(f64) -> String, values: &[f64]) -> Axis {
        let positive = || values.iter().copied().filter(|value| *value > 0.0);
        let most = positive().fold(0.0, f64::max);
        let least = positive().fold(f64::INFINITY, f64::min);
        match most / least > EVEN_SPREAD_MAX {
            true => Axis::new(label, Spacing::Ratio, write),
            false => Axis {
                from_zero: true,
                ..Axis::new(label, Spacing::Even, write)
            },
        }
    }

    /// A scale that maps the range of these values to `places`, with room at both ends, as a
    /// share of their span. A zero at the beginning of an even axis stays at the edge.
    pub fn scale(&self, values: impl Iterator<Item = f64>, places: [f64; 2], room: f64) -> Scale {
        let (least, most) = self.ends(values);
        let ends = match self.spacing {
            Spacing::Ratio => {
                let room = (most / least).powf(room);
                (least / room, most * room)
            }
            Spacing::Even if least == 0.0 => (least, most + most * room),
            Spacing::Even => {
                let room = (most - least) * room;
                (least - room, most + room)
            }
        };
        Scale::new(self.spacing, ends, places)
    }

    fn ends(&self, values: impl Iterator<Item = f64>) -> (f64, f64) {
        let is_even = self.spacing == Spacing::Even;
        let usable = values.filter(|value| value.is_finite() && (is_even || *value > 0.0));
        let (least, most) = usable.fold((f64::INFINITY, f64::NEG_INFINITY), |ends, it| {
            (ends.0.min(it), ends.1.max(it))
        });
        match (least > most, self.from_zero && is_even) {
            (true, false) => (1.0, 1.0),
            (true, true) => (0.0, 1.0),
            (false, true) => (least.min(0.0), most.max(0.0)),
            (false, false) => (least, most),
        }
    }

    fn labels(&self, scale: &Scale, wanted: usize) -> Vec<(f64, String)> {
        if !self.ticks.is_empty() {
            return self.ticks.clone();
        }
        let ticks = scale.ticks(wanted).into_iter();
        ticks.map(|tick| (tick, (self.write)(tick))).collect()
    }

    /// Places the ticks below a frame that ends at `right`.
    pub fn place_below(&mut self, scale: &Scale, right: f64) {
        let mut free_from = f64::NEG_INFINITY;
        let marks = self.labels(scale, 8).into_iter().map(|(value, text)| {
            let place = scale.place(value);
            let half = text.chars().count() as f64 * LETTER_WIDTH / 2.0;
            let fits = place - half >= free_from;
            if fits {
                free_from = place + half + LETTER_WIDTH;
            }
            Mark {
                place,
                // The label must not reach over the edge of the picture.
                label: place.min(right + EDGE - half),
                text: if fits { text } else { String::new() },
            }
        });
        self.marks = marks.collect();
    }

    /// Places the ticks left of a frame.
    pub fn place_left(&mut self, scale: &Scale) {
        let mut free_below = f64::INFINITY;
        let marks = self.labels(scale, 6).into_iter().map(|(value, text)| {
            let place = scale.place(value);
            let fits = place <= free_below;
            if fits {
                free_below = place - 14.0;
            }
            Mark {
                place,
                label: place + 4.0,
                text: if fits { text } else { String::new() },
            }
        });
        self.marks = marks.collect();
    }
}
