//! Reading ahead: what an evaluation will need, fetched before the command queues.
//!
//! There is one replica thread, and while it waits for a value every command waits. So a request
//! task reads the same records just before it queues the command, and the replica thread finds
//! them in the page cache. This is best effort: the evaluation reports errors, and is correct
//! without it.

use std::ops::ControlFlow;

use etcd_api::etcdserverpb::request_op::Request as Operation;
use etcd_api::etcdserverpb::{PutRequest, RequestOp, TxnRequest};
use etcd_api::inkstonepb::FollowChange;
use etcd_api::inkstonepb::follow_change::Change;

use crate::key_range::KeyRange;
use crate::view::{Direction, Found, View};
use crate::{Command, Reader};

/// Least cost of a key, in bytes of records, even if its record is smaller.
const KEY_COST_BYTES: u64 = 1 << 10;

impl Reader {
    /// Reads the records that the evaluation of the command will need, up to about `bytes_max`
    /// bytes. Returns false if there are more.
    pub fn warm(&self, command: &Command, bytes_max: u64) -> bool {
        let snapshot = self.shared.engine.snapshot();
        let view = self.view(&snapshot);
        if let Command::Put(request) = command.plain() {
            warm_put(view, request);
            return true;
        }
        if let Command::Follow(change) = command.plain() {
            warm_given(view, change);
            return true;
        }
        let mut left_bytes = bytes_max;
        let mut look = |keys: KeyRange<'_>| {
            // The evaluation will meet the same error and report it.
            take(view, keys, &mut left_bytes, |found| drop(view.read(found)))
        };
        for_each_range(command, &mut look).is_continue()
    }

    /// Returns whether the evaluation of the command reads more than about `bytes_max` bytes of
    /// records, according to the index; reads no record.
    pub fn reads_above(&self, command: &Command, bytes_max: u64) -> bool {
        let snapshot = self.shared.engine.snapshot();
        let view = self.view(&snapshot);
        let mut left_bytes = bytes_max;
        let mut look = |keys: KeyRange<'_>| take(view, keys, &mut left_bytes, |_| ());
        for_each_range(command, &mut look).is_break()
    }
}

/// Reads the version that a put replaces, or only its lineage if that is enough.
fn warm_put(view: View<'_>, request: &PutRequest) {
    // The evaluation will meet the same error and report it.
    let _ = match request.prev_kv || request.ignore_value {
        true => view.fetch(&request.key, view.revision).map(drop),
        false => view.lineage(&request.key, view.revision).map(drop),
    };
}

/// Reads the lineages of the versions that a given revision replaces.
fn warm_given(view: View<'_>, change: &FollowChange) {
    let Some(Change::Revision(given)) = &change.change else {
        return;
    };
    for pair in given.events.iter().filter_map(|event| event.kv.as_ref()) {
        if !pair.key().is_empty() {
            // The evaluation will meet the same error and report it.
            let _ = view.lineage(pair.key(), view.revision);
        }
    }
}

/// Calls `look` with each range of keys of which the evaluation reads records.
fn for_each_range(
    command: &Command,
    look: &mut impl FnMut(KeyRange<'_>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    match command.plain() {
        Command::DeleteRange(request) if request.prev_kv => {
            look(KeyRange::of_request(&request.key, &request.range_end))
        }
        Command::Txn(request) => in_txn(request, look),
        _ => ControlFlow::Continue(()),
    }
}

fn in_txn(
    request: &TxnRequest,
    look: &mut impl FnMut(KeyRange<'_>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    for compare in &request.compare {
        look(KeyRange::of_request(&compare.key, &compare.range_end))?;
    }
    let mut operations = request.success.iter().chain(&request.failure);
    operations.try_for_each(|operation| in_operation(operation, look))
}

fn in_operation(
    operation: &RequestOp,
    look: &mut impl FnMut(KeyRange<'_>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    match &operation.request {
        Some(Operation::RequestPut(request)) => look(KeyRange::of_request(&request.key, &[])),
        Some(Operation::RequestRange(request)) if !request.count_only => {
            look(KeyRange::of_request(&request.key, &request.range_end))
        }
        Some(Operation::RequestDeleteRange(request)) if request.prev_kv => {
            look(KeyRange::of_request(&request.key, &request.range_end))
        }
        Some(Operation::RequestTxn(request)) => in_txn(request, look),
        _ => ControlFlow::Continue(()),
    }
}

/// Calls `see` with what is found in a range, as far as the cost allows.
fn take(
    view: View<'_>,
    keys: KeyRange<'_>,
    left_bytes: &mut u64,
    see: impl Fn(&Found),
) -> ControlFlow<()> {
    let keys_max = (*left_bytes / KEY_COST_BYTES) as usize;
    // One key more than may be read shows that there are more.
    for found in view.scan(keys, view.revision, Direction::Ascending, keys_max + 1) {
        let cost_bytes = found.log_bytes().max(KEY_COST_BYTES);
        match left_bytes.checked_sub(cost_bytes) {
            Some(left) => *left_bytes = left,
            None => return ControlFlow::Break(()),
        }
        see(&found);
    }
    ControlFlow::Continue(())
}

#[cfg(test)]
mod tests {
    use etcd_api::etcdserverpb::{DeleteRangeRequest, RangeRequest};

    use super::*;

    #[test]
    fn every_operation_that_reads_is_looked_at() {
        let operation = |request| RequestOp {
            request: Some(request),
        };
        let range = |key: &'static str, count_only| RangeRequest {
            key: key.into(),
            count_only,
            ..RangeRequest::default()
        };
        let delete = |key: &'static str, prev_kv| DeleteRangeRequest {
            key: key.into(),
            prev_kv,
            ..DeleteRangeRequest::default()
        };
        let put = PutRequest {
            key: "put".into(),
            ..PutRequest::default()
        };
        let nested = TxnRequest {
            success: vec![operation(Operation::RequestRange(range("nested", false)))],
            ..TxnRequest::default()
        };
        let txn = TxnRequest {
            success: vec![
                operation(Operation::RequestPut(put)),
                operation(Operation::RequestRange(range("range", false))),
                operation(Operation::RequestRange(range("count", true))),
            ],
            failure: vec![
                operation(Operation::RequestDeleteRange(delete("previous", true))),
                operation(Operation::RequestDeleteRange(delete("gone", false))),
                operation(Operation::RequestTxn(nested)),
            ],
            ..TxnRequest::default()
        };
        let mut seen = Vec::new();
        let mut look = |keys: KeyRange<'_>| {
            seen.push(keys.start.to_vec());
            ControlFlow::Continue(())
        };
        assert!(for_each_range(&Command::Txn(txn), &mut look).is_continue());
        assert_eq!(seen, [&b"put"[..], b"range", b"previous", b"nested"]);
    }
}
