//! Clients of a server with TLS.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::Duration;

use harness::ports;
use tls::{Authority, Request};

use crate::secure::{Certificates, PROGRAM, SECURE, Server, exchange, failure, local, verb};

const CA: &str = "--cacert=@/ca.pem";
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn a_client_that_trusts_the_authority_puts_and_gets() {
    let certificates = Certificates::new();
    let mut server = Server::secure(&certificates, &[]);
    server.run(&certificates, &["put", "k", "v", CA]);
    assert!(server.run(&certificates, &["get", "k", CA]).contains('v'));
    let skip = "--insecure-skip-tls-verify";
    assert!(server.run(&certificates, &["get", "k", skip]).contains('v'));
    assert!(server.log().contains("serving client traffic securely"));
}

#[test]
fn clients_that_cannot_trust_the_server_say_why() {
    let certificates = Certificates::new();
    let server = Server::secure(&certificates, &[]);
    let error = server.fails(&certificates, &["get", "k"]);
    assert!(error.contains("signed by unknown authority"), "{error}");
    assert!(error.contains("with --cacert."), "{error}");
    let other = Authority::new("another").unwrap();
    certificates.write("other.pem", other.certificate_pem());
    let error = server.fails(&certificates, &["get", "k", "--cacert=@/other.pem"]);
    assert!(error.contains("signed by unknown authority"), "{error}");
    let error = server.fails(&certificates, &["get", "k", "--cacert=@/none.pem"]);
    assert!(error.contains("none.pem"), "{error}");
    let error = server.fails(&certificates, &["get", "k", "--cert=@/server.pem"]);
    assert!(error.contains("--cert and --key"), "{error}");
    server.run(&certificates, &["get", "k", CA]);
}

#[test]
fn remedies_for_a_second_cluster_name_its_flags() {
    let certificates = Certificates::new();
    let server = Server::secure(&certificates, &[]);
    let source = format!("https://{}", server.member.client_address());
    let follow = |flag| server.fails(&certificates, &["follow", &source, CA, flag]);
    let error = follow("--source-insecure-transport");
    assert!(error.contains("with --source-cacert."), "{error}");
    let error = follow("--source-cert=@/server.pem");
    assert!(
        error.contains("--source-cert and --source-key belong together"),
        "{error}"
    );
    let error = follow("--source-cacert=@/none.pem");
    assert!(
        error.contains("source-cacert") && error.contains("none.pem"),
        "{error}"
    );
}

#[test]
fn a_server_for_another_name_is_refused() {
    let certificates = Certificates::new();
    certificates.issue("server", &Request::new("server", &["example.org"]));
    let server = Server::secure(&certificates, &[]);
    let error = server.fails(&certificates, &["get", "k", CA]);
    assert!(error.contains("x509"), "{error}");
    let remedy = "Connect to a name or address that the certificate has";
    assert!(error.contains(remedy), "{error}");
}

#[test]
fn a_client_that_must_show_a_certificate_learns_the_flags() {
    let certificates = Certificates::new();
    let flags = ["--client-cert-auth", "--trusted-ca-file=@/ca.pem"];
    let server = Server::secure(&certificates, &flags);
    let error = server.fails(&certificates, &["get", "k", CA]);
    assert!(
        error.contains("name yours with --cert and --key"),
        "{error}"
    );
}

#[test]
fn etcdctl_s_variables_mean_the_same() {
    let certificates = Certificates::new();
    let flags = ["--client-cert-auth", "--trusted-ca-file=@/ca.pem"];
    let server = Server::secure(&certificates, &flags);
    certificates.issue("alice", &Request::new("alice", &[]));
    let path = |name: &str| certificates.path(name);
    let output = Command::new(PROGRAM)
        .args(["put", "k", "v"])
        .env("ETCDCTL_ENDPOINTS", server.member.client_address())
        .env("ETCDCTL_CACERT", path("ca.pem"))
        .env("ETCDCTL_CERT", path("alice.pem"))
        .env("ETCDCTL_KEY", path("alice.key"))
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
}

