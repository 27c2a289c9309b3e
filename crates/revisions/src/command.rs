//! What can be asked of the state machine, and what it answers.
//!
//! A command is one entry of the queue in front of the replica thread: it is
//! evaluated whole or not at all. Reads are not commands; request tasks do
//! them through [`crate::Reader`].

use etcd_api::etcdserverpb::request_op::Request as Operation;
use etcd_api::etcdserverpb::{
    AlarmRequest, AlarmResponse, CompactionRequest, CompactionResponse, DeleteRangeRequest,
    DeleteRangeResponse, LeaseGrantRequest, LeaseGrantResponse, LeaseRevokeRequest,
    LeaseRevokeResponse, MemberAddRequest, MemberAddResponse, MemberPromoteRequest,
    MemberPromoteResponse, MemberRemoveRequest, MemberRemoveResponse, MemberUpdateRequest,
    MemberUpdateResponse, PutRequest, PutResponse, RequestOp, ResponseHeader, TxnRequest,
    TxnResponse,
};
use prost::Message;

use crate::membership::{MemberPublishRequest, MemberPublishResponse};

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
    /// Take in a member; the machine gives it its id.
    MemberAdd(MemberAddRequest),
    /// Let a member go, forever.
    MemberRemove(MemberRemoveRequest),
    /// A member is reached elsewhere.
    MemberUpdate(MemberUpdateRequest),
    /// A learner votes from now on.
    MemberPromote(MemberPromoteRequest),
    /// A member that has started says who it is.
    MemberPublish(MemberPublishRequest),
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
    /// See [`Command::MemberAdd`].
    MemberAdd(MemberAddResponse),
    /// See [`Command::MemberRemove`].
    MemberRemove(MemberRemoveResponse),
    /// See [`Command::MemberUpdate`].
    MemberUpdate(MemberUpdateResponse),
    /// See [`Command::MemberPromote`].
    MemberPromote(MemberPromoteResponse),
    /// See [`Command::MemberPublish`].
    MemberPublish(MemberPublishResponse),
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
            Command::MemberAdd(request) => request.encoded_len(),
            Command::MemberRemove(request) => request.encoded_len(),
            Command::MemberUpdate(request) => request.encoded_len(),
            Command::MemberPromote(request) => request.encoded_len(),
            Command::MemberPublish(request) => request.encoded_len(),
        }
    }

    /// Raft counts votes differently once it is applied: it needs a batch of
    /// its own, and no other such change under way
    /// ([`crate::Machine::configuration_is_pending`]).
    pub fn changes_configuration(&self) -> bool {
        matches!(
            self,
            Command::MemberAdd(_) | Command::MemberRemove(_) | Command::MemberPromote(_)
        )
    }

    /// It may concern any number of keys: its evaluation may take long.
    pub fn concerns_many_keys(&self) -> bool {
        match self {
            Command::DeleteRange(request) => !request.range_end.is_empty(),
            Command::Txn(request) => operations(request).any(reaches_far),
            Command::LeaseRevoke(_) => true,
            _ => false,
        }
    }

    /// About the members, not about what they keep.
    pub(crate) fn is_about_members(&self) -> bool {
        self.changes_configuration()
            || matches!(self, Command::MemberUpdate(_) | Command::MemberPublish(_))
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
            Response::MemberAdd(response) => &mut response.header,
            Response::MemberRemove(response) => &mut response.header,
            Response::MemberUpdate(response) => &mut response.header,
            Response::MemberPromote(response) => &mut response.header,
            Response::MemberPublish(response) => &mut response.header,
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

fn reaches_far(operation: &RequestOp) -> bool {
    match &operation.request {
        Some(Operation::RequestRange(range)) => !range.range_end.is_empty(),
        Some(Operation::RequestDeleteRange(range)) => !range.range_end.is_empty(),
        Some(Operation::RequestTxn(nested)) => operations(nested).any(reaches_far),
        Some(Operation::RequestPut(_)) | None => false,
    }
}

fn operations(request: &TxnRequest) -> impl Iterator<Item = &RequestOp> {
    request.success.iter().chain(&request.failure)
}
