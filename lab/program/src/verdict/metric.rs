//! Metrics, and the direction in which each is better.

/// Direction in which a metric is better, which also decides the name of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// More work in the same time.
    MoreIsFaster,
    /// Less time for the same work.
    LessIsFaster,
    /// Less spent for the same work: bytes, flushes, memory, processor.
    LessIsThriftier,
}

/// One metric of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Name in tables.
    pub name: String,
    pub better: Better,
    /// Whether the exit code depends on this metric. Only one metric decides: with ten at
    /// 5 % each, every second comparison of equals would fail.
    pub decides: bool,
}

impl Metric {
    /// A metric that is shown and does not decide.
    pub fn new(name: &str, better: Better) -> Metric {
        Metric {
            name: name.to_owned(),
            better,
            decides: false,
        }
    }

    /// The same metric, deciding the exit code.
    pub fn deciding(self) -> Metric {
        Metric {
            decides: true,
            ..self
        }
    }

    /// The sign that turns a log-ratio of values into one in which positive is better.
    pub fn sign(&self) -> f64 {
        match self.better {
            Better::MoreIsFaster => 1.0,
            Better::LessIsFaster | Better::LessIsThriftier => -1.0,
        }
    }
}
