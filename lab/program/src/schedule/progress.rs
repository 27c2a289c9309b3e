//! Display of progress on standard error: a bar on a terminal, one line for each run
//! elsewhere.

use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::record::Run;
use crate::report::number::{short, time};
use crate::report::results::failure;
use crate::worker::Stage;

/// ProgressDisplay of an experiment.
#[derive(Debug)]
pub struct ProgressDisplay {
    bar: Option<ProgressBar>,
    begun: Instant,
    done: u64,
    planned: u64,
    label: String,
}

impl ProgressDisplay {
    /// ProgressDisplay of an experiment with `planned` runs.
    pub fn new(planned: u64) -> ProgressDisplay {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{bar:24} {pos}/{len}  {prefix}  {msg}");
            ProgressBar::new(planned).with_style(style.expect("the template is valid"))
        });
        ProgressDisplay {
            bar,
            begun: Instant::now(),
            done: 0,
            planned,
            label: String::new(),
        }
    }

    /// Shows that the run `label` begins.
    pub fn begin(&mut self, label: String) {
        self.label = label;
        self.stage(Stage::Open, 0.0, 0.0);
    }

    /// Shows the stage of the run, the share of it that is done, and operations per second.
    pub fn stage(&mut self, stage: Stage, share: f64, rate: f64) {
        let Some(bar) = &self.bar else { return };
        let left = match self.left() {
            Some(left) => format!("{} left", span(left)),
            None => "estimating".into(),
        };
        let rate = match rate > 0.0 {
            true => format!("  {}/s", short(rate)),
            false => String::new(),
        };
        bar.set_prefix(left);
        let label = &self.label;
        bar.set_message(format!(
            "{label}: {} {:.0} %{rate}",
            stage.name(),
            share * 100.0
        ));
    }

    /// Shows the result of a run.
    pub fn end(&mut self, run: &Run) {
        self.done += 1;
        let line = format!(
            "{:>3}/{}  {}: {}",
            self.done,
            self.planned.max(self.done),
            self.label,
            result(run)
        );
        match &self.bar {
            Some(bar) => {
                bar.println(line);
                bar.set_length(self.planned.max(self.done));
                bar.set_position(self.done);
            }
            // The reading end may be closed; the measurement goes on.
            None => drop(writeln!(std::io::stderr(), "{line}")),
        }
    }

    /// Adds runs to the plan.
    pub fn add(&mut self, runs: u64) {
        self.planned += runs;
    }

    /// Numbers of finished and of planned runs.
    pub fn counts(&self) -> (u64, u64) {
        (self.done, self.planned)
    }

    /// Mean time of a run so far, waiting included; `None` before the first has ended.
    pub fn mean_run(&self) -> Option<Duration> {
        (self.done > 0).then(|| self.begun.elapsed().div_f64(self.done as f64))
    }

    fn left(&self) -> Option<Duration> {
        let left = self.planned.saturating_sub(self.done);
        Some(self.mean_run()?.mul_f64(left as f64))
    }

    /// Removes the bar.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn result(run: &Run) -> String {
    if let Some(failure) = failure(&run.outcome) {
        return failure;
    }
    let p99 = run.load.response().percentile(99.0) as f64 / 1e3;
    let latency = match run.load.saturated {
        true => "saturated".into(),
        false => format!("p99 {}", time(p99)),
    };
    let taints = run.taints.iter().map(|taint| format!("{:?}", taint.kind));
    let remark = match Vec::from_iter(taints) {
        taints if taints.is_empty() => String::new(),
        taints => format!("  (disturbed: {})", taints.join(", ")),
    };
    let rate = short(run.operations_per_second());
    format!("{rate}/s, {latency}{remark}")
}

/// Formats a length of time: `4m10s`.
pub fn span(length: Duration) -> String {
    match length.as_secs() {
        seconds @ 0..60 => format!("{seconds}s"),
        seconds @ 60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        seconds => format!("{}h{:02}m", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_at_most_two_units() {
        let text = |seconds| span(Duration::from_secs(seconds));
        assert_eq!(
            (text(7), text(250), text(7300)),
            ("7s".into(), "4m10s".into(), "2h01m".into())
        );
    }
}
