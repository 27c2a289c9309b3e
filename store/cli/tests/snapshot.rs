//! `inkstone snapshot` on files of etcd.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]
#![expect(clippy::disallowed_methods, reason = "files of the tests' own")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn small() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../etcd-snapshot/tests/small.db")
}

fn snapshot(words: &[&str], file: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_inkstone"));
    command.arg("snapshot").args(words).arg(file);
    command.output().unwrap()
}

fn printed(words: &[&str]) -> String {
    let output = snapshot(words, &small());
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_status_is_printed_in_each_form() {
    let table = printed(&["status"]);
    let words: Vec<&str> = table.split_whitespace().collect();
    let expected = "hash revision total keys total size version 9a1c4e09 7 3 32.0 KiB 3.7.0";
    assert_eq!(words.join(" "), expected);
    assert_eq!(
        printed(&["status", "-w", "simple"]),
        "9a1c4e09, 7, 3, 32.0 KiB, 3.7.0\n"
    );
    assert_eq!(
        printed(&["status", "--write-out=fields"]),
        "\"Hash\" : 2585546249\n\"Revision\" : 7\n\"Keys\" : 3\n\"Size\" : 32768\n\
         \"Version\" : 3.7.0\n"
    );
    assert_eq!(
        printed(&["status", "-w", "json"]),
        "{\"hash\":2585546249,\"revision\":7,\"totalKey\":3,\"totalSize\":32768,\
         \"version\":\"3.7.0\"}\n"
    );
}

#[test]
fn the_hash_is_printed_for_a_revision() {
    assert_eq!(printed(&["hashkv", "-w", "simple"]), "2313101890, 7, 4\n");
    let at_5 = printed(&["hashkv", "--rev=5", "-w", "simple"]);
    assert!(at_5.ends_with(", 5, 4\n"), "{at_5}");
}

#[test]
fn files_that_cannot_be_used_are_named_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let sound = std::fs::read(small()).unwrap();
    let mut changed = sound.clone();
    let at = changed
        .windows(9)
        .position(|bytes| bytes == b"xxxxxxxxx")
        .unwrap();
    changed[at] = b'y';
    for (name, bytes, expected) in [
        ("cut.db", &sound[..20_000], "it was cut off"),
        (
            "foreign.db",
            b"no database at all",
            "it is no database of etcd",
        ),
        ("empty.db", b"", "it is no database of etcd"),
        ("changed.db", &changed, "its SHA-256 does not fit"),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let output = snapshot(&["status"], &path);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{name}: {error}");
        assert!(
            error.contains(name) && error.contains(expected),
            "{name}: {error}"
        );
        assert_eq!(std::fs::read(&path).unwrap(), bytes, "{name} is as it was");
    }
    let changed = folder.path().join("changed.db");
    assert!(
        snapshot(&["status", "--skip-hash-check"], &changed)
            .status
            .success()
    );
    let missing = snapshot(&["status"], &folder.path().join("none.db"));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("No such file"));
    assert_eq!(
        snapshot(&["hashkv", "--rev=-1"], &small()).status.code(),
        Some(2)
    );
    let past = snapshot(&["hashkv", "--rev=2"], &small());
    let past = String::from_utf8_lossy(&past.stderr);
    assert!(
        past.contains("small.db: revision 2 has been compacted"),
        "{past}"
    );
}
