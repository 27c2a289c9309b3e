//! What many walks have shown, as tables in Markdown.

use std::{collections::BTreeMap, time::Duration};

use super::answer::{Answer, Verdict};
use crate::report::{quantile, table};

/// Two election timeouts.
pub const PROMISED: Duration = Duration::from_secs(2);

/// A call with the answers of both systems.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Row {
    kind: &'static str,
    has_majority: bool,
    ours: String,
    /// `-` without etcd.
    etcd: String,
    verdict: Verdict,
}

/// Subject of a measured time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// From the end of a step to an acknowledged put.
    Serve,
    /// The same, of a step that has given the cluster its majority back.
    ServeAgain,
    /// Until every member that is up shows, lists, takes and reads.
    CatchUp,
    /// Until a removed member's process has ended by itself.
    Depart,
}

/// Times of one system.
#[derive(Clone, Debug, Default)]
pub struct Times {
    all: BTreeMap<What, Vec<Duration>>,
    /// Steps after which a removed member's process went on.
    pub stayed: Vec<String>,
    /// Processes that ended and were started again.
    pub restarts: usize,
    /// Steps after which a put took longer than promised.
    pub slow: Vec<String>,
}

/// Of one walk, or of many.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    rows: BTreeMap<Row, u32>,
    steps: BTreeMap<&'static str, u32>,
    /// Calls after which a walk ended, because the systems went different ways.
    pub parted: Vec<String>,
    /// Why walks went on without etcd.
    pub etcd_failures: Vec<String>,
    pub ours: Times,
    pub etcd: Times,
}

impl Tally {
    pub fn call(
        &mut self,
        kind: &'static str,
        has_majority: bool,
        ours: &Answer,
        etcd: Option<&Answer>,
        verdict: Verdict,
    ) {
        let row = Row {
            kind,
            has_majority,
            ours: ours.words(),
            etcd: etcd.map_or("-".to_owned(), Answer::words),
            verdict,
        };
        *self.rows.entry(row).or_default() += 1;
    }

    pub fn step(&mut self, kind: &'static str) {
        *self.steps.entry(kind).or_default() += 1;
    }

    /// The logs say why etcd failed, or why ours was slow.
    pub fn is_worth_keeping(&self) -> bool {
        !self.ours.slow.is_empty() || !self.etcd_failures.is_empty()
    }

    /// The lists of what was out of the ordinary, with their titles.
    pub fn lists(&mut self) -> [(&'static str, &mut Vec<String>); 4] {
        [
            ("inkstone served after more than 2 s", &mut self.ours.slow),
            ("etcd served after more than 2 s", &mut self.etcd.slow),
            (
                "Walks that ended where the systems parted",
                &mut self.parted,
            ),
            ("Walks that went on without etcd", &mut self.etcd_failures),
        ]
    }

    /// Adds a walk with its seed.
    pub fn add(&mut self, seed: u64, mut other: Tally) {
        for ((_, all), (_, lines)) in self.lists().into_iter().zip(other.lists()) {
            let lines = lines.iter().map(|line| format!("seed {seed}: {line}"));
            all.extend(lines);
        }
        for (row, times) in other.rows {
            *self.rows.entry(row).or_default() += times;
        }
        for (kind, times) in other.steps {
            *self.steps.entry(kind).or_default() += times;
        }
        self.ours.add(other.ours);
        self.etcd.add(other.etcd);
    }

    /// Calls that were answered better, and worse, than by etcd.
    pub fn differences(&self) -> (u32, u32) {
        let count = |verdict| {
            let rows = self.rows.iter().filter(|(row, _)| row.verdict == verdict);
            rows.map(|(_, times)| times).sum()
        };
        (count(Verdict::Better), count(Verdict::Worse))
    }

    pub fn tables(&self) -> String {
        let steps = self.steps.iter();
        let steps = steps.map(|(kind, times)| vec![(*kind).to_owned(), times.to_string()]);
        let calls = self.rows.iter().map(|(row, times)| {
            let majority = match row.has_majority {
                true => "",
                false => ", no majority up",
            };
            let verdict = match row.verdict {
                Verdict::Same => "same",
                Verdict::Better => "better",
                Verdict::Worse => "**worse**",
            };
            let (ours, etcd) = (row.ours.clone(), row.etcd.clone());
            let kind = format!("{}{majority}", row.kind);
            vec![kind, ours, etcd, verdict.to_owned(), times.to_string()]
        });
        let systems = [("inkstone", &self.ours), ("etcd", &self.etcd)];
        let seconds = systems.iter().flat_map(|(name, times)| times.rows(name));
        let mut text = [
            table(&["step", "times"], steps),
            table(&["call", "inkstone", "etcd", "verdict", "times"], calls),
            table(
                &["seconds", "", "times", "p50", "p90", "max", "over 2 s"],
                seconds,
            ),
        ]
        .join("\n");
        text.push('\n');
        for (name, times) in systems {
            text.push_str(&format!(
                "{name}: {} processes ended by themselves and were started again, \
                 {} removed members went on.\n",
                times.restarts,
                times.stayed.len()
            ));
        }
        text
    }
}

impl Times {
    pub fn took(&mut self, what: What, time: Duration) {
        self.all.entry(what).or_default().push(time);
    }

    fn add(&mut self, other: Times) {
        for (what, times) in other.all {
            self.all.entry(what).or_default().extend(times);
        }
        self.stayed.extend(other.stayed);
        self.restarts += other.restarts;
    }

    fn rows(&self, name: &str) -> Vec<Vec<String>> {
        let row = |(what, times): (&What, &Vec<Duration>)| {
            let what = match what {
                What::Serve => "to serve",
                What::ServeAgain => "to serve, with a majority again",
                What::CatchUp => "to catch up",
                What::Depart => "to end when removed",
            };
            let over = times.iter().filter(|it| **it > PROMISED).count();
            let counted = [what, name, &times.len().to_string()].map(str::to_owned);
            let quantiles = [50, 90, 100].map(|percent| {
                let time = quantile(times, percent);
                format!("{:.3}", time.as_secs_f64())
            });
            [&counted[..], &quantiles, &[over.to_string()]].concat()
        };
        self.all.iter().map(row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tallies_of_walks_add_up() {
        let mut all = Tally::default();
        for _ in 0..2 {
            let mut one = Tally::default();
            one.call("put", true, &Answer::Done, None, Verdict::Same);
            one.step("kill");
            one.ours.took(What::Serve, Duration::from_millis(3_500));
            all.add(1, one);
        }
        let tables = all.tables();
        for row in [
            "| kill | 2 |",
            "| put | done | - | same | 2 |",
            "| to serve | inkstone | 2 | 3.500 | 3.500 | 3.500 | 2 |",
        ] {
            assert!(tables.contains(row), "{row} in {tables}");
        }
        assert_eq!(all.differences(), (0, 0));
    }
}
