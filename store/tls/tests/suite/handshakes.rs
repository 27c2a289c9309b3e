//! Which connections pass: certificates, names, dates, purposes, lists, versions.

use crate::support;

use std::path::PathBuf;

use support::{Files, GREETING, Server, local};
use tls::{Accepts, Allowed, Authority, NamedFile, Pair, Protocol, Request, Settings, TlsVersion};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

#[tokio::test]
async fn a_server_of_the_authority_is_accepted_by_name_and_by_address() {
    let files = Files::new();
    let server = Server::start(files.server(), Accepts::Tls).await;
    for host in ["localhost", "127.0.0.1", "::1"] {
        server.greets(&files.client(), host).await.unwrap();
    }
}

#[tokio::test]
async fn a_server_for_another_host_is_refused() {
    let files = Files::new();
    let server = Server::start(files.server(), Accepts::Tls).await;
    for host in ["example.org", "10.0.0.1"] {
        let reason = server.refuses(&files.client(), host).await;
        assert!(reason.starts_with("x509: "), "{reason}");
    }
}

#[tokio::test]
async fn a_server_of_another_authority_is_refused_unless_none_is_verified() {
    let (files, others) = (Files::new(), Files::new());
    let server = Server::start(files.server(), Accepts::Tls).await;
    let reason = server.refuses(&others.client(), "localhost").await;
    assert_eq!(reason, "x509: certificate signed by unknown authority");
    let trusting = Settings {
        verifies_nothing: true,
        ..Settings::default()
    };
    server.greets(&trusting, "whatever.example").await.unwrap();
}

#[tokio::test]
async fn a_server_with_an_expired_certificate_is_refused() {
    let files = Files::new();
    let expired = Request {
        begins_in_seconds: -3600,
        ends_in_seconds: -60,
        ..local("server")
    };
    let settings = Settings {
        pair: Some(files.issue("expired", &expired)),
        ..Settings::default()
    };
    let server = Server::start(settings, Accepts::Tls).await;
    let reason = server.refuses(&files.client(), "localhost").await;
    assert!(reason.contains("has expired"), "{reason}");
}

#[tokio::test]
async fn a_client_with_a_certificate_is_known_by_its_common_name() {
    let files = Files::new();
    let mut server = Server::start(files.asking_server(), Accepts::Tls).await;
    let client = files.known_client(&Request::new("alice", &[]));
    server.greets(&client, "localhost").await.unwrap();
    let certificate = server.passed.recv().await.unwrap().unwrap();
    assert_eq!(certificate.common_name, "alice");
}

#[tokio::test]
async fn an_authority_alone_asks_for_a_certificate_and_names_no_client() {
    let files = Files::new();
    let settings = Settings {
        requires_certificate: false,
        ..files.asking_server()
    };
    let mut server = Server::start(settings, Accepts::Tls).await;
    server.refuses(&files.client(), "localhost").await;
    let client = files.known_client(&Request::new("alice", &[]));
    server.greets(&client, "localhost").await.unwrap();
    assert_eq!(server.passed.recv().await, Some(None));
}

#[tokio::test]
async fn clients_without_a_usable_certificate_are_refused() {
    let (files, others) = (Files::new(), Files::new());
    let server = Server::start(files.asking_server(), Accepts::Tls).await;
    let trusting = |settings: Settings| Settings {
        trusted: Some(files.ca()),
        ..settings
    };
    let expired = Request {
        begins_in_seconds: -3600,
        ends_in_seconds: -60,
        ..Request::new("expired", &[])
    };
    let future = Request {
        begins_in_seconds: 3600,
        ..Request::new("future", &[])
    };
    let for_servers = Request {
        is_for_clients: false,
        ..Request::new("for-servers", &[])
    };
    for (client, expected) in [
        (files.client(), "certificate required"),
        (
            trusting(others.known_client(&Request::new("alice", &[]))),
            "unknown certificate authority",
        ),
        (files.known_client(&expired), "expired certificate"),
        (files.known_client(&future), "expired certificate"),
        (files.known_client(&for_servers), "unsupported certificate"),
    ] {
        let reason = server.refuses(&client, "localhost").await;
        assert_eq!(reason, format!("remote error: tls: {expected}"));
    }
    let good = files.known_client(&Request::new("alice", &[]));
    server.greets(&good, "localhost").await.unwrap();
}

#[tokio::test]
async fn only_allowed_names_pass() {
    let files = Files::new();
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let alice = files.known_client(&Request::new("alice", &["one.example", "10.1.2.3"]));
    let mallory = files.known_client(&Request::new("mallory", &["two.example"]));
    for allowed in [
        Allowed::CommonNames(names(&["bob", "alice"])),
        Allowed::Hostnames(names(&["one.example"])),
        Allowed::Hostnames(names(&["x.example", "10.1.2.3"])),
    ] {
        let settings = Settings {
            allowed,
            ..files.asking_server()
        };
        let server = Server::start(settings, Accepts::Tls).await;
        server.greets(&alice, "localhost").await.unwrap();
        let reason = server.refuses(&mallory, "localhost").await;
        assert_eq!(reason, "remote error: tls: bad certificate");
    }
}

