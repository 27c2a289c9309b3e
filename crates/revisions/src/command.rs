//! What can be asked of the state machine, and what it answers.
//!
//! A command is one entry of the queue in front of the replica thread: it is
//! evaluated whole or not at all. Reads are not commands; request tasks do
//! them through [`crate::Reader`].

use etcd_api::etcdserverpb::request_op::Request as Operation;
use etcd_api::etcdserverpb::{
    AlarmRequest, AlarmResponse, CompactionRequest, CompactionResponse, DeleteRangeRequest,
    DeleteRangeResponse, LeaseGrantRequest, LeaseGrantResponse, LeaseRevokeRequest,
    LeaseRevokeResponse, PutRequest, PutResponse, RequestOp, ResponseHeader, TxnRequest,
    TxnResponse,
};
use prost::Message;

/// A request that may change something.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Set one key.
    Put(PutRequest),
    /// Delete a key or a range.
    DeleteRange(DeleteRangeRequest),
    /// Compare, then do one list of operations or the other, atomically.
    Txn(TxnRequest),
    /// Forget history below a revision.
    Compact(CompactionRequest),
    /// Make a lease. Id 0: the machine picks one.
    LeaseGrant(LeaseGrantRequest),
    /// End a lease and delete its keys.
    LeaseRevoke(LeaseRevokeRequest),
    /// Look at, raise or clear alarms.
    Alarm(AlarmRequest),
}

/// What a [`Command`] of the same name answers.
#[derive(Clone, Debug, PartialEq)]
pub enum Response {
    /// See [`Command::Put`].
    Put(PutResponse),
    /// See [`Command::DeleteRange`].
    DeleteRange(DeleteRangeResponse),
    /// See [`Command::Txn`].
    Txn(TxnResponse),
    /// See [`Command::Compact`].
    Compact(CompactionResponse),
    /// See [`Command::LeaseGrant`].
    LeaseGrant(LeaseGrantResponse),
    /// See [`Command::LeaseRevoke`].
    LeaseRevoke(LeaseRevokeResponse),
    /// See [`Command::Alarm`].
    Alarm(AlarmResponse),
}

impl Command {
    /// Bytes of the request as it came over the wire: what queues count.
    pub fn size_bytes(&self) -> usize {
        match self {
            Command::Put(request) => request.encoded_len(),
            Command::DeleteRange(request) => request.encoded_len(),
            Command::Txn(request) => request.encoded_len(),
            Command::Compact(request) => request.encoded_len(),
            Command::LeaseGrant(request) => request.encoded_len(),
            Command::LeaseRevoke(request) => request.encoded_len(),
            Command::Alarm(request) => request.encoded_len(),
        }
    }
}

impl Response {
    /// The header, where the caller fills in ids and term.
    pub fn header_mut(&mut self) -> &mut ResponseHeader {
        match self {
            Response::Put(response) => &mut response.header,
            Response::DeleteRange(response) => &mut response.header,
            Response::Txn(response) => &mut response.header,
            Response::Compact(response) => &mut response.header,
            Response::LeaseGrant(response) => &mut response.header,
            Response::LeaseRevoke(response) => &mut response.header,
            Response::Alarm(response) => &mut response.header,
        }
        .get_or_insert_default()
    }
}

/// The transaction holds ranges only, so it need not be queued:
/// [`crate::Reader::txn`] answers it. A nested transaction counts as a write
/// whatever it holds, as in etcd.
pub fn is_read_only(request: &TxnRequest) -> bool {
    operations(request)
        .all(|operation| matches!(operation.request, Some(Operation::RequestRange(_))))
}

/// Read-only, and every range in it may be served from local state.
pub fn is_serializable(request: &TxnRequest) -> bool {
    operations(request).all(|operation| match &operation.request {
        Some(Operation::RequestRange(range)) => range.serializable,
        _ => false,
    })
}

fn operations(request: &TxnRequest) -> impl Iterator<Item = &RequestOp> {
    request.success.iter().chain(&request.failure)
}
