//! The commands of the state machine and their responses.
//!
//! A command is one entry of the queue in front of the replica thread. It is evaluated as a whole
//! or not at all. Reads are not commands: request tasks perform them through [`crate::Reader`].

use auth::{AuthCommand, AuthCommandResponse};
use etcd_api::etcdserverpb::request_op::Request as Operation;
use etcd_api::etcdserverpb::{
    AlarmRequest, AlarmResponse, CompactionRequest, CompactionResponse, DeleteRangeRequest,
    DeleteRangeResponse, DowngradeRequest, DowngradeResponse, LeaseGrantRequest,
    LeaseGrantResponse, LeaseRevokeRequest, LeaseRevokeResponse, MemberAddRequest,
    MemberAddResponse, MemberPromoteRequest, MemberPromoteResponse, MemberRemoveRequest,
    MemberRemoveResponse, MemberUpdateRequest, MemberUpdateResponse, PutRequest, PutResponse,
    RequestOp, ResponseHeader, TxnRequest, TxnResponse,
};
use etcd_api::inkstonepb::{ChangeResponse, FollowChange};

use crate::acting::Acting;
use crate::membership::{MemberPublishRequest, MemberPublishResponse};

/// A request that may change something.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Sets one key.
    Put(PutRequest),
    /// Deletes a key or a range.
    DeleteRange(DeleteRangeRequest),
    /// Compares, then performs one of two lists of operations, atomically.
    Txn(TxnRequest),
    /// Discards the history below a revision.
    Compact(CompactionRequest),
    /// Grants a lease. For id 0 the machine picks an id.
    LeaseGrant(LeaseGrantRequest),
    /// Ends a lease and deletes its keys.
    LeaseRevoke(LeaseRevokeRequest),
    /// Lists, raises or clears alarms.
    Alarm(AlarmRequest),
    /// Adds a member; the machine computes its id.
    MemberAdd(MemberAddRequest),
    /// Removes a member; its id cannot be used again.
    MemberRemove(MemberRemoveRequest),
    /// Changes the peer URLs of a member.
    MemberUpdate(MemberUpdateRequest),
    /// Makes a learner a voter.
    MemberPromote(MemberPromoteRequest),
    /// Publishes the name and the client URLs of a member that has started.
    MemberPublish(MemberPublishRequest),
    /// Changes users or roles, or switches their checks on or off.
    Auth(AuthCommand),
    /// Validates, enables or cancels a downgrade.
    Downgrade(DowngradeRequest),
    /// Begins or ends to follow another cluster, or takes over what has changed there.
    Follow(FollowChange),
    /// Another command, with its actor: for the time in which users are checked.
    As(Box<Acting>),
}

/// The response to the [`Command`] of the same name, or to a [`Command::As`] with it.
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
    /// See [`Command::Auth`].
    Auth(AuthCommandResponse),
    /// See [`Command::Downgrade`].
    Downgrade(DowngradeResponse),
    /// See [`Command::Follow`].
    Follow(ChangeResponse),
}

impl Command {
    /// Returns whether the command changes Raft's configuration. Such a command needs a batch of
    /// its own, and no other such change may be pending
    /// ([`crate::Machine::configuration_is_pending`]).
    pub fn changes_configuration(&self) -> bool {
        matches!(
            self.plain(),
            Command::MemberAdd(_) | Command::MemberRemove(_) | Command::MemberPromote(_)
        )
    }

    /// Returns whether the command may touch any number of keys, so that its evaluation may take
    /// long.
    pub fn concerns_many_keys(&self) -> bool {
        match self.plain() {
            Command::DeleteRange(request) => !request.range_end.is_empty(),
            Command::Txn(request) => operations(request).any(reaches_far),
            Command::LeaseRevoke(_) => true,
            _ => false,
        }
    }

    /// Returns whether the command changes the members and not the data.
    pub(crate) fn is_about_members(&self) -> bool {
        self.changes_configuration()
            || matches!(
                self.plain(),
                Command::MemberUpdate(_) | Command::MemberPublish(_)
            )
    }
}

impl Response {
    /// Returns the header, in which the caller fills in the ids and the term.
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
            Response::Auth(response) => &mut response.header,
            Response::Downgrade(response) => &mut response.header,
            Response::Follow(response) => &mut response.header,
        }
        .get_or_insert_default()
    }
}

/// Returns whether the transaction has ranges only, so that [`crate::Reader::txn`] can answer it
/// without the queue. A nested transaction counts as a write whatever it contains, as in etcd.
pub fn is_read_only(request: &TxnRequest) -> bool {
    operations(request)
        .all(|operation| matches!(operation.request, Some(Operation::RequestRange(_))))
}

/// Returns whether the transaction is read-only and all its ranges may be served from local state.
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
