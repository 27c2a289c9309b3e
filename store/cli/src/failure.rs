//! Failures of a verb, their messages and exit codes.
//!
//! A message has two parts: what is wrong, on one line, and what to do about
//! it, indented under it.

use std::fmt;
use std::io;
use std::process::ExitCode;

/// Exit code of an operation that failed.
pub(crate) const FAILED: u8 = 1;
/// Exit code of a call that cannot work as it stands.
pub(crate) const WRONG_USE: u8 = 2;

/// Why a verb stopped early.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A message is to be printed: what is wrong, and a remedy (may be empty).
    Message {
        exit: u8,
        what: String,
        remedy: String,
    },
    /// The verb has printed everything itself.
    Reported { exit: u8 },
    /// The reader of stdout has closed it: the program ends quietly.
    ReaderLeft,
}

impl Failure {
    /// The operation failed.
    pub(crate) fn failed(what: impl fmt::Display, remedy: impl fmt::Display) -> Failure {
        Failure::message(FAILED, what, remedy)
    }

    /// The call cannot work as it stands.
    pub(crate) fn wrong_use(what: impl fmt::Display, remedy: impl fmt::Display) -> Failure {
        Failure::message(WRONG_USE, what, remedy)
    }

    /// The failure with the endpoint that it is about.
    pub(crate) fn about(self, endpoint: &str) -> Failure {
        match self {
            Failure::Message { exit, what, remedy } if !what.contains(endpoint) => {
                Failure::Message {
                    exit,
                    what: format!("{endpoint}: {what}"),
                    remedy,
                }
            }
            other => other,
        }
    }

    /// The sentence that says what is wrong.
    pub(crate) fn what(&self) -> String {
        match self {
            Failure::Message { what, .. } => what.clone(),
            Failure::Reported { .. } => "it failed".to_owned(),
            Failure::ReaderLeft => "the reader of the output has left".to_owned(),
        }
    }

    /// The sentence that says what to do; may be empty.
    pub(crate) fn remedy(&self) -> String {
        match self {
            Failure::Message { remedy, .. } => remedy.clone(),
            _ => String::new(),
        }
    }

    fn message(exit: u8, what: impl fmt::Display, remedy: impl fmt::Display) -> Failure {
        Failure::Message {
            exit,
            what: what.to_string(),
            remedy: remedy.to_string(),
        }
    }
}

/// Errors of writing to stdout. Errors of input and files are mapped where they occur.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::ReaderLeft,
            _ => Failure::failed(format_args!("cannot write the output: {error}"), ""),
        }
    }
}

/// Prints the failure's message and returns the exit code.
pub(crate) fn exit(result: Result<(), Failure>) -> ExitCode {
    match result {
        Ok(()) | Err(Failure::ReaderLeft) => ExitCode::SUCCESS,
        Err(Failure::Reported { exit }) => ExitCode::from(exit),
        Err(Failure::Message { exit, what, remedy }) => {
            print(&what, &remedy);
            ExitCode::from(exit)
        }
    }
}

/// Prints the failure's message, where the verb goes on.
pub(crate) fn report(failure: &Failure) {
    if let Failure::Message { what, remedy, .. } = failure {
        print(what, remedy);
    }
}

/// Prints a line to stderr. If stderr is closed it is lost.
pub(crate) fn say(line: &str) {
    use io::Write;
    let _ = io::stderr().write_all(format!("{line}\n").as_bytes());
}

fn print(what: &str, remedy: &str) {
    use io::Write;
    let mut text = format!("error: {what}\n");
    for line in remedy.lines() {
        text += &format!("  {line}\n");
    }
    // If stderr is closed the message is lost.
    let _ = io::stderr().write_all(text.as_bytes());
}
