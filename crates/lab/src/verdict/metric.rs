//! What is measured, and which way is better.

/// Which way is better, and what a change is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// More work in the same time.
    MoreIsFaster,
    /// Less time for the same work.
    LessIsFaster,
    /// Less spent for the same work: bytes, flushes, memory, processor.
    LessIsThriftier,
}

/// One column of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metric {
    /// As a table heads it.
    pub name: String,
    /// Of the values; empty for plain numbers.
    pub unit: String,
    /// Which way is better.
    pub better: Better,
    /// Whether the exit code depends on it. The others are shown: with ten
    /// columns at 5 % each, every second comparison of equals would fail.
    pub decides: bool,
}

impl Metric {
    /// A column that is shown.
    pub fn new(name: &str, unit: &str, better: Better) -> Metric {
        Metric {
            name: name.to_owned(),
            unit: unit.to_owned(),
            better,
            decides: false,
        }
    }

    /// The same column, and the exit code depends on it.
    pub fn deciding(self) -> Metric {
        Metric {
            decides: true,
            ..self
        }
    }

    /// The sign that turns a log-ratio of values into one where positive is
    /// better.
    pub fn sign(&self) -> f64 {
        match self.better {
            Better::MoreIsFaster => 1.0,
            Better::LessIsFaster | Better::LessIsThriftier => -1.0,
        }
    }
}
