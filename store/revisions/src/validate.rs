//! Checks of a request that need no state, done before it queues.
//!
//! The order of the checks is part of the contract: a request with two
//! mistakes must be refused for the same one as in etcd.

use etcd_api::Error;
use etcd_api::etcdserverpb::range_request::{SortOrder, SortTarget};
use etcd_api::etcdserverpb::request_op::Request as Operation;
use etcd_api::etcdserverpb::{DeleteRangeRequest, PutRequest, RangeRequest, RequestOp, TxnRequest};

use crate::range::{has_revision_filters, is_default_order};
use crate::{Command, duplicate_keys, peer_urls};

/// Operations that one transaction may hold unless the server says otherwise.
pub const TXN_OPERATIONS_MAX: usize = 128;

/// Checks any command.
pub fn command(command: &Command, operations_max: usize) -> Result<(), Error> {
    match command.plain() {
        Command::Put(request) => put(request),
        Command::DeleteRange(request) => delete_range(request),
        Command::Txn(request) => txn(request, operations_max),
        Command::Compact(_)
        | Command::LeaseGrant(_)
        | Command::LeaseRevoke(_)
        | Command::Alarm(_)
        | Command::MemberRemove(_)
        | Command::MemberPromote(_)
        | Command::MemberPublish(_)
        | Command::Auth(_)
        | Command::Downgrade(_)
        | Command::Follow(_)
        | Command::As(_) => Ok(()),
        Command::MemberAdd(request) => peer_urls(&request.peer_ur_ls),
        Command::MemberUpdate(request) => peer_urls(&request.peer_ur_ls),
    }
}

/// A member is reached under at least one URL, and all are well-formed.
pub fn peer_urls(urls: &[String]) -> Result<(), Error> {
    peer_urls::parse(urls).map(drop)
}

/// A range needs a key and a known order.
pub fn range(request: &RangeRequest) -> Result<(), Error> {
    if request.key.is_empty() {
        return Err(Error::EmptyKey);
    }
    if SortOrder::try_from(request.sort_order).is_err()
        || SortTarget::try_from(request.sort_target).is_err()
    {
        return Err(Error::InvalidSortOption);
    }
    Ok(())
}

/// Why a range cannot be streamed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StreamRefusal {
    /// The range itself is wrong.
    #[error(transparent)]
    Invalid(#[from] Error),
    /// Right, but only unary ranges do it (gRPC: Unimplemented).
    #[error("{0}")]
    Unsupported(&'static str),
}

/// A streamed range comes in key order, unfiltered.
pub fn range_stream(request: &RangeRequest) -> Result<(), StreamRefusal> {
    range(request)?;
    if !is_default_order(request) {
        return Err(StreamRefusal::Unsupported(
            "RangeStream does not support custom sort orders",
        ));
    }
    if has_revision_filters(request) {
        return Err(StreamRefusal::Unsupported(
            "RangeStream does not support revision filters",
        ));
    }
    Ok(())
}

/// A put needs a key, and must not both give and keep a value or lease.
pub fn put(request: &PutRequest) -> Result<(), Error> {
    if request.key.is_empty() {
        return Err(Error::EmptyKey);
    }
    if request.ignore_value && !request.value.is_empty() {
        return Err(Error::ValueProvided);
    }
    if request.ignore_lease && request.lease != 0 {
        return Err(Error::LeaseProvided);
    }
    Ok(())
}

/// A deletion needs a key.
pub fn delete_range(request: &DeleteRangeRequest) -> Result<(), Error> {
    if request.key.is_empty() {
        return Err(Error::EmptyKey);
    }
    Ok(())
}

/// A transaction: every operation in it, at most `operations_max` of them
/// (nested ones share what their parents leave), no key written twice.
pub fn txn(request: &TxnRequest, operations_max: usize) -> Result<(), Error> {
    txn_shape(request, operations_max)?;
    // After the size check: its work grows faster than the request.
    duplicate_keys::check(&request.success)?;
    duplicate_keys::check(&request.failure)
}

fn txn_shape(request: &TxnRequest, operations_max: usize) -> Result<(), Error> {
    let lists = [
        request.compare.len(),
        request.success.len(),
        request.failure.len(),
    ];
    let operations = lists.into_iter().max().unwrap_or(0);
    let Some(left) = operations_max.checked_sub(operations) else {
        return Err(Error::TooManyOperations);
    };
    if request.compare.iter().any(|compare| compare.key.is_empty()) {
        return Err(Error::EmptyKey);
    }
    let mut all = request.success.iter().chain(&request.failure);
    all.try_for_each(|each| operation(each, left))
}

fn operation(operation: &RequestOp, operations_max: usize) -> Result<(), Error> {
    match &operation.request {
        Some(Operation::RequestRange(request)) => range(request),
        Some(Operation::RequestPut(request)) => put(request),
        Some(Operation::RequestDeleteRange(request)) => delete_range(request),
        Some(Operation::RequestTxn(request)) => txn_shape(request, operations_max),
        None => Err(Error::KeyNotFound),
    }
}
