//! A socket that counts its bytes, and gives way to the tasks that its bytes are for.
//!
//! All that a client has sent could be read at once, and would then wait for the request
//! tasks of its streams; the HTTP/2 library ends a connection with too many small frames
//! waiting. So after a while of reading the connection's task gives way: the request tasks
//! run, and reading goes on after them.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::backend::Backend;

/// Bytes that are read before the request tasks get their turn: fewer than 2,000 frames.
const TURN_BYTES: usize = 16 << 10;

/// How many bytes of a connection have come.
#[derive(Clone, Debug, Default)]
pub(crate) struct Received(Arc<AtomicU64>);

impl Received {
    /// The number now.
    pub(crate) fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A socket, and where its bytes are added up: once per system call.
pub(crate) struct Counted<S> {
    socket: S,
    backend: Arc<Backend>,
    received: Received,
    /// Read since others had their turn.
    turn_bytes: usize,
}

impl<S> Counted<S> {
    /// Counts what goes through `socket`.
    pub(crate) fn new(socket: S, backend: Arc<Backend>, received: Received) -> Counted<S> {
        Counted {
            socket,
            backend,
            received,
            turn_bytes: 0,
        }
    }

    fn sent(&self, outcome: &Poll<io::Result<usize>>) {
        if let Poll::Ready(Ok(bytes)) = outcome {
            self.backend.metrics.sent_bytes.add(*bytes as u64);
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Counted<S> {
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
        self.received.0.fetch_add(read as u64, Ordering::Relaxed);
        self.backend.metrics.received_bytes.add(read as u64);
        Poll::Ready(outcome)
    }
}

impl<S: AsyncRead + Unpin> Counted<S> {
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
        self.sent(&outcome);
        outcome
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.socket).poll_write_vectored(context, parts);
        self.sent(&outcome);
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
