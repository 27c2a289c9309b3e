//! What all walks together have shown, ready for a record.

use std::time::Duration;

use super::{course::Course, generate::Walk, tally::Tally};
use crate::{live_line, process::Outcome};

#[derive(Default)]
pub struct Summary {
    tally: Tally,
    took: Vec<Duration>,
    /// Walks in which our system failed, by seed.
    pub failed: Vec<u64>,
}

impl Summary {
    /// Adds a walk; one that failed is shown with its steps.
    pub fn add(&mut self, walk: &Walk, course: Course, took: Duration) {
        let seed = walk.seed;
        if !course.failures.is_empty() {
            self.failed.push(seed);
            let why = course.failures.join("\n  ");
            let lines = course.lines.join("\n  ");
            live_line::show("", false);
            println!("seed {seed} FAILED: {why}\n{walk}\n  {lines}");
        }
        self.tally.add(seed, course.tally);
        self.took.push(took);
    }

    pub fn keeps_logs(&self) -> bool {
        self.tally.is_worth_keeping() || !self.failed.is_empty()
    }

    pub fn text(&mut self) -> String {
        let walks = self.took.len();
        let seconds: f64 = self.took.iter().map(Duration::as_secs_f64).sum();
        let slowest = self.took.iter().max().copied().unwrap_or_default();
        let (better, worse) = self.tally.differences();
        let mut text = format!(
            "{walks} walks, {:.1} s each, the slowest {:.1} s; {} failed; \
             calls answered better than by etcd: {better}, worse: {worse}\n\n{}",
            seconds / walks.max(1) as f64,
            slowest.as_secs_f64(),
            self.failed.len(),
            self.tally.tables()
        );
        for (title, lines) in self.tally.lists() {
            if !lines.is_empty() {
                text.push_str(&format!("\n{title}:\n\n- {}\n", lines.join("\n- ")));
            }
        }
        text
    }

    pub fn verdict(&self) -> Outcome {
        if self.failed.is_empty() {
            println!("verdict: as etcd, or better");
            return Ok(());
        }
        let (failed, walks) = (self.failed.len(), self.took.len());
        let seeds: Vec<String> = self.failed.iter().map(u64::to_string).collect();
        Err(format!(
            "{failed} of {walks} walks failed: seeds {}",
            seeds.join(", ")
        )
        .into())
    }
}
