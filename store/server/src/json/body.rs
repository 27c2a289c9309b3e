//! The body of a gateway's request, as messages of gRPC.
//!
//! ```text
//!   HTTP body or WebSocket ──pieces──► Values ──one value──► Route::request ──► a message
//!                                        │                       └─ a large one: aside
//!                                        └─► counted while it is unfinished (unfinished.rs)
//! ```
//!
//! Nothing is read before the call asks for a message, so a client that sends faster than its
//! calls run is held back by its connection.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use gateway::{Route, Values};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tonic::Status;

use crate::client::Client;
use crate::unfinished::Partial;

/// A larger value is decoded on a thread of its own.
const DECODED_HERE_BYTES_MAX: usize = 64 << 10;
/// A JSON value may be longer than the largest message by this factor: base64 takes 4/3, and
/// names and quotation marks take more than the numbers of fields.
const JSON_FACTOR: usize = 4;

/// Limits of [`discard`].
const DISCARDED_BYTES_MAX: usize = 64 << 10;
const DISCARDING_TIME_MAX: Duration = Duration::from_secs(1);

/// Largest JSON value.
pub(super) fn value_bytes_max(client: &Client) -> usize {
    JSON_FACTOR * client.backend.config.message_bytes_max()
}

/// Reads the body of a request that is refused whatever it says, if it is small and comes at
/// once. An answer before the end of the body resets the stream of HTTP/2, and then curl 7.88
/// often drops the answer.
pub(crate) async fn discard(mut body: Incoming) {
    let mut left_bytes = DISCARDED_BYTES_MAX;
    let read = async {
        while let Some(Ok(frame)) = body.frame().await {
            let bytes = frame.data_ref().map_or(0, Bytes::len);
            let Some(left) = left_bytes.checked_sub(bytes) else {
                return;
            };
            left_bytes = left;
        }
    };
    // Whether it ends in time or not, the refusal is sent.
    let _ = timeout(DISCARDING_TIME_MAX, read).await;
}

/// Where the pieces come from.
pub(crate) enum Input {
    Http(Incoming),
    /// Messages of a WebSocket.
    WebSocket(mpsc::Receiver<Bytes>),
}

impl Input {
    fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Status>>> {
        let left = |error: hyper::Error| Status::cancelled(format!("inkstone: {error}"));
        match self {
            Input::WebSocket(pieces) => pieces.poll_recv(context).map(|piece| piece.map(Ok)),
            Input::Http(body) => loop {
                let frame = ready!(Pin::new(&mut *body).poll_frame(context));
                match frame.map(|frame| frame.map(|frame| frame.into_data())) {
                    Some(Ok(Ok(piece))) => return Poll::Ready(Some(Ok(piece))),
                    // Trailers.
                    Some(Ok(Err(_))) => {}
                    Some(Err(error)) => return Poll::Ready(Some(Err(left(error)))),
                    None => return Poll::Ready(None),
                }
            },
        }
    }
}

/// The messages of one body.
pub(crate) struct JsonBody {
    route: &'static Route,
    client: Arc<Client>,
    /// `None` after its end.
    input: Option<Input>,
    values: Values,
    partial: Partial,
    decoding: Option<BoxFuture<'static, Result<Bytes, Status>>>,
}

impl JsonBody {
    pub(crate) fn new(route: &'static Route, input: Input, client: Arc<Client>) -> JsonBody {
        JsonBody {
            route,
            client,
            input: Some(input),
            values: Values::default(),
            partial: Partial::default(),
            decoding: None,
        }
    }

    /// The next message, with its gRPC prefix; `None` after the last.
    pub(crate) fn poll_message(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, Status>> {
        loop {
            if let Some(decoding) = &mut self.decoding {
                let message = ready!(decoding.as_mut().poll(context));
                self.decoding = None;
                return Poll::Ready(message.map(Some));
            }
            if let Some(value) = self.next_value()? {
                if value.len() <= DECODED_HERE_BYTES_MAX {
                    return Poll::Ready(self.route.request(&value).map(Some));
                }
                self.decoding = Some(Box::pin(decode_aside(
                    Arc::clone(&self.client),
                    self.route,
                    value,
                )));
                continue;
            }
            let Some(input) = &mut self.input else {
                return Poll::Ready(Ok(None));
            };
            match input.poll_piece(context) {
                Poll::Ready(Some(piece)) => self.values.push(&piece?),
                Poll::Ready(None) => self.input = None,
                Poll::Pending => return self.partial.poll_late(context).map(Err),
            }
        }
    }

    /// Discards what still comes, and is ready once the client is gone in the middle of it.
    pub(crate) fn poll_broken(&mut self, context: &mut Context<'_>) -> Poll<Status> {
        while let Some(input) = &mut self.input {
            match ready!(input.poll_piece(context)) {
                Some(Ok(_)) => {}
                Some(Err(broken)) => return Poll::Ready(broken),
                None => self.input = None,
            }
        }
        Poll::Pending
    }

    /// The next complete value.
    fn next_value(&mut self) -> Result<Option<Bytes>, Status> {
        let value = match self.input {
            Some(_) => self.values.next_value(),
            None => {
                let last = self.values.last_value();
                last.map_err(|cut| Status::invalid_argument(cut.to_string()))?
            }
        };
        let unfinished = self.values.unfinished_bytes();
        let found = value.as_ref().map_or(unfinished, Bytes::len);
        let limit = value_bytes_max(&self.client);
        if found > limit {
            return Err(Status::resource_exhausted(format!(
                "grpc: received message larger than max ({found} vs. {limit})"
            )));
        }
        let counted = match value {
            Some(_) => 0,
            None => unfinished as u64,
        };
        let all = &self.client.backend.resources.unfinished;
        self.partial.note_bytes(counted, all)?;
        Ok(value)
    }
}

impl Drop for JsonBody {
    fn drop(&mut self) {
        let given_back = self
            .partial
            .recount(0, &self.client.backend.resources.unfinished);
        given_back.expect("giving back is never refused");
    }
}

/// Decodes a large value. Few are decoded at a time: one may take a hundred times its bytes.
async fn decode_aside(
    client: Arc<Client>,
    route: &'static Route,
    value: Bytes,
) -> Result<Bytes, Status> {
    let backend = &client.backend;
    let turn = backend.resources.decodings.acquire();
    let turn = backend.in_time(turn).await?;
    let message = backend.aside(move |_| route.request(&value)).await;
    drop(turn);
    message
}
