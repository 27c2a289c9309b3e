//! Requests from the log of an etcd, carried out after its database file was restored.
//!
//! ```text
//!   member/snap/db ──► restored machine ─┐
//!   member/wal ──► requests ──► commands ┴─► evaluated, appended, applied ──► HeldState
//! ```
//!
//! They have the effects that they had in etcd, because both evaluate the same requests on the same
//! state: a request that etcd refused is refused here, too. Two rules are etcd's alone: a request over
//! the quota is carried out, and another one raises the alarm; and only changes of keys and users and
//! revocations of leases are checked for their user.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use auth::{AuthCommand, AuthRequest, EnableRequest, Identity, Proof, SECRET_BYTES};
use bolt::DatabaseFile;
use engine::HardState;
use environment::randomness::secret_bytes;
use environment::{Clock, Disk};
use etcd_api::etcdserverpb::downgrade_request::DowngradeAction;
use etcd_api::etcdserverpb::{DowngradeRequest, Member as MemberMessage};
use etcd_snapshot::FileState;
use etcd_wal::{DowngradeInfo, InternalRaftRequest, Request, RequestHeader, Tail};

use crate::bootstrap::append;
use crate::restore::{TERM, fill};
use crate::{
    Command, Error, HeldState, Machine, Member, MemberPublishRequest, Options, RestoreError,
    RevisionBump, validate,
};

/// Numbers of the requests of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Requests that were carried out.
    pub done: u64,
    /// Requests that were refused, as in etcd.
    pub refused: u64,
}

