//! Connections with TLS to members with certificates of a trial's own.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use hyper_util::rt::TokioIo;
use tls::{Authority, Connector, NamedFile, Pair, Request, SecureStream, Settings};
use tokio::net::TcpSocket;
use tonic::codegen::http::Uri;
use tonic::transport::{Channel, Endpoint};
use tower::service_fn;

use crate::Outcome;

/// Name of the pair that [`write_certificates`] makes.
pub const PAIR: &str = "server";

/// Makes an authority and a certificate for servers and clients of this machine: `ca.pem`,
/// `server.pem` and `server.key` in `directory`.
pub fn write_certificates(directory: &Path) -> Outcome {
    let authority = Authority::new("trials")?;
    let issued = authority.issue(&Request::new("server", &["localhost", "127.0.0.1"]))?;
    std::fs::write(directory.join("ca.pem"), authority.certificate_pem())?;
    std::fs::write(directory.join("server.pem"), issued.certificate_pem)?;
    std::fs::write(directory.join("server.key"), issued.key_pem)?;
    Ok(())
}

/// How to reach one port with TLS.
#[derive(Clone)]
pub struct Way {
    address: SocketAddr,
    connector: Arc<Connector>,
}

impl Way {
    /// A way to `address`, with HTTP/2 inside, with `ca.pem`, `client.pem` and `client.key` in
    /// the directory `certificates` for a `client` of this name.
    pub fn new(address: &str, certificates: &Path, client: &str) -> Outcome<Way> {
        let file = |option, name: String| NamedFile {
            option,
            path: certificates.join(name),
        };
        let settings = Settings {
            trusted: Some(file("ca", "ca.pem".to_owned())),
            pair: Some(Pair {
                certificate: file("cert", format!("{client}.pem")),
                key: file("key", format!("{client}.key")),
            }),
            ..Settings::default()
        };
        Ok(Way {
            address: address.parse()?,
            connector: Arc::new(Connector::new(settings, &["h2"])?),
        })
    }

    /// Opens a connection after its handshake, from this address if one is given. In TLS 1.3 the
    /// other side's refusal comes with the first bytes that are read.
    pub async fn connect(&self, from: Option<IpAddr>) -> io::Result<SecureStream> {
        let socket = TcpSocket::new_v4()?;
        if let Some(from) = from {
            socket.bind(SocketAddr::new(from, 0))?;
        }
        let socket = socket.connect(self.address).await?;
        socket.set_nodelay(true)?;
        self.connector.connect("127.0.0.1", socket).await
    }

    /// Opens a connection for calls, from this address if one is given.
    pub async fn channel(&self, from: Option<IpAddr>) -> Outcome<Channel> {
        self.channel_with(from, |endpoint| endpoint).await
    }

    /// The same with other settings of HTTP/2.
    pub async fn channel_with(
        &self,
        from: Option<IpAddr>,
        set: impl FnOnce(Endpoint) -> Endpoint,
    ) -> Outcome<Channel> {
        let way = self.clone();
        let dial = move |_: Uri| {
            let way = way.clone();
            async move { way.connect(from).await.map(TokioIo::new) }
        };
        let endpoint = set(Endpoint::from_shared(format!("https://{}", self.address))?);
        Ok(endpoint.connect_with_connector(service_fn(dial)).await?)
    }

    /// Calls that connect when they need to, and again after the connection has ended.
    pub fn lazy_channel(&self) -> Outcome<Channel> {
        let way = self.clone();
        let dial = move |_: Uri| {
            let way = way.clone();
            async move { way.connect(None).await.map(TokioIo::new) }
        };
        let endpoint = Endpoint::from_shared(format!("https://{}", self.address))?;
        Ok(endpoint.connect_with_connector_lazy(service_fn(dial)))
    }
}
