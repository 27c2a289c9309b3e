//! A long range sent in chunks: [`crate::kv`]'s only stream.
//!
//! A chunk is read when HTTP/2 has room for it, so a slow client holds
//! nothing in memory and pins nothing in the store.

use std::pin::Pin;
use std::sync::Arc;

use etcd_api::etcdserverpb::{RangeRequest, RangeResponse, RangeStreamResponse};
use futures_util::{Stream, stream};
use revisions::{RangeStream, validate};
use tonic::Status;

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

/// Sends chunk after chunk.
pub(crate) fn send(backend: Arc<Backend>, call: Call, chunks: RangeStream) -> Chunks {
    Box::pin(stream::unfold(
        Some((backend, call, chunks)),
        |sending| async {
            let (backend, mut call, mut chunks) = sending?;
            match chunks.next() {
                None => {
                    call.close(Ok(()));
                    None
                }
                Some(Ok(chunk)) => {
                    call.sent();
                    let message = message(&backend, chunk);
                    Some((Ok(message), Some((backend, call, chunks))))
                }
                Some(Err(error)) => {
                    let status = of_machine(&error);
                    call.close(Err(&status));
                    Some((Err(status), None))
                }
            }
        },
    ))
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
