//! Programs of etcd, for comparisons: `cargo xtask etcd` builds them in `target/etcd`.

use std::path::PathBuf;

use crate::{Outcome, process::root};

/// etcd's tests/common, compiled for clusters of one node.
pub const TESTS_OF_ONE_NODE: &str = "common-1.test";
/// The same, for clusters of three nodes.
pub const TESTS_OF_THREE_NODES: &str = "common-3.test";
/// etcd's tests/e2e, compiled.
pub const END_TO_END_TESTS: &str = "e2e.test";

/// Where the programs are.
pub fn directory() -> PathBuf {
    root().join("target/etcd")
}

/// One of `etcd`, `etcdctl`, `etcdutl`, `benchmark`.
pub fn binary(name: &str) -> Outcome<PathBuf> {
    existing(directory().join("bin").join(name))
}

/// One of the programs of tests.
pub fn test_program(name: &str) -> Outcome<PathBuf> {
    existing(directory().join(name))
}

/// The sources of the tests, a writable copy: each suite runs in a folder of it.
pub fn tests_folder() -> PathBuf {
    directory().join("run/tests")
}

/// The sources of etcd's alert rules for Prometheus.
pub fn mixin() -> PathBuf {
    directory().join("mixin")
}

fn existing(path: PathBuf) -> Outcome<PathBuf> {
    match path.exists() {
        true => Ok(path),
        false => Err(format!("{} is missing: run `cargo xtask etcd`", path.display()).into()),
    }
}
