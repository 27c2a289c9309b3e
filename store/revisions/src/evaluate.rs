//! Evaluation: computes the effects of a command on the state after all earlier commands.
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
//! a command that changes nothing takes none. All checks come before the first write. If a value
//! turns out to be unreadable after that, the changes of the command are undone.

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
    /// Evaluates one command on the state after all earlier ones. On `Ok` its effects, if any,
    /// are in the open batch. On `Err` there are none, except the NOSPACE alarm that a write over
    /// the quota raises.
    ///
    /// Must be called only while this machine leads, and never while the open batch is a change
    /// of the configuration ([`Machine::open_is_membership`]). A command that changes the
    /// configuration ([`Command::changes_configuration`]) needs an empty open batch, and no other
    /// such change may be pending ([`Machine::configuration_is_pending`]).
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

    /// Runs `work`, which changes keys. All of its changes enter the open batch, or none if it
    /// fails.
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

/// The evaluation of one command that changes keys.
pub(crate) struct Evaluation<'m> {
    pub shared: &'m Shared,
    snapshot: Snapshot,
    overlay: &'m mut Overlay,
    /// Newest revision before this command.
    pub base: i64,
    compacted: i64,
    budget: ReadBudget,
    /// Changes of the command so far, which are in the overlay too.
    changes: Vec<KeyChange>,
    /// Log bytes of `changes`.
    changed_bytes: u64,
}

impl Evaluation<'_> {
    /// Refuses a command that is too large for a batch, so that it does not fail the other
    /// commands of its batch.
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

    /// Refuses a deletion as soon as it exceeds the limit of one command, before it has visited
    /// its whole range.
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

    /// Most keys that one command can delete, however short they are.
    pub fn deletions_max(&self) -> usize {
        (self.shared.deletion_bytes_max() / deletion_bytes(b"k")) as usize
    }

    /// Returns whether the command has changed nothing yet.
    pub fn is_untouched(&self) -> bool {
        self.changes.is_empty()
    }

    /// The revision at which this command reads.
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

    /// Reads the key at the current revision of this command.
    pub fn fetch(&self, key: &[u8]) -> Result<Option<KeyVersion>, Error> {
        self.view().fetch(key, self.now())
    }

    /// Reads all keys of a range at the current revision of this command.
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

    /// Checks that the lease exists after all pending effects.
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

    /// Checks that one more key can be attached to the lease. Ending a lease deletes all its keys
    /// in one batch, so a key that would not fit is refused now. All pending versions count, and
    /// those that replace an applied version count twice: a nearly full lease may refuse a little
    /// early while writes are under way, but never too late.
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

    /// The keys that are attached to a lease after all pending effects, ascending.
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
