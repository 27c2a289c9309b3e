//! Where a TCP connection becomes what the rest reads and writes.
//!
//! Everything above sees [`Socket`] and its halves only, so that a TLS session
//! can be wrapped around the connection here and nowhere else.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use crate::{Lane, Limits};

/// A connection that carries bytes both ways.
pub(crate) type Socket = TcpStream;
/// Its receiving end.
pub(crate) type ReadHalf = OwnedReadHalf;
/// Its sending end; dropping it tells the other side that nothing follows.
pub(crate) type WriteHalf = OwnedWriteHalf;

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
    Ok(tcp)
}

/// The kernel counts whole seconds.
fn probe_interval(silence: Duration) -> Duration {
    (silence / 5).max(Duration::from_secs(1))
}

/// What the lane asks for once it is known: the receiver of a stream may pause
/// for a disk, and a paused receiver looks like a silent one.
pub(crate) fn suit(socket: &Socket, lane: Lane, limits: &Limits) -> io::Result<()> {
    match lane {
        Lane::Urgent | Lane::Bulk | Lane::Request | Lane::Inquiry => Ok(()),
        Lane::Snapshot => set_stall_max(socket, limits.stream_stall_max),
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
    socket.into_split()
}