#[test]
fn plain_clients_of_a_tls_port_and_tls_clients_of_a_plain_port_fail_alone() {
    let certificates = Certificates::new();
    let mut server = Server::secure(&certificates, &[]);
    let plain = server.url().replace("https", "http");
    let error = failure(&verb(&certificates, &plain, &["get", "k"]));
    assert!(error.contains("write https:// in its URL"), "{error}");
    server.run(&certificates, &["get", "k", CA]);
    let log = server.log();
    assert!(
        log.contains("rejected connection on client endpoint"),
        "{log}"
    );
    assert!(log.contains("does not look like a TLS handshake"), "{log}");

    server.member.stop().unwrap();
    let mut server = Server::prepared(&certificates, &[]);
    server.member.start_and_wait().unwrap();
    let error = server.fails(&certificates, &["get", "k", CA]);
    assert!(error.contains("write http:// in its address"), "{error}");
    let plain = server.url().replace("https", "http");
    assert!(verb(&certificates, &plain, &["get", "k"]).status.success());
}

#[test]
fn one_port_serves_http_and_https() {
    let certificates = Certificates::new();
    let port = ports::reserve(1).unwrap()[0];
    let both = format!("--listen-client-urls=http://127.0.0.1:{port},https://127.0.0.1:{port}");
    let mut server = Server::prepared(&certificates, &[&SECURE[..], &[&both]].concat());
    server.member.config.client = format!("127.0.0.1:{port}");
    server.member.start_and_wait().unwrap();
    server.run(&certificates, &["put", "k", "v", CA]);
    let plain = server.url().replace("https", "http");
    assert!(verb(&certificates, &plain, &["get", "k"]).status.success());
}

#[test]
fn clients_must_show_a_certificate_that_is_allowed_and_not_revoked() {
    let certificates = Certificates::new();
    let flags = [
        "--client-cert-auth",
        "--trusted-ca-file=@/ca.pem",
        "--client-crl-file=@/list.crl",
        "--client-cert-allowed-hostname=one.example,two.example",
    ];
    certificates.write("list.crl", certificates.authority.revoke(&[]).unwrap());
    let mut server = Server::secure(&certificates, &flags);
    let alice = certificates.issue("alice", &Request::new("alice", &["one.example"]));
    certificates.issue("bob", &Request::new("bob", &["two.example"]));
    certificates.issue("mallory", &Request::new("mallory", &["three.example"]));
    let as_user = |name: &str| {
        ["put", "k", "v", CA].map(str::to_owned).into_iter().chain([
            format!("--cert=@/{name}.pem"),
            format!("--key=@/{name}.key"),
        ])
    };
    let puts = |server: &Server, name: &str| {
        let words: Vec<String> = as_user(name).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        server.verb(&certificates, &words).status.success()
    };
    assert!(
        !server
            .verb(&certificates, &["put", "k", "v", CA])
            .status
            .success()
    );
    assert!(puts(&server, "alice") && puts(&server, "bob"));
    assert!(!puts(&server, "mallory"));
    let list = certificates.authority.revoke(&[alice.serial]).unwrap();
    certificates.write("list.crl", list);
    assert!(!puts(&server, "alice") && puts(&server, "bob"));
    let log = server.log();
    assert!(
        log.contains("client certificate authentication failed"),
        "{log}"
    );
    assert!(log.contains("revoked"), "{log}");
}

/// CVE of etcd: the list counted only where gRPC and HTTP share a port.
#[test]
fn revoked_certificates_are_refused_on_split_ports() {
    let certificates = Certificates::new();
    let flags = [
        "--client-cert-auth",
        "--trusted-ca-file=@/ca.pem",
        "--client-crl-file=@/list.crl",
        "--listen-client-http-urls=https://127.0.0.1:0",
    ];
    let alice = certificates.issue("alice", &Request::new("alice", &[]));
    let list = certificates.authority.revoke(&[alice.serial]).unwrap();
    certificates.write("list.crl", list);
    let server = Server::secure(&certificates, &flags);
    let alice = ["--cert=@/alice.pem", "--key=@/alice.key"];
    server.fails(&certificates, &[&["get", "k", CA][..], &alice].concat());
    certificates.issue("bob", &Request::new("bob", &[]));
    let bob = ["--cert=@/bob.pem", "--key=@/bob.key"];
    server.run(&certificates, &[&["get", "k", CA][..], &bob].concat());
}

