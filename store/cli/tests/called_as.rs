//! The binary under the names of etcd's programs.

#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use harness::{Member, Program};
use tempfile::TempDir;

/// A folder with the binary under etcd's names.
struct Names(TempDir);

impl Names {
    fn new() -> Names {
        let folder = tempfile::tempdir().unwrap();
        for name in ["etcd", "etcdctl", "etcdutl"] {
            symlink(env!("CARGO_BIN_EXE_inkstone"), folder.path().join(name)).unwrap();
        }
        Names(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn call(&self, name: &str, words: &[&str]) -> Output {
        let mut command = Command::new(self.path(name));
        command.args(words).env_remove("INKSTONE_ENDPOINT");
        command.output().unwrap()
    }

    fn printed(&self, name: &str, words: &[&str]) -> String {
        let output = self.call(name, words);
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name} {words:?}: {complaint}");
        String::from_utf8(output.stdout).unwrap()
    }
}

#[test]
fn etcd_serves_and_etcdctl_puts_and_gets() {
    let names = Names::new();
    let place = tempfile::tempdir().unwrap();
    let program = Program::new(names.path("etcd"));
    let mut member = Member::alone(program, place.path()).unwrap();
    let endpoint = format!("--endpoints={}", member.client_url());
    let put = names.printed("etcdctl", &[&endpoint, "put", "k", "v"]);
    assert_eq!(put, "OK\n");
    let words = ["--endpoints", member.client_address(), "get", "k"];
    assert_eq!(names.printed("etcdctl", &words), "k\nv\n");
    let words = ["-w", "json", &endpoint, "get", "k", "--keys-only"];
    assert!(
        names
            .printed("etcdctl", &words)
            .contains("\"key\":\"aw==\"")
    );
    member.stop().unwrap();
}

#[test]
fn versions_begin_with_the_lines_that_scripts_read() {
    let names = Names::new();
    let of_etcd = names.printed("etcd", &["--version"]);
    assert_eq!(of_etcd.lines().next(), Some("etcd Version: 3.7.3"));
    for name in ["etcdctl", "etcdutl"] {
        let expected = format!("{name} version: 3.7.3\nAPI version: 3.7\n");
        assert!(names.printed(name, &["version"]).starts_with(&expected));
    }
}

#[test]
fn etcdutl_reads_snapshots() {
    let names = Names::new();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../etcd-snapshot/tests/small.db");
    let file = file.to_str().unwrap();
    assert_eq!(
        names.printed("etcdutl", &["-w", "simple", "hashkv", file]),
        "2313101890, 7, 4\n"
    );
    let status = names.printed("etcdutl", &["snapshot", "status", file, "-w", "simple"]);
    assert!(status.starts_with("9a1c4e09, 7, 3"), "{status}");
}

#[test]
fn refused_verbs_exit_with_2_and_a_remedy() {
    let names = Names::new();
    for (name, words, expected) in [
        ("etcdutl", &["defrag", "--data-dir=x"][..], "etcdctl defrag"),
        ("etcd", &["grpc-proxy", "start"], "etcd gateway start"),
    ] {
        let output = names.call(name, words);
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{complaint}");
        assert!(complaint.contains(expected), "{complaint}");
    }
}

#[test]
fn completions_are_for_the_name_and_its_verbs() {
    let names = Names::new();
    let script = names.printed("etcdctl", &["completion", "bash"]);
    assert!(script.contains("etcdctl__subcmd__get") || script.contains("etcdctl__get"));
    assert!(!script.contains("repair"), "{script}");
}
