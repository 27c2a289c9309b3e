//! How a verb ends when it does not end well.
//!
//! A message has two parts: what is wrong, on one line, and what to do about
//! it, indented under it.

use std::fmt;
use std::io;
use std::process::ExitCode;

/// Tried and failed.
pub(crate) const FAILED: u8 = 1;
/// Called in a way that cannot work.
pub(crate) const WRONG_USE: u8 = 2;

/// Why a verb stopped early.
#[derive(Debug)]
pub(crate) enum Failure {
    /// For people: what is wrong, and a remedy (may be empty).
    Told {
        exit: u8,
        what: String,
        remedy: String,
    },
    /// The verb has said everything itself.
    Said { exit: u8 },
    /// Whoever read our output has left: nothing to say, nobody to say it to.
    ReaderLeft,
}

impl Failure {
    /// The operation failed.
    pub(crate) fn failed(what: impl fmt::Display, remedy: impl fmt::Display) -> Failure {
        Failure::told(FAILED, what, remedy)
    }

    /// The call cannot work as it stands.
    pub(crate) fn wrong_use(what: impl fmt::Display, remedy: impl fmt::Display) -> Failure {
        Failure::told(WRONG_USE, what, remedy)
    }

    fn told(exit: u8, what: impl fmt::Display, remedy: impl fmt::Display) -> Failure {
        Failure::Told {
            exit,
            what: what.to_string(),
            remedy: remedy.to_string(),
        }
    }
}

/// Only output is written through `io` here; input and files map their own.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::ReaderLeft,
            _ => Failure::failed(format_args!("cannot write the output: {error}"), ""),
        }
    }
}

/// Tells the failure and turns it into an exit code.
pub(crate) fn exit(result: Result<(), Failure>) -> ExitCode {
    match result {
        Ok(()) | Err(Failure::ReaderLeft) => ExitCode::SUCCESS,
        Err(Failure::Said { exit }) => ExitCode::from(exit),
        Err(Failure::Told { exit, what, remedy }) => {
            tell(&what, &remedy);
            ExitCode::from(exit)
        }
    }
}

fn tell(what: &str, remedy: &str) {
    use io::Write;
    let mut text = format!("error: {what}\n");
    for line in remedy.lines() {
        text.push_str("  ");
        text.push_str(line);
        text.push('\n');
    }
    // With stderr gone there is no one left to tell.
    let _ = io::stderr().write_all(text.as_bytes());
}
