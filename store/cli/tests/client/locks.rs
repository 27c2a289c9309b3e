//! `lock` and `elect`: one holder at a time, and its end.

use crate::server::{Server, text};

#[test]
fn a_command_runs_with_the_lock_and_gives_its_code() {
    let server = Server::start();
    let script = "echo $ETCD_LOCK_KEY $ETCD_LOCK_REV; exit 7";
    let output = server.output(&["lock", "backup", "sh", "-c", script]);
    assert_eq!(output.status.code(), Some(7), "{}", text(&output.stderr));
    let printed = text(&output.stdout);
    assert!(
        printed.starts_with("backup/") && printed.ends_with(" 2\n"),
        "{printed}"
    );
    assert_eq!(server.run(&["get", "backup/", "--prefix"]), "");
    assert_eq!(server.run(&["lease", "list"]), "found 0 leases\n");
    let missing = server.output(&["lock", "backup", "/nowhere/to/be/found"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(text(&missing.stderr).contains("cannot run /nowhere/to/be/found"));
    assert_eq!(server.run(&["lease", "list"]), "found 0 leases\n");
}

#[test]
fn a_second_holder_waits_for_the_end_of_the_first() {
    let server = Server::start();
    let mut first = server.begin(&["lock", "l"]);
    let key = first.lines(2).remove(0);
    assert!(key.starts_with("l/"), "{key}");
    let mut second = server.begin(&["lock", "l"]);
    while server.run(&["get", "l/", "--prefix", "--count-only"]) != "2\n" {}
    let (status, complaint) = first.interrupt();
    assert!(status.success(), "{complaint}");
    let other = second.lines(2).remove(0);
    assert_ne!(key, other);
    assert_eq!(
        server.run(&["get", "l/", "--prefix"]),
        format!("{other}\n\n")
    );
    let lease = other.trim_start_matches("l/").to_owned();
    server.run(&["lease", "revoke", &lease]);
    let (status, complaint) = second.end();
    assert_eq!(status.code(), Some(1));
    assert!(complaint.contains("session expired"), "{complaint}");
}

#[test]
fn an_interrupted_wait_leaves_no_key() {
    let server = Server::start();
    let mut first = server.begin(&["lock", "l"]);
    let key = first.lines(2).remove(0);
    let mut second = server.begin(&["lock", "l"]);
    while server.run(&["get", "l/", "--prefix", "--count-only"]) != "2\n" {}
    let (status, complaint) = second.interrupt();
    assert_eq!(status.code(), Some(1));
    assert!(
        complaint.contains("interrupted before its turn"),
        "{complaint}"
    );
    assert_eq!(server.run(&["get", "l/", "--prefix"]), format!("{key}\n\n"));
}

#[test]
fn an_observer_sees_each_leader() {
    let server = Server::start();
    let mut observer = server.begin(&["elect", "e", "-l"]);
    let mut first = server.begin(&["elect", "e", "one"]);
    let elected = first.lines(2);
    assert_eq!(elected[1], "one");
    assert_eq!(observer.lines(2), elected);
    let mut second = server.begin(&["elect", "e", "two"]);
    server.run(&["put", &elected[0], "another proposal", "--ignore-lease"]);
    assert_eq!(observer.lines(2), [&elected[0], "another proposal"]);
    assert!(first.interrupt().0.success());
    let elected = second.lines(2);
    assert_eq!(elected[1], "two");
    assert_eq!(observer.lines(2), elected);
    assert!(second.interrupt().0.success());
    assert!(observer.interrupt().0.success());
    for words in [&["elect", "e"][..], &["elect", "e", "x", "-l"]] {
        assert_eq!(server.output(words).status.code(), Some(2), "{words:?}");
    }
}
