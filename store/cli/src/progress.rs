//! Progress of long work, shown on stderr.
//!
//! ```text
//!   terminal       a bar, once the work has taken two seconds
//!   anything else  a plain line every ten seconds, for logs
//! ```

use std::cell::RefCell;
use std::io::{IsTerminal, Write};
use std::time::Duration;

use environment::real::RealClock;
use environment::{Clock, Instant};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::table::size;

const BAR_AFTER: Duration = Duration::from_secs(2);
const LINE_EVERY: Duration = Duration::from_secs(10);
const TEMPLATE: &str = "{prefix} [{bar:32}] {binary_bytes} of {binary_total_bytes}, {msg}";

/// Progress of work of which the bytes are not known at first.
#[derive(Debug, Default)]
pub(crate) struct LateProgress(RefCell<Option<Progress>>);

impl LateProgress {
    /// Begins to show this, in place of what was shown before.
    pub(crate) fn begin(&self, what: &'static str, total_bytes: u64) {
        *self.0.borrow_mut() = Some(Progress::new(what, total_bytes));
    }

    pub(crate) fn advance(&self, bytes: u64) {
        if let Some(progress) = &mut *self.0.borrow_mut() {
            progress.advance(bytes);
        }
    }
}

/// Bytes done out of a total.
#[derive(Debug)]
pub(crate) struct Progress {
    what: &'static str,
    done_bytes: u64,
    total_bytes: u64,
    started: Instant,
    /// When the last plain line was written.
    line_at: Instant,
    bar: Option<ProgressBar>,
    terminal: bool,
}

impl Progress {
    /// Progress of 0 bytes; shows nothing yet.
    pub(crate) fn new(what: &'static str, total_bytes: u64) -> Progress {
        let now = RealClock.now();
        Progress {
            what,
            done_bytes: 0,
            total_bytes,
            started: now,
            line_at: now,
            bar: None,
            terminal: std::io::stderr().is_terminal(),
        }
    }

    /// Adds `bytes` to what is done, and shows the progress if it is time.
    pub(crate) fn advance(&mut self, bytes: u64) {
        self.done_bytes += bytes;
        let now = RealClock.now();
        if self.terminal {
            self.show_bar(now);
        } else if now.saturating_since(self.line_at) >= LINE_EVERY {
            self.line_at = now;
            self.write_line();
        }
    }

    fn show_bar(&mut self, now: Instant) {
        if self.bar.is_none() && now.saturating_since(self.started) >= BAR_AFTER {
            self.bar = Some(self.new_bar());
        }
        if let Some(bar) = &self.bar {
            bar.set_message(self.pace(now));
            bar.set_position(self.done_bytes);
        }
    }

    fn new_bar(&self) -> ProgressBar {
        let style = ProgressStyle::with_template(TEMPLATE).expect("the template is a constant");
        let target = ProgressDrawTarget::stderr();
        ProgressBar::with_draw_target(Some(self.total_bytes), target)
            .with_style(style.progress_chars("=> "))
            .with_prefix(self.what)
    }

    /// Average speed so far, and the time that the rest takes at that speed. Computed here,
    /// because the bar is created late and would measure only from then on.
    fn pace(&self, now: Instant) -> String {
        let seconds = now.saturating_since(self.started).as_secs_f64();
        let speed = self.done_bytes as f64 / seconds.max(f64::MIN_POSITIVE);
        let rest = self.total_bytes.saturating_sub(self.done_bytes) as f64;
        let left = (rest / speed.max(1.0)).ceil();
        format!("{}/s, {left} s left", size(speed as u64))
    }

    fn write_line(&self) {
        let percent = self.done_bytes * 100 / self.total_bytes.max(1);
        let (done, total) = (size(self.done_bytes), size(self.total_bytes));
        // A closed stderr does not end the work.
        let _ = writeln!(
            std::io::stderr(),
            "{}: {done} of {total} ({percent} %)",
            self.what
        );
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
