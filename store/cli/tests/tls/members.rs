//! Members that connect to each other with TLS.

use std::time::Duration;

use harness::{Member, MemberConfig, Program, wait_for};
use tls::{Authority, Request};

use crate::secure::{Certificates, PROGRAM, local, verb};

const NAMES: [&str; 3] = ["a", "b", "c"];
const PATIENCE: Duration = Duration::from_secs(120);
const SECURE: [&str; 2] = [
    "--peer-cert-file=@/server.pem",
    "--peer-key-file=@/server.key",
];
const MUTUAL: [&str; 4] = [
    SECURE[0],
    SECURE[1],
    "--peer-client-cert-auth",
    "--peer-trusted-ca-file=@/ca.pem",
];

/// Three members with https peer URLs; clients connect without TLS.
struct Three {
    members: Vec<Member>,
}

impl Three {
    fn prepared(certificates: &Certificates, flags: &[&str]) -> Three {
        let configs: Vec<MemberConfig> = NAMES
            .iter()
            .map(|name| MemberConfig::on_reserved_ports(name, certificates.place()).unwrap())
            .collect();
        let all: Vec<String> = configs
            .iter()
            .map(|it| format!("{}=https://{}", it.name, it.peer))
            .collect();
        let members = configs.into_iter().map(|mut config| {
            config.initial_cluster = all.join(",");
            let peer = config.peer.clone();
            let program = Program::new(PROGRAM)
                .with(&[
                    format!("--listen-peer-urls=https://{peer}"),
                    format!("--initial-advertise-peer-urls=https://{peer}"),
                    "--segment-bytes=8388608".to_owned(),
                ])
                .with(&certificates.flags(flags));
            Member::new(program, config)
        });
        Three {
            members: members.collect(),
        }
    }

    /// Has a member show the certificate of this name.
    fn shows(&mut self, certificates: &Certificates, number: usize, name: &str) {
        let flags = certificates.flags(&[
            &format!("--peer-cert-file=@/{name}.pem"),
            &format!("--peer-key-file=@/{name}.key"),
        ]);
        self.members[number].program.flags.extend(flags);
    }

    fn start(&mut self, numbers: &[usize]) {
        for number in numbers {
            self.members[*number].start().unwrap();
        }
    }

    /// Puts at one member until it is taken.
    fn puts(&mut self, certificates: &Certificates, number: usize) {
        let url = self.members[number].client_url();
        let put = || {
            let output = verb(certificates, &url, &["put", "k", "v"]);
            Ok(output.status.success().then_some(()))
        };
        wait_for("a put is taken", PATIENCE, put).unwrap();
    }

    fn waits_for(&mut self, number: usize, text: &str) {
        let process = self.members[number].process().unwrap();
        process.wait_for_line(text).unwrap();
    }
}

#[test]
fn three_members_replicate_over_tls_and_survive_a_restart() {
    let certificates = Certificates::new();
    let mut three = Three::prepared(&certificates, &MUTUAL);
    three.start(&[0, 1, 2]);
    for number in 0..3 {
        three.puts(&certificates, number);
    }
    three.members[0].kill().unwrap();
    three.puts(&certificates, 1);
    three.start(&[0]);
    three.puts(&certificates, 0);
}

#[test]
fn members_with_a_secret_prove_it_inside_tls() {
    use std::os::unix::fs::PermissionsExt;
    let certificates = Certificates::new();
    certificates.write("secret", [7; 32]);
    let private = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(certificates.path("secret"), private).unwrap();
    let flags = [&MUTUAL[..], &["--peer-secret-file=@/secret"]].concat();
    let mut three = Three::prepared(&certificates, &flags);
    three.start(&[0, 1, 2]);
    three.puts(&certificates, 2);
}

#[test]
fn members_with_certificates_of_their_own_making_replicate() {
    let certificates = Certificates::new();
    let mut three = Three::prepared(&certificates, &["--peer-auto-tls"]);
    three.start(&[0, 1, 2]);
    three.puts(&certificates, 1);
    assert!(certificates.path("b/fixtures/peer/cert.pem").exists());
}

#[test]
fn a_member_of_another_authority_is_kept_out() {
    let certificates = Certificates::new();
    let mut three = Three::prepared(&certificates, &MUTUAL);
    let other = Authority::new("another").unwrap();
    let issued = other.issue(&local("server")).unwrap();
    certificates.write("other.pem", &issued.certificate_pem);
    certificates.write("other.key", &issued.key_pem);
    three.shows(&certificates, 2, "other");
    three.start(&[0, 1, 2]);
    three.puts(&certificates, 0);
    three.waits_for(0, "rejected connection on peer endpoint");
    let dialled = "name the authority that signed the certificate with --peer-trusted-ca-file";
    three.waits_for(0, dialled);
    three.waits_for(2, "the server refuses the certificate of --peer-cert-file");
}

