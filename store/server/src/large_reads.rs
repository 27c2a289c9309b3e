//! Reads that are too large for a thread that serves connections.
//!
//! ```text
//!   keys ≤ 128, bytes ≤ 128 KiB ──► read here, at once
//!   otherwise ──► keys looked up aside ──► memory claimed ──► read and encoded aside
//! ```
//!
//! "Aside" is a thread of its own. The index knows the sizes before a record is read, so the
//! decision is made by bytes, and the memory of an answer is claimed before it is read.

use std::collections::VecDeque;

use bytes::Bytes;
use etcd_api::etcdserverpb::request_op::Request as Operation;
use etcd_api::etcdserverpb::{RangeRequest, RangeResponse, RequestOp, TxnRequest, TxnResponse};
use tonic::Status;

use crate::answer_body::{Answered, Handled};
use crate::backend::Backend;
use crate::callers::Permit;
use crate::client::Client;
use crate::encoded;
use crate::refusal::of_machine;

/// A read of more keys looks them up aside.
const KEYS_HERE_MAX: i64 = 128;
/// A read of more bytes is done aside.
pub(crate) const BYTES_HERE_MAX: u64 = 128 << 10;

/// Answers a range.
pub(crate) async fn range(
    client: &Client,
    permit: Permit,
    request: RangeRequest,
) -> Handled<RangeResponse> {
    let backend = &client.backend;
    // Requests that waited for the leader together would all be answered at once.
    client.unsent.room().await;
    let reader = backend.reader();
    if is_short(backend, &request)? {
        let response = reader.range_within(&request, BYTES_HERE_MAX);
        if let Some(mut response) = response.map_err(of_read)? {
            permit.still_holds(backend)?;
            backend.fill(response.header.get_or_insert_default());
            return Ok(Answered::Small(response));
        }
    }
    // On the heap: the future of every other range stays small.
    Box::pin(range_aside(client, permit, request)).await
}

async fn range_aside(
    client: &Client,
    permit: Permit,
    request: RangeRequest,
) -> Handled<RangeResponse> {
    let backend = &client.backend;
    let find = move |backend: &Backend| {
        let found = backend.reader().find_range(&request).map_err(of_read)?;
        Ok((request, found))
    };
    let (request, found) = backend.aside(find).await?;
    let bytes = found.log_bytes();
    let read = move |backend: &Backend| {
        let response = backend.reader().read_range(&request, found);
        let mut response = response.map_err(of_read)?;
        permit.still_holds(backend)?;
        backend.fill(response.header.get_or_insert_default());
        encoded::encode_range(response)
    };
    large(client, bytes, read).await
}

/// Answers a transaction that only reads.
pub(crate) async fn txn(
    client: &Client,
    permit: Permit,
    request: TxnRequest,
) -> Handled<TxnResponse> {
    let backend = &client.backend;
    client.unsent.room().await;
    if bytes_if_short(backend, &request)?.is_some_and(|bytes| bytes <= BYTES_HERE_MAX) {
        let response = backend.reader().txn(&request).map_err(of_read)?;
        permit.still_holds(backend)?;
        return Ok(Answered::Small(finish_txn(backend, response)));
    }
    Box::pin(txn_aside(client, permit, request)).await
}

async fn txn_aside(client: &Client, permit: Permit, request: TxnRequest) -> Handled<TxnResponse> {
    let backend = &client.backend;
    let find = move |backend: &Backend| {
        let bytes = ranges(&request).map(|range| range_bytes(backend, range));
        let bytes: u64 = bytes.sum();
        Ok((request, bytes))
    };
    let (request, bytes) = backend.aside(find).await?;
    let read = move |backend: &Backend| {
        let response = backend.reader().txn(&request).map_err(of_read)?;
        permit.still_holds(backend)?;
        encoded::encode(&finish_txn(backend, response))
    };
    // Twice the bytes: the answer as it was read, and encoded.
    large(client, 2 * bytes, read).await
}

fn finish_txn(backend: &Backend, mut response: TxnResponse) -> TxnResponse {
    backend.fill(response.header.get_or_insert_default());
    backend.metrics.operations.count_txn(&response);
    response
}

async fn large<T>(
    client: &Client,
    bytes: u64,
    read: impl FnOnce(&Backend) -> Result<VecDeque<Bytes>, Status> + Send + 'static,
) -> Handled<T> {
    let claim = client.claim(bytes).await?;
    let pieces = client.backend.aside(read).await?;
    Ok(Answered::Large(client.send(pieces, claim)))
}

/// Whether a range looks at few keys only.
fn is_short(backend: &Backend, request: &RangeRequest) -> Result<bool, Status> {
    if request.range_end.is_empty() || request.count_only {
        return Ok(true);
    }
    if (1..=KEYS_HERE_MAX).contains(&request.limit) && stops_at_limit(request) {
        return Ok(true);
    }
    let count = RangeRequest {
        key: request.key.clone(),
        range_end: request.range_end.clone(),
        count_only: true,
        ..RangeRequest::default()
    };
    let count = backend.reader().range(&count).map_err(of_read)?.count;
    Ok(count <= KEYS_HERE_MAX)
}

/// Whether the look-up of keys may stop at the request's limit.
fn stops_at_limit(request: &RangeRequest) -> bool {
    request.sort_order == 0
        && request.min_mod_revision == 0
        && request.max_mod_revision == 0
        && request.min_create_revision == 0
        && request.max_create_revision == 0
}

/// Bytes that a transaction's ranges would read; `None` if there are too many keys to look
/// up on this thread.
fn bytes_if_short(backend: &Backend, request: &TxnRequest) -> Result<Option<u64>, Status> {
    // A condition may look at a whole range as well.
    if request.compare.iter().any(|it| !it.range_end.is_empty()) {
        return Ok(None);
    }
    let mut bytes = 0;
    for range in ranges(request) {
        if !is_short(backend, range)? || bytes > BYTES_HERE_MAX {
            return Ok(None);
        }
        bytes += range_bytes(backend, range);
    }
    Ok(Some(bytes))
}

/// Bytes that a range would read.
pub(crate) fn range_bytes(backend: &Backend, request: &RangeRequest) -> u64 {
    // The request itself meets the same error and reports it.
    let found = backend.reader().find_range(request);
    found.map_or(0, |found| found.log_bytes())
}

fn ranges(request: &TxnRequest) -> impl Iterator<Item = &RangeRequest> {
    let operations = request.success.iter().chain(&request.failure);
    operations.filter_map(|operation: &RequestOp| match &operation.request {
        Some(Operation::RequestRange(range)) => Some(range),
        _ => None,
    })
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "it stands in for a closure in `map_err`"
)]
fn of_read(error: revisions::Error) -> Status {
    of_machine(&error)
}
