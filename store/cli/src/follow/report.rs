//! Progress of following: a live line on a terminal, or a line now and then.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use environment::real::RealClock;
use environment::{Clock, Instant};
use indicatif::{ProgressBar, ProgressStyle};

use super::source::UsersState;
use crate::failure;

const LINE_EVERY: Duration = Duration::from_secs(30);
/// The rate is that of this time.
const RATE_TIME: Duration = Duration::from_secs(5);

/// How far the store has come.
pub(crate) struct FollowReport {
    revision: i64,
    source_revision: i64,
    /// Revision and hash of the last comparison.
    equal: Option<(i64, u32)>,
    line: Option<ProgressBar>,
    line_at: Instant,
    /// Revisions since the rate was last computed.
    counted: u64,
    counted_since: Instant,
    per_second: f64,
}

impl FollowReport {
    pub(crate) fn new() -> FollowReport {
        let now = RealClock.now();
        let line = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{spinner} {msg}");
            ProgressBar::new_spinner().with_style(style.expect("the template is a constant"))
        });
        FollowReport {
            revision: 0,
            source_revision: 0,
            equal: None,
            line,
            line_at: now,
            counted: 0,
            counted_since: now,
            per_second: 0.0,
        }
    }

    pub(crate) fn connected(&mut self, revision: i64, source_revision: i64) {
        (self.revision, self.source_revision) = (revision, source_revision);
        self.say(&format!(
            "following from revision {revision}; the source is at {source_revision}"
        ));
    }

    pub(crate) fn written(&mut self, revision: i64, count: u64) {
        self.revision = revision;
        self.counted += count;
        self.show();
    }

    pub(crate) fn source_is_at(&mut self, revision: i64) {
        self.source_revision = revision;
        self.show();
    }

    pub(crate) fn equal(&mut self, revision: i64, hash: u32) {
        self.equal = Some((revision, hash));
        if self.line.is_none() {
            self.say(&format!(
                "histories are equal at revision {revision}: HashKV {hash:08x}"
            ));
        }
    }

    pub(crate) fn took_over_users(&mut self, state: UsersState) {
        let checked = if state.enabled {
            "checked"
        } else {
            "not checked"
        };
        self.say(&format!(
            "took over users and roles of revision {}; users are {checked}",
            state.revision
        ));
    }

    /// The newest revision that the store has.
    pub(crate) fn revision(&self) -> i64 {
        self.revision
    }

    /// Writes a line of its own.
    pub(crate) fn say(&self, text: &str) {
        match &self.line {
            Some(line) => line.println(text),
            None => failure::say(text),
        }
    }

    /// Ends the live line.
    pub(crate) fn end(&self) {
        if let Some(line) = &self.line {
            line.finish_and_clear();
        }
    }

    fn show(&mut self) {
        let now = RealClock.now();
        let took = now.saturating_since(self.counted_since);
        if took >= RATE_TIME {
            self.per_second = self.counted as f64 / took.as_secs_f64();
            (self.counted, self.counted_since) = (0, now);
        }
        if let Some(line) = &self.line {
            line.set_message(self.text());
            line.tick();
        } else if now.saturating_since(self.line_at) >= LINE_EVERY {
            self.line_at = now;
            // A reader that has left does not end the following.
            let _ = writeln!(std::io::stdout(), "{}", self.text());
        }
    }

    fn text(&self) -> String {
        let behind = (self.source_revision - self.revision).max(0);
        let equal = match self.equal {
            Some((revision, hash)) => format!("equal at {revision} (HashKV {hash:08x})"),
            None => "not compared yet".to_owned(),
        };
        format!(
            "revision {}, {behind} behind, {:.0} revisions/s, {equal}",
            self.revision, self.per_second
        )
    }
}
