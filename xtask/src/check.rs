//! The checks that run on each change, and the verb that fixes what it can.

use crate::{
    layers,
    process::{Outcome, cargo, root, run},
    tidy,
};

/// Formatting, lints, storeys, house rules: each of them without writing.
pub fn check() -> Outcome {
    run(&mut cargo(&["fmt", "--all", "--check"]))?;
    run(&mut cargo(&[
        "clippy",
        "--workspace",
        "--all-targets",
        "--",
        "--deny",
        "warnings",
    ]))?;
    report("storeys", &layers::faults(&root())?)?;
    report("tidy", &tidy::faults(&root())?)
}

/// Formats, applies the lints' own suggestions, records changed formats, lowers the numbers
/// of ratchets.
pub fn fix() -> Outcome {
    run(&mut cargo(&[
        "clippy",
        "--workspace",
        "--all-targets",
        "--fix",
        "--allow-dirty",
        "--allow-staged",
    ]))?;
    run(&mut cargo(&["fmt", "--all"]))?;
    tidy::plain_words::record(&root())?;
    formats()
}

/// Records the layouts and pages that changed together.
pub fn formats() -> Outcome {
    report("formats", &tidy::formats::record(&root())?)
}

/// Runs the test command of the README.
pub fn test() -> Outcome {
    run(&mut cargo(&["test", "--workspace"]))
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
