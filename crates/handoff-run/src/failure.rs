//! How a run ends that is none: what is wrong, what to do, and an exit code that
//! `env` and `timeout` use for the same.

use std::fmt;
use std::io::Write;

/// The program has run, but not under all that was asked for.
pub(crate) const UNPROVEN: u8 = 124;
/// Nothing was started.
pub(crate) const NOT_STARTED: u8 = 125;
/// The program cannot be executed.
pub(crate) const NOT_EXECUTABLE: u8 = 126;
/// There is no such program.
pub(crate) const NOT_FOUND: u8 = 127;

/// Why there is nothing to report.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: u8,
    what: String,
    remedy: String,
}

impl Failure {
    pub(crate) fn new(exit: u8, what: impl fmt::Display, remedy: impl fmt::Display) -> Failure {
        Failure {
            exit,
            what: what.to_string(),
            remedy: remedy.to_string(),
        }
    }

    /// Nothing was started.
    pub(crate) fn not_started(what: impl fmt::Display, remedy: impl fmt::Display) -> Failure {
        Failure::new(NOT_STARTED, what, remedy)
    }

    /// The same, but something has been started.
    pub(crate) fn with_exit(self, exit: u8) -> Failure {
        Failure { exit, ..self }
    }

    /// Tells the failure; the exit code.
    pub(crate) fn tell(&self) -> u8 {
        let mut text = format!("error: {}\n", self.what);
        for line in self.remedy.lines() {
            text.push_str("  ");
            text.push_str(line);
            text.push('\n');
        }
        // With standard error gone there is nobody left to tell.
        let _ = std::io::stderr().write_all(text.as_bytes());
        self.exit
    }
}
