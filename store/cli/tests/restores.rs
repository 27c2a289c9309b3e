//! `inkstone snapshot restore`, and what it leaves behind.

#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]
#![expect(clippy::disallowed_methods, reason = "files of the tests' own")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// Revision 7, compacted at 4, three keys; with its SHA-256.
fn small() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../etcd-snapshot/tests/small.db")
}

fn inkstone(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_inkstone"));
    command.args(words).output().unwrap()
}

fn restore(file: &Path, target: &str, more: &[&str]) -> Output {
    let data_dir = format!("--data-dir={target}");
    let words = ["snapshot", "restore", file.to_str().unwrap(), &data_dir];
    inkstone(&[&words[..], &["--segment-bytes=1048576"], more].concat())
}

fn error(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Names in a folder, ascending.
fn names(folder: &TempDir) -> Vec<String> {
    let entries = std::fs::read_dir(folder.path()).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// The hash of the state of a directory, by a file that is saved from it.
fn hash_of(directory: &str, folder: &TempDir) -> String {
    let file = folder.path().join("saved.db");
    let file = file.to_str().unwrap();
    let saved = inkstone(&["snapshot", "save", file, "--data-dir", directory]);
    assert!(saved.status.success(), "{}", error(&saved));
    let hash = inkstone(&["snapshot", "hashkv", file, "-w", "simple"]);
    std::fs::remove_file(file).unwrap();
    String::from_utf8(hash.stdout).unwrap()
}

#[test]
fn a_restored_directory_has_the_hash_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    // A slash at the end is what completion writes.
    for name in ["a", "b/"] {
        let target = folder.path().join(name);
        let target = target.to_str().unwrap();
        let restored = restore(&small(), target, &[]);
        assert!(restored.status.success(), "{}", error(&restored));
        assert_eq!(hash_of(target, &folder), "2313101890, 7, 4\n");
        check_as_a_directory(target, &folder);
        let checked = inkstone(&["check", target]);
        assert!(checked.status.success(), "{}", error(&checked));
    }
    assert_eq!(names(&folder), ["a", "b"]);
}

/// `status` and `hashkv` say of a directory what they say of a snapshot of it.
fn check_as_a_directory(directory: &str, folder: &TempDir) {
    let file = folder.path().join("same.db");
    let file = file.to_str().unwrap();
    let saved = inkstone(&["snapshot", "save", file, "--data-dir", directory]);
    assert!(saved.status.success(), "{}", error(&saved));
    let verbs = [&["status"][..], &["hashkv"], &["hashkv", "--rev=6"]];
    for verb in verbs {
        let of = |path: &str| {
            let words = [&["snapshot"], verb, &[path, "-w", "json"]].concat();
            let output = inkstone(&words);
            assert!(output.status.success(), "{}", error(&output));
            output.stdout
        };
        let (theirs, ours) = (of(file), of(directory));
        assert_eq!(String::from_utf8(theirs), String::from_utf8(ours));
    }
    std::fs::remove_file(file).unwrap();
}

#[test]
fn a_directory_with_anything_in_it_is_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("taken");
    std::fs::create_dir(&target).unwrap();
    let target = target.to_str().unwrap();
    assert!(
        restore(&small(), target, &[]).status.success(),
        "it is empty"
    );
    let before = hash_of(target, &folder);
    let refused = restore(&small(), target, &[]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        error(&refused).contains("is not empty"),
        "{}",
        error(&refused)
    );
    assert_eq!(hash_of(target, &folder), before);
}

#[test]
fn a_file_that_cannot_be_used_leaves_no_directory() {
    let folder = tempfile::tempdir().unwrap();
    let sound = std::fs::read(small()).unwrap();
    let mut changed = sound.clone();
    changed[9_000] ^= 1;
    for (name, bytes, expected) in [
        ("cut.db", &sound[..20_000], "it was cut off"),
        (
            "foreign.db",
            b"no database at all",
            "it is no database of etcd",
        ),
        ("changed.db", &changed, "its SHA-256 does not fit"),
        ("no_sum.db", &sound[..sound.len() - 32], "has no SHA-256"),
    ] {
        let file = folder.path().join(name);
        std::fs::write(&file, bytes).unwrap();
        let target = folder.path().join("target");
        let refused = restore(&file, target.to_str().unwrap(), &[]);
        assert_eq!(refused.status.code(), Some(1), "{name}");
        assert!(
            error(&refused).contains(expected),
            "{name}: {}",
            error(&refused)
        );
        std::fs::remove_file(&file).unwrap();
        assert!(names(&folder).is_empty(), "{name}: {:?}", names(&folder));
    }
}

