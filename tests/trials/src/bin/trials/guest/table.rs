//! The results of the runs as one table.

use std::{collections::BTreeMap, fmt::Write};

use serde_json::Value;

/// A place in the table, in its order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub benchmark: String,
    pub threads: u64,
    /// Number of the combination of locks and scheduler.
    pub combination: usize,
}

/// What one run measured.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    total: f64,
    per_thread: f64,
    jain: f64,
    switches: f64,
    cpu_micros: f64,
}

/// Runs of every place.
#[derive(Default)]
pub struct Table(BTreeMap<Place, Vec<Run>>);

impl Table {
    /// Adds a run's line of JSON; false if it is none.
    pub fn add(&mut self, place: Place, json: &str) -> bool {
        let run = serde_json::from_str(json)
            .ok()
            .and_then(|value| read(&value));
        if let Some(run) = run {
            self.0.entry(place).or_default().push(run);
        }
        run.is_some()
    }

    /// Runs in it.
    pub fn runs(&self) -> usize {
        self.0.values().map(Vec::len).sum()
    }

    /// As Markdown; a place's figures are those of its median run.
    pub fn text(&self, names: &[(&str, &str)]) -> String {
        let mut text = String::from(
            "| benchmark | threads | locks | scheduler | total ops/s | least to most | \
             of native | per thread | Jain | switches/op | CPU us/op |\n\
             |---|---|---|---|---|---|---|---|---|---|---|\n",
        );
        for (place, runs) in &self.0 {
            let native = Place {
                combination: 0,
                ..place.clone()
            };
            let native = self
                .0
                .get(&native)
                .map_or(f64::NAN, |runs| median(runs).total);
            let (locks, scheduler) = names[place.combination];
            let run = median(runs);
            let totals = || runs.iter().map(|run| run.total);
            let (least, most) = (
                totals().fold(f64::MAX, f64::min),
                totals().fold(0.0, f64::max),
            );
            let _ = writeln!(
                text,
                "| {} | {} | {locks} | {scheduler} | {:.0} | {least:.0} to {most:.0} | {:.2} | \
                 {:.0} | {:.2} | {:.4} | {:.2} |",
                place.benchmark,
                place.threads,
                run.total,
                run.total / native,
                run.per_thread,
                run.jain,
                run.switches,
                run.cpu_micros,
            );
        }
        text
    }
}

fn read(value: &Value) -> Option<Run> {
    let number = |name: &str| value.get(name)?.as_f64();
    Some(Run {
        total: number("operations_per_second")?,
        per_thread: number("per_thread_mean")?,
        jain: number("jain")?,
        switches: number("voluntary_switches_per_operation")?
            + number("involuntary_switches_per_operation")?,
        cpu_micros: number("cpu_micros_per_operation")?,
    })
}

/// The run in the middle, by its total.
fn median(runs: &[Run]) -> Run {
    let mut sorted = runs.to_vec();
    sorted.sort_by(|one, other| one.total.total_cmp(&other.total));
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
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
        assert!(table.add(place(0), &line(100)));
        for total in [190, 300, 200] {
            assert!(table.add(place(1), &line(total)));
        }
        assert!(!table.add(place(1), "{}") && !table.add(place(1), "boot"));
        assert_eq!(table.runs(), 4);
        let text = table.text(&[("native", "default"), ("library", "FIFO")]);
        let last = text.lines().last().unwrap();
        assert_eq!(
            last,
            "| fill | 8 | library | FIFO | 200 | 190 to 300 | 2.00 | 2 | 0.90 | 0.7500 | 3.00 |"
        );
    }
}
