//! Files that appear, change, or are half written while the server runs.

use tls::{Authority, Request};

use crate::connected::{Connected, is_served, only_line};
use crate::secure::{Certificates, Server, local};

const LAST_GOOD: &str = "the last good one stays in force until a good file is written";

#[test]
fn a_list_that_appears_and_changes_refuses_the_next_handshake_of_a_revoked_client_alone() {
    let certificates = Certificates::new();
    let flags = [
        "--client-cert-auth",
        "--trusted-ca-file=@/ca.pem",
        "--client-crl-file=@/list.crl",
    ];
    let mut server = Server::secure(&certificates, &flags);
    let alice = certificates.issue("alice", &Request::new("alice", &[]));
    certificates.issue("bob", &Request::new("bob", &[]));
    let is_served = |server: &Server, client: &str| is_served(&certificates, server, client);

    // Without a list no certificate can be checked.
    assert!(!is_served(&server, "bob"));
    let (absent, path) = ("there is no earlier one", "--client-crl-file=");
    only_line(
        &mut server,
        absent,
        &[path, "list.crl", "is read without a restart"],
    );
    let unreadable = "the list of revoked certificates has not been readable yet";
    let remedy = "write the list of revoked certificates to --client-crl-file=";
    only_line(&mut server, unreadable, &[remedy, "list.crl"]);

    certificates.write("list.crl", certificates.authority.revoke(&[]).unwrap());
    let mut old_alice = Connected::new(&certificates, &server, "alice").unwrap();
    let mut bob = Connected::new(&certificates, &server, "bob").unwrap();

    let list = certificates.authority.revoke(&[alice.serial]).unwrap();
    certificates.write("list.crl", &list[..list.len() / 2]);
    for _ in 0..3 {
        assert!(is_served(&server, "alice") && is_served(&server, "bob"));
    }
    only_line(&mut server, LAST_GOOD, &[path, "list.crl", "is no list"]);

    certificates.write("list.crl", &list);
    assert!(!is_served(&server, "alice") && is_served(&server, "bob"));
    old_alice.works();
    bob.works();
    let remedy = "if this one was revoked by mistake, write --client-crl-file=";
    only_line(&mut server, "certificate serial revoked", &[remedy]);

    for damaged in [&b"no list"[..], b""] {
        certificates.write("list.crl", damaged);
        assert!(!is_served(&server, "alice") && is_served(&server, "bob"));
    }
    std::fs::remove_file(certificates.path("list.crl")).unwrap();
    assert!(!is_served(&server, "alice") && is_served(&server, "bob"));
    bob.works();

    certificates.write("list.crl", certificates.authority.revoke(&[]).unwrap());
    assert!(is_served(&server, "alice") && is_served(&server, "bob"));
}

#[test]
fn a_half_written_key_leaves_the_old_pair_in_use_and_is_logged_once() {
    let certificates = Certificates::new();
    let mut server = Server::secure(&certificates, &[]);
    certificates.issue("bob", &Request::new("bob", &[]));
    let mut bob = Connected::new(&certificates, &server, "bob").unwrap();
    let is_served = |server: &Server| is_served(&certificates, server, "bob");
    let read = |name: &str| std::fs::read(certificates.path(name)).unwrap();
    let (old_pem, old_key) = (read("server.pem"), read("server.key"));

    // The key is written first, and read in the middle.
    let renewed = Authority::new("renewed").unwrap();
    let renewed = renewed.issue(&local("server")).unwrap();
    let half = &renewed.key_pem[..renewed.key_pem.len() / 2];
    certificates.write("server.key", half);
    for _ in 0..3 {
        assert!(is_served(&server));
    }
    only_line(&mut server, LAST_GOOD, &["--key-file=", "server.key"]);

    // Then the key is whole, and its certificate is not there yet.
    certificates.write("server.key", &renewed.key_pem);
    assert!(is_served(&server));
    only_line(
        &mut server,
        "does not belong to the certificate",
        &[LAST_GOOD, "--key-file=", "server.key", "server.pem"],
    );

    certificates.write("server.pem", &renewed.certificate_pem);
    assert!(
        !is_served(&server),
        "the new pair is shown, which bob does not trust"
    );
    bob.works();
    certificates.write("server.pem", old_pem);
    certificates.write("server.key", old_key);
    assert!(is_served(&server));
}

#[test]
fn a_half_written_file_of_authorities_leaves_the_old_ones_in_use() {
    let certificates = Certificates::new();
    certificates.write("trusted.pem", certificates.authority.certificate_pem());
    let flags = ["--client-cert-auth", "--trusted-ca-file=@/trusted.pem"];
    let mut server = Server::secure(&certificates, &flags);
    certificates.issue("bob", &Request::new("bob", &[]));
    let whole = certificates.authority.certificate_pem();
    certificates.write("trusted.pem", &whole[..whole.len() / 2]);
    for _ in 0..3 {
        assert!(is_served(&certificates, &server, "bob"));
    }
    only_line(
        &mut server,
        LAST_GOOD,
        &["--trusted-ca-file=", "trusted.pem"],
    );
}
