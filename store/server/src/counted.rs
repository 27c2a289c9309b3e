//! A socket that counts its bytes and pings, and yields to the tasks that handle them.
//!
//! The HTTP/2 library ends a connection on which too many small frames wait to be handled
//! by the request tasks of their streams. If the connection's task read all that a client
//! has sent at once, too many would wait. So after some bytes it yields: the request
//! tasks run, then it reads on.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::backend::Backend;
use crate::metrics::Counter;
use crate::pings::Pings;

/// Bytes read before the connection's task yields: fewer than 2,000 frames.
const TURN_BYTES: usize = 16 << 10;

/// A socket with the counters of its bytes, which are updated once per system call.
pub(crate) struct Counted<S> {
    socket: S,
    backend: Arc<Backend>,
    /// Bytes received so far.
    received: Arc<Counter>,
    /// Bytes read since the task last yielded.
    turn_bytes: usize,
    /// `None` where no gRPC is served.
    pings: Option<Pings>,
}

impl<S> Counted<S> {
    pub(crate) fn new(
        socket: S,
        backend: Arc<Backend>,
        received: Arc<Counter>,
        pings: Option<Pings>,
    ) -> Counted<S> {
        Counted {
            socket,
            backend,
            received,
            turn_bytes: 0,
            pings,
        }
    }

    fn sent(&mut self, parts: &[IoSlice<'_>], outcome: &Poll<io::Result<usize>>) {
        if let Poll::Ready(Ok(bytes)) = outcome {
            self.backend.metrics.network.sent_bytes.add(*bytes as u64);
            if let Some(pings) = &mut self.pings {
                pings.sent(parts, *bytes);
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Counted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.turn_bytes >= TURN_BYTES {
            self.turn_bytes = 0;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        let outcome = ready!(self.poll_socket(context, buffer));
        let read = buffer.filled().len() - before;
        self.turn_bytes += read;
        self.received.add(read as u64);
        self.backend.metrics.network.received_bytes.add(read as u64);
        let bytes = &buffer.filled()[before..];
        if self.pings.as_mut().is_some_and(|it| it.received(bytes)) {
            return Poll::Ready(Err(self.end_for_pings(context)));
        }
        Poll::Ready(outcome)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Counted<S> {
    /// Tells the client why the connection ends, if that can be sent at once.
    fn end_for_pings(&mut self, context: &mut Context<'_>) -> io::Error {
        let last_frame = self.pings.as_ref().and_then(Pings::go_away);
        if let Some(frame) = last_frame {
            let mut socket = Pin::new(&mut self.socket);
            // A client that does not read them misses its last bytes.
            let _ = socket.as_mut().poll_write(context, &frame);
            let _ = socket.as_mut().poll_flush(context);
            let _ = socket.poll_shutdown(context);
        }
        io::Error::new(
            io::ErrorKind::ConnectionAborted,
            "too many pings of the client",
        )
    }

    fn poll_socket(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.socket).poll_read(context, buffer);
        if outcome.is_pending() {
            self.turn_bytes = 0;
        }
        outcome
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Counted<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.socket).poll_write(context, bytes);
        self.sent(&[IoSlice::new(bytes)], &outcome);
        outcome
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.socket).poll_write_vectored(context, parts);
        self.sent(parts, &outcome);
        outcome
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}
