//! Takes over users and roles. A watch does not show them, and the hashes of passwords are in snapshots
//! only: so a change of them costs a snapshot.

use std::path::Path;

use bolt::DatabaseFile;
use environment::randomness::secret_bytes;
use etcd_api::inkstonepb::GivenUsers;
use etcd_api::inkstonepb::follow_change::Change;
use etcd_snapshot::FileState;

use super::source::{UsersState, users_state};
use super::target::Target;
use crate::client::Connection;
use crate::failure::Failure;
use crate::snapshot::download::download;

/// Whether the source and the store have different users, going by their revisions.
pub(crate) async fn users_differ(source: &Connection, target: &Target) -> Result<bool, Failure> {
    let theirs = users_state(source).await?;
    let ours = users_state(&target.connection).await?;
    Ok(theirs != ours)
}

/// Replaces the store's users and roles by the source's. Returns what it has now.
pub(crate) async fn take_over_users(
    source: &Connection,
    target: &Target,
) -> Result<UsersState, Failure> {
    // Other users of the machine must not know its name before.
    let name = secret_bytes::<8>()
        .map_err(|error| Failure::failed(format_args!("no random name for a file: {error}"), ""))?;
    let name = format!("inkstone-follow-{:016x}.db", u64::from_le_bytes(name));
    let path = std::env::temp_dir().join(name);
    let (file, _) = download(source, &path, false).await?;
    let state = read(&file.path)?;
    drop(file);
    let users = GivenUsers {
        enabled: state.has_auth,
        revision: state.auth_revision,
        users: state.users,
        roles: state.roles,
    };
    let taken = UsersState {
        enabled: users.enabled,
        revision: users.revision,
    };
    target.must_change(Change::Users(users)).await?;
    Ok(taken)
}

fn read(path: &Path) -> Result<FileState, Failure> {
    let file = DatabaseFile::open(path).map_err(|error| Failure::failed(error, ""))?;
    let state = FileState::read(&file);
    state.map_err(|error| Failure::failed(format_args!("the source's snapshot: {error}"), ""))
}
