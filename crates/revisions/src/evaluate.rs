//! What a command does, decided against everything that was decided before.
//!
//! ```text
//!            base                 base + 1, sub 0..n
//!   ──── decided before ────►│ this command's changes
//!                            │
//!   checks read here ────────┘   ranges of a transaction read here, once
//!                                something in it has been written
//! ```
//!
//! All changes of one command share one main revision, the one after `base`;
//! a command that changes nothing takes none. Checks come first, so that what
//! may be refused is refused before anything is written; should a value turn
//! out to be unreadable halfway, the changes made so far are taken back.

use std::collections::BTreeSet;

use bytes::Bytes;
use engine::{KeyChange, Revision, Snapshot};
use etcd_api::Error as Refusal;

use crate::delete_range::deletion_bytes;
use crate::key_range::KeyRange;
use crate::machine::{Machine, Shared, log_bytes};
use crate::overlay::Overlay;
use crate::read_budget::ReadBudget;
use crate::view::{KeyVersion, View};
use crate::{Command, Error, Response};

impl Machine {
    /// Decides one command against everything evaluated so far. On `Ok` its
    /// effects, if any, are in the open batch; on `Err` there are none, but
    /// for the NOSPACE alarm that a write over the quota raises.
    ///
    /// Only where this machine leads, never into a batch that
    /// [`Machine::open_is_membership`], and a command that
    /// [`Command::changes_configuration`] only into an empty one, while no
    /// other such change is under way ([`Machine::configuration_is_pending`]).
    pub fn evaluate(&mut self, command: &Command) -> Result<Response, Error> {
        assert!(self.leading, "only the leader decides: {command:?}");
        assert!(
            !self.open_is_membership(),
            "a change of the configuration stays alone in its batch: seal first"
        );
        assert!(
            self.open_is_empty() || !command.changes_configuration(),
            "a change of the configuration has a batch of its own: seal first"
        );
        assert!(
            !(command.changes_configuration() && self.configuration_is_pending()),
            "one change of the configuration at a time: apply the one before first"
        );
        self.check_corrupt(command)?;
        self.check_quota(command)?;
        match command {
            Command::Put(request) => self.attempt(|it| it.put(request)).map(Response::Put),
            Command::DeleteRange(request) => self
                .attempt(|it| it.delete_range(request))
                .map(Response::DeleteRange),
            Command::Txn(request) => self.attempt(|it| it.txn(request)).map(Response::Txn),
            Command::Compact(request) => self.compact(request).map(Response::Compact),
            Command::LeaseGrant(request) => self.grant(request).map(Response::LeaseGrant),
            Command::LeaseRevoke(request) => self.revoke(request).map(Response::LeaseRevoke),
            Command::Alarm(request) => Ok(Response::Alarm(self.alarm(request))),
            command => self.evaluate_membership(command),
        }
    }

    fn evaluate_membership(&mut self, command: &Command) -> Result<Response, Error> {
        match command {
            Command::MemberAdd(request) => self.member_add(request).map(Response::MemberAdd),
            Command::MemberRemove(request) => {
                self.member_remove(request).map(Response::MemberRemove)
            }
            Command::MemberUpdate(request) => {
                self.member_update(request).map(Response::MemberUpdate)
            }
            Command::MemberPromote(request) => {
                self.member_promote(request).map(Response::MemberPromote)
            }
            Command::MemberPublish(request) => {
                self.member_publish(request).map(Response::MemberPublish)
            }
            other => unreachable!("not about members: {other:?}"),
        }
    }

    /// Runs something that changes keys: all of its changes enter the open
    /// batch or none.
    pub(crate) fn attempt<T>(
        &mut self,
        work: impl FnOnce(&mut Evaluation<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut evaluation = Evaluation {
            snapshot: self.shared.engine.snapshot(),
            shared: &self.shared,
            overlay: &mut self.overlay,
            base: self.decided.revision,
            compacted: self.decided.compacted,
            budget: ReadBudget::new(),
            changes: Vec::new(),
            changed_bytes: 0,
        };
        assert!(
            evaluation.snapshot.revision() <= evaluation.base,
            "applied {} beyond what was decided, {}",
            evaluation.snapshot.revision(),
            evaluation.base
        );
        let fitting = work(&mut evaluation).and_then(|outcome| {
            evaluation.check_size()?;
            Ok(outcome)
        });
        match fitting {
            Ok(outcome) => {
                let changes = evaluation.changes;
                self.decided.revision += i64::from(!changes.is_empty());
                self.open.extend(changes);
                Ok(outcome)
            }
            Err(error) => {
                evaluation.take_back();
                Err(error)
            }
        }
    }
}

/// One command that changes keys, under way.
pub(crate) struct Evaluation<'m> {
    pub shared: &'m Shared,
    snapshot: Snapshot,
    overlay: &'m mut Overlay,
    /// Newest revision before this command.
    pub base: i64,
    compacted: i64,
    budget: ReadBudget,
    /// What the command has changed so far; in the overlay too.
    changes: Vec<KeyChange>,
    /// What `changes` will take in the log.
    changed_bytes: u64,
}

