//! Runs etcd's own suites against this server: tests/common and tests/e2e.
//!
//! ```text
//!   common-1.test  common-3.test  e2e.test       `cargo xtask etcd` compiles them
//!        │ each test in a process of its own, one after the other
//!        ▼
//!   starts `etcd` (this server under that name) and etcdctl from a folder of binaries
//!        │ PASS, SKIP, FAIL, or no end
//!        ▼
//!   exceptions: tests that need not pass, each with its reason, in `tests/trials/etcd_tests/`
//! ```
//!
//! A test that fails twice and is no exception is an error, and so is an exception that passes:
//! the lists say what is, not what was.

mod exceptions;
mod one_test;

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    etcd,
    process::{Outcome, capture, inkstone_binary, root},
};
use exceptions::{Exceptions, Judgement};
use one_test::{Ran, Runner, Verdict};

#[derive(clap::Args)]
pub struct Options {
    /// Go's pattern for the names of the tests
    #[arg(default_value = ".")]
    pattern: String,
    /// tests/common with clusters of three nodes; else, where etcd's tests let us choose, of one
    #[arg(long)]
    three_nodes: bool,
    /// tests/e2e instead of tests/common (20 to 30 minutes)
    #[arg(long, conflicts_with = "three_nodes")]
    e2e: bool,
    /// The server to test [default: ours, built now]
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Show what the tests and the servers print
    #[arg(long)]
    verbose: bool,
}

/// One of etcd's suites.
struct Suite {
    /// The compiled program.
    program: &'static str,
    /// The folder of its sources, in which it must run.
    folder: &'static str,
    /// The tests that need not pass, below `tests/trials`.
    exceptions: &'static str,
    /// A test that runs for longer than this hangs.
    seconds_max: u64,
}

const COMMON_ONE_NODE: Suite = Suite {
    program: etcd::TESTS_OF_ONE_NODE,
    folder: "common",
    exceptions: "etcd_tests/common_one_node.txt",
    seconds_max: 600,
};

const COMMON_THREE_NODES: Suite = Suite {
    program: etcd::TESTS_OF_THREE_NODES,
    folder: "common",
    exceptions: "etcd_tests/common_three_nodes.txt",
    seconds_max: 600,
};

const END_TO_END: Suite = Suite {
    program: etcd::END_TO_END_TESTS,
    folder: "e2e",
    exceptions: "etcd_tests/e2e.txt",
    seconds_max: 180,
};

pub fn run(options: &Options) -> Outcome {
    let suite = match (options.e2e, options.three_nodes) {
        (true, _) => END_TO_END,
        (false, true) => COMMON_THREE_NODES,
        (false, false) => COMMON_ONE_NODE,
    };
    let exceptions = root().join("tests/trials").join(suite.exceptions);
    let exceptions = Exceptions::read(&fs::read_to_string(&exceptions)?)
        .map_err(|error| format!("{}: {error}", exceptions.display()))?;
    let binary = inkstone_binary(options.binary.as_deref())?;
    let binaries = tempfile::tempdir()?;
    prepare(binaries.path(), &binary)?;
    let runner = Runner::new(
        etcd::test_program(suite.program)?,
        etcd::tests_folder().join(suite.folder),
        binaries.path().to_owned(),
        suite.seconds_max,
        options.verbose,
    )?;
    // The names of tests are matched before the first slash, and rows after it.
    let (names, rows) = match options.pattern.split_once('/') {
        Some((names, rows)) => (names, Some(rows)),
        None => (options.pattern.as_str(), None),
    };
    let names = listed(&runner, names)?;
    if options.pattern == "." {
        exceptions.check_names(&names)?;
    }
    let (count, folder) = (names.len(), suite.folder);
    println!(
        "{count} tests of tests/{folder} against {}",
        binary.display()
    );
    let ran = run_all(&runner, &names, rows, &exceptions)?;
    println!("what they printed: {}", runner.logs().display());
    report(&ran, &exceptions, rows.is_some())
}

/// Runs the tests one after the other, and those that fail without being exceptions once more:
/// many of them wait for a fixed time, which a busy machine exceeds.
fn run_all(
    runner: &Runner,
    names: &[String],
    rows: Option<&str>,
    exceptions: &Exceptions,
) -> Outcome<Vec<Ran>> {
    let mut ran = Vec::new();
    for name in names {
        let mut test = runner.run(name, rows)?;
        println!("{test}");
        if test.verdict != Verdict::Pass && exceptions.judge(&test, rows.is_some()).is_wrong() {
            runner.keep_log(name)?;
            test = runner.run(name, rows)?;
            println!("{test}, the second time");
        }
        ran.push(test);
    }
    Ok(ran)
}

/// Fills the folder in which the tests look for binaries.
fn prepare(folder: &Path, binary: &Path) -> Outcome {
    for tool in ["etcdctl", "etcdutl"] {
        symlink(etcd::binary(tool)?, folder.join(tool))?;
    }
    symlink(binary, folder.join("etcd"))?;
    Ok(())
}

/// Names of the tests that a pattern matches, in the order of the suite.
fn listed(runner: &Runner, pattern: &str) -> Outcome<Vec<String>> {
    let mut command = Command::new(runner.program());
    command.current_dir(runner.folder());
    let text = capture(command.arg(format!("-test.list={pattern}")))?;
    let names: Vec<String> = text.lines().map(str::to_owned).collect();
    match names.is_empty() {
        true => Err(format!("no test matches {pattern}").into()),
        false => Ok(names),
    }
}

/// Prints what came of the tests; fails if that is not what the exceptions say. Of a test of
/// which only some rows ran, the others need not be judged.
fn report(ran: &[Ran], exceptions: &Exceptions, in_part: bool) -> Outcome {
    let count = |verdict| ran.iter().filter(|it| it.verdict == verdict).count();
    println!(
        "{} of {} pass, {} are skipped by the suite, {} fail",
        count(Verdict::Pass),
        ran.len(),
        count(Verdict::Skip),
        count(Verdict::Fail) + count(Verdict::Hang)
    );
    let rows = |verdict| {
        let rows = ran.iter().flat_map(|it| it.rows.values());
        rows.filter(|it| **it == verdict).count()
    };
    println!(
        "their rows: {} pass, {} skipped, {} fail",
        rows(Verdict::Pass),
        rows(Verdict::Skip),
        rows(Verdict::Fail)
    );
    let mut faults = Vec::new();
    for test in ran {
        match exceptions.judge(test, in_part) {
            Judgement::AsSaid => {}
            Judgement::Excused(reason) => println!("{}: {reason}", test.name),
            Judgement::Wrong(fault) => faults.push(fault),
        }
    }
    match faults.is_empty() {
        true => Ok(()),
        false => Err(faults.join("\n").into()),
    }
}
