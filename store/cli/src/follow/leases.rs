//! Leases of the source: taken over before a revision names one, and when their list has changed.

use std::collections::BTreeSet;

use etcd_api::inkstonepb::follow_change::Change;
use etcd_api::inkstonepb::{GivenLeases, GivenRevision};

use super::source::{lease, lease_ids};
use super::target::Target;
use crate::client::Connection;
use crate::failure::Failure;

/// The leases that the store has.
#[derive(Debug)]
pub(crate) struct FollowedLeases {
    known: BTreeSet<i64>,
}

impl FollowedLeases {
    pub(crate) async fn of(target: &Target) -> Result<FollowedLeases, Failure> {
        let ids = lease_ids(&target.connection).await?;
        Ok(FollowedLeases {
            known: ids.into_iter().collect(),
        })
    }

    /// Grants for the leases that these revisions name and the store does not have.
    pub(crate) async fn needed_by(
        &mut self,
        source: &Connection,
        revisions: &[GivenRevision],
    ) -> Result<Option<Change>, Failure> {
        let events = revisions.iter().flat_map(|revision| &revision.events);
        let named = events.filter_map(|event| event.kv.as_ref().map(|kv| kv.lease()));
        let missing: BTreeSet<i64> = named
            .filter(|id| *id != 0 && !self.known.contains(id))
            .collect();
        self.grants(source, missing).await
    }

    /// What has changed in the source's list of leases.
    pub(crate) async fn changes(&mut self, source: &Connection) -> Result<Option<Change>, Failure> {
        let theirs: BTreeSet<i64> = lease_ids(source).await?.into_iter().collect();
        let missing = theirs.difference(&self.known).copied().collect();
        let revoked: Vec<i64> = self.known.difference(&theirs).copied().collect();
        let granted = self.grants(source, missing).await?;
        if revoked.is_empty() {
            return Ok(granted);
        }
        let mut leases = match granted {
            Some(Change::Leases(leases)) => leases,
            _ => GivenLeases::default(),
        };
        leases.revoked = revoked;
        Ok(Some(Change::Leases(leases)))
    }

    /// Looks again which leases the store has: one with keys is not revoked.
    pub(crate) async fn look_again(&mut self, target: &Target) -> Result<(), Failure> {
        *self = FollowedLeases::of(target).await?;
        Ok(())
    }

    async fn grants(
        &mut self,
        source: &Connection,
        missing: BTreeSet<i64>,
    ) -> Result<Option<Change>, Failure> {
        if missing.is_empty() {
            return Ok(None);
        }
        let mut leases = GivenLeases::default();
        for &id in &missing {
            leases.granted.push(lease(source, id).await?);
        }
        self.known.extend(missing);
        Ok(Some(Change::Leases(leases)))
    }
}
