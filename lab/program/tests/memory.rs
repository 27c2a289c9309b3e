//! Runs with a limit of memory.
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests write files and stop where something fails"
)]

use std::path::Path;
use std::process::Command;

use lab::record::{Outcome, Record};
use lab::schedule::memory_group::MemoryGroup;
use lab::workload::ByteCount;

const SHORT: &str = "[time]\nwarmup = \"10ms\"\nmeasure = \"100ms\"\ninterval = \"50ms\"\n\
                     [durability]\nlevel = \"os\"\n";

/// Runs a target under a workload in `folder`; returns exit code and standard error.
fn run(folder: &Path, target: &str, workload: &str) -> (i32, String) {
    std::fs::write(folder.join("workload.toml"), format!("{workload}{SHORT}")).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_inkstone-lab"))
        .current_dir(folder)
        .args(["run", target, "--workload=workload.toml", "--out=results"])
        .args(["--directory=data", "--quiet-wait=0s", "--keep-disturbed"])
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code().unwrap_or(-1), errors)
}

/// Whether this process may make control groups. Where it may not, the lab must refuse the
/// workload.
fn may_limit(folder: &Path, workload: &str) -> bool {
    let Err(error) = MemoryGroup::make(ByteCount(64 << 20)) else {
        return true;
    };
    eprintln!("SKIPPED, only the refusal is tested: {error}");
    let (code, errors) = run(folder, "engine", workload);
    assert_eq!(code, 1, "{errors}");
    assert!(errors.contains("memory.limit"), "{errors}");
    assert!(!folder.join("results").exists());
    false
}

#[test]
fn a_run_within_its_limit_is_measured_and_leaves_no_group_behind() {
    let folder = tempfile::tempdir().unwrap();
    let workload = "name = \"small\"\n[load]\nkeys = 100\n[memory]\nlimit = \"256MiB\"\n";
    if !may_limit(folder.path(), workload) {
        return;
    }
    let (code, errors) = run(folder.path(), "engine", workload);
    assert_eq!(code, 0, "{errors}");
    assert!(!errors.contains("cannot remove"), "{errors}");
    let record = Record::load(&folder.path().join("results")).unwrap();
    let runs = record.runs.iter().filter(|run| run.arm == "engine");
    let limits: Vec<_> = runs.map(|run| run.workload.memory.limit).collect();
    assert_eq!(limits, [Some(ByteCount(256 << 20))]);
}

#[test]
fn a_run_that_needs_more_than_its_limit_fails_and_the_limit_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let workload = "name = \"large\"\n[load]\nkeys = 1_000_000\n\
                    value = { length = \"fixed:8\" }\n[memory]\nlimit = \"32MiB\"\n";
    if !may_limit(folder.path(), workload) {
        return;
    }
    let (code, errors) = run(folder.path(), "engine", workload);
    assert_eq!(code, 1, "{errors}");
    let record = Record::load(&folder.path().join("results")).unwrap();
    let run = record.runs.iter().find(|run| run.arm == "engine").unwrap();
    let Outcome::Failed { because } = &run.outcome else {
        panic!("{:?}", run.outcome);
    };
    assert!(because.contains("memory.limit = 32MiB"), "{because}");
}

#[test]
fn a_limit_for_servers_that_run_already_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let workload = "name = \"small\"\n[memory]\nlimit = \"256MiB\"\n";
    let (code, errors) = run(folder.path(), "endpoints:127.0.0.1:1", workload);
    assert_eq!(code, 1, "{errors}");
    assert!(errors.contains("runs already"), "{errors}");
}
