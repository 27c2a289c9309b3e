//! Scales: mappings from values to coordinates.

/// Spacing of values along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spacing {
    /// Equal differences are equal distances.
    Even,
    /// Equal ratios are equal distances.
    Ratio,
}

/// A mapping from a range of values to a range of coordinates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    spacing: Spacing,
    from: f64,
    to: f64,
    first: f64,
    last: f64,
}

impl Scale {
    /// Maps `values` (least and greatest) to `places` (coordinates of the least and of the
    /// greatest). A single value is mapped to the middle, with even spacing zero
    /// to the beginning.
    pub fn new(spacing: Spacing, values: (f64, f64), places: [f64; 2]) -> Scale {
        let (mut from, mut to) = values;
        assert!(
            from.is_finite() && to.is_finite() && from <= to,
            "a scale from {from} to {to}"
        );
        if spacing == Spacing::Ratio {
            to = to.max(f64::MIN_POSITIVE);
            from = from.clamp(to * 1e-12, to);
        }
        if from == to {
            (from, to) = match spacing {
                Spacing::Ratio => (from / 2.0, to * 2.0),
                Spacing::Even if from == 0.0 => (0.0, 1.0),
                Spacing::Even => (from - from.abs() / 2.0, to + to.abs() / 2.0),
            };
        }
        Scale {
            spacing,
            from,
            to,
            first: places[0],
            last: places[1],
        }
    }

    /// The coordinate of a value; a value outside of the range gets that of the nearer end.
    pub fn place(&self, value: f64) -> f64 {
        let share = match self.spacing {
            Spacing::Even => (value - self.from) / (self.to - self.from),
            Spacing::Ratio => (value.max(self.from) / self.from).ln() / (self.to / self.from).ln(),
        };
        self.first + share.clamp(0.0, 1.0) * (self.last - self.first)
    }

    /// Round values for labels, about `wanted` of them.
    pub fn ticks(&self, wanted: usize) -> Vec<f64> {
        match self.spacing {
            Spacing::Even => even_ticks(self.from, self.to, wanted),
            Spacing::Ratio => ratio_ticks(self.from, self.to, wanted),
        }
    }
}

fn even_ticks(from: f64, to: f64, wanted: usize) -> Vec<f64> {
    let rough = (to - from) / wanted.max(1) as f64;
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|step| *step >= rough * 0.999)
        .unwrap_or(power * 10.0);
    let first = (from / step - 1e-9).ceil() as i64;
    let last = (to / step + 1e-9).floor() as i64;
    (first..=last).map(|at| at as f64 * step).collect()
}

fn ratio_ticks(from: f64, to: f64, wanted: usize) -> Vec<f64> {
    let decades = (to / from).log10();
    let factors: &[f64] = match decades {
        _ if decades * 3.0 <= wanted as f64 => &[1.0, 2.0, 5.0],
        _ if decades * 2.0 <= wanted as f64 => &[1.0, 3.0],
        _ => &[1.0],
    };
    let first = from.log10().floor() as i32;
    let last = to.log10().ceil() as i32;
    let every = ((decades / wanted.max(1) as f64).ceil() as usize).max(1);
    let ticks: Vec<f64> = (first..=last)
        .step_by(every)
        .flat_map(|decade| {
            factors
                .iter()
                .map(move |factor| factor * 10_f64.powi(decade))
        })
        .filter(|tick| *tick >= from * 0.999 && *tick <= to * 1.001)
        .collect();
    // A range of less than one step gets round values of an even scale.
    if ticks.len() < 2 {
        return even_ticks(from, to, wanted);
    }
    ticks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_of_the_values_are_mapped_to_the_ends_of_the_places() {
        let scale = Scale::new(Spacing::Ratio, (1.0, 100.0), [300.0, 0.0]);
        assert_eq!(scale.place(1.0), 300.0);
        assert!((scale.place(10.0) - 150.0).abs() < 1e-9);
        assert_eq!(scale.place(1000.0), 0.0);
        assert_eq!(scale.place(0.0), 300.0);
    }

    #[test]
    fn a_single_value_is_mapped_to_the_middle() {
        let even = Scale::new(Spacing::Even, (8.0, 8.0), [0.0, 100.0]);
        assert_eq!(even.place(8.0), 50.0);
        let ratio = Scale::new(Spacing::Ratio, (8.0, 8.0), [0.0, 100.0]);
        assert!((ratio.place(8.0) - 50.0).abs() < 1e-9);
        let zero = Scale::new(Spacing::Ratio, (0.0, 0.0), [0.0, 100.0]);
        assert!(zero.place(0.0).is_finite());
    }

    #[test]
    fn ticks_are_round() {
        let even = Scale::new(Spacing::Even, (0.0, 47_000.0), [0.0, 1.0]);
        assert_eq!(even.ticks(5), [0.0, 10_000.0, 20_000.0, 30_000.0, 40_000.0]);
        let ratio = Scale::new(Spacing::Ratio, (80.0, 12_000.0), [0.0, 1.0]);
        assert_eq!(ratio.ticks(5), [100.0, 300.0, 1000.0, 3000.0, 10_000.0]);
        let narrow = Scale::new(Spacing::Ratio, (210.0, 240.0), [0.0, 1.0]);
        assert!(narrow.ticks(4).len() >= 3, "{:?}", narrow.ticks(4));
    }
}
