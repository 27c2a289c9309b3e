//! Batches: several changes that are applied atomically.

use bytes::Bytes;
use etcd_api::etcdserverpb::{
    DeleteRangeRequest, PutRequest, RequestOp, TxnRequest, request_op::Request,
};
use revisions::Command;

/// Puts and deletes that are applied atomically, as one revision.
///
/// A key may be written once in a batch, as in an etcd transaction.
///
/// ```
/// let batch = inkstone::WriteBatch::new().put("from", "90").put("to", "110").delete("pending");
/// assert_eq!(batch.len(), 3);
/// ```
#[derive(Clone, Debug, Default)]
pub struct WriteBatch {
    operations: Vec<RequestOp>,
}

impl WriteBatch {
    /// An empty batch.
    pub fn new() -> WriteBatch {
        WriteBatch::default()
    }

    /// Adds a put.
    #[must_use]
    pub fn put(self, key: impl Into<Bytes>, value: impl Into<Bytes>) -> WriteBatch {
        let put = PutRequest {
            key: key.into(),
            value: value.into(),
            ..Default::default()
        };
        self.with(Request::RequestPut(put))
    }

    /// Adds the deletion of one key. It has no effect if the key does not exist.
    #[must_use]
    pub fn delete(self, key: impl Into<Bytes>) -> WriteBatch {
        let delete = DeleteRangeRequest {
            key: key.into(),
            ..Default::default()
        };
        self.with(Request::RequestDeleteRange(delete))
    }

    /// Number of operations.
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// Whether the batch has no operations.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    fn with(mut self, request: Request) -> WriteBatch {
        self.operations.push(RequestOp {
            request: Some(request),
        });
        self
    }

    pub(crate) fn into_operations(self) -> Vec<RequestOp> {
        self.operations
    }

    pub(crate) fn into_command(self) -> Command {
        Command::Txn(TxnRequest {
            success: self.operations,
            ..Default::default()
        })
    }
}
