//! Files that cannot be used: the error names the file, the fault and the remedy.

use crate::support;

use environment::randomness::Random;
use support::{Files, local};
use tls::{Acceptor, Connector, Endpoint, NamedFile, Pair, Settings};

/// A key on P-521, as etcd's `--auto-tls` makes them (openssl ecparam -genkey).
const P521_KEY: &str = "-----BEGIN EC PRIVATE KEY-----
MIHcAgEBBEIBng+e75SsDW3fOLBJDXgsjrGjht4LVe+9rNF5/G+MdD8hIwT7Q8ds
92f4wuJwl7w8M8t1zFd1QYLH17+WRGG0FFagBwYFK4EEACOhgYkDgYYABAG+i0Qj
Kr/WpEPA7vxqbDsCqzIQd6mfOHT3OW68xjJKS0aJvs1Jq1UNwnZCT05SQ3NYKSH/
j/gU6pwAiPX4AdpJaAB8TA8oIhKxOCgnQdT6UCexrpTGW47kuvsq6QAiORGWm8rt
U/dVdPg/9E8snezzaW2tCv0fYuQVw3BtqVAIHEOFjg==
-----END EC PRIVATE KEY-----
";

fn refused(pair: Pair) -> String {
    let settings = Settings {
        pair: Some(pair),
        ..Settings::default()
    };
    let acceptor = Acceptor::new(settings, Endpoint::Client);
    acceptor.expect_err("the pair cannot be used").to_string()
}

#[test]
fn a_pair_that_cannot_be_used_is_refused_with_the_remedy() {
    let files = Files::new();
    let good = files.issue("good", &local("good"));
    let other = files.issue("other", &local("other"));
    let with_key = |key: NamedFile| Pair {
        key,
        ..good.clone()
    };
    let with_certificate = |certificate: NamedFile| Pair {
        certificate,
        ..good.clone()
    };
    let encrypted =
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    let old_encrypted = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nAAAA\n-----END RSA PRIVATE KEY-----\n";
    let directory = NamedFile {
        option: "file",
        path: files.path("").to_owned(),
    };
    for (pair, name, expected) in [
        (with_key(files.named("none")), "none", "cannot be read"),
        (
            with_certificate(files.named("none")),
            "none",
            "cannot be read",
        ),
        (with_key(directory), "", "directory"),
        (
            with_key(other.key.clone()),
            "other.key",
            "does not belong to the certificate",
        ),
        (with_key(files.write("e1", encrypted)), "e1", "openssl pkey"),
        (
            with_key(files.write("e2", old_encrypted)),
            "e2",
            "openssl pkey",
        ),
        (
            with_key(files.write("empty", "")),
            "empty",
            "no private key",
        ),
        (
            with_certificate(files.write("empty", "")),
            "empty",
            "no certificate",
        ),
        (
            with_certificate(good.key.clone()),
            "good.key",
            "no certificate",
        ),
        (
            with_key(good.certificate.clone()),
            "good.pem",
            "no private key",
        ),
        (
            with_key(files.write("p521", P521_KEY)),
            "p521",
            "prime256v1",
        ),
    ] {
        let error = refused(pair);
        assert!(error.contains(name) && error.contains(expected), "{error}");
        assert!(error.starts_with("--file="), "{error}");
    }
}

#[test]
fn a_server_without_a_certificate_is_refused() {
    let error = Acceptor::new(Settings::default(), Endpoint::Client).unwrap_err();
    assert_eq!(error.to_string(), "KeyFile and CertFile are not presented");
}

#[test]
fn an_authority_that_cannot_be_used_is_refused() {
    let files = Files::new();
    for (contents, expected) in [
        ("", "no certificate"),
        (
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
            "certificate 1 cannot be used",
        ),
    ] {
        let settings = Settings {
            trusted: Some(files.write("bad-ca", contents)),
            ..files.server()
        };
        for error in [
            Acceptor::new(settings.clone(), Endpoint::Client).map(drop),
            Connector::new(settings, &[]).map(drop),
        ] {
            let error = error.unwrap_err().to_string();
            assert!(
                error.contains("bad-ca") && error.contains(expected),
                "{error}"
            );
        }
    }
}

/// Damaged files are errors, never panics.
#[test]
fn damaged_files_are_refused_or_read() {
    let files = Files::new();
    let issued = files.authority.issue(&local("server")).unwrap();
    let list = files
        .authority
        .revoke(std::slice::from_ref(&issued.serial))
        .unwrap();
    let mut random = Random::from_seed(21);
    for round in 0..300 {
        let mut damage = |bytes: &[u8]| {
            let mut bytes = bytes.to_vec();
            for _ in 0..=random.below(3) {
                let at = random.below(bytes.len() as u64) as usize;
                match random.below(3) {
                    0 => bytes[at] ^= 1 << random.below(8),
                    1 => bytes.truncate(at.max(1)),
                    _ => bytes.insert(at, random.below(256) as u8),
                }
            }
            bytes
        };
        let pair = Pair {
            certificate: files.write("c", damage(issued.certificate_pem.as_bytes())),
            key: files.write("k", damage(issued.key_pem.as_bytes())),
        };
        let settings = Settings {
            pair: Some(if round % 2 == 0 {
                pair
            } else {
                files.keep("good", &issued)
            }),
            trusted: Some(files.write("ca", damage(files.authority.certificate_pem().as_bytes()))),
            revoked: Some(files.write("l", damage(&list))),
            ..Settings::default()
        };
        let _ = Acceptor::new(settings, Endpoint::Peer);
    }
}

#[test]
fn a_self_signed_pair_is_made_once_and_kept() {
    let files = Files::new();
    let directory = files.path("fixtures/client");
    let hosts = ["localhost".to_owned(), "127.0.0.1".to_owned()];
    let make = || tls::self_signed("auto-tls", &directory, &hosts, 1).unwrap();
    let pair = make();
    let read = |pair: &Pair| {
        #[expect(clippy::disallowed_methods, reason = "a file of the test's own")]
        std::fs::read(&pair.key.path).unwrap()
    };
    let key = read(&pair);
    assert_eq!(read(&make()), key);
    let settings = Settings {
        pair: Some(pair),
        ..Settings::default()
    };
    Acceptor::new(settings, Endpoint::Client).unwrap();
    let error = tls::self_signed("auto-tls", &files.path("x"), &hosts, 0).unwrap_err();
    assert!(error.to_string().contains("self-signed-cert-validity=0"));
}
