//! Where a TCP connection becomes what the rest reads and writes.
//!
//! Everything above sees [`Socket`] and its halves only, so that what is wrapped around
//! the connection is known here and nowhere else: records that were proved to be the
//! member's (`sealed.rs`), and a TLS session one day.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use crate::sealed::{Opener, Sealer};
use crate::{Lane, Limits};

/// A connection that carries bytes both ways.
pub(crate) struct Socket {
    read: ReadHalf,
    write: WriteHalf,
}

/// Its receiving end.
pub(crate) struct ReadHalf {
    tcp: OwnedReadHalf,
    /// Bytes come in records.
    opener: Option<Box<Opener>>,
}

/// Its sending end; dropping it tells the other side that nothing follows.
pub(crate) struct WriteHalf {
    tcp: OwnedWriteHalf,
    /// Bytes go in records.
    sealer: Option<Box<Sealer>>,
}

impl Socket {
    fn new(tcp: TcpStream) -> Socket {
        let (read, write) = tcp.into_split();
        Socket {
            read: ReadHalf {
                tcp: read,
                opener: None,
            },
            write: WriteHalf {
                tcp: write,
                sealer: None,
            },
        }
    }

    /// From now on everything comes and goes in records.
    pub fn seal(&mut self, opener: Opener, sealer: Sealer) {
        self.read.opener = Some(Box::new(opener));
        self.write.sealer = Some(Box::new(sealer));
    }

    /// Where the other side is.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.read.tcp.peer_addr()
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
            None => Pin::new(&mut half.tcp).poll_read(context, out),
            Some(opener) => opener.poll_read(context, &mut half.tcp, out),
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
            None => Pin::new(&mut half.tcp).poll_write(context, bytes),
            Some(sealer) => sealer.poll_write(context, &mut half.tcp, &[IoSlice::new(bytes)]),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let half = self.get_mut();
        match &mut half.sealer {
            None => Pin::new(&mut half.tcp).poll_write_vectored(context, slices),
            Some(sealer) => sealer.poll_write(context, &mut half.tcp, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// What was written is on its way: records leave whole.
    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().tcp).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().tcp).poll_shutdown(context)
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().read).poll_read(context, out)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().write).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().write).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().write).poll_shutdown(context)
    }
}

/// Connects to `address`.
pub(crate) async fn dial(address: SocketAddr, limits: &Limits) -> io::Result<Socket> {
    let tcp = TcpStream::connect(address).await?;
    prepare(tcp, limits)
}

/// Takes a connection that came in.
pub(crate) fn prepare(tcp: TcpStream, limits: &Limits) -> io::Result<Socket> {
    tcp.set_nodelay(true)?;
    let silence = limits.silence_max;
    let keepalive = TcpKeepalive::new()
        .with_time(silence / 3)
        .with_interval(probe_interval(silence))
        .with_retries(3);
    SockRef::from(&tcp).set_tcp_keepalive(&keepalive)?;
    set_stall_max(&tcp, silence)?;
    Ok(Socket::new(tcp))
}

/// The kernel counts whole seconds.
fn probe_interval(silence: Duration) -> Duration {
    (silence / 5).max(Duration::from_secs(1))
}

/// What the lane asks for once it is known: the receiver of a stream may pause
/// for a disk, and a paused receiver looks like a silent one.
pub(crate) fn suit(socket: &Socket, lane: Lane, limits: &Limits) -> io::Result<()> {
    match lane {
        Lane::Urgent | Lane::Bulk | Lane::Inquiry => Ok(()),
        Lane::Snapshot => set_stall_max(socket.read.tcp.as_ref(), limits.stream_stall_max),
    }
}

/// Data that the other end does not acknowledge, or has no room for, ends the
/// connection after `length`. Elsewhere the system's own patience holds.
fn set_stall_max(tcp: &TcpStream, length: Duration) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    SockRef::from(tcp).set_tcp_user_timeout(Some(length))?;
    #[cfg(not(target_os = "linux"))]
    let _ = (tcp, length);
    Ok(())
}

/// The two ends of `socket`.
pub(crate) fn split(socket: Socket) -> (ReadHalf, WriteHalf) {
    (socket.read, socket.write)
}
