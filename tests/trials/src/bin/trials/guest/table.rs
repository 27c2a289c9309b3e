//! The results of the runs as one table.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::report::table;

/// A place in the table, in its order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub benchmark: String,
    pub threads: u64,
    /// Number of the combination of locks and scheduler.
    pub combination: usize,
}

/// Figures of one run, as leveldb-bench prints them.
#[derive(Clone, Copy, Debug, Deserialize)]
struct Run {
    operations_per_second: f64,
    per_thread_mean: f64,
    jain: f64,
    voluntary_switches_per_operation: f64,
    involuntary_switches_per_operation: f64,
    cpu_micros_per_operation: f64,
}

const HEADS: [&str; 11] = [
    "benchmark",
    "threads",
    "locks",
    "scheduler",
    "total ops/s",
    "least to most",
    "of native",
    "per thread",
    "Jain",
    "switches/op",
    "CPU us/op",
];

/// Runs of every place.
#[derive(Default)]
pub struct Table(BTreeMap<Place, Vec<Run>>);

impl Table {
    /// Adds a run's line of JSON; none if it is not one.
    pub fn add(&mut self, place: Place, json: &str) -> Option<()> {
        let run = serde_json::from_str(json).ok()?;
        self.0.entry(place).or_default().push(run);
        Some(())
    }

    /// Runs in it.
    pub fn runs(&self) -> usize {
        self.0.values().map(Vec::len).sum()
    }

    /// As Markdown; a place's figures are those of its median run.
    pub fn text(&self, names: &[(&str, &str, &str)]) -> String {
        table(&HEADS, self.0.keys().map(|place| self.row(place, names)))
    }

    fn row(&self, place: &Place, names: &[(&str, &str, &str)]) -> Vec<String> {
        let sorted = |place: &Place| {
            let mut runs = self.0.get(place).cloned().unwrap_or_default();
            runs.sort_by(|one, other| {
                let other = &other.operations_per_second;
                one.operations_per_second.total_cmp(other)
            });
            runs
        };
        let median = |runs: &[Run]| runs.get(runs.len() / 2).copied();
        let native = Place {
            combination: 0,
            ..place.clone()
        };
        let native = median(&sorted(&native)).map_or(f64::NAN, |run| run.operations_per_second);
        let runs = sorted(place);
        let run = median(&runs).expect("a place has a run");
        let total = |at: usize| runs[at].operations_per_second;
        let (locks, scheduler, _) = names[place.combination];
        let switches =
            run.voluntary_switches_per_operation + run.involuntary_switches_per_operation;
        vec![
            place.benchmark.clone(),
            place.threads.to_string(),
            locks.to_owned(),
            scheduler.to_owned(),
            format!("{:.0}", run.operations_per_second),
            format!("{:.0} to {:.0}", total(0), total(runs.len() - 1)),
            format!("{:.2}", run.operations_per_second / native),
            format!("{:.0}", run.per_thread_mean),
            format!("{:.2}", run.jain),
            format!("{switches:.4}"),
            format!("{:.2}", run.cpu_micros_per_operation),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(total: u32) -> String {
        format!(
            "{{\"operations_per_second\":{total},\"per_thread_mean\":2,\"jain\":0.9,\
             \"voluntary_switches_per_operation\":0.5,\
             \"involuntary_switches_per_operation\":0.25,\"cpu_micros_per_operation\":3}}"
        )
    }

    #[test]
    fn a_place_shows_its_median_and_its_share_of_native() {
        let mut table = Table::default();
        let place = |combination| Place {
            benchmark: "fill".to_owned(),
            threads: 8,
            combination,
        };
        table.add(place(0), &line(100)).unwrap();
        for total in [190, 300, 200] {
            table.add(place(1), &line(total)).unwrap();
        }
        assert!(
            table
                .add(place(1), "{}")
                .or(table.add(place(1), "boot"))
                .is_none()
        );
        assert_eq!(table.runs(), 4);
        let text = table.text(&[("native", "default", ""), ("library", "FIFO", "")]);
        let last = text.lines().last().unwrap();
        assert_eq!(
            last,
            "| fill | 8 | library | FIFO | 200 | 190 to 300 | 2.00 | 2 | 0.90 | 0.7500 | 3.00 |"
        );
    }
}
