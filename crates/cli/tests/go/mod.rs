//! A client of etcd's own Go library, built from `xtask/go-client`: what it does with
//! flow control, renewals and lost connections is its own, and matters here.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Runs it to the end: the JSON that it prints. `None`, loudly: there is no Go, or
/// its modules cannot be had.
pub fn run(arguments: &[&str]) -> Option<serde_json::Value> {
    static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
    let program = PROGRAM.get_or_init(build).as_ref()?;
    let output = Command::new(program).args(arguments).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {error}");
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

fn build() -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../xtask/go-client");
    let go = |arguments: &[&str]| {
        let mut command = Command::new("go");
        command.current_dir(&source).args(arguments);
        command.output()
    };
    match go(&["mod", "download"]) {
        Err(error) => {
            eprintln!("SKIPPED: there is no Go on this machine ({error}): https://go.dev/dl");
            return None;
        }
        Ok(output) if !output.status.success() => {
            let error = String::from_utf8_lossy(&output.stderr);
            eprintln!("SKIPPED: the modules of etcd's Go client cannot be had: {error}");
            return None;
        }
        Ok(_) => {}
    }
    let name = format!("go-client-{}", std::process::id());
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let built = go(&[
        "build",
        "-buildvcs=false",
        "-o",
        program.to_str().unwrap(),
        ".",
    ])
    .unwrap();
    let error = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "{error}");
    Some(program)
}
