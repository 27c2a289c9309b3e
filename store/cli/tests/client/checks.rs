//! `check perf` and `check datascale`, beside `check DIR`.

use crate::server::{Server, text};

#[test]
fn a_load_is_put_judged_and_deleted() {
    let server = Server::start();
    let output = server.output(&["check", "perf", "--duration", "1s", "--auto-compact"]);
    let printed = text(&output.stdout);
    // Whether this machine passes is not the subject.
    for part in [
        "Compacted with revision ",
        "hroughput",
        "request took",
        "tddev",
    ] {
        assert!(printed.contains(part), "{printed}{}", text(&output.stderr));
    }
    let verdict = printed.lines().last().unwrap();
    assert_eq!(verdict == "PASS", output.status.success(), "{printed}");
    assert_eq!(server.run(&["get", "", "--prefix", "--count-only"]), "0\n");
    assert!(server.output(&["get", "k", "--rev", "2"]).status.code() == Some(1));
}

#[test]
fn the_memory_of_many_keys_is_measured_and_the_keys_deleted() {
    let server = Server::start();
    let printed = server.run(&["check", "datascale", "--prefix=scale/", "--auto-defrag"]);
    assert!(
        printed.contains("[10000 key-value pairs, 1024 bytes"),
        "{printed}"
    );
    assert!(printed.contains("Defragmented "), "{printed}");
    assert!(
        printed.contains("PASS: Approximate system memory used : "),
        "{printed}"
    );
    assert_eq!(server.run(&["get", "", "--prefix", "--count-only"]), "0\n");
    let revision = server.run(&["get", "k", "-w", "json"]);
    assert!(revision.contains("\"revision\":10002"), "{revision}");
}

#[test]
fn keys_below_the_prefix_are_not_touched() {
    let server = Server::start();
    server.run(&["put", "mine/1", "v"]);
    for check in ["perf", "datascale"] {
        let output = server.output(&["check", check, "--prefix", "mine/"]);
        assert_eq!(output.status.code(), Some(1), "{check}");
        assert!(
            text(&output.stderr).contains("prefix \"mine/\" has keys"),
            "{check}"
        );
    }
    assert_eq!(server.run(&["get", "mine/1"]), "mine/1\nv\n");
    assert_eq!(server.output(&["check"]).status.code(), Some(2));
    assert_eq!(server.output(&["check", "./perf"]).status.code(), Some(2));
}