#[tokio::test]
async fn allowed_names_hold_for_the_server_that_a_member_connects_to() {
    let files = Files::new();
    let server = Server::start(files.server(), Accepts::Tls).await;
    let allowing = |name: &str| Settings {
        allowed: Allowed::CommonNames(vec![name.to_owned()]),
        ..files.client()
    };
    server
        .greets(&allowing("server"), "localhost")
        .await
        .unwrap();
    server.refuses(&allowing("other"), "localhost").await;
}

#[tokio::test]
async fn a_revoked_certificate_is_refused_from_the_moment_the_list_names_it() {
    let files = Files::new();
    let issue = |name| {
        let issued = files.authority.issue(&Request::new(name, &[])).unwrap();
        let client = Settings {
            pair: Some(files.keep(name, &issued)),
            ..files.client()
        };
        (issued.serial, client)
    };
    let (serial, revoked) = issue("revoked");
    let (_, good) = issue("good");
    let settings = Settings {
        revoked: Some(files.named("list.crl")),
        ..files.asking_server()
    };
    let server = Server::start(settings, Accepts::Tls).await;
    // Without a list no certificate can be checked.
    server.refuses(&good, "localhost").await;
    files.write("list.crl", files.authority.revoke(&[]).unwrap());
    server.greets(&revoked, "localhost").await.unwrap();
    let list = files.authority.revoke(&[serial]).unwrap();
    files.write("list.crl", &list);
    let reason = server.refuses(&revoked, "localhost").await;
    assert_eq!(reason, "remote error: tls: revoked certificate");
    server.greets(&good, "localhost").await.unwrap();
    // Half a list, and no list, leave the last good one in force.
    files.write("list.crl", &list[..list.len() / 2]);
    server.refuses(&revoked, "localhost").await;
    server.greets(&good, "localhost").await.unwrap();
    #[expect(clippy::disallowed_methods, reason = "a file of the test's own")]
    std::fs::remove_file(files.path("list.crl")).unwrap();
    server.refuses(&revoked, "localhost").await;
    server.greets(&good, "localhost").await.unwrap();
}

#[tokio::test]
async fn a_renewed_certificate_is_shown_without_a_restart() {
    let files = Files::new();
    let old = Authority::new("old authority").unwrap();
    let issued = old.issue(&local("server")).unwrap();
    let settings = Settings {
        pair: Some(files.keep("server", &issued)),
        ..Settings::default()
    };
    files.write("old.pem", old.certificate_pem());
    let old_client = Settings {
        trusted: Some(files.named("old.pem")),
        ..Settings::default()
    };
    let server = Server::start(settings, Accepts::Tls).await;
    server.greets(&old_client, "localhost").await.unwrap();
    let renewed = files.authority.issue(&local("server")).unwrap();
    // A certificate without its key, and half of a key, leave the old pair in force.
    files.write("server.pem", &renewed.certificate_pem);
    server.greets(&old_client, "localhost").await.unwrap();
    files.write("server.key", &renewed.key_pem[..renewed.key_pem.len() / 2]);
    server.greets(&old_client, "localhost").await.unwrap();
    files.write("server.key", &renewed.key_pem);
    server.greets(&files.client(), "localhost").await.unwrap();
    server.refuses(&old_client, "localhost").await;
}

#[tokio::test]
async fn a_changed_authority_counts_without_a_restart() {
    let (files, others) = (Files::new(), Files::new());
    let server = Server::start(files.asking_server(), Accepts::Tls).await;
    let stranger = Settings {
        trusted: Some(files.named("old.pem")),
        ..others.known_client(&Request::new("alice", &[]))
    };
    files.write("old.pem", files.authority.certificate_pem());
    server.refuses(&stranger, "localhost").await;
    let both = [
        files.authority.certificate_pem(),
        others.authority.certificate_pem(),
    ];
    files.write("ca.pem", both.concat());
    server.greets(&stranger, "localhost").await.unwrap();
}

#[tokio::test]
async fn versions_and_suites_are_those_that_are_chosen() {
    let files = Files::new();
    let only = |version| Protocol::between(version, version);
    let mut weak = only(TlsVersion::Tls12);
    weak.choose_suites("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256")
        .unwrap();
    let of = |protocol: &Protocol, settings: Settings| Settings {
        protocol: protocol.clone(),
        ..settings
    };
    let (old, new) = (only(TlsVersion::Tls12), only(TlsVersion::Tls13));
    for (here, there, passes) in [
        (&old, &old, true),
        (&new, &new, true),
        (&old, &new, false),
        (&new, &old, false),
        // The certificate is ECDSA's.
        (&weak, &old, false),
    ] {
        let server = Server::start(of(here, files.server()), Accepts::Tls).await;
        let outcome = server.greets(&of(there, files.client()), "localhost").await;
        assert_eq!(outcome.is_ok(), passes, "{here:?} {there:?}");
    }
}

