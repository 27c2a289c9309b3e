//! Servers with certificates of an authority of the test's own.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use harness::{Member, MemberConfig, Program};
use tempfile::TempDir;
use tls::{Authority, Connector, Issued, NamedFile, Pair, Request, Settings};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_inkstone");

/// A directory with certificates.
pub struct Certificates {
    place: TempDir,
    pub authority: Authority,
}

impl Certificates {
    /// Has `ca.pem`, and a pair `server` for this machine.
    pub fn new() -> Certificates {
        let certificates = Certificates {
            place: tempfile::tempdir().unwrap(),
            authority: Authority::new("test authority").unwrap(),
        };
        certificates.write("ca.pem", certificates.authority.certificate_pem());
        certificates.issue("server", &local("server"));
        certificates
    }

    pub fn place(&self) -> &Path {
        self.place.path()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.place().join(name)
    }

    pub fn write(&self, name: &str, contents: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), contents).unwrap();
    }

    /// Writes a certificate and its key to `name.pem` and `name.key`.
    pub fn issue(&self, name: &str, request: &Request) -> Issued {
        let issued = self.authority.issue(request).unwrap();
        self.write(&format!("{name}.pem"), &issued.certificate_pem);
        self.write(&format!("{name}.key"), &issued.key_pem);
        issued
    }

    /// Flags with `@` for the directory.
    pub fn flags(&self, flags: &[&str]) -> Vec<String> {
        let place = self.place().display().to_string();
        flags.iter().map(|flag| flag.replace('@', &place)).collect()
    }
}

pub fn local(common_name: &str) -> Request {
    Request::new(common_name, &["localhost", "127.0.0.1", "::1"])
}

/// A server that is alone, at a port that the system chooses.
pub struct Server {
    pub member: Member,
}

pub const SECURE: [&str; 4] = [
    "--listen-client-urls=https://127.0.0.1:0",
    "--advertise-client-urls=https://127.0.0.1:0",
    "--cert-file=@/server.pem",
    "--key-file=@/server.key",
];

impl Server {
    /// A server with `SECURE` and more flags.
    pub fn secure(certificates: &Certificates, flags: &[&str]) -> Server {
        let mut server = Server::prepared(certificates, &[&SECURE, flags].concat());
        server.member.start_and_wait().unwrap();
        server
    }

    pub fn prepared(certificates: &Certificates, flags: &[&str]) -> Server {
        let config = MemberConfig::alone("alone", certificates.place());
        let flags = certificates.flags(flags);
        let program = Program::new(PROGRAM).with(&flags);
        Server {
            member: Member::new(program, config),
        }
    }

    pub fn url(&self) -> String {
        format!("https://{}", self.member.client_address())
    }

    pub fn log(&mut self) -> String {
        self.member.process().unwrap().log()
    }

    /// A client verb at this server.
    pub fn verb(&self, certificates: &Certificates, words: &[&str]) -> Output {
        verb(certificates, &self.url(), words)
    }

    /// A client verb that must succeed; returns what it prints.
    pub fn run(&self, certificates: &Certificates, words: &[&str]) -> String {
        let output = self.verb(certificates, words);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {error}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The error of a client verb that must fail.
    pub fn fails(&self, certificates: &Certificates, words: &[&str]) -> String {
        failure(&self.verb(certificates, words))
    }
}

/// A client verb with `@` for the directory of certificates.
pub fn verb(certificates: &Certificates, url: &str, words: &[&str]) -> Output {
    let mut command = Command::new(PROGRAM);
    command.args(certificates.flags(words));
    command.arg(format!("--endpoint={url}"));
    command.stdin(Stdio::null()).output().unwrap()
}

pub fn failure(output: &Output) -> String {
    assert!(!output.status.success(), "it has succeeded");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Sends bytes of HTTP/1 over TLS, and returns all bytes of the answer. `pair` is the name of the
/// client's certificate.
pub fn exchange(
    certificates: &Certificates,
    address: &str,
    pair: Option<&str>,
    request: &str,
) -> String {
    let file = |option: &'static str, name: String| NamedFile {
        option,
        path: certificates.path(&name),
    };
    let pair = pair.map(|name| Pair {
        certificate: file("cert", format!("{name}.pem")),
        key: file("key", format!("{name}.key")),
    });
    let settings = Settings {
        trusted: Some(file("cacert", "ca.pem".to_owned())),
        pair,
        ..Settings::default()
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let socket = tokio::net::TcpStream::connect(address).await.unwrap();
        let connector = Connector::new(settings, &["http/1.1"]).unwrap();
        let mut stream = connector.connect("127.0.0.1", socket).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        stream.flush().await.unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer).into_owned()
    })
}
