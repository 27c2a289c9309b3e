//! The checks that run on each change, the tests, and the verb that fixes what it can.

use std::process::Command;

use crate::{
    layers,
    process::{Outcome, capture, cargo, root, run},
    tidy,
};

/// Formatting, lints, storeys, house rules: each of them without writing.
pub fn check() -> Outcome {
    run(&mut component("fmt", &["--all", "--check"])?)?;
    let lints = ["--workspace", "--all-targets", "--", "--deny", "warnings"];
    run(&mut component("clippy", &lints)?)?;
    report("storeys", &layers::faults(&root())?)?;
    report("tidy", &tidy::faults(&root())?)
}

/// A cargo command that is a component of its own of Rust's toolchain.
fn component(verb: &str, arguments: &[&str]) -> Outcome<Command> {
    if capture(&mut cargo(&[verb, "--version"])).is_err() {
        let missing =
            format!("`cargo {verb}` is missing: `rustup component add rustfmt clippy` installs it");
        return Err(missing.into());
    }
    let mut command = cargo(&[verb]);
    command.args(arguments);
    Ok(command)
}

/// Formats, applies the lints' own suggestions, records changed formats, lowers the numbers
/// of ratchets.
pub fn fix() -> Outcome {
    let arguments = [
        "--workspace",
        "--all-targets",
        "--fix",
        "--allow-dirty",
        "--allow-staged",
    ];
    run(&mut component("clippy", &arguments)?)?;
    run(&mut component("fmt", &["--all"])?)?;
    formats()
}

/// Lowers the numbers of ratchets, and records the layouts and pages that changed together.
pub fn formats() -> Outcome {
    tidy::plain_words::record(&root())?;
    tidy::shapes::record(&root())?;
    report("formats", &tidy::formats::record(&root())?)
}

const TEST_THREADS: &str = "RUST_TEST_THREADS";
/// Tests that may wait while as many as there are cores are at work.
const TESTS_WAITING: usize = 4;

/// Everything that must hold before a change is accepted: `check`, documentation without
/// warnings, then every test, also those after a failed one.
///
/// The tests run last and run in any case, so that their summary ends the output.
pub fn test() -> Outcome {
    let mut failures = Vec::new();
    for (step, outcome) in [("check", check()), ("documentation", documentation())] {
        if let Err(error) = outcome {
            eprintln!("{step}: {error}");
            failures.push(step);
        }
    }
    if let Err(error) = tests() {
        eprintln!("{error}");
        failures.push("tests");
    }
    match failures[..] {
        [] => Ok(()),
        _ => Err(format!("failed: {}", failures.join(", ")).into()),
    }
}

/// Runs every test. Most of them wait for a disk, a timer or another member, so more of them run
/// at a time than there are cores, unless `RUST_TEST_THREADS` says how many.
fn tests() -> Outcome {
    let mut command = cargo(&["test", "--workspace", "--no-fail-fast"]);
    if std::env::var_os(TEST_THREADS).is_none() {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        command.env(TEST_THREADS, (cores + TESTS_WAITING).to_string());
    }
    run(&mut command)
}

/// Builds the pages of all crates; a broken link or a warning fails.
fn documentation() -> Outcome {
    let mut command = cargo(&["doc", "--workspace", "--no-deps", "--keep-going"]);
    run(command.env("RUSTDOCFLAGS", "--deny warnings"))
}

fn report(what: &str, faults: &[String]) -> Outcome {
    for fault in faults {
        eprintln!("{what}: {fault}");
    }
    if faults.is_empty() {
        println!("{what}: in order");
        return Ok(());
    }
    Err(format!("{what}: {} faults", faults.len()).into())
}
