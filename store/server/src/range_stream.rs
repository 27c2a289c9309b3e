//! A long range sent in chunks: [`crate::kv`]'s only stream.
//!
//! A chunk is read, on a thread of its own, when HTTP/2 has taken the one before it, so a
//! slow client holds one chunk in memory at most and pins nothing in the store. Each chunk is
//! a large answer (`answers.rs`): its memory is claimed before it is read. If the client does
//! not read a chunk and another answer needs its memory, the chunk is dropped and the stream
//! ends with an error.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use etcd_api::etcdserverpb::{RangeRequest, RangeResponse};
use revisions::{RangeStream, validate};
use tokio::time::timeout;
use tonic::Status;

use crate::answers::{Pieces, SentPiece};
use crate::backend::Backend;
use crate::callers::{Caller, Permit};
use crate::calls::Call;
use crate::client::Client;
use crate::encoded;
use crate::refusal::of_machine;

/// Longest time that a chunk waits for memory. It is longer than the time for which an
/// unread answer may keep its memory.
const WAIT_MAX: Duration = Duration::from_secs(15);

/// Checks the request and opens the range; an error carries etcd's status.
pub(crate) async fn open(
    caller: &Caller,
    request: RangeRequest,
) -> Result<(Permit, RangeStream), Status> {
    let backend = &caller.backend;
    validate::range_stream(&request).map_err(refused)?;
    if !request.serializable {
        backend.confirm_reads().await?;
    }
    let permit = caller.may_read(&request.key, &request.range_end).await?;
    backend.metrics.operations.ranges.add(1);
    let chunk_bytes = backend.config.message_bytes_max();
    let chunks = backend.reader().range_stream(request, chunk_bytes);
    Ok((permit, chunks))
}

fn refused(refusal: validate::StreamRefusal) -> Status {
    match refusal {
        validate::StreamRefusal::Invalid(error) => error.to_status(),
        validate::StreamRefusal::Unsupported(text) => Status::unimplemented(text),
    }
}

/// The body of one `RangeStream` call: reads and sends chunk after chunk.
pub(crate) struct Chunks {
    call: Call,
    /// Rest of the current chunk, still to be sent.
    pieces: Option<Pieces>,
    /// The read of the next chunk; polled once `pieces` is empty.
    reading: Reading,
}

type Reading = Pin<Box<dyn Future<Output = Result<Read, Status>> + Send>>;

struct Read {
    pieces: Option<Pieces>,
    /// The part of the range behind this chunk.
    rest: RangeStream,
    permit: Permit,
    client: Arc<Client>,
}

impl Chunks {
    pub(crate) fn new(
        client: Arc<Client>,
        call: Call,
        permit: Permit,
        chunks: RangeStream,
    ) -> Chunks {
        Chunks {
            call,
            pieces: None,
            reading: Box::pin(read(client, permit, chunks)),
        }
    }

    /// The next bytes to send; `None` ends the stream with status OK.
    pub(crate) fn poll_next(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<(Bytes, SentPiece)>, Status>> {
        let next = ready!(self.poll_piece(context));
        match &next {
            Ok(Some(_)) => {}
            Ok(None) => self.call.close(Ok(())),
            Err(status) => self.call.close(Err(status)),
        }
        Poll::Ready(next)
    }

    fn poll_piece(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<(Bytes, SentPiece)>, Status>> {
        loop {
            if let Some(pieces) = &mut self.pieces
                && let Some(piece) = pieces.next()?
            {
                return Poll::Ready(Ok(Some(piece)));
            }
            self.pieces = None;
            let found = ready!(self.reading.as_mut().poll(context))?;
            self.reading = Box::pin(read(found.client, found.permit, found.rest));
            self.pieces = found.pieces;
            if self.pieces.is_none() {
                return Poll::Ready(Ok(None));
            }
            self.call.sent();
        }
    }
}

/// Waits for memory, then reads the next chunk.
async fn read(
    client: Arc<Client>,
    permit: Permit,
    mut chunks: RangeStream,
) -> Result<Read, Status> {
    let backend = &client.backend;
    let memory = &backend.resources.answers;
    let bytes = 2 * backend.config.message_bytes_max() as u64;
    let claim = timeout(WAIT_MAX, memory.claim(&client.share, bytes)).await;
    let claim = claim.map_err(|_| etcd_api::Error::Timeout.to_status())?;
    let next = move |backend: &Backend| {
        let chunk = match chunks.next() {
            Some(chunk) => Some(encode(backend, chunk.map_err(|error| of_machine(&error))?)?),
            None => None,
        };
        Ok((chunk, chunks))
    };
    let (chunk, rest) = backend.aside(next).await?;
    permit.still_holds(backend)?;
    Ok(Read {
        pieces: chunk.map(|pieces| memory.send(&client.share, pieces, claim)),
        rest,
        permit,
        client,
    })
}

/// Encodes a chunk. Only the last one has a header, which gets the ids and the term.
fn encode(backend: &Backend, mut chunk: RangeResponse) -> Result<VecDeque<Bytes>, Status> {
    if let Some(header) = &mut chunk.header {
        backend.sign(header);
    }
    encoded::encode_chunk(chunk)
}
