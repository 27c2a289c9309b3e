//! A long range sent in chunks: [`crate::kv`]'s only stream.
//!
//! A chunk is read when HTTP/2 asks for it, on a thread of its own, so a slow client holds
//! two chunks in memory at most and pins nothing in the store.

use std::pin::Pin;
use std::sync::Arc;

use etcd_api::etcdserverpb::{RangeRequest, RangeResponse, RangeStreamResponse};
use futures_util::{Stream, stream};
use revisions::{RangeStream, validate};
use tonic::Status;

use crate::answers::Claim;
use crate::backend::Backend;
use crate::calls::Call;
use crate::refusal::of_machine;

/// What the service hands to HTTP/2.
pub(crate) type Chunks = Pin<Box<dyn Stream<Item = Result<RangeStreamResponse, Status>> + Send>>;

/// Checks the request and opens the range.
pub(crate) async fn open(backend: &Backend, request: RangeRequest) -> Result<RangeStream, Status> {
    validate::range_stream(&request).map_err(refused)?;
    if !request.serializable {
        backend.confirm_reads().await?;
    }
    backend.metrics.ranges.add(1);
    Ok(backend
        .reader()
        .range_stream(request, backend.config.message_bytes_max()))
}

fn refused(refusal: validate::StreamRefusal) -> Status {
    match refusal {
        validate::StreamRefusal::Invalid(error) => error.to_status(),
        validate::StreamRefusal::Unsupported(text) => Status::unimplemented(text),
    }
}

/// A stream that is being sent.
struct Sending {
    backend: Arc<Backend>,
    call: Call,
    chunks: RangeStream,
    /// Memory for the chunk that HTTP/2 has.
    claim: Option<Claim>,
}

/// Sends chunk after chunk.
pub(crate) fn send(backend: Arc<Backend>, call: Call, chunks: RangeStream) -> Chunks {
    let sending = Sending {
        backend,
        call,
        chunks,
        claim: None,
    };
    Box::pin(stream::unfold(Some(sending), |sending| async {
        let mut sending = sending?;
        match sending.next().await {
            Ok(None) => {
                sending.call.close(Ok(()));
                None
            }
            Ok(Some(chunk)) => {
                sending.call.sent();
                let message = message(&sending.backend, chunk);
                Some((Ok(message), Some(sending)))
            }
            Err(status) => {
                sending.call.close(Err(&status));
                Some((Err(status), None))
            }
        }
    }))
}

impl Sending {
    async fn next(&mut self) -> Result<Option<RangeResponse>, Status> {
        let backend = &self.backend;
        self.claim = None;
        // As read, and as encoded.
        let bytes = 2 * backend.config.message_bytes_max() as u64;
        self.claim = Some(backend.resources.answers.claim(bytes).await);
        let mut chunks = std::mem::replace(&mut self.chunks, RangeStream::ended(backend.reader()));
        let read = move |_: &Backend| {
            let chunk = chunks.next().transpose();
            Ok((chunks, chunk))
        };
        let (chunks, chunk) = backend.aside(read).await?;
        self.chunks = chunks;
        chunk.map_err(|error| of_machine(&error))
    }
}

/// Only the last chunk has a header; it gets the names.
fn message(backend: &Backend, mut chunk: RangeResponse) -> RangeStreamResponse {
    if let Some(header) = &mut chunk.header {
        backend.sign(header);
    }
    RangeStreamResponse {
        range_response: Some(chunk),
    }
}
