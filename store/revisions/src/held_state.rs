//! The whole state of one moment, for a file in etcd's format (decision 0030).
//!
//! ```text
//!   apply:   index at 9 is published ──► leases, users, ... of 9 are absorbed
//!                                    ▲
//!   a reader that looks here sees keys of 9 and leases of 8: it looks again
//! ```

use std::sync::{Arc, MutexGuard};

use auth::Auth;
use bytes::Bytes;
use engine::{HeldVersions, KeyChange, Revision, VersionSize};
use etcd_api::{Error as Refusal, authpb};
use etcd_snapshot::{FileRow, FileState, FileStatus, LeaseRecord, RowKey, SnapshotPlan};

use crate::apply::AppliedState;
use crate::machine_state::MachineState;
use crate::member::{Member, Members};
use crate::{Error, Reader};

/// Versions between two questions whether the caller still waits.
const LOOK_EVERY: usize = 4096;

/// The state of one moment, with all versions of keys that it has. While it lives, sweeps of
/// later compactions wait.
#[derive(Debug)]
pub struct HeldState {
    state: FileState,
    versions: Arc<HeldVersions>,
}

/// Waits until the index has nothing that is not absorbed. A hold that is dropped again wakes the
/// applying thread, so none is taken before.
fn wait_for_one_moment(shared: &MachineState) {
    loop {
        let snapshot = shared.engine.snapshot();
        let applied = shared.applied();
        let is_one = applied.last.revision == snapshot.revision()
            && applied.compacted == snapshot.compacted();
        drop((applied, snapshot));
        if is_one {
            return;
        }
        std::thread::yield_now();
    }
}

/// Whether both are of the same revision and of the same compaction.
fn is_of_one_moment(applied: &AppliedState, versions: &HeldVersions) -> bool {
    applied.last.revision == versions.at() && applied.compacted == versions.compacted()
}

impl HeldState {
    /// Holds everything that is applied at this moment. On any thread but the applying one.
    pub fn of(reader: &Reader) -> HeldState {
        let shared = &reader.shared;
        loop {
            wait_for_one_moment(shared);
            let versions = shared.engine.hold_all_versions();
            let applied = shared.applied();
            if is_of_one_moment(&applied, &versions) {
                return HeldState {
                    state: copy(applied),
                    versions: Arc::new(versions),
                };
            }
        }
    }

    /// The newest revision.
    pub fn revision(&self) -> i64 {
        self.versions.at()
    }

    /// Lays out a file in etcd's format: reads the length of each version. Stops with an error when
    /// `goes_on` returns false.
    pub fn plan(&self, goes_on: impl Fn() -> bool) -> Result<SnapshotPlan, Error> {
        if let Some(name) = self.state.name_too_long() {
            let bytes = name.len();
            let what = format!("a user or role has a name of {bytes} bytes: delete it");
            return Err(Error::NoSnapshot(what.into()));
        }
        let row = |size: VersionSize| (row_key(size.revision, size.tombstone), size.kv_bytes);
        let sizes = self.versions.sizes()?.enumerate();
        let rows = sizes.map(|(number, size)| {
            if number % LOOK_EVERY == 0 && !goes_on() {
                return Err(Refusal::Stopped.into());
            }
            Ok(row(size?))
        });
        SnapshotPlan::new(&self.state, rows)
    }

    /// Writes the file of that plan, piece by piece; the last piece is the SHA-256 of the others.
    pub fn write<E: From<Error>>(
        &self,
        plan: &SnapshotPlan,
        output: &mut dyn FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let row = |version: KeyChange| -> (RowKey, Bytes) {
            (row_key(version.revision, version.tombstone), version.kv)
        };
        let versions = self.versions.versions().map_err(Error::from)?;
        let rows = versions.map(|version| Ok(row(version.map_err(Error::from)?)));
        match plan.write(rows, output)? {
            true => Ok(()),
            false => Err(changed().into()),
        }
    }

    /// The numbers that the file of that plan would have. `progress` gets the bytes of versions as they
    /// are read. Memory grows with the keys that exist.
    pub fn status(
        &self,
        plan: &SnapshotPlan,
        mut progress: impl FnMut(u64),
    ) -> Result<FileStatus, Error> {
        let rows = self
            .versions
            .versions()?
            .map(|version| -> Result<_, Error> {
                let version = version?;
                progress(version.kv.len() as u64);
                Ok(FileRow {
                    row: row_key(version.revision, version.tombstone),
                    key: version.key,
                    kv: version.kv,
                })
            });
        plan.status(rows)?.ok_or_else(changed)
    }
}

fn changed() -> Error {
    Error::NoSnapshot("its versions have changed in between: try again".into())
}

fn row_key(revision: Revision, is_deletion: bool) -> RowKey {
    RowKey {
        main: revision.main,
        sub: revision.sub,
        is_deletion,
    }
}

/// Copies what is applied, and lets apply continue before it is converted.
fn copy(applied: MutexGuard<'_, AppliedState>) -> FileState {
    let leases = applied.lessor.all();
    let leases = leases.map(|(id, ttl_seconds, _)| LeaseRecord { id, ttl_seconds });
    let leases: Vec<LeaseRecord> = leases.collect();
    let alarms = applied.alarms.clone();
    let (members, auth) = (Arc::clone(&applied.members), Arc::clone(&applied.auth));
    let (last, compacted) = (applied.last, applied.compacted);
    let downgrade = applied.downgrade.clone();
    drop(applied);
    FileState {
        compacted,
        index: last.index,
        term: last.term,
        leases,
        alarms: alarms.0.iter().map(|alarm| alarm.to_member()).collect(),
        members: members.iter().map(Member::to_message).collect(),
        removed_members: Members::removed(&members).collect(),
        has_auth: auth.is_enabled(),
        auth_revision: auth.revision(),
        users: users(&auth),
        roles: roles(&auth),
        downgrade,
    }
}

fn users(auth: &Auth) -> Vec<authpb::User> {
    let message = |(name, user): (&str, &auth::User)| authpb::User {
        name: Bytes::copy_from_slice(name.as_bytes()),
        password: Bytes::copy_from_slice(&user.hash),
        roles: user.roles.clone(),
        options: Some(authpb::UserAddOptions {
            no_password: user.no_password,
        }),
    };
    auth.users().map(message).collect()
}

fn roles(auth: &Auth) -> Vec<authpb::Role> {
    let message = |(name, role): (&str, &auth::Role)| authpb::Role {
        name: Bytes::copy_from_slice(name.as_bytes()),
        key_permission: role.permissions.clone(),
    };
    auth.roles().map(message).collect()
}
