//! Starts that are refused: the error names the flag and the remedy.

use crate::secure::{Certificates, Server};

#[test]
fn settings_that_cannot_be_served_are_refused() {
    let certificates = Certificates::new();
    certificates.issue("other", &crate::secure::local("other"));
    certificates.write("empty", "");
    let https = [
        "--listen-client-urls=https://127.0.0.1:0",
        "--advertise-client-urls=https://127.0.0.1:0",
    ];
    let pair = ["--cert-file=@/server.pem", "--key-file=@/server.key"];
    for (flags, expected) in [
        (
            &[][..],
            "TLS key/cert (--cert-file, --key-file) must be provided",
        ),
        (
            &["--cert-file=@/server.pem"],
            "--cert-file needs --key-file",
        ),
        (&["--key-file=@/server.key"], "--key-file needs --cert-file"),
        (
            &["--cert-file=@/none", "--key-file=@/server.key"],
            "/none: the file cannot be read",
        ),
        (
            &["--cert-file=@/server.pem", "--key-file=@/other.key"],
            "does not belong to the certificate",
        ),
        (
            &[pair[0], pair[1], "--trusted-ca-file=@/empty"],
            "--trusted-ca-file=",
        ),
        (
            &[pair[0], pair[1], "--tls-min-version=TLS1.1"],
            "unexpected TLS version",
        ),
        (
            &[
                pair[0],
                pair[1],
                "--tls-min-version=TLS1.3",
                "--tls-max-version=TLS1.2",
            ],
            "min version (TLS1.3) is greater than max version (TLS1.2)",
        ),
        (
            &[
                pair[0],
                pair[1],
                "--tls-min-version=TLS1.3",
                "--cipher-suites=TLS_AES_128_GCM_SHA256",
            ],
            "cipher suites cannot be configured when only TLS1.3 is enabled",
        ),
        (
            &[pair[0], pair[1], "--cipher-suites=TLS_NONE"],
            "unexpected TLS cipher suite",
        ),
        (
            &[pair[0], pair[1], "--listen-peer-urls=https://127.0.0.1:0"],
            "cannot listen on TLS for https://127.0.0.1:0",
        ),
        (
            &[
                pair[0],
                pair[1],
                "--peer-cert-allowed-cn=a",
                "--peer-cert-allowed-hostname=b",
            ],
            "mutually exclusive",
        ),
        (
            &["--auto-tls", "--self-signed-cert-validity=0"],
            "--self-signed-cert-validity=0",
        ),
    ] {
        let mut server = Server::prepared(&certificates, &[&https[..], flags].concat());
        let (status, log) = server.member.refused_start().unwrap();
        assert!(!status.success(), "{flags:?}");
        assert!(log.contains(expected), "{flags:?}: {log}");
    }
    assert!(!certificates.path("alone").exists(), "nothing was written");
}

#[test]
fn settings_without_effect_are_warned_of() {
    let certificates = Certificates::new();
    let flags = [
        "--cert-file=@/server.pem",
        "--key-file=@/server.key",
        "--client-cert-auth",
        "--listen-client-urls=http://127.0.0.1:0",
        "--cipher-suites=TLS_RSA_WITH_AES_128_CBC_SHA,TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    ];
    let mut server = Server::prepared(&certificates, &flags);
    server.member.start_and_wait().unwrap();
    let log = server.log();
    for expected in [
        "ignoring key and cert files",
        "ignoring client cert auth",
        "TLS_RSA_WITH_AES_128_CBC_SHA is not supported",
    ] {
        assert!(log.contains(expected), "{log}");
    }
}
