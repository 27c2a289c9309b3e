//! Certificates that expire while the server runs.

use harness::wait_for;
use tls::Request;
use trials::Outcome;

use crate::connected::{Connected, PATIENCE, is_served, only_line, wait_until_refused};
use crate::secure::{Certificates, Server, local};

/// Long enough for a handshake, most of the time.
const SHORT_SECONDS: i64 = 4;

fn short(request: Request) -> Request {
    Request {
        ends_in_seconds: SHORT_SECONDS,
        ..request
    }
}

/// A connection with a certificate that ends soon.
fn connected_shortly(certificates: &Certificates, server: &Server, client: &str) -> Connected {
    let connect = || -> Outcome<Option<Connected>> {
        certificates.issue(client, &short(Request::new(client, &[])));
        Ok(Connected::new(certificates, server, client).ok())
    };
    wait_for("a handshake before the end", PATIENCE, connect).unwrap()
}

#[test]
fn a_client_with_an_expiring_certificate_keeps_its_connection_and_gets_no_new_one() {
    let certificates = Certificates::new();
    let flags = ["--client-cert-auth", "--trusted-ca-file=@/ca.pem"];
    let mut server = Server::secure(&certificates, &flags);
    certificates.issue("bob", &Request::new("bob", &[]));
    let mut bob = Connected::new(&certificates, &server, "bob").unwrap();
    let mut alice = connected_shortly(&certificates, &server, "alice");
    wait_until_refused(&certificates, &server, "alice");
    alice.works();
    bob.works();
    assert!(is_served(&certificates, &server, "bob"));
    let process = server.member.process().unwrap();
    let line = process.wait_for_line("certificate has expired").unwrap();
    for part in [
        "rejected connection on client endpoint",
        "give the other side a new certificate",
        "its open connections go on",
    ] {
        assert!(line.contains(part), "{line}");
    }
    certificates.issue("alice", &Request::new("alice", &[]));
    assert!(is_served(&certificates, &server, "alice"));
    alice.works();
}

#[test]
fn a_server_with_an_expiring_certificate_logs_it_and_shows_the_renewed_one_without_a_restart() {
    let certificates = Certificates::new();
    let mut server = Server::secure(&certificates, &[]);
    certificates.issue("bob", &Request::new("bob", &[]));
    let mut bob = Connected::new(&certificates, &server, "bob").unwrap();
    certificates.issue("server", &short(local("server")));
    wait_until_refused(&certificates, &server, "bob");
    // The server looks at the date when a handshake begins: that one may have begun before the end.
    assert!(!is_served(&certificates, &server, "bob"));
    bob.works();
    only_line(
        &mut server,
        "the certificate of --cert-file has expired",
        &[
            "server.pem",
            "write a new one with its key",
            "without a restart",
        ],
    );
    let process = server.member.process().unwrap();
    let line = process.wait_for_line("remote error: tls:").unwrap();
    assert!(
        line.contains("write a new certificate and its key"),
        "{line}"
    );
    assert!(line.contains("server.pem"), "{line}");
    certificates.issue("server", &local("server"));
    assert!(is_served(&certificates, &server, "bob"));
    bob.works();
}
