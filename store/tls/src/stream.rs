//! Connections after their handshake.
//!
//! A handshake runs in one runtime and the connection is served in another, so the socket can be
//! taken out of the one and put into the other while the session stays.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use environment::Mutex;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsStream;

use crate::handshakes::RawSocket;
use crate::words;

/// A socket of a runtime.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
    /// Between two runtimes.
    Taken,
}

impl Socket {
    pub(crate) fn of(raw: RawSocket) -> io::Result<Socket> {
        Ok(match raw {
            RawSocket::Tcp(socket) => Socket::Tcp(TcpStream::from_std(socket)?),
            RawSocket::Unix(socket) => Socket::Unix(UnixStream::from_std(socket)?),
        })
    }

    /// Takes the socket out of its runtime.
    pub(crate) fn take(&mut self) -> io::Result<RawSocket> {
        Ok(match std::mem::replace(self, Socket::Taken) {
            Socket::Tcp(socket) => RawSocket::Tcp(socket.into_std()?),
            Socket::Unix(socket) => RawSocket::Unix(socket.into_std()?),
            Socket::Taken => return Err(io::ErrorKind::NotConnected.into()),
        })
    }

    pub(crate) fn peer_addr(&self) -> Option<SocketAddr> {
        match self {
            Socket::Tcp(socket) => socket.peer_addr().ok(),
            _ => None,
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Socket::Tcp(socket) => Pin::new(socket).poll_read(context, out),
            Socket::Unix(socket) => Pin::new(socket).poll_read(context, out),
            Socket::Taken => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Socket::Tcp(socket) => Pin::new(socket).poll_write(context, bytes),
            Socket::Unix(socket) => Pin::new(socket).poll_write(context, bytes),
            Socket::Taken => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Socket::Tcp(socket) => Pin::new(socket).poll_write_vectored(context, slices),
            Socket::Unix(socket) => Pin::new(socket).poll_write_vectored(context, slices),
            Socket::Taken => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// The kernel has what was written.
    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Socket::Tcp(socket) => Pin::new(socket).poll_shutdown(context),
            Socket::Unix(socket) => Pin::new(socket).poll_shutdown(context),
            Socket::Taken => Poll::Ready(Ok(())),
        }
    }
}

/// A TLS connection. Bytes that were written may wait in it until a flush.
#[derive(Debug)]
pub struct SecureStream {
    session: TlsStream<Socket>,
}

/// A TLS connection between two runtimes.
#[derive(Debug)]
pub struct DetachedStream {
    session: TlsStream<Socket>,
    socket: RawSocket,
}

impl DetachedStream {
    /// Puts the connection into the runtime of the caller.
    pub fn attach(mut self) -> io::Result<SecureStream> {
        *self.session.get_mut().0 = Socket::of(self.socket)?;
        Ok(SecureStream {
            session: self.session,
        })
    }
}

impl SecureStream {
    pub(crate) fn new(session: TlsStream<Socket>) -> SecureStream {
        SecureStream { session }
    }

    /// Takes the connection out of its runtime.
    pub(crate) fn detach(mut self) -> io::Result<DetachedStream> {
        let socket = self.session.get_mut().0.take()?;
        Ok(DetachedStream {
            session: self.session,
            socket,
        })
    }

    /// Splits the connection into its directions, which may be used on different threads.
    pub fn split(self) -> (SecureReader, SecureWriter) {
        let shared = Arc::new(Mutex::new(self));
        let writer = SecureWriter {
            shared: Arc::clone(&shared),
            taken: 0,
        };
        (SecureReader { shared }, writer)
    }

    /// Protocol inside TLS on which both sides agreed, such as `h2`.
    pub fn protocol(&self) -> Option<&[u8]> {
        self.session.get_ref().1.alpn_protocol()
    }

    /// Address of the other side; `None` at a Unix socket.
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        self.session.get_ref().0.peer_addr()
    }

    fn tcp(&self) -> io::Result<&TcpStream> {
        match self.session.get_ref().0 {
            Socket::Tcp(socket) => Ok(socket),
            _ => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}

impl AsyncRead for SecureStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.get_mut().session).poll_read(context, out);
        // In TLS 1.3 a refused certificate is reported after the handshake of this side.
        read.map_err(words::translated)
    }
}

impl AsyncWrite for SecureStream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().session).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().session).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().session).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().session).poll_shutdown(context)
    }
}

/// The receiving direction of a connection.
#[derive(Debug)]
pub struct SecureReader {
    shared: Arc<Mutex<SecureStream>>,
}

impl SecureReader {
    /// Address of the other side.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.shared.lock().tcp()?.peer_addr()
    }

    /// Sets an option of the socket.
    pub fn configure(&self, set: impl FnOnce(&TcpStream) -> io::Result<()>) -> io::Result<()> {
        set(self.shared.lock().tcp()?)
    }
}

impl AsyncRead for SecureReader {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.shared.lock()).poll_read(context, out)
    }
}

/// The sending direction of a connection. What it takes has left this process when a write is
/// ready; after `Pending`, the next write must begin with the same bytes. Dropping it tells the
/// other side that no more bytes come.
#[derive(Debug)]
pub struct SecureWriter {
    shared: Arc<Mutex<SecureStream>>,
    /// Bytes that the session has taken and that were not reported as written.
    taken: usize,
}

impl AsyncWrite for SecureWriter {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let writer = self.get_mut();
        let mut stream = writer.shared.lock();
        if writer.taken == 0 {
            writer.taken = ready!(Pin::new(&mut *stream).poll_write_vectored(context, slices))?;
        }
        ready!(Pin::new(&mut *stream).poll_flush(context))?;
        Poll::Ready(Ok(std::mem::take(&mut writer.taken)))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.shared.lock()).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.shared.lock()).poll_shutdown(context)
    }
}

impl Drop for SecureWriter {
    /// Sends the end if the socket has room for it. Without it the other side sees a broken
    /// connection instead of an orderly end.
    fn drop(&mut self) {
        let mut stream = self.shared.lock();
        let mut context = Context::from_waker(std::task::Waker::noop());
        if Pin::new(&mut *stream)
            .poll_shutdown(&mut context)
            .is_pending()
            && let Ok(socket) = stream.tcp()
        {
            // The connection may have broken already.
            let _ = SockRef::from(socket).shutdown(std::net::Shutdown::Write);
        }
    }
}
