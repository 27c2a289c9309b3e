//! An authority with its files, and a server that greets every client that passes.
#![allow(clippy::unwrap_used, reason = "a test stops where something fails")]

use std::future::pending;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use tempfile::TempDir;
use tls::{
    Acceptor, Accepts, Arrived, Authority, ClientCertificate, Connector, Endpoint, Handshakes,
    Issued, NamedFile, Pair, RawSocket, Request, Settings,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

pub const GREETING: &[u8] = b"hello";

/// A directory with files of certificates.
pub struct Files {
    place: TempDir,
    pub authority: Authority,
}

impl Files {
    pub fn new() -> Files {
        let files = Files {
            place: tempfile::tempdir().unwrap(),
            authority: Authority::new("test authority").unwrap(),
        };
        files.write("ca.pem", files.authority.certificate_pem());
        files
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    pub fn write(&self, name: &str, contents: impl AsRef<[u8]>) -> NamedFile {
        #[expect(clippy::disallowed_methods, reason = "a file of the test's own")]
        std::fs::write(self.path(name), contents).unwrap();
        self.named(name)
    }

    pub fn named(&self, name: &str) -> NamedFile {
        NamedFile {
            option: "file",
            path: self.path(name),
        }
    }

    pub fn ca(&self) -> NamedFile {
        self.named("ca.pem")
    }

    /// Writes a certificate with its key to `name.pem` and `name.key`.
    pub fn keep(&self, name: &str, issued: &Issued) -> Pair {
        Pair {
            certificate: self.write(&format!("{name}.pem"), &issued.certificate_pem),
            key: self.write(&format!("{name}.key"), &issued.key_pem),
        }
    }

    /// A certificate of the authority in files of its own.
    pub fn issue(&self, name: &str, request: &Request) -> Pair {
        self.keep(name, &self.authority.issue(request).unwrap())
    }

    /// Settings of a server for `localhost` and both of its addresses.
    pub fn server(&self) -> Settings {
        Settings {
            pair: Some(self.issue("server", &local("server"))),
            ..Settings::default()
        }
    }

    /// Settings of a server that asks for certificates of the authority.
    pub fn asking_server(&self) -> Settings {
        Settings {
            trusted: Some(self.ca()),
            requires_certificate: true,
            ..self.server()
        }
    }

    /// A client that trusts the authority and has no certificate.
    pub fn client(&self) -> Settings {
        Settings {
            trusted: Some(self.ca()),
            ..Settings::default()
        }
    }

    /// A client with a certificate for `request`.
    pub fn known_client(&self, request: &Request) -> Settings {
        Settings {
            pair: Some(self.issue(&format!("client-{}", request.common_name), request)),
            ..self.client()
        }
    }
}

pub fn local(common_name: &str) -> Request {
    Request::new(common_name, &["localhost", "127.0.0.1", "::1"])
}

/// Greets every connection that passes.
pub struct Server {
    pub port: u16,
    pub passed: mpsc::UnboundedReceiver<Option<ClientCertificate>>,
}

impl Server {
    pub async fn start(settings: Settings, accepts: Accepts) -> Server {
        let acceptor = Acceptor::new(settings, Endpoint::Client).unwrap();
        let (acceptor, handshakes) = (Arc::new(acceptor), Handshakes::start(1).unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (sender, passed) = mpsc::unbounded_channel();
        let (arrivals, mut arrived) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let socket = RawSocket::Tcp(socket.into_std().unwrap());
                let arrivals = arrivals.clone();
                handshakes.begin(socket, accepts, &acceptor, pending(), move |arrived| {
                    let _ = arrivals.send(arrived);
                });
            }
        });
        tokio::spawn(async move {
            while let Some(arrived) = arrived.recv().await {
                tokio::spawn(greet(arrived, sender.clone()));
            }
        });
        Server { port, passed }
    }

    /// Connects, and reads the server's greeting.
    pub async fn greets(&self, settings: &Settings, host: &str) -> io::Result<()> {
        let connector = Connector::new(settings.clone(), &[]).unwrap();
        let socket = TcpStream::connect(("127.0.0.1", self.port)).await?;
        let mut stream = connector.connect(host, socket).await?;
        let mut greeting = vec![0; GREETING.len()];
        stream.read_exact(&mut greeting).await?;
        assert_eq!(greeting, GREETING);
        Ok(())
    }

    /// The reason for which a client does not get in.
    pub async fn refuses(&self, settings: &Settings, host: &str) -> String {
        let outcome = self.greets(settings, host).await;
        outcome.expect_err("the client is refused").to_string()
    }
}

async fn greet(arrived: Arrived, passed: mpsc::UnboundedSender<Option<ClientCertificate>>) {
    match arrived {
        Arrived::Secure(stream, certificate) => {
            let _ = passed.send(certificate);
            let mut stream = stream.attach().unwrap();
            let _ = stream.write_all(GREETING).await;
            let _ = stream.flush().await;
            // Until the client closes.
            let _ = stream.read(&mut [0]).await;
        }
        Arrived::Plain(RawSocket::Tcp(socket)) => {
            let mut stream = TcpStream::from_std(socket).unwrap();
            let _ = stream.write_all(GREETING).await;
            let _ = stream.read(&mut [0]).await;
        }
        Arrived::Plain(RawSocket::Unix(_)) => unreachable!("the test listens at TCP"),
    }
}
