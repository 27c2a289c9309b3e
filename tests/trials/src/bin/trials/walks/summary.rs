//! What all walks together have shown, ready for a record.

use std::time::Duration;

use super::{
    course::Course,
    generate::Walk,
    tally::{PROMISED, Tally},
};
use crate::{live_line, process::Outcome};

#[derive(Default)]
pub struct Summary {
    tally: Tally,
    took: Vec<Duration>,
    /// Walks in which our system failed, by seed.
    pub failed: Vec<u64>,
    /// Walks that went on without etcd, each with the reason.
    etcd_failed: Vec<String>,
    /// Walks that ended early, each with the call.
    parted: Vec<String>,
}

impl Summary {
    /// Adds a walk; one that failed is shown with its steps.
    pub fn add(&mut self, walk: &Walk, mut course: Course, took: Duration) {
        let seed = walk.seed;
        let tally = &mut course.tally;
        for line in tally.ours.slow.iter_mut().chain(&mut tally.etcd.slow) {
            *line = format!("seed {seed}: {line}");
        }
        if !course.failures.is_empty() {
            self.failed.push(seed);
            let why = course.failures.join("\n  ");
            let lines = course.lines.join("\n  ");
            live_line::show("", false);
            println!("seed {seed} FAILED: {why}\n{walk}\n  {lines}");
        }
        for why in course.etcd_failures {
            self.etcd_failed.push(format!("seed {seed}: {why}"));
        }
        if let Some(call) = course.parted {
            self.parted.push(format!("seed {seed}: {call}"));
        }
        self.tally.add(course.tally);
        self.took.push(took);
    }

    pub fn keeps_logs(&self) -> bool {
        let is_slow = !self.tally.ours.slow.is_empty();
        is_slow || !self.failed.is_empty() || !self.etcd_failed.is_empty()
    }

    pub fn text(&self) -> String {
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
        let promised = PROMISED.as_secs();
        let slow = |name| format!("{name} served after more than {promised} s");
        let parted = "Walks that ended where the systems parted".to_owned();
        let without = "Walks that went on without etcd".to_owned();
        for (title, lines) in [
            (slow("inkstone"), &self.tally.ours.slow),
            (slow("etcd"), &self.tally.etcd.slow),
            (parted, &self.parted),
            (without, &self.etcd_failed),
        ] {
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
