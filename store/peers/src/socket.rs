//! Connections, with or without TLS, with or without authenticated records.
//!
//! The rest of the crate sees only [`Socket`] and its halves, so this module alone knows what
//! wraps the connection: a TLS session, and the records of `sealed.rs` inside it.

use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tls::{SecureReader, SecureWriter};
use tokio::io::{AsyncRead, AsyncWrite, Join, ReadBuf, join};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpSocket, TcpStream};

use crate::sealed::{Opener, Sealer};
use crate::secure::Accepted;
use crate::{Lane, Limits};

/// A connection between two members.
pub(crate) type Socket = Join<ReadHalf, WriteHalf>;

/// The receiving half below the records.
pub(crate) enum RawReader {
    Plain(OwnedReadHalf),
    Secure(SecureReader),
}

/// The sending half below the records.
pub(crate) enum RawWriter {
    Plain(OwnedWriteHalf),
    Secure(SecureWriter),
}

/// The receiving half of a connection.
pub(crate) struct ReadHalf {
    raw: RawReader,
    /// Opens the records; `None` if bytes come plain.
    opener: Option<Box<Opener>>,
}

/// The sending half of a connection; dropping it signals the end to the other side.
pub(crate) struct WriteHalf {
    raw: RawWriter,
    /// Seals the records; `None` if bytes are sent plain.
    sealer: Option<Box<Sealer>>,
}

/// Sends and receives records on `socket` from now on.
pub(crate) fn seal(socket: &mut Socket, opener: Opener, sealer: Sealer) {
    socket.reader_mut().opener = Some(Box::new(opener));
    socket.writer_mut().sealer = Some(Box::new(sealer));
}

/// Address of the other side.
pub(crate) fn peer_addr(socket: &Socket) -> io::Result<SocketAddr> {
    match &socket.reader().raw {
        RawReader::Plain(half) => half.peer_addr(),
        RawReader::Secure(half) => half.peer_addr(),
    }
}

impl AsyncRead for RawReader {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            RawReader::Plain(half) => Pin::new(half).poll_read(context, out),
            RawReader::Secure(half) => Pin::new(half).poll_read(context, out),
        }
    }
}

impl AsyncWrite for RawWriter {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            RawWriter::Plain(half) => Pin::new(half).poll_write(context, bytes),
            RawWriter::Secure(half) => Pin::new(half).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            RawWriter::Plain(half) => Pin::new(half).poll_write_vectored(context, slices),
            RawWriter::Secure(half) => Pin::new(half).poll_write_vectored(context, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            RawWriter::Plain(half) => Pin::new(half).poll_flush(context),
            RawWriter::Secure(half) => Pin::new(half).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            RawWriter::Plain(half) => Pin::new(half).poll_shutdown(context),
            RawWriter::Secure(half) => Pin::new(half).poll_shutdown(context),
        }
    }
}

impl AsyncRead for ReadHalf {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let half = self.get_mut();
        match &mut half.opener {
            None => Pin::new(&mut half.raw).poll_read(context, out),
            Some(opener) => opener.poll_read(context, &mut half.raw, out),
        }
    }
}

impl AsyncWrite for WriteHalf {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let half = self.get_mut();
        match &mut half.sealer {
            None => Pin::new(&mut half.raw).poll_write(context, bytes),
            Some(sealer) => sealer.poll_write(context, &mut half.raw, &[IoSlice::new(bytes)]),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let half = self.get_mut();
        match &mut half.sealer {
            None => Pin::new(&mut half.raw).poll_write_vectored(context, slices),
            Some(sealer) => sealer.poll_write(context, &mut half.raw, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// No record is buffered here: `poll_write` is ready only when it has left completely.
    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().raw).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().raw).poll_shutdown(context)
    }
}

/// Connects to `address`.
pub(crate) async fn dial(address: SocketAddr, limits: &Limits) -> io::Result<TcpStream> {
    let local = limits.local_address;
    let tcp = match local.filter(|local| local.is_ipv4() == address.is_ipv4()) {
        Some(local) => connect_from(local, address).await?,
        None => TcpStream::connect(address).await?,
    };
    prepare(&tcp, limits)?;
    Ok(tcp)
}

async fn connect_from(local: IpAddr, address: SocketAddr) -> io::Result<TcpStream> {
    let socket = match local {
        IpAddr::V4(_) => TcpSocket::new_v4()?,
        IpAddr::V6(_) => TcpSocket::new_v6()?,
    };
    socket.bind(SocketAddr::new(local, 0))?;
    socket.connect(address).await
}

/// Sets keep-alive and time limits on a new connection.
pub(crate) fn prepare(tcp: &TcpStream, limits: &Limits) -> io::Result<()> {
    tcp.set_nodelay(true)?;
    let silence = limits.silence_max;
    let keepalive = TcpKeepalive::new()
        .with_time(silence / 3)
        .with_interval(probe_interval(silence))
        .with_retries(3);
    SockRef::from(tcp).set_tcp_keepalive(&keepalive)?;
    set_stall_max(tcp, silence)
}

/// The halves of a connection, without records at first.
pub(crate) fn split(accepted: Accepted) -> Socket {
    let (read, write) = match accepted {
        Accepted::Plain(tcp) => {
            let (read, write) = tcp.into_split();
            (RawReader::Plain(read), RawWriter::Plain(write))
        }
        Accepted::Secure(stream) => {
            let (read, write) = stream.split();
            (RawReader::Secure(read), RawWriter::Secure(write))
        }
    };
    let read = ReadHalf {
        raw: read,
        opener: None,
    };
    let write = WriteHalf {
        raw: write,
        sealer: None,
    };
    join(read, write)
}

/// Interval between keep-alive probes; the kernel counts whole seconds.
fn probe_interval(silence: Duration) -> Duration {
    (silence / 5).max(Duration::from_secs(1))
}

/// Sets the time limit of the lane, once the greetings have named it. The receiver of a stream
/// may pause for its disk, and to TCP a paused receiver looks like a silent one.
pub(crate) fn suit(socket: &Socket, lane: Lane, limits: &Limits) -> io::Result<()> {
    match lane {
        Lane::Urgent | Lane::Bulk | Lane::Inquiry => Ok(()),
        Lane::Snapshot => match &socket.reader().raw {
            RawReader::Plain(half) => set_stall_max(half.as_ref(), limits.stream_stall_max),
            RawReader::Secure(half) => {
                half.configure(|tcp| set_stall_max(tcp, limits.stream_stall_max))
            }
        },
    }
}

/// Ends the connection when the other end has acknowledged no data, or had no room for it, for
/// `length`. Systems other than Linux keep their own limit.
fn set_stall_max(tcp: &TcpStream, length: Duration) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    SockRef::from(tcp).set_tcp_user_timeout(Some(length))?;
    #[cfg(not(target_os = "linux"))]
    let _ = (tcp, length);
    Ok(())
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn connections_come_from_the_local_address_of_the_family() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        for (local, seen) in [
            (None, "127.0.0.1"),
            (Some("127.0.0.9"), "127.0.0.9"),
            (Some("fd00::9"), "127.0.0.1"),
        ] {
            let limits = Limits {
                local_address: local.map(|it| it.parse().unwrap()),
                ..Limits::default()
            };
            let _dialed = dial(address, &limits).await.unwrap();
            let (_, from) = listener.accept().await.unwrap();
            assert_eq!(from.ip().to_string(), seen);
        }
    }
}
