//! Totals of all cycles as one table.

use std::time::Duration;

use history::Verdict;

use crate::report;

#[derive(Debug, Default)]
pub struct Totals {
    pub cycles: u32,
    /// The sums of all verdicts, without their violations.
    verdict: Verdict,
    /// Writes sent before a cut and acknowledged after it.
    pub overtaken: u64,
    /// Cuts that lost the bytes of an unsynced file.
    pub cuts_that_bit: u64,
    /// Cuts after which the server ran without its disk for a while.
    pub ran_on: u64,
    /// Compactions acknowledged before the cut.
    pub compactions: u64,
    /// From the start of the process to its first answer to a read.
    pub restarts: Vec<Duration>,
    revision: i64,
}

impl Totals {
    /// Adds a cycle, after which the store was at `revision`.
    pub fn add(&mut self, verdict: &Verdict, revision: i64) {
        self.revision = revision;
        self.verdict.acknowledged += verdict.acknowledged;
        self.verdict.lost += verdict.lost;
        self.verdict.survived += verdict.survived;
        self.verdict.absent += verdict.absent;
    }

    /// One line of progress.
    pub fn line(&self, cycles: u32) -> String {
        format!(
            "end {:>3}/{cycles}  revision {}  acknowledged {}  lost {}  last restart {} ms",
            self.cycles,
            self.revision,
            self.verdict.acknowledged,
            self.verdict.lost,
            self.restarts.last().map_or(0, Duration::as_millis),
        )
    }

    fn restart(&self, percent: usize) -> String {
        let restart = report::quantile(&self.restarts, percent);
        format!("{} ms", restart.as_millis())
    }

    /// The figures of kills, and those of power cuts if there were any.
    pub fn table(&self, cuts: bool) -> String {
        let kills = [
            ("cycles", self.cycles.to_string()),
            ("writes acknowledged", self.verdict.acknowledged.to_string()),
            ("acknowledged writes lost", self.verdict.lost.to_string()),
            (
                "not acknowledged, present",
                self.verdict.survived.to_string(),
            ),
            ("not acknowledged, absent", self.verdict.absent.to_string()),
            (
                "compactions acknowledged under load",
                self.compactions.to_string(),
            ),
            ("restart after an end, median", self.restart(50)),
            ("restart after an end, 99 %", self.restart(99)),
            ("restart after an end, slowest", self.restart(100)),
            ("newest revision", self.revision.to_string()),
        ];
        let cut = [
            ("acknowledged without a disk", self.overtaken.to_string()),
            (
                "cuts that took an unsynced file",
                self.cuts_that_bit.to_string(),
            ),
            (
                "cuts after which the server ran on",
                self.ran_on.to_string(),
            ),
        ];
        let rows = kills.into_iter().chain(cut.into_iter().filter(|_| cuts));
        let rows = rows.map(|(name, figure)| vec![name.to_owned(), figure]);
        report::table(&["ends under load", "figure"], rows)
    }
}
