//! Leases: granted, listed, renewed, revoked.

use crate::server::{Server, text};

/// Grants a lease and returns its id.
fn grant(server: &Server, seconds: &str) -> String {
    let granted = server.run(&["lease", "grant", seconds]);
    granted.split(' ').nth(1).unwrap().to_owned()
}

#[test]
fn a_revoked_lease_takes_its_keys_along() {
    let server = Server::start();
    let lease = grant(&server, "1000");
    server.run(&["put", "k", "v", "--lease", &lease]);
    let shown = server.run(&["lease", "timetolive", &lease, "--keys"]);
    assert!(shown.contains("granted with TTL(1000s)"), "{shown}");
    assert!(shown.ends_with(", attached keys([k])\n"), "{shown}");
    assert_eq!(
        server.run(&["lease", "list"]),
        format!("found 1 leases\n{lease}\n")
    );
    let revoked = server.run(&["lease", "revoke", &lease]);
    assert_eq!(revoked, format!("lease {lease} revoked\n"));
    assert_eq!(server.run(&["get", "k"]), "");
    let shown = server.run(&["lease", "timetolive", &lease]);
    assert_eq!(shown, format!("lease {lease} already expired\n"));
}

#[test]
fn a_lease_is_kept_alive_until_it_is_revoked() {
    let server = Server::start();
    let lease = grant(&server, "2");
    let mut kept = server.begin(&["lease", "keep-alive", &lease]);
    let renewal = format!("lease {lease} keepalived with TTL(2)");
    assert_eq!(kept.lines(2), [renewal.clone(), renewal]);
    server.run(&["lease", "revoke", &lease]);
    // A renewal may have been under way.
    while kept.lines(1) != [format!("lease {lease} expired or revoked.")] {}
    assert!(kept.end().0.success());
}

#[test]
fn a_lease_that_is_not_there_cannot_be_renewed_once() {
    let server = Server::start();
    let output = server.output(&["lease", "keep-alive", "--once", "12ab"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("requested lease not found"));
    let output = server.output(&["lease", "revoke", "x"]);
    assert_eq!(output.status.code(), Some(2));
}
