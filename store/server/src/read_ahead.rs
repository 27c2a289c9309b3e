//! Requests of a stream, read off the connection ahead of their execution.
//!
//! A client may send many small messages at once, and the HTTP/2 library ends a connection
//! on which too many of them wait to be read. So received messages are read at once, up to a
//! bound, and wait here; beyond the bound flow control holds the client back.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::Stream;
use prost::Message;
use tonic::{Status, Streaming};

/// Messages that may wait here.
const MESSAGES_MAX: usize = 1024;
/// Bytes of messages that may wait here; the last message may exceed them.
const BYTES_MAX: usize = 256 << 10;

/// The requests of one stream.
pub(crate) struct ReadAhead<T> {
    stream: Streaming<T>,
    read: VecDeque<T>,
    read_bytes: usize,
    /// How the client's side of the stream ended, after all messages that were read.
    end: Option<Result<(), Status>>,
}

impl<T: Message> ReadAhead<T> {
    pub(crate) fn new(stream: Streaming<T>) -> ReadAhead<T> {
        ReadAhead {
            stream,
            read: VecDeque::new(),
            read_bytes: 0,
            end: None,
        }
    }

    /// Reads received messages up to the bound, and registers the task to be woken by the
    /// next.
    pub(crate) fn poll_fill(&mut self, context: &mut Context<'_>) {
        while self.end.is_none() && self.read.len() < MESSAGES_MAX && self.read_bytes < BYTES_MAX {
            match Pin::new(&mut self.stream).poll_next(context) {
                Poll::Pending => return,
                Poll::Ready(Some(Ok(request))) => {
                    self.read_bytes += request.encoded_len();
                    self.read.push_back(request);
                }
                Poll::Ready(Some(Err(status))) => self.end = Some(Err(status)),
                Poll::Ready(None) => self.end = Some(Ok(())),
            }
        }
    }

    /// The next request; `None` if the client sends no more. An error is returned once.
    pub(crate) fn poll_next(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<T>, Status>> {
        self.poll_fill(context);
        if let Some(request) = self.read.pop_front() {
            self.read_bytes -= request.encoded_len();
            return Poll::Ready(Ok(Some(request)));
        }
        match &mut self.end {
            None => Poll::Pending,
            Some(end) => Poll::Ready(std::mem::replace(end, Ok(())).map(|()| None)),
        }
    }

    /// [`ReadAhead::poll_next`] as a future. Dropping it loses no request.
    pub(crate) async fn next(&mut self) -> Result<Option<T>, Status> {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// Reads messages up to the bound, again and again; never returns.
    pub(crate) async fn fill(&mut self) {
        poll_fn(|context| {
            self.poll_fill(context);
            Poll::Pending
        })
        .await
    }
}
