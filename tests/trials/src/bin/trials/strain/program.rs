//! The program in Go, built from `tests/trials/go-client`.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Findings, report, scenes::Scene};
use crate::process::{Outcome, capture, root, run as run_command};

/// Builds the program. Returns `None` if there is no Go.
pub fn build() -> Outcome<Option<PathBuf>> {
    if Command::new("go").arg("version").output().is_err() {
        return Ok(None);
    }
    let program = root().join("target/strain/go-client");
    let mut build = Command::new("go");
    build
        .current_dir(root().join("tests/trials/go-client"))
        .args(["build", "-buildvcs=false", "-o"])
        .arg(&program)
        .arg(".");
    run_command(&mut build)?;
    Ok(Some(program))
}

/// Runs a scene against the member at `endpoint`, and returns its named results.
pub fn run(program: &Path, scene: &Scene, endpoint: &str) -> Outcome<Findings> {
    let mut command = Command::new(program);
    command.args([scene.verb, endpoint]).args(&scene.words);
    report::read(scene.verb, &capture(&mut command)?)
}
