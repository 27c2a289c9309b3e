//! One flipped byte in a real directory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::server::{Server, repair, text};

/// A file's bytes.
fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap()
}

/// Flips a bit in the server's log, `further` bytes from the beginning of `part`.
fn flip(server: &Server, part: &[u8], further: i64) -> PathBuf {
    use std::os::unix::fs::FileExt;
    let path = server.directory().join("00000001.log");
    let bytes = read(&path);
    let place = bytes.windows(part.len()).position(|it| it == part).unwrap();
    let offset = (place as i64 + further) as u64;
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    let flipped = [bytes[offset as usize] ^ 1];
    file.write_all_at(&flipped, offset).unwrap();
    path
}

fn filled() -> Server {
    let server = Server::start();
    for (key, value) in [
        ("a", "the first one"),
        ("b", "a value to damage"),
        ("c", "the last one"),
    ] {
        server.run(&["put", key, value]);
    }
    server
}

fn refusal(server: &Server, words: &[&str]) -> String {
    let output = server.output(words);
    assert!(!output.status.success(), "{words:?}");
    text(&output.stderr)
}

#[test]
fn only_reads_of_a_damaged_value_fail_and_a_put_ends_that() {
    let server = filled();
    flip(&server, b"a value to damage", 3);
    let message = refusal(&server, &["get", "b"]);
    assert!(
        message.contains("\"b\"") && message.contains("00000001.log at byte"),
        "{message}"
    );
    assert_eq!(
        server.run(&["get", "", "--prefix", "--keys-only"]),
        "a\nb\nc\n"
    );
    assert_eq!(server.run(&["put", "b", "another"]), "OK\n");
    assert_eq!(server.run(&["get", "b"]), "b\nanother\n");
}

#[test]
fn a_server_starts_with_damage_beside_the_value_and_serves_the_value() {
    let mut server = filled();
    server.stop();
    // A byte of the record's header, which begins 59 bytes before the value.
    flip(&server, b"a value to damage", -40);
    server.start_again();
    assert_eq!(server.run(&["get", "b"]), "b\na value to damage\n");
}

#[test]
fn a_server_starts_when_its_first_checkpoint_is_damaged() {
    let mut server = filled();
    server.stop();
    let path = server.directory().join("0000000000000001.checkpoint");
    let mut bytes = read(&path);
    bytes[40] ^= 8;
    std::fs::write(&path, bytes).unwrap();
    server.start_again();
    assert_eq!(server.run(&["get", "b"]), "b\na value to damage\n");
}

/// All files with their bytes, except the lock.
fn contents(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = std::fs::read_dir(directory).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let files = paths.filter(|path| path.is_file() && !path.ends_with("LOCK"));
    files.map(|path| (path.clone(), read(&path))).collect()
}

#[test]
fn a_log_with_a_damaged_header_is_repaired_on_command() {
    let mut server = filled();
    server.run(&["put", "d", "to be sure of c"]);
    server.stop();
    // The length of the record: 12 and 48 bytes of headers, 2 of the key's, the key, and 8
    // of numbers and the value's length lie before the value.
    let path = server.directory().join("00000001.log");
    let bytes = read(&path);
    let value = b"a value to damage";
    let place = bytes
        .windows(value.len())
        .position(|it| it == value)
        .unwrap();
    let magic = bytes[..place]
        .windows(4)
        .rposition(|it| it == b"IKFR")
        .unwrap();
    flip(&server, value, magic as i64 - place as i64 + 20);
    let message = server.refused_start();
    assert!(
        message.contains("00000001.log is damaged at byte"),
        "{message}"
    );
    assert!(message.contains("inkstone repair"), "{message}");
    let checked = server.output(&["check", &server.directory().display().to_string()]);
    assert!(
        text(&checked.stdout).contains("inkstone repair"),
        "{checked:?}"
    );

    let before = contents(&server.directory());
    let planned = repair(&server.directory(), &[]);
    let report = text(&planned.stdout);
    assert_eq!(planned.status.code(), Some(1), "{report}");
    for part in [
        "is cut at byte",
        "\"b\" at 3",
        "\"c\" at 4",
        "left: everything up to revision 2",
    ] {
        assert!(report.contains(part), "{part}: {report}");
    }
    assert_eq!(contents(&server.directory()), before, "nothing was changed");

    let done = repair(&server.directory(), &["--yes"]);
    let report = text(&done.stdout);
    assert!(done.status.success(), "{report} {}", text(&done.stderr));
    let kept = server.directory().join("00000001.log.damaged");
    assert!(report.contains(&kept.display().to_string()), "{report}");
    assert_eq!(read(&kept), before[&path], "what was cut off is kept");
    server.start_again();
    assert_eq!(server.run(&["get", "", "--prefix"]), "a\nthe first one\n");
    server.run(&["put", "b", "another"]);
    server.stop();
    let again = repair(&server.directory(), &[]);
    assert!(
        text(&again.stdout).contains("nothing to repair"),
        "{again:?}"
    );
    server.start_again();
    assert_eq!(server.run(&["get", "b"]), "b\nanother\n");
}
