//! `make-mirror`: from one server to another.

use crate::server::{Server, text};

/// Waits until the server has this many keys below a prefix.
fn wait_for(server: &Server, prefix: &str, number: &str) {
    while server
        .run(&["get", prefix, "--prefix", "--count-only"])
        .trim()
        != number
    {}
}

#[test]
fn keys_and_their_changes_are_copied_under_another_prefix() {
    let (source, destination) = (Server::start(), Server::start());
    for key in ["a/1", "a/2", "b/1"] {
        source.run(&["put", key, "old"]);
    }
    let to = destination.address();
    let words = [
        "make-mirror",
        &to,
        "--prefix=a/",
        "--dest-prefix=copy/",
        "--max-txn-ops=2",
    ];
    let mut mirror = source.begin(&words);
    wait_for(&destination, "copy/", "2");
    source.feed(
        &["txn"],
        b"\nput a/3 new\nput a/4 new\nput a/5 new\ndel a/1\n\n\n",
    );
    source.run(&["put", "b/2", "x"]);
    source.run(&["put", "a/2", "new"]);
    source.run(&["put", "a/last", "new"]);
    while destination.run(&["get", "copy/last"]).is_empty() {}
    assert_eq!(
        destination.run(&["get", "", "--prefix"]),
        "copy/2\nnew\ncopy/3\nnew\ncopy/4\nnew\ncopy/5\nnew\ncopy/last\nnew\n"
    );
    let (status, said) = mirror.interrupt();
    assert!(status.success(), "{said}");
    assert!(said.contains("Continue with --rev "), "{said}");
}

#[test]
fn a_mirror_of_compacted_changes_says_that_they_are_lost() {
    let (source, destination) = (Server::start(), Server::start());
    for value in ["1", "2", "3"] {
        source.run(&["put", "k", value]);
    }
    source.run(&["compaction", "4"]);
    let to = destination.address();
    let output = source.output(&["make-mirror", &to, "--rev", "2"]);
    assert_eq!(output.status.code(), Some(1));
    let complaint = text(&output.stderr);
    assert!(complaint.contains("leave --rev out"), "{complaint}");
    let output = source.output(&["make-mirror", &to, "--no-dest-prefix", "--dest-prefix=x"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_mirror_goes_on_after_a_restart_of_its_source() {
    let (mut source, destination) = (Server::start_on_reserved_port(), Server::start());
    source.run(&["put", "k1", "v"]);
    let to = destination.address();
    let mut mirror = source.begin(&["make-mirror", &to]);
    wait_for(&destination, "k", "1");
    source.stop();
    source.start_again();
    source.run(&["put", "k2", "v"]);
    wait_for(&destination, "k", "2");
    mirror.interrupt();
}
