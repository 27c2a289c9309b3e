//! Writes with large answers: transactions that also read, and writes that return previous
//! values.
//!
//! ```text
//!   bytes read ≤ 128 KiB ──► executed at once, answered small
//!   otherwise ──► bytes looked up aside ──► memory claimed ──► executed ──► encoded aside
//! ```
//!
//! Memory is claimed before the write is proposed: if there is none in time, the write is
//! refused instead of being done without an answer. Other clients' writes in between may make
//! the answer larger than its claim; it is sent nevertheless, and the claim grows as far as
//! memory is free.

use etcd_api::etcdserverpb::request_op::Request as Operation;
use etcd_api::etcdserverpb::{RangeRequest, RequestOp};
use prost::Message;
use revisions::{Command, Response};

use crate::answer_body::{Answered, Handled};
use crate::answers::Claim;
use crate::backend::Backend;
use crate::callers::{Caller, Signed};
use crate::client::Client;
use crate::encoded;
use crate::large_reads::{BYTES_HERE_MAX, range_bytes};

/// Executes a command that may also read. `message` takes the command's own answer out of
/// the response.
pub(crate) async fn execute<T: Message + 'static>(
    client: &Caller,
    command: Command,
    message: fn(&Backend, Response) -> T,
) -> Handled<T> {
    let backend = &client.backend;
    let command = client.sign(command).await?;
    let plain = command.command();
    if has_large_previous(backend, plain) || !backend.warm_here(plain)? {
        // On the heap: the future of every other command stays small.
        return Box::pin(execute_large(client, command, message)).await;
    }
    let answer = message(backend, backend.execute_warm(command).await?);
    // The answer may still be large: values that the command itself wrote and read again were
    // not in the index before.
    made(client, answer).await
}

/// Prepares an existing answer for sending, as a small or a large one by its size.
pub(crate) async fn made<T: Message + 'static>(client: &Client, answer: T) -> Handled<T> {
    if answer.encoded_len() as u64 <= BYTES_HERE_MAX {
        return Ok(Answered::Small(answer));
    }
    Box::pin(encode_late(client, answer)).await
}

async fn execute_large<T: Message + 'static>(
    client: &Client,
    command: Signed,
    message: fn(&Backend, Response) -> T,
) -> Handled<T> {
    let backend = &client.backend;
    let look = |backend: &Backend| {
        let bytes = answer_bytes(backend, command.command());
        Ok((backend.warm(command), bytes))
    };
    let (command, bytes) = backend.aside(look).await?;
    // Twice the bytes: the answer as it was read, and encoded.
    let claim = client.claim(2 * bytes).await?;
    let answer = message(backend, backend.execute_warm(command).await?);
    encode(client, answer, claim).await
}

/// Encodes an existing answer as a large one. If no memory is free in time it is sent
/// nevertheless: the write is done.
async fn encode_late<T: Message + 'static>(client: &Client, answer: T) -> Handled<T> {
    let claim = match client.claim(2 * answer.encoded_len() as u64).await {
        Ok(claim) => claim,
        Err(_) => client.claim(0).await?,
    };
    encode(client, answer, claim).await
}

async fn encode<T: Message + 'static>(client: &Client, answer: T, claim: Claim) -> Handled<T> {
    let encode = move |_: &Backend| encoded::encode(&answer);
    let pieces = client.backend.aside(encode).await?;
    Ok(Answered::Large(client.send(pieces, claim)))
}

/// Whether a put returns a large previous value. A put reads nothing else.
fn has_large_previous(backend: &Backend, command: &Command) -> bool {
    let Command::Put(request) = command.plain() else {
        return false;
    };
    request.prev_kv && previous_bytes(backend, &request.key, &[]) > BYTES_HERE_MAX
}

/// Approximate bytes of the answer.
fn answer_bytes(backend: &Backend, command: &Command) -> u64 {
    let bytes = match command.plain() {
        Command::Put(request) => previous_bytes(backend, &request.key, &[]),
        Command::DeleteRange(request) => previous_bytes(backend, &request.key, &request.range_end),
        Command::Txn(request) => {
            let bytes = |operations| operations_bytes(backend, operations);
            bytes(&request.success).max(bytes(&request.failure))
        }
        _ => 0,
    };
    bytes.min(revisions::READ_BYTES_MAX)
}

fn operations_bytes(backend: &Backend, operations: &[RequestOp]) -> u64 {
    let bytes = operations.iter().map(|it| match &it.request {
        Some(Operation::RequestRange(request)) => range_bytes(backend, request),
        Some(Operation::RequestPut(request)) if request.prev_kv => {
            previous_bytes(backend, &request.key, &[])
        }
        Some(Operation::RequestDeleteRange(request)) if request.prev_kv => {
            previous_bytes(backend, &request.key, &request.range_end)
        }
        Some(Operation::RequestTxn(request)) => {
            let bytes = |operations| operations_bytes(backend, operations);
            bytes(&request.success).max(bytes(&request.failure))
        }
        _ => 0,
    });
    bytes.sum()
}

fn previous_bytes(backend: &Backend, key: &bytes::Bytes, range_end: &[u8]) -> u64 {
    let request = RangeRequest {
        key: key.clone(),
        range_end: bytes::Bytes::copy_from_slice(range_end),
        ..RangeRequest::default()
    };
    range_bytes(backend, &request)
}
