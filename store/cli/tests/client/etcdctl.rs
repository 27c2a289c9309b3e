//! The same command lines by etcdctl and by `inkstone`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::server::{Server, text};

pub fn etcdctl() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = harness::etcd_binary(&root)?.with_file_name("etcdctl");
    path.exists().then_some(path)
}

/// Output of a program with these bytes on stdin.
pub fn fed(command: &mut Command, input: &[u8]) -> Output {
    let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = pipes.stderr(Stdio::piped()).spawn().unwrap();
    // A command that needs no input may have ended.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

pub fn compare(line: &str, here: &Output, there: &Output) {
    let (error, their_error) = (text(&here.stderr), text(&there.stderr));
    assert_eq!(
        here.status.success(),
        there.status.success(),
        "{line}: {error}{their_error}"
    );
    if !here.status.success() {
        let reason = error.lines().next().unwrap().replace("error: ", "");
        assert!(
            their_error.contains(&reason),
            "{line}: {error}{their_error}"
        );
    }
    assert_eq!(
        comparable(&here.stdout),
        comparable(&there.stdout),
        "{line}"
    );
}

/// Returns the printed text without the ids of a JSON header.
fn comparable(printed: &[u8]) -> String {
    let printed = text(printed);
    let Ok(mut object) = serde_json::from_str::<Value>(&printed) else {
        return printed;
    };
    if let Some(header) = object.get_mut("header").and_then(Value::as_object_mut) {
        header.retain(|name, _| name == "revision");
    }
    object.to_string()
}

/// Command lines that have the same answer twice, except for what [`masked`] leaves out.
const LINES: [(&str, &str); 45] = [
    ("endpoint health -w json", ""),
    ("endpoint status", ""),
    ("endpoint status --cluster", ""),
    ("endpoint status -w json", ""),
    ("endpoint status -w fields --hex", ""),
    ("endpoint hashkv", ""),
    ("endpoint hashkv --rev 2 -w json", ""),
    ("endpoint hashkv -w fields", ""),
    ("endpoint hashkv --rev 99999", ""),
    ("member list", ""),
    ("member list --consistency s -w json", ""),
    ("member list -w json --hex", ""),
    ("member list -w fields", ""),
    ("member remove 1234", ""),
    ("member promote 1234", ""),
    ("member update 1234 --peer-urls http://127.0.0.1:1", ""),
    ("move-leader 1234", ""),
    ("alarm list", ""),
    ("alarm list -w json", ""),
    ("alarm disarm", ""),
    ("compaction 99999", ""),
    ("downgrade validate 3.6", ""),
    ("downgrade validate 3.6 -w json", ""),
    ("downgrade validate 3.5", ""),
    ("downgrade validate x", ""),
    ("downgrade cancel", ""),
    ("lease list", ""),
    ("lease list -w json", ""),
    ("lease list -w fields --hex", ""),
    ("lease timetolive {lease}", ""),
    ("lease timetolive {lease} --keys", ""),
    ("lease timetolive {lease} --keys -w json", ""),
    ("lease timetolive {lease} --keys -w fields --hex", ""),
    ("lease timetolive 123 -w json", ""),
    ("lease keep-alive --once {lease}", ""),
    ("lease keep-alive --once {lease} -w json", ""),
    ("lease keep-alive --once 123", ""),
    ("lease keep-alive 123", ""),
    ("get a -w fields", ""),
    ("get a -w json --order descend --sort-by value --prefix", ""),
    ("get a --prefix --print-value-only", ""),
    ("txn", TXN),
    ("txn -w json", TXN),
    ("txn -w fields", TXN),
    ("txn -i", "val(\"a\") != \"x\"\n\n\ndel none\n\n"),
];

const TXN: &str = "mod(\"a\") > \"0\"\nver(\"none\") = \"0\"\n\n\
    get a --limit 1\nput b \"two \\x41\"\ndel 'c d' --prev-kv\n\nput b no\n\n";

#[test]
fn both_print_the_same_about_one_server() {
    let Some(etcdctl) = etcdctl() else {
        eprintln!("SKIPPED: etcdctl is not installed; `cargo xtask etcd` builds it.");
        return;
    };
    let server = Server::start();
    let granted = server.run(&["lease", "grant", "1000"]);
    let lease = granted.split(' ').nth(1).unwrap();
    for words in [
        &["put", "a", "1"][..],
        &["put", "ab", "2", "--lease", lease],
        &["put", "ac\"\u{1}", "3", "--lease", lease],
    ] {
        server.run(words);
    }
    for (line, input) in LINES {
        let line = line.replace("{lease}", lease);
        let endpoint = format!("--endpoints={}", server.address());
        let words: Vec<&str> = line.split(' ').collect();
        let mut command = server.command(&[]);
        let here = fed(command.arg(&endpoint).args(&words), input.as_bytes());
        let mut command = Command::new(&etcdctl);
        let there = fed(command.arg(&endpoint).args(&words), input.as_bytes());
        let (mut here, there) = (masked(&here), masked(&there));
        // An error about one of several endpoints begins with its name.
        let complaint = text(&here.stderr).replace(&format!("{}: ", server.address()), "");
        here.stderr = complaint.into_bytes();
        compare(&line, &here, &there);
    }
}

/// Numbers that grow from one call to the next, or pass like time.
const GROWING: [&str; 9] = [
    "raftIndex",
    "raftAppliedIndex",
    "dbSize",
    "dbSizeInUse",
    "revision",
    "mod_revision",
    "version",
    "took",
    "ttl",
];
const GROWING_FIELDS: [&str; 8] = [
    "RaftIndex",
    "RaftAppliedIndex",
    "DBSize",
    "DBSizeInUse",
    "Revision",
    "ModRevision",
    "Version",
    "TTL",
];

/// The output without such numbers.
fn masked(output: &Output) -> Output {
    let printed = text(&output.stdout);
    let printed = match serde_json::from_str::<Value>(&printed) {
        Ok(mut value) => {
            mask_json(&mut value);
            value.to_string()
        }
        Err(_) => printed.lines().map(masked_line).collect(),
    };
    Output {
        stdout: printed.into_bytes(),
        ..output.clone()
    }
}

fn mask_json(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(mask_json),
        Value::Object(map) => {
            for (name, inner) in map {
                match GROWING.contains(&name.as_str()) {
                    true => *inner = Value::Null,
                    false => mask_json(inner),
                }
            }
        }
        _ => {}
    }
}

fn masked_line(line: &str) -> String {
    let field = line
        .split_once(" : ")
        .map(|(name, _)| name.trim_matches('"'));
    let columns: Vec<&str> = line.split(", ").collect();
    if let Some(name) = field.filter(|name| GROWING_FIELDS.contains(name)) {
        return format!("{name}\n");
    }
    if columns.len() == 16 {
        // Sizes, and the indices of the log, of a status.
        let kept = columns.iter().enumerate();
        let kept = kept.filter(|(at, _)| ![4, 5, 6, 11, 12].contains(at));
        return kept
            .map(|(_, column)| format!("{column}, "))
            .collect::<String>()
            + "\n";
    }
    match line.split_once("remaining(") {
        Some((head, tail)) => {
            let tail = tail.trim_start_matches(|letter: char| letter.is_ascii_digit());
            format!("{head}remaining({tail}\n")
        }
        None => format!("{line}\n"),
    }
}
