//! Apply: makes committed batches visible.
//!
//! ```text
//!   Batch ─► index (published at once) ─► leases, alarms, compaction ─► watch hub ─► overlay forgets
//! ```
//!
//! Nothing is decided here: the same batches give the same state everywhere,
//! at recovery too, which replays them through the same [`AppliedState::absorb`].
//! The index comes first, so that a client that receives an event can read its key.

use std::sync::Arc;
use std::time::Duration;

use auth::{Auth, Renewals};
use engine::{Batch, Change, KeyChange, Replayed};
use environment::{Clock, Instant};

use crate::alarm::Alarms;
use crate::lease::Lessor;
use crate::member::Members;
use crate::source::SourceCluster;
use crate::state::StateRecord;
use crate::{Error, checkpoint};

/// The newest batch that was absorbed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LastAbsorbed {
    /// Index of its entry.
    pub index: u64,
    /// Term of its entry.
    pub term: u64,
    /// Newest revision of it and of those before.
    pub revision: i64,
}

/// Everything applied besides keys.
#[derive(Debug)]
pub(crate) struct AppliedState {
    pub last: LastAbsorbed,
    /// Leases and the keys that are attached to them.
    pub lessor: Lessor,
    /// Raised alarms.
    pub alarms: Alarms,
    /// Newest compaction; -1 before the first.
    pub compacted: i64,
    /// The members of the cluster. A change replaces the whole set, so that readers keep a
    /// consistent one.
    pub members: Arc<Members>,
    /// Users and roles; a change replaces the whole, as with the members.
    pub auth: Arc<Auth>,
    /// Tokens that live longer than they say.
    pub renewals: Renewals,
    /// The version that a downgrade goes to, while one is enabled.
    pub downgrade: Option<String>,
    /// The cluster that the store follows.
    pub source: Option<SourceCluster>,
}

impl AppliedState {
    pub fn new(clock: Arc<dyn Clock>) -> AppliedState {
        AppliedState {
            last: LastAbsorbed::default(),
            lessor: Lessor::new(clock),
            alarms: Alarms::default(),
            compacted: -1,
            members: Arc::default(),
            auth: Arc::default(),
            renewals: Renewals::default(),
            downgrade: None,
            source: None,
        }
    }

    /// Takes in what an opening of the engine replays.
    pub fn replay(&mut self, replayed: &Replayed<'_>) -> Result<(), engine::Error> {
        let outcome = match replayed {
            Replayed::Checkpoint(blob) => checkpoint::decode(blob, self),
            Replayed::Batch(batch) => self.absorb(batch),
        };
        outcome.map_err(|error| engine::Error::Replay(error.to_string()))
    }

    /// Applies one batch.
    pub fn absorb(&mut self, batch: &Batch) -> Result<(), Error> {
        for change in &batch.changes {
            match change {
                Change::Key(change) => self.absorb_key(change),
                Change::State { kind, payload } => {
                    let record = StateRecord::decode(*kind, payload)?;
                    self.absorb_record(record).map_err(|reason| Error::State {
                        kind: *kind,
                        reason,
                    })?;
                }
            }
        }
        self.last = LastAbsorbed {
            index: batch.index,
            term: batch.term,
            revision: batch.mains().map_or(self.last.revision, |(_, last)| last),
        };
        Ok(())
    }

    /// Up to `limit` expired leases, none while another cluster is followed: there they end, and the
    /// store takes it over.
    pub fn take_expired(&mut self, now: Instant, retry: Duration, limit: usize) -> Vec<i64> {
        match self.source {
            Some(_) => Vec::new(),
            None => self.lessor.take_expired(now, retry, limit),
        }
    }

    fn absorb_key(&mut self, change: &KeyChange) {
        if change.tombstone {
            self.lessor.detach(&change.key);
        } else {
            self.lessor.attach(change.key.clone(), change.lease);
        }
    }

    fn absorb_record(&mut self, record: StateRecord) -> Result<(), &'static str> {
        match record {
            StateRecord::Granted { id, ttl_seconds } => {
                if id == 0 || self.lessor.contains(id) {
                    return Err("a lease without an id of its own");
                }
                self.lessor.grant(id, ttl_seconds);
            }
            StateRecord::Revoked { id } => self.lessor.revoke(id),
            StateRecord::Compacted { revision, .. } => self.compacted = revision,
            StateRecord::Alarm { alarm, raised } => {
                self.alarms.change(alarm, raised);
            }
            StateRecord::Member(change) => Arc::make_mut(&mut self.members).change(change)?,
            StateRecord::Auth(change) => {
                Arc::make_mut(&mut self.auth).apply(change)?;
                if !self.auth.is_enabled() || self.auth.lacks_secret() {
                    self.renewals.clear();
                }
            }
            StateRecord::TokenRenewed { number, until, now } => {
                self.renewals.renew(number, until, now);
            }
            StateRecord::Downgrade { target } => self.downgrade = target,
            StateRecord::Follows { source } => {
                self.source = source;
                if self.source.is_none() {
                    self.lessor.begin_again();
                }
            }
        }
        Ok(())
    }
}
