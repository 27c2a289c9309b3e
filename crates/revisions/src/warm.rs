//! Reading ahead: what an evaluation will need, fetched by the request task.
//!
//! The replica thread is one; a value that it must wait for makes everybody
//! wait. A request task reads the same records just before it queues, so that
//! the replica finds them in the page cache. Best effort: errors and races are
//! the evaluation's business, and large ranges are not read through.

use etcd_api::etcdserverpb::request_op::Request as Operation;
use etcd_api::etcdserverpb::{RequestOp, TxnRequest};

use crate::key_range::KeyRange;
use crate::view::{Direction, View};
use crate::{Command, Reader};

/// Versions read ahead per range.
const VERSIONS_MAX: usize = 256;

impl Reader {
    /// Reads what evaluating the command will need. Best effort.
    pub fn warm(&self, command: &Command) {
        let snapshot = self.shared.engine.snapshot();
        let view = self.view(&snapshot);
        match command {
            Command::Put(request) => touch(view, &request.key, &[]),
            Command::DeleteRange(request) if request.prev_kv => {
                touch(view, &request.key, &request.range_end);
            }
            Command::Txn(request) => warm_txn(view, request),
            _ => {}
        }
    }
}

fn warm_txn(view: View<'_>, request: &TxnRequest) {
    for compare in &request.compare {
        touch(view, &compare.key, &compare.range_end);
    }
    for operation in request.success.iter().chain(&request.failure) {
        warm_operation(view, operation);
    }
}

fn warm_operation(view: View<'_>, operation: &RequestOp) {
    match &operation.request {
        Some(Operation::RequestPut(request)) => touch(view, &request.key, &[]),
        Some(Operation::RequestRange(request)) if !request.count_only => {
            touch(view, &request.key, &request.range_end);
        }
        Some(Operation::RequestTxn(request)) => warm_txn(view, request),
        _ => {}
    }
}

fn touch(view: View<'_>, key: &[u8], range_end: &[u8]) {
    let keys = KeyRange::of_request(key, range_end);
    for found in view.scan(keys, view.revision, Direction::Ascending, VERSIONS_MAX) {
        // The evaluation will meet the same error and report it.
        let _ = view.read(&found);
    }
}
