//! A store that follows another cluster: it takes over that cluster's changes with the revisions that
//! they have there, and refuses all other changes.
//!
//! ```text
//!   begin ──► leases, revisions, compactions, users of the source ──► end
//!             └── anything else that changes keys, leases, users or history: refused ──┘
//! ```
//!
//! Nothing is evaluated twice: the source has decided what a change becomes. It is checked, though, that
//! each change continues the history that the store has, because a change that is missing or comes twice
//! would never be noticed later. The mark that a cluster is followed is a part of the replicated state, so
//! that every member refuses other changes, also after a restart.

use engine::KeyChange;
use etcd_api::Fields;
use etcd_api::inkstonepb::follow_change::Change;
use etcd_api::inkstonepb::{
    ChangeResponse, FollowBegin, FollowChange, GivenLeases, GivenRevision, GivenUsers,
};
use etcd_api::mvccpb::event::EventType;

use crate::decide::TTL_MAX_SECONDS;
use crate::evaluate::Evaluation;
use crate::foreign_users::users_of;
use crate::key_value::encode;
use crate::machine::Machine;
use crate::source::SourceCluster;
use crate::state::StateRecord;
use crate::users::{Trust, replace};
use crate::{Command, Error, Response};

/// Most bytes of one step of following: one revision that deletes very many keys is one step.
pub const FOLLOW_BYTES_MAX: usize = 16 << 20;
/// Longest name of a source.
const NAME_BYTES_MAX: usize = 1024;

/// Refuses a command that a store which follows another cluster must not carry out.
pub(crate) fn check_may_change(
    machine: &Machine,
    command: &Command,
    trust: Trust,
) -> Result<(), Error> {
    let Some(source) = &machine.decided.source else {
        return Ok(());
    };
    let plain = command.plain();
    let passes = match plain {
        Command::Follow(_) | Command::Alarm(_) | Command::Downgrade(_) => true,
        // The key of tokens, which the members pick, and their renewal.
        Command::Auth(auth) => trust == Trust::Member || auth.is_renewal(),
        _ => plain.is_about_members(),
    };
    match passes {
        true => Ok(()),
        false => Err(refusal(format_args!(
            "this store follows cluster {:x} ({}) and takes changes from there only: write there, or \
             move with `inkstone cut-over` first",
            source.cluster_id, source.name
        ))),
    }
}

/// Evaluates one step of following.
pub(crate) fn change(machine: &mut Machine, request: &FollowChange) -> Result<Response, Error> {
    let change = request.change.as_ref();
    let change = change.ok_or_else(|| refusal(format_args!("a change without content")))?;
    match change {
        Change::Begin(begin) => self::begin(machine, request.cluster_id, begin)?,
        change => {
            check_source(machine, request.cluster_id)?;
            match change {
                Change::Revision(given) => machine.attempt(|it| self::given(it, given))?,
                Change::Leases(leases) => self::leases(machine, leases)?,
                Change::Users(users) => self::users(machine, users)?,
                Change::Compacted(revision) => compacted(machine, *revision)?,
                Change::End(end) => {
                    check_revision(machine, end.revision)?;
                    set_source(machine, None);
                }
                Change::Begin(_) => unreachable!("handled above"),
            }
        }
    }
    Ok(Response::Follow(ChangeResponse::default()))
}

fn begin(machine: &mut Machine, cluster_id: u64, begin: &FollowBegin) -> Result<(), Error> {
    if machine.decided.source.is_some() {
        return check_source(machine, cluster_id);
    }
    check_revision(machine, begin.revision)?;
    if cluster_id == 0 || begin.name.len() > NAME_BYTES_MAX {
        return Err(refusal(format_args!(
            "a source has the id of its cluster, and a name of {NAME_BYTES_MAX} bytes at most"
        )));
    }
    let name = begin.name.as_str().into();
    set_source(machine, Some(SourceCluster { cluster_id, name }));
    Ok(())
}

fn set_source(machine: &mut Machine, source: Option<SourceCluster>) {
    machine.decided.source.clone_from(&source);
    machine.open.push_state(&StateRecord::Follows { source });
}

fn check_source(machine: &Machine, cluster_id: u64) -> Result<(), Error> {
    match &machine.decided.source {
        Some(source) if source.cluster_id == cluster_id => Ok(()),
        Some(source) => Err(refusal(format_args!(
            "this store follows cluster {:x} ({}), not {cluster_id:x}",
            source.cluster_id, source.name
        ))),
        None => Err(refusal(format_args!(
            "this store follows no cluster: it has its own history since revision {}",
            machine.decided.revision
        ))),
    }
}

