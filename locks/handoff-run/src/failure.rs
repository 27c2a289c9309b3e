//! Failure of a run: what is wrong, what to do, and an exit code, which `env` and `timeout` use
//! for the same case.

use std::fmt;
use std::io::Write;

/// The program has run, but without all that was asked for.
pub(crate) const UNPROVEN: u8 = 124;
/// Nothing was started.
pub(crate) const NOT_STARTED: u8 = 125;
/// The program cannot be executed.
pub(crate) const NOT_EXECUTABLE: u8 = 126;
/// There is no such program.
pub(crate) const NOT_FOUND: u8 = 127;

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

    /// A failure before the program was started.
    pub(crate) fn not_started(what: impl fmt::Display, remedy: impl fmt::Display) -> Failure {
        Failure::new(NOT_STARTED, what, remedy)
    }

    /// The same failure with another exit code.
    pub(crate) fn with_exit(self, exit: u8) -> Failure {
        Failure { exit, ..self }
    }

    /// Prints the failure on standard error; returns the exit code.
    pub(crate) fn report(&self) -> u8 {
        let mut text = format!("error: {}\n", self.what);
        for line in self.remedy.lines() {
            text.push_str("  ");
            text.push_str(line);
            text.push('\n');
        }
        // Without standard error the exit code is all that is left.
        let _ = std::io::stderr().write_all(text.as_bytes());
        self.exit
    }
}
