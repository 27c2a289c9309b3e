//! Evaluation of the commands that change the membership.
//!
//! etcd checks such a change when it is applied. Here the leader checks it when it is evaluated,
//! against everything that was evaluated before, as it does for all commands. This module does
//! not know whether enough members are connected: the caller checks that first, with
//! [`Members::may_add_voter`] and similar functions and with its connections.
//!
//! A change of Raft's configuration is an entry of its own, because an entry of Raft is either a
//! configuration change or not.

use engine::{Batch, Body, Change};
use etcd_api::Error as Refusal;
use etcd_api::etcdserverpb::ResponseHeader;

use crate::member::{MemberChange, Members};
use crate::state::StateRecord;

/// Publishes the name and the client URLs of a member that has started. Only members send it;
/// clients cannot.
#[derive(Clone, PartialEq, prost::Message)]
pub struct MemberPublishRequest {
    #[prost(uint64, tag = "1")]
    pub id: u64,
    #[prost(string, tag = "2")]
    pub name: String,
    #[prost(string, repeated, tag = "3")]
    pub client_urls: Vec<String>,
}

/// The answer to a [`MemberPublishRequest`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct MemberPublishResponse {
    /// Without a revision, as in etcd's responses about members.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
}

/// Checks in etcd's order, which determines the error of a request with two mistakes.
pub(crate) fn check_add(members: &Members, id: u64, peer_urls: &[String]) -> Result<(), Refusal> {
    if members.is_removed(id) {
        return Err(Refusal::MemberNotFound);
    }
    if members.get(id).is_some() {
        return Err(Refusal::MemberExist);
    }
    if members.has_peer_url(peer_urls, None) {
        return Err(Refusal::PeerUrlExist);
    }
    Ok(())
}

/// Returns the change of Raft's configuration that the batch consists of, if it is one.
pub fn membership_of(batch: &Batch) -> Option<MemberChange> {
    let [Change::State { kind, payload }] = &batch.changes[..] else {
        return None;
    };
    match StateRecord::decode(*kind, payload) {
        Ok(StateRecord::Member(change)) if change.changes_configuration() => Some(change),
        _ => None,
    }
}

/// As [`membership_of`], for an encoded batch. Reads at most two record headers of a batch that
/// is no configuration change.
pub fn membership_of_body(body: &Body) -> Option<MemberChange> {
    if !Batch::is_one_state(body) {
        return None;
    }
    // Term and index are not part of the records.
    membership_of(&Batch::decode(0, 0, body).ok()?)
}
