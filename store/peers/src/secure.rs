//! TLS below the protocol: greetings, proofs and frames run inside it unchanged.
//!
//! An address says whether it is dialled with TLS: `https://host:port`, or `host:port` without.
//! A listener says what it accepts.

use std::future::pending;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;

use tls::{Acceptor, Accepts, Arrived, Connector, DialFlags, Handshakes, RawSocket};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::{Limits, LinkError};

/// Begins the addresses that are dialled with TLS.
const SECURE: &str = "https://";
/// The member's flags, for remedies.
const FLAGS: DialFlags = DialFlags {
    trusted: "--peer-trusted-ca-file",
    certificate: "--peer-cert-file",
    key: "--peer-key-file",
};

/// A listening socket for members.
#[derive(Debug)]
pub struct PeerListener {
    pub socket: TcpListener,
    /// `None` if it accepts connections without TLS only.
    pub accepts: Option<Accepts>,
}

impl PeerListener {
    /// A second handle of the same socket.
    pub fn try_clone(&self) -> io::Result<PeerListener> {
        Ok(PeerListener {
            socket: self.socket.try_clone()?,
            accepts: self.accepts,
        })
    }
}

impl From<TcpListener> for PeerListener {
    /// Accepts connections without TLS only.
    fn from(socket: TcpListener) -> PeerListener {
        PeerListener {
            socket,
            accepts: None,
        }
    }
}

/// Certificates of a member, and what it asks of those of others.
#[derive(Debug)]
pub struct PeerTls {
    /// `None` if no listener accepts TLS.
    pub acceptor: Option<Arc<Acceptor>>,
    pub connector: Connector,
    /// Threads that shake hands with members that connect.
    pub handshakes: Handshakes,
}

impl PeerTls {
    /// Shakes hands on an accepted connection; `None` if it does not pass.
    pub(crate) async fn accept(&self, tcp: TcpStream, accepts: Accepts) -> Option<Accepted> {
        let acceptor = self.acceptor.as_ref()?;
        let (done, arrived) = oneshot::channel();
        let socket = RawSocket::Tcp(tcp.into_std().ok()?);
        self.handshakes
            .begin(socket, accepts, acceptor, pending(), move |arrived| {
                // The connection may have been ended in favour of another.
                let _ = done.send(arrived);
            });
        match arrived.await.ok()? {
            Arrived::Plain(RawSocket::Tcp(tcp)) => {
                TcpStream::from_std(tcp).ok().map(Accepted::Plain)
            }
            Arrived::Plain(RawSocket::Unix(_)) => None,
            Arrived::Secure(stream, _) => stream.attach().ok().map(Box::new).map(Accepted::Secure),
        }
    }
}

/// A connection below the protocol.
#[derive(Debug)]
pub(crate) enum Accepted {
    Plain(TcpStream),
    Secure(Box<tls::SecureStream>),
}

/// Host and port of an address, and whether it is dialled with TLS.
pub(crate) fn parts(address: &str) -> (bool, &str) {
    match address.strip_prefix(SECURE) {
        Some(rest) => (true, rest),
        None => (false, address),
    }
}

/// Puts TLS on a new connection to `address`, if the address asks for it.
pub(crate) async fn connect(
    tls: Option<&PeerTls>,
    tcp: TcpStream,
    limits: &Limits,
    address: &str,
) -> Result<Accepted, LinkError> {
    let (is_secure, host_and_port) = parts(address);
    if !is_secure {
        return Ok(Accepted::Plain(tcp));
    }
    let Some(tls) = tls else {
        let reason = "the address is https, and this member has no TLS; start it with certificates";
        return Err(LinkError::connect(address, reason));
    };
    let host = host_and_port.rsplit_once(':').map_or("", |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let within = limits.greeting_timeout;
    match timeout(within, tls.connector.connect(host, tcp)).await {
        Ok(Ok(stream)) => Ok(Accepted::Secure(Box::new(stream))),
        Ok(Err(error)) => Err(LinkError::connect(address, reason(&error))),
        Err(_) => Err(LinkError::Timeout {
            address: address.to_owned(),
            within,
        }),
    }
}

/// An error of a connection that this member dialled, with its remedy if it is about TLS.
pub(crate) fn reason(error: &io::Error) -> String {
    match tls::dial_remedy(error, &FLAGS) {
        Some(remedy) => format!("{error}; {remedy}"),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::parts;

    #[test]
    fn an_address_says_whether_it_is_dialled_with_tls() {
        assert_eq!(parts("https://h:1"), (true, "h:1"));
        assert_eq!(parts("[::1]:1"), (false, "[::1]:1"));
    }
}
