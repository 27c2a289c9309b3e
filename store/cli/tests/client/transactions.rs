//! `txn`: conditions and requests from stdin.

use crate::server::{Server, text};

#[test]
fn a_transaction_takes_one_of_two_ways() {
    let server = Server::start();
    let words = "mod(\"k\") > \"0\"\n\nput k \"over\\nwritten\"\nget k\n\nput k created\n\n";
    let first = server.feed(&["txn"], words.as_bytes());
    assert_eq!(first, "FAILURE\n\nOK\n");
    let second = server.feed(&["txn"], words.as_bytes());
    assert_eq!(second, "SUCCESS\n\nOK\n\nk\nover\nwritten\n");
    let prompted = server.feed(&["txn", "-i"], b"\n\n\n");
    assert_eq!(
        prompted,
        "compares:\nsuccess requests (get, put, del):\nfailure requests (get, put, del):\nSUCCESS\n"
    );
}

#[test]
fn a_transaction_that_is_cut_off_or_wrong_changes_nothing() {
    let server = Server::start();
    for (words, reason) in [
        ("\nput k v\n", "ended early"),
        ("\nput k v\n\n", "ended early"),
        ("\nput k v\n\nput k", "ended early"),
        ("mod(k) = 1\n", "malformed comparison: mod(k) = 1"),
        ("\nput k\n\n\n", "needs a value"),
        ("\nput k v\nmove a b\n\n\n", "invalid txn request: move a b"),
        ("\nput \"k v\n\n\n", "invalid txn request"),
    ] {
        let output = server.output_of(&["txn"], words.as_bytes());
        let complaint = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {complaint}");
        assert!(complaint.contains(reason), "{words:?}: {complaint}");
    }
    assert_eq!(server.run(&["get", "k"]), "");
}
