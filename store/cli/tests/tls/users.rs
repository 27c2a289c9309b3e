//! Users that are known by the common name of their certificate.

use tls::Request;

use crate::secure::{Certificates, Server, exchange};

const ROOT: [&str; 3] = ["--cacert=@/ca.pem", "--cert=@/root.pem", "--key=@/root.key"];

/// The beginning and the end of the gateway's answer to a read.
fn read_by_gateway(certificates: &Certificates, server: &Server, pair: &str) -> String {
    let body = r#"{"key":"aw=="}"#;
    let request = format!(
        "POST /v3/kv/range HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let address = server.member.client_address();
    exchange(certificates, address, Some(pair), &request)
}

#[test]
fn the_gateway_refuses_a_common_name_while_users_are_checked() {
    let certificates = Certificates::new();
    let flags = ["--client-cert-auth", "--trusted-ca-file=@/ca.pem"];
    let server = Server::secure(&certificates, &flags);
    certificates.issue("root", &Request::new("root", &[]));
    certificates.issue("nameless", &Request::new("", &["nameless.example"]));
    let run = |words: &[&str]| server.run(&certificates, &[words, &ROOT].concat());
    run(&["put", "k", "v"]);
    run(&["user", "add", "root", "--no-password"]);
    let read = |pair: &str| read_by_gateway(&certificates, &server, pair);
    assert!(read("root").starts_with("HTTP/1.1 200"));

    run(&["auth", "enable"]);
    assert_eq!(
        run(&["get", "k"]),
        "k\nv\n",
        "over gRPC the name is the user"
    );
    let refused = read("root");
    assert!(refused.starts_with("HTTP/1.1 400"), "{refused}");
    assert!(refused.contains("CommonName of client sending a request against gateway"));
    // Without a common name the call itself is answered: it has no user.
    let refused = read("nameless");
    assert!(refused.contains("user name is empty"), "{refused}");

    run(&["auth", "disable"]);
    assert!(read("root").starts_with("HTTP/1.1 200"));
}
