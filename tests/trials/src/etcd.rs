//! Programs of etcd, for comparisons: `cargo xtask etcd` builds them in `target/etcd`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{Outcome, process::root};

/// etcd's tests/common, compiled for clusters of one node.
pub const TESTS_OF_ONE_NODE: &str = "common-one-node.test";
/// The same, for clusters of three nodes.
pub const TESTS_OF_THREE_NODES: &str = "common-three-nodes.test";

/// Where the programs are.
pub fn directory() -> PathBuf {
    root().join("target/etcd")
}

/// One of `etcd`, `etcdctl`, `etcdutl`, `benchmark`.
pub fn binary(name: &str) -> Outcome<PathBuf> {
    existing(directory().join("bin").join(name))
}

/// One of the programs of tests, and the folder it must run in.
pub fn test_program(name: &str) -> Outcome<(PathBuf, PathBuf)> {
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
