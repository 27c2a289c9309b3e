//! Compiles the programs for the kernel with clang.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

const PROGRAMS: [&str; 2] = ["monitor", "scheduler"];

/// Older compilers lack features that the programs use.
const COMPILERS: [&str; 7] = [
    "clang", "clang-21", "clang-20", "clang-19", "clang-18", "clang-17", "clang-16",
];

fn main() {
    println!("cargo::rerun-if-changed=bpf");
    println!("cargo::rerun-if-env-changed=BPF_CLANG");
    let headers = variable("DEP_BPF_INCLUDE");
    let out = PathBuf::from(variable("OUT_DIR"));
    let compiler = compiler();
    for program in PROGRAMS {
        compile(&compiler, program, Path::new(&headers), &out);
    }
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn compiler() -> String {
    if let Ok(named) = env::var("BPF_CLANG") {
        return named;
    }
    let is_there = |name: &&&str| Command::new(name).arg("--version").output().is_ok();
    match COMPILERS.iter().find(is_there) {
        Some(name) => (*name).to_owned(),
        None => panic!(
            "the programs for the kernel need clang 16 or newer: install it, name it in \
             BPF_CLANG, or let `cargo xtask scheduler` fetch it for this build alone"
        ),
    }
}

fn compile(compiler: &str, program: &str, headers: &Path, out: &Path) {
    let mut command = Command::new(compiler);
    command
        .args([
            "-g", "-O2", "-Wall", "-Werror", "-target", "bpf", "-mcpu=v3",
        ])
        .arg("-I")
        .arg(headers)
        .arg("-c")
        .arg(format!("bpf/{program}.bpf.c"))
        .arg("-o")
        .arg(out.join(format!("{program}.o")));
    let status = command
        .status()
        .unwrap_or_else(|error| panic!("{compiler} cannot be started: {error}"));
    assert!(status.success(), "{compiler} ended with {status}");
}
