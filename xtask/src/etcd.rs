//! Real etcd, built from its Go modules by name, to compare ourselves with.
//!
//! `go install` refuses etcd's modules because of their replace directives; a
//! module of two lines that requires them does not, so that is what we write.
//! Everything lands in `target/etcd/` and is built once.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::process::{Outcome, capture, root, run};

const VERSION: &str = "v3.7.3";
/// The module with the benchmark has no newer version on the proxy.
const BENCHMARK_VERSION: &str = "v3.7.1";
const TESTS: &str = "common.test";
/// The same tests, compiled with another default size of a cluster.
const ONE_NODE_TESTS: &str = "common-one-node.test";
const PACKAGE: &str = "go.etcd.io/etcd";

/// Where the binaries are.
pub fn directory() -> PathBuf {
    root().join("target/etcd")
}

/// One of `etcd`, `etcdctl`, `etcdutl`, `benchmark`.
pub fn binary(name: &str) -> Outcome<PathBuf> {
    existing(directory().join("bin").join(name))
}

/// etcd's tests/common as a program, and the folder it must run in. Those that
/// name no size start three nodes, or one if `one_node`.
pub fn test_program(one_node: bool) -> Outcome<(PathBuf, PathBuf)> {
    let name = if one_node { ONE_NODE_TESTS } else { TESTS };
    let program = existing(directory().join(name))?;
    let folder = fs::read_to_string(existing(directory().join("tests_dir"))?)?;
    Ok((program, Path::new(folder.trim()).join("common")))
}

fn existing(path: PathBuf) -> Outcome<PathBuf> {
    match path.exists() {
        true => Ok(path),
        false => Err(format!("{} is missing: run `cargo xtask etcd`", path.display()).into()),
    }
}

/// Builds what is missing.
pub fn build() -> Outcome {
    if Command::new("go").arg("version").output().is_err() {
        return Err(
            "SKIPPED: there is no Go on this machine. Install Go 1.26 or newer \
                    (https://go.dev/dl) and call again."
                .into(),
        );
    }
    let directory = directory();
    fs::create_dir_all(directory.join("bin"))?;
    fs::write(directory.join("go.mod"), "module shim\ngo 1.26\n")?;
    let versions = [
        format!("{PACKAGE}/server/v3@{VERSION}"),
        format!("{PACKAGE}/etcdctl/v3@{VERSION}"),
        format!("{PACKAGE}/etcdutl/v3@{VERSION}"),
        format!("{PACKAGE}/tests/v3@{VERSION}"),
        format!("{PACKAGE}/v3@{BENCHMARK_VERSION}"),
    ];
    run(go(&directory).arg("get").args(versions))?;
    for (name, package) in [
        ("etcd", "server/v3"),
        ("etcdctl", "etcdctl/v3"),
        ("etcdutl", "etcdutl/v3"),
        ("benchmark", "v3/tools/benchmark"),
    ] {
        build_binary(&directory, name, package)?;
    }
    build_tests(&directory)?;
    println!("everything is in {}", directory.display());
    Ok(())
}

fn build_binary(directory: &Path, name: &str, package: &str) -> Outcome {
    let target = format!("bin/{name}");
    if directory.join(&target).exists() {
        println!("{target} is there already");
        return Ok(());
    }
    run(go(directory)
        .args(["build", "-trimpath", "-ldflags=-s -w", "-o", &target])
        .arg(format!("{PACKAGE}/{package}")))
}

fn build_tests(directory: &Path) -> Outcome {
    let module = format!("{PACKAGE}/tests/v3");
    // The tests read their fixtures beside their own sources.
    let folder = capture(go(directory).args(["list", "-m", "-f", "{{.Dir}}", &module]))?;
    fs::write(directory.join("tests_dir"), &folder)?;
    let compile = ["test", "-c", "-tags", "e2e", "-o"];
    let package = format!("{module}/common");
    if !directory.join(TESTS).exists() {
        run(go(directory).args(compile).args([TESTS, &package]))?;
    }
    if !directory.join(ONE_NODE_TESTS).exists() {
        let modules = one_node_modules(directory, Path::new(folder.trim()))?;
        run(go(directory)
            .args(compile)
            .args([ONE_NODE_TESTS, &modules, &package]))?;
    }
    Ok(())
}

/// A copy of the tests with another default, and the option that makes Go take
/// the copy for the original.
fn one_node_modules(directory: &Path, tests: &Path) -> Outcome<String> {
    let copy = directory.join("one-node-tests");
    if copy.exists() {
        fs::remove_dir_all(&copy)?;
    }
    run(Command::new("cp").arg("-r").args([tests, &copy]))?;
    // Go's cache of modules is read-only, and so is what is copied from it.
    run(Command::new("chmod").args(["-R", "u+w"]).arg(&copy))?;
    let defaults = copy.join("framework/config/cluster.go");
    let text = fs::read_to_string(&defaults)?;
    let (three, one) = ("ClusterSize:         3,", "ClusterSize:         1,");
    if text.matches(three).count() != 1 {
        return Err(format!("{}: no default of three nodes", defaults.display()).into());
    }
    fs::write(&defaults, text.replace(three, one))?;
    let modules = fs::read_to_string(directory.join("go.mod"))?;
    let replace = format!("{modules}\nreplace {PACKAGE}/tests/v3 => ./one-node-tests\n");
    fs::write(directory.join("one_node.mod"), replace)?;
    fs::copy(directory.join("go.sum"), directory.join("one_node.sum"))?;
    Ok("-modfile=one_node.mod".to_owned())
}

fn go(directory: &Path) -> Command {
    let mut command = Command::new("go");
    command
        .current_dir(directory)
        .env("GOFLAGS", "-mod=mod -buildvcs=false");
    command
}
