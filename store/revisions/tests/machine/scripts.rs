//! Golden scripts: conversations with the machine, in `tests/scripts/`.
//!
//! A file has a title, then commands (`> put a 1`), each followed by its answer.
//! `UPDATE_SCRIPTS=1 cargo test -p revisions` replaces the answers; read the difference before
//! committing it.
#![expect(clippy::disallowed_methods, reason = "reads and rewrites the scripts")]

use std::fmt::Write;
use std::path::Path;

use crate::script::Session;

fn check(name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/scripts")
        .join(name);
    let script = std::fs::read_to_string(&path).unwrap();
    let replayed = replay(&script);
    if std::env::var_os("UPDATE_SCRIPTS").is_some() {
        std::fs::write(&path, replayed).unwrap();
        return;
    }
    for (number, (expected, actual)) in script.lines().zip(replayed.lines()).enumerate() {
        assert_eq!(expected, actual, "{name}, line {}", number + 1);
    }
    assert_eq!(script, replayed, "{name}");
}

/// The script with the answers of today.
fn replay(script: &str) -> String {
    let mut session = Session::new();
    let mut replayed = String::new();
    let mut in_answer = false;
    for line in script.lines() {
        if let Some(command) = line.strip_prefix("> ") {
            let answer = session.run(command);
            writeln!(replayed, "{line}\n{}", answer.trim_end()).unwrap();
            in_answer = true;
        } else if line.is_empty() || line.starts_with('#') {
            in_answer = false;
            writeln!(replayed, "{line}").unwrap();
        } else {
            assert!(in_answer, "neither command, comment nor answer: {line}");
        }
    }
    replayed
}

macro_rules! scripts {
    ($($name:ident),* $(,)?) => {
        $(#[test]
        fn $name() {
            check(concat!(stringify!($name), ".txt"));
        })*
    };
}

scripts!(
    revisions_count_transactions,
    ranges,
    transactions,
    refused_requests,
    compaction,
    leases,
    watches,
    alarms,
    downgrades,
    following_another_cluster,
    members,
    users,
    roles,
    permissions,
    permissions_of_leases,
    permissions_of_transactions,
    written_twice
);