#[test]
fn a_member_with_a_name_that_is_not_allowed_is_kept_out() {
    let certificates = Certificates::new();
    let flags = [&MUTUAL[..], &["--peer-cert-allowed-cn=server,backup"]].concat();
    let mut three = Three::prepared(&certificates, &flags);
    certificates.issue("mallory", &local("mallory"));
    let flags = certificates.flags(&[
        "--peer-cert-file=@/mallory.pem",
        "--peer-key-file=@/mallory.key",
    ]);
    three.members[2].program.flags.extend(flags);
    three.start(&[0, 1, 2]);
    three.puts(&certificates, 0);
    three.waits_for(0, "client certificate authentication failed");
    three.waits_for(2, "remote error: tls: bad certificate");
}

#[test]
fn a_member_with_a_certificate_for_another_address_is_kept_out_unless_that_is_skipped() {
    let certificates = Certificates::new();
    let mut three = Three::prepared(&certificates, &MUTUAL);
    // Shown only where member c connects.
    certificates.issue("elsewhere", &Request::new("server", &["10.1.2.3"]));
    let elsewhere = certificates.flags(&[
        "--peer-client-cert-file=@/elsewhere.pem",
        "--peer-client-key-file=@/elsewhere.key",
    ]);
    three.members[2].program.flags.extend(elsewhere);
    three.start(&[0, 1, 2]);
    three.puts(&certificates, 0);
    three.waits_for(0, "x509: certificate is valid for 10.1.2.3, not 127.0.0.1");
    for member in &mut three.members {
        member.kill().unwrap();
        let skip = "--peer-skip-client-san-verification".to_owned();
        member.program.flags.push(skip);
    }
    three.start(&[0, 1, 2]);
    three.puts(&certificates, 2);
}

#[test]
fn a_revoked_member_is_kept_out() {
    let certificates = Certificates::new();
    let flags = [&MUTUAL[..], &["--peer-crl-file=@/list.crl"]].concat();
    let mut three = Three::prepared(&certificates, &flags);
    let revoked = certificates.issue("revoked", &local("server"));
    let list = certificates.authority.revoke(&[revoked.serial]).unwrap();
    certificates.write("list.crl", list);
    three.shows(&certificates, 2, "revoked");
    three.start(&[0, 1, 2]);
    three.puts(&certificates, 0);
    three.waits_for(0, "revoked");
}

#[test]
fn a_member_with_an_expired_certificate_is_kept_out_until_its_files_are_renewed() {
    let certificates = Certificates::new();
    let mut three = Three::prepared(&certificates, &MUTUAL);
    let expired = Request {
        begins_in_seconds: -3600,
        ends_in_seconds: -60,
        ..local("server")
    };
    certificates.issue("expired", &expired);
    three.shows(&certificates, 2, "expired");
    three.start(&[0, 1, 2]);
    three.puts(&certificates, 0);
    three.waits_for(2, "the certificate of --peer-cert-file has expired");
    let process = three.members[0].process().unwrap();
    let rejected = "rejected connection on peer endpoint";
    let line = process.wait_for_line(rejected).unwrap();
    assert!(line.contains("certificate has expired"), "{line}");
    assert!(
        line.contains("give the other side a new certificate"),
        "{line}"
    );
    certificates.issue("expired", &local("server"));
    three.puts(&certificates, 2);
}

#[test]
fn strangers_at_the_peer_port_get_no_further_than_the_handshake() {
    use std::io::{Read, Write};
    let certificates = Certificates::new();
    let mut three = Three::prepared(&certificates, &MUTUAL);
    three.start(&[0, 1, 2]);
    three.puts(&certificates, 0);
    let peer = three.members[0].config.peer.clone();
    let mut crowd = Vec::new();
    for number in 0..500 {
        let mut stranger = std::net::TcpStream::connect(&peer).unwrap();
        if number % 2 == 0 {
            // A member's greeting without TLS.
            stranger.write_all(b"INKPEERS").unwrap();
        }
        crowd.push(stranger);
    }
    three.puts(&certificates, 0);
    let mut answer = Vec::new();
    let _ = crowd.remove(0).read_to_end(&mut answer);
    assert!(!answer.starts_with(b"INK"), "{answer:?}");
}
