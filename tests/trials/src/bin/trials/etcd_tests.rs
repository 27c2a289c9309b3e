//! Runs etcd's own tests/common against this server.
//!
//! The tests start `etcd` from a folder of binaries and talk to it through the
//! real etcdctl. This verb gives them a folder with etcd's tools and, under the
//! name `etcd`, this server's binary, which serves under that name. The tests that must pass
//! are listed in `etcd_tests.txt`, and for three nodes in
//! `etcd_tests_three_nodes.txt`; other failures are only printed.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::{
    etcd,
    process::{Outcome, inkstone_binary, root},
};

#[derive(clap::Args)]
pub struct Options {
    /// Go's pattern for the names of the tests [default: those that must pass]
    pattern: Option<String>,
    /// Every test, the ones for later issues too (10 to 40 minutes)
    #[arg(long, conflicts_with = "pattern")]
    all: bool,
    /// Clusters of three nodes; else, where etcd's tests let us choose, of one
    #[arg(long)]
    three_nodes: bool,
    /// The server to test [default: ours, built now]
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Show what the tests and the servers print
    #[arg(long)]
    verbose: bool,
}

/// Verdicts by name of the test, as Go prints them.
type Verdicts = BTreeMap<String, String>;

pub fn run(options: &Options) -> Outcome {
    let (variant, required) = match options.three_nodes {
        true => (
            etcd::TESTS_OF_THREE_NODES,
            "tests/trials/etcd_tests_three_nodes.txt",
        ),
        false => (etcd::TESTS_OF_ONE_NODE, "tests/trials/etcd_tests.txt"),
    };
    let required = fs::read_to_string(root().join(required))?;
    let (program, folder) = etcd::test_program(variant)?;
    let binary = inkstone_binary(options.binary.as_deref())?;
    let binaries = tempfile::tempdir()?;
    prepare(binaries.path(), &binary)?;
    let pattern = pattern(options, &required);
    println!("tests/common, {pattern}, against {}", binary.display());
    let mut command = Command::new(&program);
    command
        .current_dir(&folder)
        .env("E2E_TEST_MINIMAL", "true")
        .env_remove("ETCDCTL_API")
        .arg("-test.v")
        .arg("-test.timeout=60m")
        .arg(format!("-test.run={pattern}"))
        .arg(format!("-bin-dir={}", binaries.path().display()))
        .stderr(Stdio::inherit());
    if options.verbose {
        command.env("EXPECT_DEBUG", "1");
    }
    let output = String::from_utf8_lossy(&command.output()?.stdout).into_owned();
    if options.verbose {
        println!("{output}");
    }
    fs::write(root().join("target/etcd/tests.log"), &output)?;
    verdict(&verdicts(&output), &required, &pattern)
}

/// Fills the folder in which the tests look for binaries.
fn prepare(folder: &Path, binary: &Path) -> Outcome {
    for tool in ["etcdctl", "etcdutl"] {
        symlink(etcd::binary(tool)?, folder.join(tool))?;
    }
    symlink(binary, folder.join("etcd"))?;
    Ok(())
}

fn pattern(options: &Options, required: &str) -> String {
    match &options.pattern {
        Some(pattern) => pattern.clone(),
        None if options.all => ".".to_owned(),
        None => named(required),
    }
}

/// Matches the required tests, and of those with a matrix only the named part.
fn named(required: &str) -> String {
    let patterns = tests(required).map(|test| {
        let parts = test.split('/').map(literal);
        let parts: Vec<String> = parts.map(|part| format!("^{part}$")).collect();
        parts.join("/")
    });
    patterns.collect::<Vec<_>>().join("|")
}

/// A part of a name in Go's language of patterns.
fn literal(part: &str) -> String {
    part.replace(['[', ']'], ".")
}

fn tests(required: &str) -> impl Iterator<Item = &str> {
    required
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
}

fn verdicts(output: &str) -> Verdicts {
    let rows = output.lines().map(str::trim_start);
    rows.filter_map(|row| {
        let (verdict, name) = row.strip_prefix("--- ")?.split_once(": ")?;
        let (name, seconds) = name.split_once(" (")?;
        let seconds = seconds.trim_end_matches(')');
        Some((name.to_owned(), format!("{verdict} {seconds}")))
    })
    .collect()
}

fn verdict(verdicts: &Verdicts, required: &str, pattern: &str) -> Outcome {
    for (name, verdict) in verdicts {
        println!("{verdict:12} {name}");
    }
    let passed = |name: &str| {
        verdicts
            .get(name)
            .is_some_and(|verdict| verdict.starts_with("PASS"))
    };
    let total = verdicts.keys().filter(|name| passed(name)).count();
    println!(
        "{total} of {} pass; the whole output: target/etcd/tests.log",
        verdicts.len()
    );
    if verdicts.is_empty() {
        return Err(format!("no test matched {pattern}").into());
    }
    let failed: Vec<&str> = tests(required)
        .filter(|name| verdicts.contains_key(*name) || *pattern == named(required))
        .filter(|name| !passed(name))
        .collect();
    match failed.is_empty() {
        true => Ok(()),
        false => Err(format!("required and not passed: {}", failed.join(", ")).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "=== RUN   TestKVPut\n--- PASS: TestKVPut (1.00s)\n    \
        --- PASS: TestKVPut/NoTLS (0.50s)\n    --- SKIP: TestKVPut/ClientTLS (0.00s)\n\
        --- FAIL: TestWatch (2.00s)\n";

    #[test]
    fn verdicts_are_read_from_gos_output() {
        let verdicts = verdicts(OUTPUT);
        assert_eq!(verdicts.len(), 4);
        assert_eq!(verdicts["TestKVPut/NoTLS"], "PASS 0.50s");
        assert_eq!(verdicts["TestWatch"], "FAIL 2.00s");
    }

    #[test]
    fn required_tests_are_matched_part_by_part() {
        let required = "# head\nTestA/NoTLS\nTestB/Keys=[a_b]/NoTLS\n";
        assert_eq!(
            named(required),
            "^TestA$/^NoTLS$|^TestB$/^Keys=.a_b.$/^NoTLS$"
        );
    }

    #[test]
    fn only_required_tests_decide() {
        let verdicts = verdicts(OUTPUT);
        assert!(verdict(&verdicts, "# head\nTestKVPut/NoTLS\n", ".").is_ok());
        assert!(verdict(&verdicts, "TestWatch\n", ".").is_err());
        assert!(verdict(&verdicts, "TestTxn\n", "^TestTxn$").is_err());
        assert!(verdict(&Verdicts::new(), "", ".").is_err());
    }
}