fn check_revision(machine: &Machine, revision: i64) -> Result<(), Error> {
    let own = machine.decided.revision;
    match own == revision {
        true => Ok(()),
        false => Err(refusal(format_args!(
            "the store is at revision {own}, not {revision}"
        ))),
    }
}

/// Grants and ends leases. Those that exist, or are gone, already are left alone. A lease of which keys
/// are left stays: the revisions that delete them have not come yet.
fn leases(machine: &mut Machine, leases: &GivenLeases) -> Result<(), Error> {
    let ttl_min_seconds = machine.shared.options.lease_ttl_min_seconds;
    for lease in &leases.granted {
        if lease.id == 0 || lease_exists(machine, lease.id) {
            continue;
        }
        let ttl_seconds = lease.ttl.clamp(ttl_min_seconds, TTL_MAX_SECONDS);
        machine.overlay.set_lease(lease.id, true);
        machine.open.push_state(&StateRecord::Granted {
            id: lease.id,
            ttl_seconds,
        });
    }
    for &id in &leases.revoked {
        let is_empty = machine
            .shared
            .keys_of_lease(&machine.overlay, id)
            .is_empty();
        if lease_exists(machine, id) && is_empty {
            machine.overlay.set_lease(id, false);
            machine.open.push_state(&StateRecord::Revoked { id });
        }
    }
    Ok(())
}

fn lease_exists(machine: &Machine, id: i64) -> bool {
    machine.shared.lease_exists(&machine.overlay, id)
}

fn users(machine: &mut Machine, given: &GivenUsers) -> Result<(), Error> {
    let auth = users_of(given.enabled, given.revision, &given.users, &given.roles);
    let auth = auth.map_err(|what| refusal(format_args!("users and roles with {what}")))?;
    replace(machine, auth)
}

/// The source may have compacted more than this store has got of it: then what is there already.
fn compacted(machine: &mut Machine, revision: i64) -> Result<(), Error> {
    let revision = revision.min(machine.decided.revision);
    if revision > machine.decided.compacted {
        machine.decided.compacted = revision;
        machine.open.push_state(&StateRecord::Compacted {
            revision,
            physical: false,
        });
    }
    Ok(())
}

/// Takes over the changes of one revision.
fn given(it: &mut Evaluation<'_>, given: &GivenRevision) -> Result<(), Error> {
    let next = it.base + 1;
    if given.revision != next || given.events.is_empty() {
        return Err(refusal(format_args!(
            "revision {} with {} changes was given, and the next of this store is {next}",
            given.revision,
            given.events.len()
        )));
    }
    for event in &given.events {
        let kv = event.kv.as_ref().map(|kv| kv.fields()).unwrap_or_default();
        match event.r#type() {
            EventType::Put => given_version(it, &kv)?,
            EventType::Delete => given_deletion(it, kv.key)?,
        }
        it.check_deletion_size()?;
    }
    Ok(())
}

fn given_version(it: &mut Evaluation<'_>, version: &Fields<'_>) -> Result<(), Error> {
    let revision = it.next_revision();
    let before = match version.key.is_empty() {
        true => None,
        false => it.view().lineage(version.key, it.now())?,
    };
    let expected = match before {
        Some(before) => (before.created, before.version + 1, revision.main),
        None => (revision.main, 1, revision.main),
    };
    let given = (
        version.create_revision,
        version.version,
        version.mod_revision,
    );
    if version.key.is_empty() || given != expected {
        return Err(refusal(format_args!(
            "a change does not continue the history of its key: creation, version and revision are \
             {given:?}, and {expected:?} follows here"
        )));
    }
    it.check_lease(version.lease)?;
    if version.lease != 0 && before.map(|before| before.lease) != Some(version.lease) {
        it.check_lease_room(version.lease, version.key)?;
    }
    let (key, kv) = encode(version);
    it.write(KeyChange {
        revision,
        tombstone: false,
        key,
        kv,
        created: version.create_revision,
        version: version.version,
        lease: version.lease,
    });
    Ok(())
}

fn given_deletion(it: &mut Evaluation<'_>, key: &[u8]) -> Result<(), Error> {
    if key.is_empty() || it.view().lineage(key, it.now())?.is_none() {
        return Err(refusal(format_args!("a key is deleted that is not there")));
    }
    it.delete(key);
    Ok(())
}

fn refusal(what: std::fmt::Arguments<'_>) -> Error {
    Error::Follow(what.to_string().into())
}