#[test]
fn a_renewed_certificate_is_shown_without_a_restart() {
    let certificates = Certificates::new();
    let mut server = Server::secure(&certificates, &[]);
    server.run(&certificates, &["put", "k", "v", CA]);
    let renewed = Authority::new("renewed").unwrap();
    certificates.write("renewed.pem", renewed.certificate_pem());
    let issued = renewed.issue(&local("server")).unwrap();
    certificates.write("server.pem", &issued.certificate_pem);
    // Between the two files the old pair is used.
    server.run(&certificates, &["get", "k", CA]);
    certificates.write("server.key", &issued.key_pem);
    server.run(&certificates, &["get", "k", "--cacert=@/renewed.pem"]);
    server.fails(&certificates, &["get", "k", CA]);
    let log = server.log();
    assert!(log.contains("the last good one stays in force"), "{log}");
}

#[test]
fn a_server_makes_its_own_certificate_and_keeps_it() {
    let certificates = Certificates::new();
    let flags = [&SECURE[..2], &["--auto-tls"]].concat();
    let mut server = Server::prepared(&certificates, &flags);
    server.member.start_and_wait().unwrap();
    let own = "--cacert=@/alone/fixtures/client/cert.pem";
    server.run(&certificates, &["put", "k", "v", own]);
    let key = || std::fs::read(certificates.path("alone/fixtures/client/key.pem")).unwrap();
    let first = key();
    server.member.stop().unwrap();
    server.member.start_and_wait().unwrap();
    assert_eq!(key(), first);
    assert!(server.run(&certificates, &["get", "k", own]).contains('v'));
}

#[test]
fn silent_clients_do_not_cost_a_healthy_one_its_service() {
    let certificates = Certificates::new();
    let server = Server::secure(&certificates, &[]);
    let address = server.member.client_address().to_owned();
    let mut crowd = Vec::new();
    for number in 0..1000 {
        crowd.push(TcpStream::connect(&address).unwrap());
        if number % 200 == 0 {
            server.run(&certificates, &["put", "k", "v", CA]);
        }
    }
    server.run(&certificates, &["put", "k", "v", CA]);
    // After the deadline the server has closed them.
    for client in &mut crowd {
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        match client.read(&mut [0]) {
            Ok(count) => assert_eq!(count, 0),
            Err(error) => assert_ne!(error.kind(), ErrorKind::WouldBlock, "it is kept"),
        }
    }
    server.run(&certificates, &["get", "k", CA]);
}

#[test]
fn metrics_and_unix_sockets_have_tls() {
    let certificates = Certificates::new();
    let port = ports::reserve(1).unwrap()[0];
    let metrics = format!("--listen-metrics-urls=https://127.0.0.1:{port}");
    let clients = "--listen-client-urls=https://127.0.0.1:0,unixs://@/socket";
    let mut server = Server::secure(&certificates, &[&metrics, clients]);
    assert!(server.log().contains("unixs://"));
    // Plain HTTP is refused at both.
    let mut metrics = TcpStream::connect(("127.0.0.1", port)).unwrap();
    metrics.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    metrics.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("HTTPS server"), "{answer}");
    let mut socket = UnixStream::connect(certificates.path("socket")).unwrap();
    socket.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = socket.read_to_end(&mut answer);
    assert!(!String::from_utf8_lossy(&answer).contains("HTTP/1"));
    // With TLS both are served.
    let port = port.to_string();
    let page = page(&certificates, &["metrics", &port]);
    assert!(page.contains("etcd_server_has_leader"), "{page}");
}

/// The page `path` at `https://127.0.0.1:port`.
fn page(certificates: &Certificates, [path, port]: &[&str; 2]) -> String {
    let request = format!("GET /{path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    exchange(certificates, &format!("127.0.0.1:{port}"), None, &request)
}
