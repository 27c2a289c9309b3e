//! The commands of guides, run as they stand.

#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All shell commands of a page.
fn script_of(page: &str) -> String {
    let text = std::fs::read_to_string(root().join(page)).unwrap();
    let mut script = "set -eux\n".to_owned();
    let mut is_inside = false;
    for line in text.lines() {
        match (is_inside, line) {
            (false, "```sh") => is_inside = true,
            (true, "```") => is_inside = false,
            (true, line) => script += &format!("{line}\n"),
            (false, _) => {}
        }
    }
    assert!(script.lines().count() > 3, "{page} has no commands");
    script
}

/// A shell in a network of its own, in which the ports of the guide are free; `None` if the system does
/// not let this user make one.
fn isolated_shell() -> Option<Command> {
    let mut shell = Command::new("unshare");
    shell.args([
        "--net",
        "--map-root-user",
        "--kill-child",
        "--pid",
        "--fork",
    ]);
    let mut probe = Command::new("unshare");
    probe.args([
        "--net",
        "--map-root-user",
        "--kill-child",
        "--pid",
        "--fork",
    ]);
    let works = probe.args(["ip", "link", "set", "lo", "up"]).status();
    works.is_ok_and(|status| status.success()).then_some(shell)
}

#[test]
fn the_guide_from_etcd_and_back_works_as_it_stands() {
    walk("docs/use/moving.md");
}

#[test]
fn the_guide_of_following_works_as_it_stands() {
    walk("docs/use/following.md");
}

/// Runs the commands of a page.
fn walk(page: &str) {
    let Some(etcd) = harness::etcd_binary(&root()) else {
        eprintln!("SKIPPED: there is no etcd to move from; `cargo xtask etcd` builds one");
        return;
    };
    let Some(mut shell) = isolated_shell() else {
        eprintln!("SKIPPED: this user cannot make a network of its own (unshare --net)");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let programs = folder.path().join("programs");
    std::fs::create_dir(&programs).unwrap();
    for name in ["etcd", "etcdctl", "etcdutl"] {
        symlink(etcd.with_file_name(name), programs.join(name)).unwrap();
    }
    symlink(env!("CARGO_BIN_EXE_inkstone"), programs.join("inkstone")).unwrap();
    let work = folder.path().join("work");
    std::fs::create_dir(&work).unwrap();
    let script = format!("ip link set lo up\n{}", script_of(page));
    let path = std::env::var("PATH").unwrap_or_default();
    shell
        .args(["sh", "-c", &script])
        .current_dir(&work)
        .env("PATH", format!("{}:{path}", programs.display()));
    let output = shell.output().unwrap();
    let (printed, said) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{printed}\n{said}");
}
