//! The service KV: reads from applied state, writes through the replica.
//!
//! A linearizable read first confirms that it sees every acknowledged write; a
//! serializable read skips that. Then the request's own task looks the keys up, and the
//! stored bytes are sent as they lie in the log. A range of many keys or of many
//! bytes is read and encoded on a thread of its own (`large_reads.rs`), so that
//! it does not delay the other requests of this core.

use std::sync::Arc;

use etcd_api::etcdserverpb::{
    CompactionRequest, CompactionResponse, DeleteRangeRequest, DeleteRangeResponse, PutRequest,
    PutResponse, RangeRequest, RangeResponse, TxnRequest, TxnResponse,
};
use revisions::{Command, validate};
use tonic::Status;

use crate::answer_body::{Answered, Content, Handled};
use crate::backend::answer_of;
use crate::callers::Caller;
use crate::calls::Call;
use crate::range_stream::{self, Chunks};
use crate::{large_reads, large_writes};

pub(crate) async fn range(caller: Caller, request: RangeRequest) -> Handled<RangeResponse> {
    let backend = &caller.backend;
    if !request.serializable {
        backend.refuse_at_learner()?;
    }
    validate::range(&request)?;
    if !request.serializable {
        backend.confirm_reads().await?;
    }
    let permit = caller.may_read(&request.key, &request.range_end).await?;
    backend.metrics.operations.ranges.add(1);
    large_reads::range(&caller, permit, request).await
}

/// Opens a range that is sent in chunks; the chunks end the call.
pub(crate) async fn range_stream(
    caller: Caller,
    mut call: Call,
    request: RangeRequest,
) -> Result<Content, Status> {
    match range_stream::open(&caller, request).await {
        Ok((permit, chunks)) => {
            let client = Arc::clone(&caller);
            Ok(Content::Chunks(Chunks::new(client, call, permit, chunks)))
        }
        Err(status) => {
            call.close(Err(&status));
            Err(status)
        }
    }
}

pub(crate) async fn put(caller: Caller, request: PutRequest) -> Handled<PutResponse> {
    validate::put(&request)?;
    let bytes = request.key.len() + request.value.len();
    let command = Command::Put(request);
    let answer = |_: &_, outcome| answer_of!(Put, outcome);
    let answered = large_writes::execute(&caller, command, answer).await?;
    caller.backend.metrics.operations.count_put(bytes);
    Ok(answered)
}

pub(crate) async fn delete_range(
    caller: Caller,
    request: DeleteRangeRequest,
) -> Handled<DeleteRangeResponse> {
    validate::delete_range(&request)?;
    let command = Command::DeleteRange(request);
    let answer = |_: &_, outcome| answer_of!(DeleteRange, outcome);
    let answered = large_writes::execute(&caller, command, answer).await?;
    caller.backend.metrics.operations.deletes.add(1);
    Ok(answered)
}

pub(crate) async fn txn(caller: Caller, request: TxnRequest) -> Handled<TxnResponse> {
    let backend = &caller.backend;
    let limits = &backend.config.node.replica.command_limits;
    validate::txn(&request, limits.operations_max)?;
    if revisions::is_read_only(&request) {
        if !revisions::is_serializable(&request) {
            backend.confirm_reads().await?;
        }
        let permit = caller.may_read_in_txn(&request).await?;
        return large_reads::txn(&caller, permit, request).await;
    }
    large_writes::execute(&caller, Command::Txn(request), |backend, outcome| {
        let response = answer_of!(Txn, outcome);
        backend.metrics.operations.count_txn(&response);
        response
    })
    .await
}

pub(crate) async fn compact(
    caller: Caller,
    request: CompactionRequest,
) -> Handled<CompactionResponse> {
    let outcome = caller.execute(Command::Compact(request)).await?;
    Ok(Answered::Small(answer_of!(Compact, outcome)))
}
