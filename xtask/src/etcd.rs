//! Builds etcd from its Go modules, for comparisons.
//!
//! `go install` refuses etcd's modules because of their replace directives. It accepts a
//! module of two lines that requires them, so this file writes one.
//! Everything is built once, in `target/etcd/`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use chores::etcd::{
    END_TO_END_TESTS, TESTS_OF_ONE_NODE, TESTS_OF_THREE_NODES, directory, mixin, tests_folder,
};

use crate::process::{Outcome, capture, run};

const VERSION: &str = "v3.7.3";
/// The module with the benchmark has no newer version on the proxy.
const BENCHMARK_VERSION: &str = "v3.7.1";
const PACKAGE: &str = "go.etcd.io/etcd";

/// One of etcd's suites, compiled.
struct Suite {
    /// The program.
    name: &'static str,
    /// Its package below etcd's module of tests.
    package: &'static str,
    /// File, text and its replacement; each text occurs once in its file.
    edits: &'static [(&'static str, &'static str, &'static str)],
}

/// tests/common with clusters of one node only: those that tests ask for without a size, and
/// those of the rows with TLS.
const COMMON_ONE_NODE: Suite = Suite {
    name: TESTS_OF_ONE_NODE,
    package: "common",
    edits: &[
        (
            "framework/config/cluster.go",
            "ClusterSize:         3,",
            "ClusterSize:         1,",
        ),
        (
            "common/e2e_test.go",
            "ClusterSize: 3, PeerTLS: config.ManualTLS",
            "ClusterSize: 1, PeerTLS: config.ManualTLS",
        ),
        (
            "common/e2e_test.go",
            "ClusterSize: 3, PeerTLS: config.AutoTLS",
            "ClusterSize: 1, PeerTLS: config.AutoTLS",
        ),
    ],
};

/// tests/common with clusters of three nodes: the rows without TLS have three, too.
const COMMON_THREE_NODES: Suite = Suite {
    name: TESTS_OF_THREE_NODES,
    package: "common",
    edits: &[(
        "common/e2e_test.go",
        "config.ClusterConfig{ClusterSize: 1}",
        "config.ClusterConfig{ClusterSize: 3}",
    )],
};

/// tests/e2e as it is.
const END_TO_END: Suite = Suite {
    name: END_TO_END_TESTS,
    package: "e2e",
    edits: &[],
};

/// Builds the missing programs.
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
    let sources = module_folder(&directory, &format!("{PACKAGE}/v3"))?;
    copy(&sources.join("contrib/mixin"), &mixin())?;
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
    let folder = module_folder(directory, &module)?;
    lay_out(directory, &folder)?;
    for suite in [COMMON_ONE_NODE, COMMON_THREE_NODES, END_TO_END] {
        if directory.join(suite.name).exists() {
            println!("{} is there already", suite.name);
            continue;
        }
        let modules = edited(directory, &folder, &suite)?;
        run(go(directory)
            .args(["test", "-c", "-tags", "e2e", "-o", suite.name])
            .args([&modules, &format!("{module}/{}", suite.package)]))?;
    }
    Ok(())
}

/// Where Go keeps the sources of a module.
fn module_folder(directory: &Path, module: &str) -> Outcome<PathBuf> {
    let folder = capture(go(directory).args(["list", "-m", "-f", "{{.Dir}}", module]))?;
    Ok(PathBuf::from(folder.trim()))
}

/// Makes the folder in which the tests run: they read fixtures beside their own sources, and one
/// a file two folders above, and they write there.
fn lay_out(directory: &Path, sources: &Path) -> Outcome {
    let run = tests_folder();
    let above = run.parent().expect("the folder of tests lies in another");
    fs::create_dir_all(above)?;
    copy(sources, &run)?;
    let sample = "etcd.conf.yml.sample";
    let root = module_folder(directory, &format!("{PACKAGE}/v3"))?;
    fs::copy(root.join(sample), above.join(sample))?;
    Ok(())
}

/// Copies a folder over another one, and makes the copy writable: Go's cache of modules is
/// read-only.
fn copy(from: &Path, to: &Path) -> Outcome {
    if to.exists() {
        fs::remove_dir_all(to)?;
    }
    run(Command::new("cp").arg("-r").args([from, to]))?;
    run(Command::new("chmod").args(["-R", "u+w"]).arg(to))
}

/// An edited copy of the tests, and the option that makes Go take the copy for
/// the original.
fn edited(directory: &Path, tests: &Path, suite: &Suite) -> Outcome<String> {
    let edited = directory.join("edited-tests");
    copy(tests, &edited)?;
    for (file, from, to) in suite.edits {
        let path = edited.join(file);
        let text = fs::read_to_string(&path)?;
        if text.matches(from).count() != 1 {
            return Err(format!("{}: {from} is not there once", path.display()).into());
        }
        fs::write(&path, text.replace(from, to))?;
    }
    let modules = fs::read_to_string(directory.join("go.mod"))?;
    let replace = format!("{modules}\nreplace {PACKAGE}/tests/v3 => ./edited-tests\n");
    fs::write(directory.join("edited.mod"), replace)?;
    fs::copy(directory.join("go.sum"), directory.join("edited.sum"))?;
    Ok("-modfile=edited.mod".to_owned())
}

fn go(directory: &Path) -> Command {
    let mut command = Command::new("go");
    command
        .current_dir(directory)
        .env("GOFLAGS", "-mod=mod -buildvcs=false");
    command
}
