//! The service Follow: a client that follows another cluster hands its changes over.
//!
//! ```text
//!   changes 1, 2, 3 ──proposed at once, in order──► replica ──► one answer, when all are applied
//! ```
//!
//! Each change is a command of its own, evaluated as a whole or not at all. If one is refused, those
//! behind it are refused, too, because a revision must follow the one before.

use etcd_api::inkstonepb::{ChangeRequest, ChangeResponse, SourceRequest, SourceResponse};
use revisions::{Command, FOLLOW_BYTES_MAX};

use crate::answer_body::{Answered, Handled};
use crate::backend::{Backend, answer_of};
use crate::callers::Caller;

/// Most bytes of a message.
pub(crate) const MESSAGE_BYTES_MAX: usize = FOLLOW_BYTES_MAX;

pub(crate) async fn change(caller: Caller, request: ChangeRequest) -> Handled<ChangeResponse> {
    let mut commands = Vec::with_capacity(request.changes.len());
    for change in request.changes {
        commands.push(caller.sign(Command::Follow(change)).await?);
    }
    // A batch of revisions may read from many places of the log.
    let warm = move |backend: &Backend| {
        let warmed = commands.into_iter().map(|command| backend.warm(command));
        Ok(warmed.collect())
    };
    let commands = caller.backend.aside(warm).await?;
    let last = caller.backend.execute_in_order(commands).await?;
    let answer = last.map(|last| answer_of!(Follow, last));
    Ok(Answered::Small(answer.unwrap_or_else(|| ChangeResponse {
        header: caller.backend.header(),
    })))
}

pub(crate) async fn source(caller: Caller, _: SourceRequest) -> Handled<SourceResponse> {
    let backend = &caller.backend;
    backend.confirm_reads().await?;
    Ok(Answered::Small(SourceResponse {
        header: backend.header(),
        source: backend.reader().source().map(|source| source.to_message()),
    }))
}