#[tokio::test]
async fn names_in_a_certificate_must_fit_the_address_it_comes_from() {
    let files = Files::new();
    let settings = Settings {
        checks_addresses: true,
        ..files.asking_server()
    };
    let server = Server::start(settings, Accepts::Tls).await;
    for (name, hosts, passes) in [
        ("without names", &[][..], true),
        ("its address", &["127.0.0.1"], true),
        ("another address", &["10.1.2.3"], false),
        ("its name", &["localhost"], true),
        (
            "another address, its name",
            &["10.1.2.3", "localhost"],
            true,
        ),
        ("another name", &["host.invalid"], false),
        ("another pattern", &["*.host.invalid"], false),
    ] {
        let client = files.known_client(&Request::new(name, hosts));
        let outcome = server.greets(&client, "localhost").await;
        assert_eq!(outcome.is_ok(), passes, "{name}: {outcome:?}");
    }
}

#[tokio::test]
async fn plain_http_to_a_tls_port_is_answered_with_the_reason() {
    let files = Files::new();
    let server = Server::start(files.server(), Accepts::Tls).await;
    let mut client = TcpStream::connect(("127.0.0.1", server.port))
        .await
        .unwrap();
    client.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.0 400"), "{answer}");
    assert!(answer.contains("HTTPS server"), "{answer}");
}

#[tokio::test]
async fn a_port_that_accepts_both_tells_them_apart() {
    let files = Files::new();
    let server = Server::start(files.server(), Accepts::Both).await;
    let mut client = TcpStream::connect(("127.0.0.1", server.port))
        .await
        .unwrap();
    client.write_all(b"PRI * HTTP/2.0\r\n").await.unwrap();
    let mut greeting = vec![0; GREETING.len()];
    client.read_exact(&mut greeting).await.unwrap();
    assert_eq!(greeting, GREETING);
    server.greets(&files.client(), "localhost").await.unwrap();
}

#[tokio::test]
async fn noise_instead_of_a_handshake_ends_the_connection() {
    let files = Files::new();
    let server = Server::start(files.asking_server(), Accepts::Tls).await;
    for noise in [
        &b"\x16\x03\x01\x00\x05noise"[..],
        b"\x16",
        b"\0\0\0\0",
        b"\xff\xfe\xfd",
    ] {
        let mut client = TcpStream::connect(("127.0.0.1", server.port))
            .await
            .unwrap();
        client.write_all(noise).await.unwrap();
        client.shutdown().await.unwrap();
        let mut rest = Vec::new();
        let _ = client.read_to_end(&mut rest).await;
    }
    let good = files.known_client(&Request::new("alice", &[]));
    server.greets(&good, "localhost").await.unwrap();
}

/// One certificate for all, as `openssl req -x509` makes it: an authority, which is the server's
/// and the client's, and the trusted one.
fn self_signed() -> Settings {
    let file = |name: &str| NamedFile {
        option: "file",
        path: PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../rsa-key/tests")).join(name),
    };
    let certificate = file("smaller_prime_first.pem");
    Settings {
        trusted: Some(certificate.clone()),
        pair: Some(Pair {
            certificate,
            key: file("smaller_prime_first.key"),
        }),
        requires_certificate: true,
        ..Settings::default()
    }
}

#[tokio::test]
async fn a_certificate_that_is_its_own_authority_passes_where_it_is_trusted() {
    let mut server = Server::start(self_signed(), Accepts::Tls).await;
    server.greets(&self_signed(), "localhost").await.unwrap();
    let certificate = server.passed.recv().await.unwrap().unwrap();
    assert_eq!(certificate.common_name, "smaller-prime-first");
    let reason = server.refuses(&self_signed(), "127.0.0.1").await;
    assert!(reason.starts_with("x509: "), "{reason}");
}

#[tokio::test]
async fn a_certificate_that_is_its_own_authority_is_refused_where_it_is_not_trusted() {
    let files = Files::new();
    let client = Settings {
        trusted: Some(files.ca()),
        ..self_signed()
    };
    let server = Server::start(files.asking_server(), Accepts::Tls).await;
    let reason = server.refuses(&client, "localhost").await;
    assert!(reason.starts_with("remote error: tls: "), "{reason}");
    let server = Server::start(self_signed(), Accepts::Tls).await;
    let reason = server.refuses(&files.client(), "localhost").await;
    assert!(reason.starts_with("x509: "), "{reason}");
}
