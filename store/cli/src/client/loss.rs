//! Why a TLS connection broke.
//!
//! hyper reports the reason to the calls that were under way. A call that comes a moment later
//! learns only that the connection is closed, and in TLS 1.3 the reason may be that the server
//! refused a certificate, which the user must read.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use ::tls::SecureStream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// How the reason begins if the server has told it.
pub(super) const ALERT: &str = "remote error: tls: ";

/// The reason why the last connection of a channel broke, if it did.
#[derive(Clone, Debug, Default)]
pub(crate) struct Loss(Arc<Mutex<Option<String>>>);

impl Loss {
    /// The alert by which the server ended the last connection.
    pub(crate) fn alert(&self) -> Option<String> {
        let reason = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        reason.clone().filter(|reason| reason.starts_with(ALERT))
    }

    /// Forgets the connection before, when another one is made.
    pub(super) fn forget(&self) {
        self.set(None);
    }

    fn set(&self, reason: Option<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = reason;
    }
}

/// A connection that writes the reason of its end down.
#[derive(Debug)]
pub(super) struct Recorded {
    stream: SecureStream,
    loss: Loss,
    /// A byte that was read in search of an alert.
    ahead: Option<u8>,
}

impl Recorded {
    pub(super) fn new(stream: SecureStream, loss: Loss) -> Recorded {
        Recorded {
            stream,
            loss,
            ahead: None,
        }
    }

    fn note<T>(&self, outcome: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if let Poll::Ready(Err(error)) = &outcome {
            self.loss.set(Some(error.to_string()));
        }
        outcome
    }

    /// Prefers the alert that arrived before a write failed: the server sends it, then closes.
    fn note_write<T>(
        &mut self,
        context: &mut Context<'_>,
        outcome: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if !matches!(outcome, Poll::Ready(Err(_))) {
            return outcome;
        }
        if self.ahead.is_some() {
            return self.note(outcome);
        }
        let mut byte = [0];
        let mut unread = ReadBuf::new(&mut byte);
        match Pin::new(&mut self.stream).poll_read(context, &mut unread) {
            Poll::Ready(Err(alert)) => self.note(Poll::Ready(Err(alert))),
            _ => {
                self.ahead = unread.filled().first().copied();
                self.note(outcome)
            }
        }
    }
}

impl AsyncRead for Recorded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if out.remaining() > 0
            && let Some(byte) = self.ahead.take()
        {
            out.put_slice(&[byte]);
            return Poll::Ready(Ok(()));
        }
        let outcome = Pin::new(&mut self.stream).poll_read(context, out);
        self.note(outcome)
    }
}

impl AsyncWrite for Recorded {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.note_write(context, outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.note_write(context, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_flush(context);
        self.note_write(context, outcome)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
