//! Totals of all cycles as one table.

use std::{fmt, time::Duration};

use super::history::Verdict;

#[derive(Debug, Default)]
pub struct Totals {
    pub cycles: u32,
    acknowledged: u64,
    lost: u64,
    overtaken: u64,
    survived: u64,
    absent: u64,
    /// Cuts that lost the bytes of an unsynced file.
    pub cuts_that_bit: u32,
    /// Cuts after which the server ran without its disk for a while.
    pub ran_on: u32,
    /// Compactions acknowledged before the cut.
    pub compactions: u32,
    /// From the start of the process to its first answer to a read.
    pub restarts: Vec<Duration>,
    pub revision: i64,
}

impl Totals {
    pub fn add(&mut self, verdict: &Verdict) {
        self.acknowledged += verdict.acknowledged;
        self.lost += verdict.lost;
        self.overtaken += verdict.overtaken;
        self.survived += verdict.survived;
        self.absent += verdict.absent;
    }

    /// One line of progress.
    pub fn line(&self, cycles: u32) -> String {
        format!(
            "cut {:>3}/{cycles}  revision {}  acknowledged {}  lost {}  last restart {} ms",
            self.cycles,
            self.revision,
            self.acknowledged,
            self.lost,
            self.restarts.last().map_or(0, Duration::as_millis),
        )
    }

    fn restart(&self, hundredths: usize) -> String {
        let mut sorted = self.restarts.clone();
        sorted.sort_unstable();
        let place = sorted.len().saturating_sub(1) * hundredths / 100;
        let restart = sorted.get(place).copied().unwrap_or_default();
        format!("{} ms", restart.as_millis())
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = [
            ("cycles", self.cycles.to_string()),
            ("writes acknowledged", self.acknowledged.to_string()),
            ("acknowledged writes lost", self.lost.to_string()),
            (
                "answered by a server that ran on",
                self.overtaken.to_string(),
            ),
            (
                "unanswered or so answered, there",
                self.survived.to_string(),
            ),
            ("unanswered or so answered, absent", self.absent.to_string()),
            (
                "cuts that took an unsynced file",
                self.cuts_that_bit.to_string(),
            ),
            (
                "cuts after which the server ran on",
                self.ran_on.to_string(),
            ),
            (
                "compactions acknowledged under load",
                self.compactions.to_string(),
            ),
            ("restart after a cut, median", self.restart(50)),
            ("restart after a cut, 99 %", self.restart(99)),
            ("restart after a cut, slowest", self.restart(100)),
            ("newest revision", self.revision.to_string()),
        ];
        writeln!(f, "| {:<36} | {:>12} |", "power-cut", "figure")?;
        writeln!(f, "|{:-<38}|{:->13}:|", "", "")?;
        for (name, figure) in rows {
            writeln!(f, "| {name:<36} | {figure:>12} |")?;
        }
        Ok(())
    }
}
