//! The body of a gRPC request.
//!
//! Its bytes are counted while a message in it is unfinished (`unfinished.rs`). On a connection
//! with too many unread answers a request is held back (`unsent.rs`): its first piece waits
//! here, and flow control holds back the rest.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tonic::Status;

use crate::client::Client;
use crate::json::body::JsonBody;
use crate::unfinished::{Partial, is_one_message};

/// Where the bytes of a request come from.
pub(crate) enum Source {
    Connection(Incoming),
    /// One message of the gateway; `None` after it was read.
    Message(Option<Bytes>),
    /// Messages that the gateway reads from JSON.
    Json(Box<JsonBody>),
}

impl From<Incoming> for Source {
    fn from(body: Incoming) -> Source {
        Source::Connection(body)
    }
}

impl Source {
    fn poll_frame(&mut self, context: &mut Context<'_>) -> PolledFrame {
        match self {
            Source::Connection(body) => Pin::new(body).poll_frame(context).map_err(Into::into),
            Source::Message(message) => Poll::Ready(message.take().map(|it| Ok(Frame::data(it)))),
            Source::Json(body) => body.poll_message(context).map(|message| {
                let message = message.transpose()?;
                Some(message.map(Frame::data).map_err(Into::into))
            }),
        }
    }

    fn is_end(&self) -> bool {
        match self {
            Source::Connection(body) => body.is_end_stream(),
            Source::Message(message) => message.is_none(),
            Source::Json(_) => false,
        }
    }
}

/// The body of a gRPC request, counted while messages in it are unfinished.
pub(crate) struct RequestBody {
    body: Source,
    client: Arc<Client>,
    /// `None` while each received piece ended with the end of a message. The body of most
    /// requests is one such piece. On the heap, because a body is moved often before it is
    /// read.
    partial: Option<Box<Partial>>,
    /// Whether a piece was handed to the decoder: the request is being executed.
    began: bool,
    /// The first piece, which waits until the client reads its answers.
    waiting: Option<Pin<Box<dyn Future<Output = Frame<Bytes>> + Send>>>,
}

impl RequestBody {
    pub(crate) fn new(body: Source, client: Arc<Client>) -> RequestBody {
        RequestBody {
            body,
            client,
            partial: None,
            began: false,
            waiting: None,
        }
    }

    /// The next received piece, counted.
    fn poll_come(&mut self, context: &mut Context<'_>) -> PolledFrame {
        let frame = match self.body.poll_frame(context) {
            Poll::Ready(frame) => frame,
            Poll::Pending => {
                let Some(partial) = &mut self.partial else {
                    return Poll::Pending;
                };
                let late = partial.poll_late(context);
                return late.map(|status| Some(Err(status.into())));
            }
        };
        Poll::Ready(frame.map(|frame| {
            let frame = frame?;
            if let Some(data) = frame.data_ref() {
                self.note(data)?;
            }
            Ok(frame)
        }))
    }

    /// Holds the first piece back while the connection has too much unsent. The piece is
    /// taken from HTTP/2 at once, because the library bounds the small frames that wait.
    fn poll_first(&mut self, context: &mut Context<'_>) -> PolledFrame {
        if self.waiting.is_none() {
            match ready!(self.poll_come(context)) {
                Some(Ok(frame)) if !self.client.unsent.has_room() => {
                    let unsent = Arc::clone(&self.client.unsent);
                    self.waiting = Some(Box::pin(async move {
                        unsent.room().await;
                        frame
                    }));
                }
                other => {
                    self.began = true;
                    return Poll::Ready(other);
                }
            }
        }
        let waiting = self.waiting.as_mut().expect("a piece waits");
        let frame = ready!(waiting.as_mut().poll(context));
        (self.began, self.waiting) = (true, None);
        Poll::Ready(Some(Ok(frame)))
    }

    fn note(&mut self, data: &[u8]) -> Result<(), Status> {
        if self.partial.is_none() && is_one_message(data) {
            return Ok(());
        }
        let partial = self.partial.get_or_insert_default();
        partial.note(data, &self.client.backend.resources.unfinished)
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        if let Some(partial) = &mut self.partial {
            let gone = partial.recount(0, &self.client.backend.resources.unfinished);
            gone.expect("giving back is never refused");
        }
    }
}

pub(crate) type BodyError = Box<dyn std::error::Error + Send + Sync>;
type PolledFrame = Poll<Option<Result<Frame<Bytes>, BodyError>>>;

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> PolledFrame {
        match self.began {
            true => self.poll_come(context),
            false => self.poll_first(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end() && self.waiting.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        match &self.body {
            Source::Connection(body) => body.size_hint(),
            Source::Message(_) | Source::Json(_) => SizeHint::default(),
        }
    }
}
