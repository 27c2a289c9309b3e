//! Axes with labels that do not overlap.

use super::scale::{Scale, Spacing};
use super::{Anchor, Canvas, LETTER_WIDTH};

/// Extra room at an end of an axis, as a share of the span of its values.
const ROOM_SHARE: f64 = 0.05;

/// Labels and spacing of an axis.
pub struct Axis {
    /// Meaning and unit of the values.
    pub label: String,
    pub spacing: Spacing,
    /// Formats a value.
    pub write: fn(f64) -> String,
    /// Values with labels; where empty, round values are chosen.
    pub ticks: Vec<(f64, String)>,
    /// Whether the axis begins at zero; for even spacing only.
    pub from_zero: bool,
}

/// Width of the margin right of a frame that a label may use.
const EDGE: f64 = 8.0;

/// The part of a picture that shows data, in coordinates of the picture.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    pub left: f64,
    pub right: f64,
    pub top: f64,
    pub bottom: f64,
}

impl Axis {
    /// A scale that maps the range of these values to `places`.
    pub fn scale(&self, values: impl Iterator<Item = f64>, places: (f64, f64)) -> Scale {
        Scale::new(self.spacing, self.ends(values), places)
    }

    /// The same with a little room at both ends, so that no line lies on an edge. A zero at
    /// the beginning of the axis stays at the edge.
    pub fn scale_with_room(&self, values: impl Iterator<Item = f64>, places: (f64, f64)) -> Scale {
        let (least, most) = self.ends(values);
        let (from, to) = match self.spacing {
            Spacing::Ratio => {
                let room = (most / least).powf(ROOM_SHARE);
                (least / room, most * room)
            }
            Spacing::Even => {
                let room = (most - least) * ROOM_SHARE;
                let from = if least == 0.0 { least } else { least - room };
                (from, most + room)
            }
        };
        Scale::new(self.spacing, (from, to), places)
    }

    fn ends(&self, values: impl Iterator<Item = f64>) -> (f64, f64) {
        let usable = values.filter(|value| value.is_finite() && (self.is_even() || *value > 0.0));
        let (mut least, mut most) = usable.fold((f64::INFINITY, f64::NEG_INFINITY), |ends, it| {
            (ends.0.min(it), ends.1.max(it))
        });
        if least > most {
            (least, most) = (1.0, 1.0);
        }
        if self.from_zero && self.is_even() {
            (least, most) = (least.min(0.0), most.max(0.0));
        }
        (least, most)
    }

    fn is_even(&self) -> bool {
        self.spacing == Spacing::Even
    }

    fn labels(&self, scale: &Scale, wanted: usize) -> Vec<(f64, String)> {
        if !self.ticks.is_empty() {
            return self.ticks.clone();
        }
        let ticks = scale.ticks(wanted).into_iter();
        ticks.map(|tick| (tick, (self.write)(tick))).collect()
    }

    /// Draws the axis below a frame.
    pub fn draw_below(&self, canvas: &mut Canvas, frame: &Frame, scale: &Scale) {
        canvas.line(
            (frame.left, frame.bottom),
            (frame.right, frame.bottom),
            "axis",
        );
        let mut free_from = f64::NEG_INFINITY;
        for (value, text) in self.labels(scale, 8) {
            let place = scale.place(value);
            let half = text.chars().count() as f64 * LETTER_WIDTH / 2.0;
            canvas.line((place, frame.bottom), (place, frame.bottom + 4.0), "axis");
            // A label that would touch the one before is left out.
            if place - half < free_from {
                continue;
            }
            free_from = place + half + LETTER_WIDTH;
            // The label must not reach over the edge of the picture.
            let place = place.min(frame.right + EDGE - half);
            canvas.text((place, frame.bottom + 17.0), Anchor::Middle, "tick", &text);
        }
        let middle = f64::midpoint(frame.left, frame.right);
        canvas.text(
            (middle, frame.bottom + 36.0),
            Anchor::Middle,
            "label",
            &self.label,
        );
    }

    /// Draws the axis left of a frame, with lines across it.
    pub fn draw_left(&self, canvas: &mut Canvas, frame: &Frame, scale: &Scale) {
        let mut free_below = f64::INFINITY;
        for (value, text) in self.labels(scale, 6) {
            let place = scale.place(value);
            canvas.line((frame.left, place), (frame.right, place), "grid");
            if place > free_below {
                continue;
            }
            free_below = place - 14.0;
            canvas.text((frame.left - 8.0, place + 4.0), Anchor::End, "tick", &text);
        }
        let middle = f64::midpoint(frame.top, frame.bottom);
        canvas.text_upwards((14.0, middle), "label", &self.label);
    }
}
