//! Runs the tests of kube-apiserver's storage layer on this server.
//!
//! ```text
//!   k8s.io/apiserver of the module cache ─► a copy in target/kube-storage
//!        its pkg/storage/etcd3/testserver, which starts etcd, is replaced by ours
//!        ▼
//!   go test -c pkg/storage/etcd3 ─► each test starts servers of its own
//! ```
//!
//! `tests/trials/kube-storage/exceptions.txt` lists the tests that are left out, each with its
//! reason.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::{Outcome, capture, inkstone_binary, root, run as execute};

const MODULE: &str = "k8s.io/apiserver";
const PACKAGE: &str = "pkg/storage/etcd3";

#[derive(clap::Args)]
pub struct Options {
    /// Go's pattern for the names of the tests
    #[arg(default_value = ".")]
    pattern: String,
    /// The server to test [default: ours, built now]
    #[arg(long)]
    binary: Option<PathBuf>,
}

pub fn run(options: &Options) -> Outcome {
    if Command::new("go").arg("version").output().is_err() {
        return Err("there is no Go on this machine: https://go.dev/dl".into());
    }
    let binary = inkstone_binary(options.binary.as_deref())?;
    let program = build()?;
    let mut tests = Command::new(&program);
    tests.current_dir(place().join("apiserver").join(PACKAGE));
    tests.args(["-test.v", "-test.timeout=30m"]);
    tests.arg(format!("-test.run={}", options.pattern));
    tests.arg(format!("-test.skip=^({})$", exceptions()?.join("|")));
    execute(tests.env("INKSTONE", binary))
}

fn sources() -> PathBuf {
    root().join("tests/trials/kube-storage")
}

fn place() -> PathBuf {
    root().join("target/kube-storage")
}

/// Names of the tests that are left out.
fn exceptions() -> Outcome<Vec<String>> {
    let text = fs::read_to_string(sources().join("exceptions.txt"))?;
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let names = lines.filter_map(|line| line.split_whitespace().next());
    Ok(names.map(str::to_owned).collect())
}

fn go(arguments: &[&str]) -> Command {
    let mut command = Command::new("go");
    command.current_dir(place()).args(arguments);
    command
}

/// Compiles the tests with our package in place of theirs.
fn build() -> Outcome<PathBuf> {
    fs::create_dir_all(place())?;
    for file in ["go.mod", "go.sum"] {
        fs::copy(sources().join(file), place().join(file))?;
    }
    execute(&mut go(&["mod", "download", MODULE]))?;
    let cached = capture(&mut go(&["list", "-m", "-f", "{{.Dir}}", MODULE]))?;
    let copy = place().join("apiserver");
    copy_writable(Path::new(cached.trim()), &copy)?;
    let ours = copy.join(PACKAGE).join("testserver/test_server.go");
    fs::copy(sources().join("test_server.go"), ours)?;
    let replacement = format!("-replace={MODULE}=./apiserver");
    execute(&mut go(&["mod", "edit", &replacement]))?;
    let program = place().join("etcd3.test");
    let package = format!("{MODULE}/{PACKAGE}");
    execute(go(&["test", "-c", "-o"]).arg(&program).arg(package))?;
    Ok(program)
}

/// Copies a directory. Files of the module cache are read-only, and the copies are not.
fn copy_writable(from: &Path, to: &Path) -> Outcome {
    if to.exists() {
        fs::remove_dir_all(to)?;
    }
    execute(
        Command::new("cp")
            .args(["-r", "--no-preserve=mode"])
            .arg(from)
            .arg(to),
    )
}
