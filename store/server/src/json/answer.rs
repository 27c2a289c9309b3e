//! The answer of a call, as JSON.
//!
//! ```text
//!   call ──► AnswerBody ──pieces──► Transcoder ──chunks──► HTTP body or WebSocket
//!                          └─ counted until the JSON that was made of them is written ─┘
//! ```
//!
//! A chunk is made when the client has room for it: a client that does not read holds one
//! chunk, and the rest stays where it would be in gRPC, in the answer's memory or in the log.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use gateway::{Shape, Transcoder, in_stream};
use hyper::body::{Body, Frame};
use tonic::Status;
use tonic::codegen::http::{HeaderMap, Response};

/// A piece of JSON.
pub(crate) struct Chunk<D> {
    pub(crate) json: Bytes,
    /// The bytes of which it was made, counted until this is dropped.
    pub(crate) sources: Vec<D>,
    /// Whether a message ends with this chunk.
    pub(crate) ends_message: bool,
}

/// The answer of a call of the gateway, made of the pieces of a gRPC body.
pub(crate) struct JsonAnswer<B: Body> {
    /// `None` after its end.
    body: Option<B>,
    shape: Shape,
    transcoder: Transcoder,
    /// A chunk that was made and not returned yet.
    first: Option<Chunk<B::Data>>,
    sources: Vec<B::Data>,
}

impl<B> JsonAnswer<B>
where
    B: Body<Error = Status> + Unpin,
{
    /// Waits for the beginning of an answer. The error is the call's own: nothing of an
    /// answer was there before it.
    pub(crate) async fn begin(
        response: Response<B>,
        transcoder: Transcoder,
        shape: Shape,
    ) -> Result<JsonAnswer<B>, Status> {
        refuse(response.headers())?;
        let mut answer = JsonAnswer {
            body: Some(response.into_body()),
            shape,
            transcoder,
            first: None,
            sources: Vec::new(),
        };
        let made = std::future::poll_fn(|context| answer.poll_made(context));
        answer.first = made.await?;
        match (&answer.first, shape) {
            (None, Shape::One) => Err(Status::internal("inkstone: a call ended without an answer")),
            _ => Ok(answer),
        }
    }

    /// The whole answer, if it is one message that is complete already.
    pub(crate) fn take_whole(&mut self) -> Option<Bytes> {
        let is_whole = |chunk: &mut Chunk<B::Data>| chunk.ends_message;
        match self.shape {
            Shape::One => self.first.take_if(is_whole).map(|chunk| chunk.json),
            Shape::Lines => None,
        }
    }

    /// The next chunk; `None` after the last. After an error the rest of the answer is
    /// missing, and its reader must see that.
    pub(crate) fn poll_chunk(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<Chunk<B::Data>>, Status>> {
        if let Some(chunk) = self.first.take() {
            return Poll::Ready(Ok(Some(chunk)));
        }
        let made = ready!(self.poll_made(context));
        let is_between = !self.transcoder.is_within_message();
        Poll::Ready(match made {
            Err(status) if self.shape == Shape::Lines && is_between => {
                self.body = None;
                Ok(Some(Chunk {
                    json: in_stream(&status).into(),
                    sources: Vec::new(),
                    ends_message: true,
                }))
            }
            made => made,
        })
    }

    fn poll_made(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<Chunk<B::Data>>, Status>> {
        loop {
            if let Some(chunk) = self.make()? {
                return Poll::Ready(Ok(Some(chunk)));
            }
            let Some(body) = &mut self.body else {
                return Poll::Ready(Ok(None));
            };
            let Some(frame) = ready!(Pin::new(body).poll_frame(context)) else {
                return Poll::Ready(self.end());
            };
            let frame = frame.map(Frame::into_data);
            match frame {
                Ok(Ok(piece)) => self.push(piece),
                Ok(Err(trailers)) => {
                    refuse(trailers.trailers_ref().unwrap_or(&HeaderMap::new()))?;
                    return Poll::Ready(self.end());
                }
                Err(status) => return Poll::Ready(Err(status)),
            }
        }
    }

    fn push(&mut self, piece: B::Data) {
        self.transcoder.push(piece.chunk());
        self.sources.push(piece);
    }

    /// Writes what is there.
    fn make(&mut self) -> Result<Option<Chunk<B::Data>>, Status> {
        let mut json = Vec::new();
        let ends_message = self.transcoder.write(&mut json);
        let ends_message = ends_message.map_err(|error| Status::internal(error.to_string()))?;
        Ok((!json.is_empty()).then(|| Chunk {
            json: json.into(),
            sources: std::mem::take(&mut self.sources),
            ends_message,
        }))
    }

    fn end(&mut self) -> Result<Option<Chunk<B::Data>>, Status> {
        self.body = None;
        match self.transcoder.is_within_message() {
            true => Err(Status::internal(
                "inkstone: an answer ended within a message",
            )),
            false => Ok(None),
        }
    }
}

/// The failure that trailers report.
fn refuse(trailers: &HeaderMap) -> Result<(), Status> {
    match Status::from_header_map(trailers) {
        Some(status) if status.code() != tonic::Code::Ok => Err(status),
        _ => Ok(()),
    }
}