impl Evaluation<'_> {
    /// A command is one batch's business: what no batch holds is refused here,
    /// before it can spoil the commands that share its batch.
    fn check_size(&self) -> Result<(), Error> {
        let kept = self.changes.iter().filter(|change| !change.tombstone);
        for (batch_bytes, batch_bytes_max) in [
            (log_bytes(kept), self.shared.command_bytes_max()),
            (self.changed_bytes, self.shared.deletion_bytes_max()),
        ] {
            if batch_bytes > batch_bytes_max {
                let too_large = engine::Error::TooLarge {
                    batch_bytes,
                    batch_bytes_max,
                };
                return Err(too_large.into());
            }
        }
        Ok(())
    }

    /// Refuses a deletion that goes on beyond what one command may delete, before it has
    /// walked through all of its range.
    pub fn check_deletion_size(&self) -> Result<(), Error> {
        let batch_bytes_max = self.shared.deletion_bytes_max();
        if self.changed_bytes > batch_bytes_max {
            let too_large = engine::Error::TooLarge {
                batch_bytes: self.changed_bytes,
                batch_bytes_max,
            };
            return Err(too_large.into());
        }
        Ok(())
    }

    /// Keys that one command can delete at most, however short they are.
    pub fn deletions_max(&self) -> usize {
        (self.shared.deletion_bytes_max() / deletion_bytes(b"k")) as usize
    }

    /// Nothing has been changed yet.
    pub fn is_untouched(&self) -> bool {
        self.changes.is_empty()
    }

    /// The revision that this command's reads call "now".
    pub fn now(&self) -> i64 {
        self.base + i64::from(!self.is_untouched())
    }

    /// All keys, this command's own changes included.
    pub fn view(&self) -> View<'_> {
        View {
            engine: &self.shared.engine,
            snapshot: &self.snapshot,
            overlay: self.overlay,
            revision: self.now(),
            compacted: self.compacted,
            budget: Some(&self.budget),
        }
    }

    /// The key as it is now.
    pub fn fetch(&self, key: &[u8]) -> Result<Option<KeyVersion>, Error> {
        self.view().fetch(key, self.now())
    }

    /// All keys of a range as they are now.
    pub fn fetch_all(&self, range: KeyRange<'_>) -> Result<Vec<KeyVersion>, Error> {
        self.view().fetch_all(range, self.now())
    }

    /// The number of this command's next change.
    pub fn next_revision(&self) -> Revision {
        let sub = i64::try_from(self.changes.len()).expect("changes fit in memory");
        Revision {
            main: self.base + 1,
            sub,
        }
    }

    /// Changes a key.
    pub fn write(&mut self, change: KeyChange) {
        assert_eq!(
            change.revision,
            self.next_revision(),
            "changes are numbered in order"
        );
        self.overlay.push(change.clone());
        self.changed_bytes += change.log_bytes();
        self.changes.push(change);
    }

    /// The lease exists, or will once what is pending is applied.
    pub fn check_lease(&self, lease: i64) -> Result<(), Refusal> {
        let exists = lease == 0
            || self
                .overlay
                .lease(lease)
                .unwrap_or_else(|| self.shared.applied().lessor.contains(lease));
        if exists {
            Ok(())
        } else {
            Err(Refusal::LeaseNotFound)
        }
    }

    /// The lease can take one more key: a lease ends in one batch, and what no
    /// batch could delete is refused before it is there. Pending versions all
    /// count, those that replace an applied one twice: a full lease may refuse
    /// a little early while writes are under way, and never too late.
    pub fn check_lease_room(&self, lease: i64, key: &[u8]) -> Result<(), Error> {
        let applied_bytes = self.shared.applied().lessor.deletion_bytes(lease);
        let pending_bytes = self.overlay.deletion_bytes(lease);
        let bytes = applied_bytes + pending_bytes + deletion_bytes(key);
        let bytes_max = self.shared.deletion_bytes_max();
        if bytes > bytes_max {
            return Err(Error::LeaseFull {
                lease,
                bytes,
                bytes_max,
            });
        }
        Ok(())
    }

    /// Keys that hang on a lease now, ascending.
    pub fn keys_of_lease(&self, lease: i64) -> BTreeSet<Bytes> {
        let mut keys = self.shared.applied().lessor.keys(lease);
        keys.retain(|key| self.overlay.get(key, i64::MAX).is_none());
        keys.extend(self.overlay.keys_of_lease(lease).cloned());
        keys
    }

    fn take_back(self) {
        for change in self.changes.iter().rev() {
            self.overlay.pop(&change.key);
        }
    }
}
