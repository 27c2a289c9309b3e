//! Evaluation of the commands that change the membership.
//!
//! etcd checks such a change when it is applied. Here the leader checks it when it is evaluated,
//! against everything that was evaluated before, as it does for all commands. This module does
//! not know whether enough members are connected: the caller checks that first, with
//! [`Members::may_add_voter`] and similar functions and with its connections.
//!
//! A change of Raft's configuration is an entry of its own, because an entry of Raft is either a
//! configuration change or not.

use std::sync::Arc;

use engine::{Batch, Body, Change};
use etcd_api::Error as Refusal;
use etcd_api::etcdserverpb::{
    MemberAddRequest, MemberAddResponse, MemberPromoteRequest, MemberPromoteResponse,
    MemberRemoveRequest, MemberRemoveResponse, MemberUpdateRequest, MemberUpdateResponse,
    ResponseHeader,
};

use crate::machine::Machine;
use crate::member::{MemberChange, Members};
use crate::state::StateRecord;
use crate::{Error, identity, peer_urls};

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

impl Machine {
    pub(crate) fn member_add(
        &mut self,
        request: &MemberAddRequest,
    ) -> Result<MemberAddResponse, Error> {
        let mut peer_urls = peer_urls::parse(&request.peer_ur_ls)?;
        peer_urls.sort_unstable();
        let texts: Vec<&str> = peer_urls.iter().map(String::as_str).collect();
        let id = identity::added_member_id(&texts, self.clock.unix_time().as_secs());
        let is_learner = request.is_learner;
        let members = &self.decided.members;
        check_add(members, id, &peer_urls)?;
        if is_learner && members.learners().count() >= self.shared.options.learners_max {
            return Err(Refusal::TooManyLearners.into());
        }
        self.change_members(MemberChange::Added {
            id,
            is_learner,
            peer_urls,
        });
        let members = &self.decided.members;
        let member = members.get(id).expect("it was added a moment ago");
        Ok(MemberAddResponse {
            header: header(),
            member: Some(member.to_message()),
            members: members.to_messages(),
        })
    }

    pub(crate) fn member_remove(
        &mut self,
        request: &MemberRemoveRequest,
    ) -> Result<MemberRemoveResponse, Error> {
        let id = request.id;
        let members = &self.decided.members;
        let member = members.get(id).ok_or(Refusal::MemberNotFound)?;
        // Without a voter the cluster could never commit anything again.
        if !member.is_learner && members.voters().count() == 1 {
            return Err(Refusal::MemberNotEnoughStarted.into());
        }
        self.change_members(MemberChange::Removed { id });
        Ok(MemberRemoveResponse {
            header: header(),
            members: self.decided.members.to_messages(),
        })
    }

    pub(crate) fn member_update(
        &mut self,
        request: &MemberUpdateRequest,
    ) -> Result<MemberUpdateResponse, Error> {
        let id = request.id;
        let peer_urls = peer_urls::parse(&request.peer_ur_ls)?;
        let members = &self.decided.members;
        members.get(id).ok_or(Refusal::MemberNotFound)?;
        if members.has_peer_url(&peer_urls, Some(id)) {
            return Err(Refusal::PeerUrlExist.into());
        }
        self.change_members(MemberChange::Updated { id, peer_urls });
        Ok(MemberUpdateResponse {
            header: header(),
            members: self.decided.members.to_messages(),
        })
    }

    pub(crate) fn member_promote(
        &mut self,
        request: &MemberPromoteRequest,
    ) -> Result<MemberPromoteResponse, Error> {
        let id = request.id;
        let member = self.decided.members.get(id);
        if !member.ok_or(Refusal::MemberNotFound)?.is_learner {
            return Err(Refusal::MemberNotLearner.into());
        }
        self.change_members(MemberChange::Promoted { id });
        Ok(MemberPromoteResponse {
            header: header(),
            members: self.decided.members.to_messages(),
        })
    }

    /// Writes no change if the name and the URLs are known already.
    pub(crate) fn member_publish(
        &mut self,
        request: &MemberPublishRequest,
    ) -> Result<MemberPublishResponse, Error> {
        let member = self.decided.members.get(request.id);
        let member = member.ok_or(Refusal::MemberNotFound)?;
        if (&member.name, &member.client_urls) != (&request.name, &request.client_urls) {
            self.change_members(MemberChange::Published {
                id: request.id,
                name: request.name.clone(),
                client_urls: request.client_urls.clone(),
            });
        }
        Ok(MemberPublishResponse { header: header() })
    }

    fn change_members(&mut self, change: MemberChange) {
        self.open.push_member_change(&change);
        let changed = Arc::make_mut(&mut self.decided.members).change(change);
        assert_eq!(changed, Ok(()), "the change was checked");
    }
}

/// Checks in etcd's order, which determines the error of a request with two mistakes.
fn check_add(members: &Members, id: u64, peer_urls: &[String]) -> Result<(), Refusal> {
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

/// A header without a revision, as in etcd's responses about members.
fn header() -> Option<ResponseHeader> {
    Some(ResponseHeader::default())
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