/// Restores the database file of an etcd to a directory that has nothing in it, carries out the
/// requests of its log, and returns the state after all of them, with the machine that has it. The
/// members are those of the file. `progress` gets the bytes of rows as they are read, all of them
/// twice, and tells whether to go on; it is also asked before each request.
///
/// The directory must be removed afterwards: its member is none of a cluster.
pub fn replay_etcd(
    disk: Arc<dyn Disk>,
    directory: &Path,
    mut options: Options,
    clock: Arc<dyn Clock>,
    (file, tail): (&DatabaseFile, &Tail),
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<(Machine, HeldState, Replayed), RestoreError> {
    let members = FileState::read(file)?.members;
    options.initial_members = members.iter().map(member).collect();
    options.checks_callers = true;
    options.quota_bytes = None;
    let source = (file, RevisionBump::default());
    let (mut machine, reader, _) = fill(disk, directory, options, clock, source, progress)?;
    machine.promote(Duration::ZERO);
    for member in &members {
        evaluate(&mut machine, &publication(member), &mut Replayed::default())?;
    }
    let mut replayed = Replayed::default();
    for request in tail.requests() {
        let request = request?;
        if !progress(0) {
            return Err(etcd_snapshot::Error::Interrupted.into());
        }
        let number = request.number();
        let Some(command) = command_of(request)? else {
            continue;
        };
        // etcd checks this before it writes a request to its log.
        let unfit =
            |what: String| RestoreError::Unfit(format!("request {number} of its log: {what}"));
        let sound = validate::command(command.plain(), usize::MAX);
        sound.map_err(|error| unfit(error.to_string()))?;
        if has_plain_password(command.plain()) {
            return Err(unfit(
                "it has a password that is not hashed, as releases before 3.5 wrote it; start that \
                 etcd once more and save a snapshot"
                    .to_owned(),
            ));
        }
        let evaluated = evaluate(&mut machine, &command, &mut replayed);
        evaluated.map_err(|error| unfit(error.to_string()))?;
    }
    write_and_apply(&mut machine)?;
    let held = HeldState::of(&reader);
    Ok((machine, held, replayed))
}

fn member(message: &MemberMessage) -> Member {
    Member {
        id: message.id,
        is_learner: message.is_learner,
        peer_urls: message.peer_ur_ls.clone(),
        ..Member::default()
    }
}

fn publication(member: &MemberMessage) -> Command {
    let publication = MemberPublishRequest {
        id: member.id,
        name: member.name.clone(),
        client_urls: member.client_ur_ls.clone(),
    };
    Command::MemberPublish(publication).by_member()
}

/// Evaluates a command, and writes the batch if that is full.
fn evaluate(
    machine: &mut Machine,
    command: &Command,
    replayed: &mut Replayed,
) -> Result<(), RestoreError> {
    match machine.evaluate(command) {
        Ok(_) => replayed.done += 1,
        Err(Error::Etcd(_)) => replayed.refused += 1,
        Err(error) => return Err(error.into()),
    }
    match machine.batch_is_full() {
        true => write_and_apply(machine),
        false => Ok(()),
    }
}

fn write_and_apply(machine: &mut Machine) -> Result<(), RestoreError> {
    let index = machine.shared.engine.status().applied_index + 1;
    let Some(batch) = machine.seal(TERM, index) else {
        return Ok(());
    };
    let state = HardState {
        term: TERM,
        vote: 0,
        commit: index,
    };
    for written in append(&machine.shared.engine, vec![batch], state)? {
        machine.apply(written.batch, written.appended);
    }
    Ok(())
}

/// The command that does what the request asks for; `None` for one that changes nothing here.
fn command_of(request: InternalRaftRequest) -> Result<Option<Command>, RestoreError> {
    let Some(plain) = request.request else {
        return Ok(None);
    };
    let is_checked = is_checked(&plain);
    let plain = plain_of(plain)?;
    Ok(Some(match request.header {
        _ if !is_checked => plain.by_member(),
        Some(header) if header.auth_revision > 0 => plain.by_user(&identity(header)),
        _ => plain,
    }))
}

/// Whether etcd asks for the user when it carries a request out; for the others it did so before it
/// wrote them to its log, unless the server itself asked.
fn is_checked(request: &Request) -> bool {
    !matches!(
        request,
        Request::Compaction(_)
            | Request::LeaseGrant(_)
            | Request::Alarm(_)
            | Request::DowngradeInfoSet(_)
    )
}

fn identity(header: RequestHeader) -> Arc<Identity> {
    Arc::new(Identity {
        user: header.username,
        proof: Proof::Revision(header.auth_revision),
    })
}

fn plain_of(request: Request) -> Result<Command, RestoreError> {
    let of_users = match request {
        Request::Put(request) => return Ok(Command::Put(request)),
        Request::DeleteRange(request) => return Ok(Command::DeleteRange(request)),
        Request::Txn(request) => return Ok(Command::Txn(request)),
        Request::Compaction(request) => return Ok(Command::Compact(request)),
        Request::LeaseGrant(request) => return Ok(Command::LeaseGrant(request)),
        Request::LeaseRevoke(request) => return Ok(Command::LeaseRevoke(request)),
        Request::Alarm(request) => return Ok(Command::Alarm(request)),
        Request::DowngradeInfoSet(info) => return Ok(downgrade(info)),
        Request::AuthEnable(_) => AuthRequest::Enable(enable()?),
        Request::AuthDisable(request) => AuthRequest::Disable(request),
        Request::AuthUserAdd(request) => AuthRequest::UserAdd(request),
        Request::AuthUserDelete(request) => AuthRequest::UserDelete(request),
        Request::AuthUserChangePassword(request) => AuthRequest::UserChangePassword(request),
        Request::AuthUserGrantRole(request) => AuthRequest::UserGrantRole(request),
        Request::AuthUserRevokeRole(request) => AuthRequest::UserRevokeRole(request),
        Request::AuthRoleAdd(request) => AuthRequest::RoleAdd(request),
        Request::AuthRoleDelete(request) => AuthRequest::RoleDelete(request),
        Request::AuthRoleGrantPermission(request) => AuthRequest::RoleGrantPermission(request),
        Request::AuthRoleRevokePermission(request) => AuthRequest::RoleRevokePermission(request),
    };
    Ok(Command::Auth(AuthCommand {
        request: Some(of_users),
    }))
}

/// Only a server may hash a password: each hash is another.
fn has_plain_password(command: &Command) -> bool {
    let Command::Auth(command) = command else {
        return false;
    };
    match &command.request {
        Some(AuthRequest::UserAdd(it)) => it.hashed_password.is_empty() && !it.password.is_empty(),
        Some(AuthRequest::UserChangePassword(it)) => {
            it.hashed_password.is_empty() && !it.password.is_empty()
        }
        _ => false,
    }
}

/// The key of tokens is of this machine alone: the state that is made here has none.
fn enable() -> Result<EnableRequest, RestoreError> {
    let secret = secret_bytes::<SECRET_BYTES>().map_err(Error::randomness)?;
    Ok(EnableRequest {
        secret: secret.to_vec(),
    })
}

fn downgrade(info: DowngradeInfo) -> Command {
    let action = match info.enabled {
        true => DowngradeAction::Enable,
        false => DowngradeAction::Cancel,
    };
    Command::Downgrade(DowngradeRequest {
        action: action as i32,
        version: info.ver,
    })
}

#[cfg(test)]
mod tests {
    use etcd_api::etcdserverpb::{AuthUserAddRequest, CompactionRequest, PutRequest};

    use super::*;

    fn put(header: Option<RequestHeader>) -> Option<Command> {
        let request = InternalRaftRequest {
            header,
            request: Some(Request::Put(PutRequest::default())),
            ..InternalRaftRequest::default()
        };
        command_of(request).unwrap()
    }

    #[test]
    fn a_request_is_made_in_the_name_of_its_user() {
        let header = RequestHeader {
            id: 1,
            username: "alice".into(),
            auth_revision: 9,
        };
        let identity = Identity {
            user: "alice".into(),
            proof: Proof::Revision(9),
        };
        let plain = Command::Put(PutRequest::default());
        let of_user = plain.clone().by_user(&Arc::new(identity));
        assert_eq!(put(Some(header)), Some(of_user));
        assert_eq!(put(Some(RequestHeader::default())), Some(plain.clone()));
        assert_eq!(put(None), Some(plain));
        let compaction = InternalRaftRequest {
            request: Some(Request::Compaction(CompactionRequest::default())),
            ..InternalRaftRequest::default()
        };
        let by_server = Command::Compact(CompactionRequest::default()).by_member();
        assert_eq!(command_of(compaction).unwrap(), Some(by_server));
        let of_nothing = InternalRaftRequest::default();
        assert_eq!(command_of(of_nothing).unwrap(), None);
    }

    #[test]
    fn a_password_that_is_not_hashed_is_found() {
        let add = |password: &str, hashed: &str| {
            let add = AuthUserAddRequest {
                password: password.into(),
                hashed_password: hashed.into(),
                ..AuthUserAddRequest::default()
            };
            has_plain_password(&plain_of(Request::AuthUserAdd(add)).unwrap())
        };
        assert!(add("secret", ""));
        assert!(!add("", "hash"));
        assert!(!add("", ""));
    }
}
