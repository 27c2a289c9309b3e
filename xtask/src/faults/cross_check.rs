//! The same history before another judge: porcupine, in Go, which tries orders.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use crate::process::{Outcome, root, run};

/// What porcupine says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Every key's history can be true.
    Possible,
    /// At least one cannot.
    Impossible,
    /// At least one took too long to say, and none is impossible.
    Unknown,
}

/// Builds the judge; `None`, loudly: there is no Go.
pub fn prepare() -> Outcome<Option<std::path::PathBuf>> {
    if Command::new("go").arg("version").output().is_err() {
        eprintln!(
            "NOT CROSS-CHECKED: there is no Go on this machine, so porcupine does not run. \
             Install Go 1.26 or newer (https://go.dev/dl)."
        );
        return Ok(None);
    }
    let program = root().join("target/faults/porcupine");
    let mut build = Command::new("go");
    build
        .current_dir(root().join("xtask/porcupine"))
        .args(["build", "-buildvcs=false", "-o"])
        .arg(&program)
        .arg(".");
    run(&mut build)?;
    Ok(Some(program))
}

/// Asks it about a recorded history; what it prints goes where ours goes.
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
