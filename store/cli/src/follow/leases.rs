//! Leases of the source: taken over before a revision names one, and when their list has changed.

use std::collections::BTreeSet;

use etcd_api::inkstonepb::follow_change::Change;
use etcd_api::inkstonepb::{GivenLease, GivenLeases, GivenRevision};

use super::target::Target;
use crate::client::Connection;
use crate::client::observed_cluster::{granted_seconds, lease_ids};
use crate::failure::Failure;

/// The leases that the store has.
#[derive(Debug)]
pub(crate) struct FollowedLeases {
    known: BTreeSet<i64>,
}

impl FollowedLeases {
    pub(crate) async fn of(target: &Target) -> Result<FollowedLeases, Failure> {
        let (known, _) = lease_ids(&target.connection).await?;
        Ok(FollowedLeases { known })
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

    /// The changes of the source's list of leases.
    pub(crate) async fn changes(&mut self, source: &Connection) -> Result<Option<Change>, Failure> {
        let (theirs, _) = lease_ids(source).await?;
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
        // One that has ended in the meantime gets the shortest time: its end is taken over later.
        let granted = granted_seconds(source, missing.iter().copied()).await?;
        let granted = granted.into_iter().map(|(id, ttl)| GivenLease { id, ttl });
        let granted = granted.collect();
        self.known.extend(missing);
        Ok(Some(Change::Leases(GivenLeases {
            granted,
            ..GivenLeases::default()
        })))
    }
}