#[test]
fn a_file_without_a_checksum_is_restored_if_that_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("db");
    let sound = std::fs::read(small()).unwrap();
    std::fs::write(&file, &sound[..sound.len() - 32]).unwrap();
    let target = folder.path().join("target");
    let restored = restore(&file, target.to_str().unwrap(), &["--skip-hash-check"]);
    assert!(restored.status.success(), "{}", error(&restored));
}

#[test]
fn a_raised_revision_is_compacted_and_needs_both_flags() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("raised");
    let target = target.to_str().unwrap();
    for alone in ["--bump-revision=10", "--mark-compacted"] {
        assert_eq!(restore(&small(), target, &[alone]).status.code(), Some(2));
    }
    let huge = ["--bump-revision=9223372036854775807", "--mark-compacted"];
    let refused = restore(&small(), target, &huge);
    assert!(
        error(&refused).contains("is the largest"),
        "{}",
        error(&refused)
    );
    let both = ["--bump-revision=1000", "--mark-compacted"];
    assert!(restore(&small(), target, &both).status.success());
    let hash = hash_of(target, &folder);
    assert!(hash.ends_with(", 1007, 1007\n"), "{hash}");
}

#[test]
fn what_an_interrupted_restore_has_left_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let left = folder.path().join("target.restoring");
    std::fs::create_dir(&left).unwrap();
    std::fs::write(left.join("00000001.log"), "half of it").unwrap();
    let target = folder.path().join("target");
    let restored = restore(&small(), target.to_str().unwrap(), &[]);
    assert!(restored.status.success(), "{}", error(&restored));
    assert_eq!(names(&folder), ["target"]);
}

#[test]
fn flags_that_describe_no_cluster_are_wrong_use() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("target");
    let cluster = "--initial-cluster=other=http://localhost:2380";
    let refused = restore(&small(), target.to_str().unwrap(), &[cluster]);
    assert!(!refused.status.success());
    assert!(
        error(&refused).contains("initial-cluster"),
        "{}",
        error(&refused)
    );
    assert!(names(&folder).is_empty());
}

#[test]
fn a_saved_file_is_readable_by_its_owner_alone_and_a_directory_is_no_file() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("store");
    let target = target.to_str().unwrap();
    assert!(restore(&small(), target, &[]).status.success());
    let file = folder.path().join("saved.db");
    let words = [
        "snapshot",
        "save",
        file.to_str().unwrap(),
        "--data-dir",
        target,
    ];
    assert!(inkstone(&words).status.success());
    let mode = std::fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let to_folder = [
        "snapshot",
        "save",
        folder.path().to_str().unwrap(),
        "--data-dir",
        target,
    ];
    let refused = inkstone(&to_folder);
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        error(&refused).contains("is a directory"),
        "{}",
        error(&refused)
    );
    assert_eq!(names(&folder), ["saved.db", "store"]);
}

#[test]
fn an_interrupted_save_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    // A server that accepts the connection and never answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("--endpoint={}", silent.local_addr().unwrap());
    let file = folder.path().join("saved.db");
    let mut saving = Command::new(env!("CARGO_BIN_EXE_inkstone"))
        .args(["snapshot", "save", file.to_str().unwrap(), &endpoint])
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    while names(&folder).is_empty() {
        assert!(saving.try_wait().unwrap().is_none(), "it ended by itself");
    }
    let interrupt = ["-INT", &saving.id().to_string()];
    assert!(
        Command::new("kill")
            .args(interrupt)
            .status()
            .unwrap()
            .success()
    );
    let output = saving.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(error(&output).contains("interrupted"), "{}", error(&output));
    assert!(names(&folder).is_empty(), "{:?}", names(&folder));
}
