//! Writes with large answers: transactions that also read, and what was there before.
//!
//! ```text
//!   bytes read ≤ 128 KiB ──► executed at once, answered small
//!   otherwise ──► bytes looked up aside ──► memory claimed ──► executed ──► encoded aside
//! ```
//!
//! Memory is claimed before the write is proposed: where there is none, the write is refused
//! instead of being done without an answer. What other clients write in between may make
//! the answer larger than its claim; it is sent nevertheless, and counted as far as there is room.

use etcd_api::etcdserverpb::request_op::Request as Operation;
use etcd_api::etcdserverpb::{RangeRequest, RequestOp};
use prost::Message;
use revisions::{Command, Response};
use tonic::Status;

use crate::backend::Backend;
use crate::client::Client;
use crate::encoded;
use crate::large_reads::{Answered, BYTES_HERE_MAX};

/// Executes a command that reads besides. `message` takes the command's own answer out of the
/// response.
pub(crate) async fn execute<T>(
    client: &Client,
    command: Command,
    message: fn(&Backend, Response) -> T,
) -> Result<Answered<T>, Status>
where
    T: Message + 'static,
{
    let backend = &client.backend;
    if has_large_previous(backend, &command) || !backend.warm_here(&command)? {
        // On the heap: the future of every other command stays small.
        return Box::pin(execute_large(client, command, message)).await;
    }
    let answer = message(backend, backend.execute_warm(command).await?);
    // Values that the command itself wrote and read again were not in the index before.
    made(client, answer).await
}

/// Has an answer sent that is there already, in the way that its size asks for.
pub(crate) async fn made<T>(client: &Client, answer: T) -> Result<Answered<T>, Status>
where
    T: Message + 'static,
{
    if answer.encoded_len() as u64 <= BYTES_HERE_MAX {
        return Ok(Answered::Small(answer));
    }
    Box::pin(encode(client, answer)).await
}

async fn execute_large<T>(
    client: &Client,
    command: Command,
    message: fn(&Backend, Response) -> T,
) -> Result<Answered<T>, Status>
where
    T: Message + 'static,
{
    let backend = &client.backend;
    let look = |backend: &Backend| {
        let bytes = answer_bytes(backend, &command);
        Ok((backend.warm(command), bytes))
    };
    let (command, bytes) = backend.aside(look).await?;
    // Read, and encoded beside it.
    let claim = client.claim(2 * bytes).await?;
    let answer = message(backend, backend.execute_warm(command).await?);
    let pieces = backend.aside(move |_| encoded::encode(&answer)).await?;
    Ok(Answered::Large(client.send(pieces, claim)))
}

/// Encodes an answer that is there already. Where there is no room for it in time it is sent
/// nevertheless: the write was done.
async fn encode<T>(client: &Client, answer: T) -> Result<Answered<T>, Status>
where
    T: Message + 'static,
{
    let claim = match client.claim(2 * answer.encoded_len() as u64).await {
        Ok(claim) => claim,
        Err(_) => client.claim(0).await?,
    };
    let pieces = client
        .backend
        .aside(move |_| encoded::encode(&answer))
        .await?;
    Ok(Answered::Large(client.send(pieces, claim)))
}

/// Whether a put is answered with a large value. What it reads besides is nothing.
fn has_large_previous(backend: &Backend, command: &Command) -> bool {
    let Command::Put(request) = command else {
        return false;
    };
    request.prev_kv && previous_bytes(backend, &request.key, &[]) > BYTES_HERE_MAX
}

/// About how many bytes the answer has.
fn answer_bytes(backend: &Backend, command: &Command) -> u64 {
    let bytes = match command {
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

fn range_bytes(backend: &Backend, request: &RangeRequest) -> u64 {
    // The evaluation meets the same error and reports it.
    let found = backend.reader().find_range(request);
    found.map_or(0, |found| found.log_bytes())
}
