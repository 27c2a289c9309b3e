//! Check of the same history by porcupine, a checker in Go that tries orders.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use crate::process::{Outcome, go_program, root};

/// Porcupine's verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The history of every key is linearizable.
    Possible,
    /// The history of at least one key is not linearizable.
    Impossible,
    /// The check of at least one key took too long, and none is impossible.
    Unknown,
}

/// Builds porcupine. Returns `None`, with a message, if there is no Go.
pub fn prepare() -> Outcome<Option<std::path::PathBuf>> {
    let program = go_program("porcupine", root().join("target/faults/porcupine"))?;
    if program.is_none() {
        eprintln!(
            "NOT CROSS-CHECKED: there is no Go on this machine, so porcupine does not run. \
             Install Go 1.26 or newer (https://go.dev/dl)."
        );
    }
    Ok(program)
}

/// Checks a recorded history; porcupine's output goes to the same terminal.
pub fn judge(program: &Path, history: &Path) -> Outcome<Verdict> {
    let mut command = Command::new(program);
    command.arg(history).stdin(Stdio::null());
    let status = command.status()?;
    match status.code() {
        Some(0) => Ok(Verdict::Possible),
        Some(1) => Ok(Verdict::Impossible),
        Some(2) => Ok(Verdict::Unknown),
        _ => Err(format!("the cross-check ended with {status}").into()),
    }
}
