//! The members of the cluster, as this member has applied them: its own id, Raft's
//! configuration, and which changes the cluster can bear.

use etcd_api::Error as Refusal;
use raft::eraftpb::ConfState;
use revisions::{Command, Members};

use super::replica_core::Core;
use crate::Error;

/// This member's id: the only one in the directory, if a member began it alone, and
/// otherwise `id`. Fails if the member was removed.
pub(super) fn own_id(id: u64, members: &Members) -> Result<u64, Error> {
    if members.is_removed(id) {
        return Err(Error::Removed { member: id });
    }
    let mut all = members.iter();
    match (all.next(), all.next()) {
        (Some(only), None) => Ok(only.id),
        _ => Ok(id),
    }
}

/// The members as Raft represents them, as voters and learners.
pub(super) fn configuration(members: &Members) -> ConfState {
    let mut state = ConfState::default();
    for member in members.iter() {
        if member.is_learner {
            state.learners.push(member.id);
        } else {
            state.voters.push(member.id);
        }
    }
    state
}

/// Whether the command removes this member.
pub(super) fn removes_itself(core: &Core, command: &Command) -> bool {
    matches!(command.plain(), Command::MemberRemove(it) if it.id == core.member_id)
}

/// The other voter that has most of the log, of those that sent a message lately.
pub(super) fn successor(core: &Core) -> Option<u64> {
    let members = core.reader.members();
    let others = members.voters().filter(|voter| voter.id != core.member_id);
    let prs = core.raft().prs();
    let alive = others.filter_map(|voter| {
        let progress = prs.get(voter.id).filter(|_| core.is_alive(voter.id))?;
        Some((progress.matched, voter.id))
    });
    alive.max().map(|(_, id)| id)
}

/// Checks that the cluster can bear a change of its members (etcd's strict
/// reconfiguration check). A member that waits for its first snapshot does not count as
/// started: it cannot confirm any entry.
pub(super) fn check_change(core: &Core, command: &Command) -> Result<(), Refusal> {
    if !command.changes_configuration() {
        return Ok(());
    }
    let progress = core.raft().prs();
    let holds_entries = |id| progress.get(id).is_some_and(|it| it.matched > 0);
    let active = |id| id == core.member_id || (core.is_alive(id) && holds_entries(id));
    let voters = core.voters();
    let started = voters.iter().filter(|&&id| active(id)).count();
    match command.plain() {
        Command::MemberAdd(_) | Command::MemberRemove(_)
            if !core.options.strict_reconfiguration =>
        {
            Ok(())
        }
        Command::MemberAdd(request) if !request.is_learner => {
            let enough = started > voters.len().div_ceil(2) || voters.len() == 1;
            enough.then_some(()).ok_or(Refusal::Unhealthy)
        }
        Command::MemberRemove(request) if voters.contains(&request.id) => {
            let left = voters.len() - 1;
            let active_left = started - usize::from(active(request.id));
            let enough = left == 0 || active_left > left / 2;
            enough.then_some(()).ok_or(Refusal::Unhealthy)
        }
        Command::MemberPromote(request) => check_learner(core, request.id),
        _ => Ok(()),
    }
}

/// Checks that a learner has enough entries to become a voter: 90 % of the leader's, as
/// in etcd.
fn check_learner(core: &Core, id: u64) -> Result<(), Refusal> {
    let raft = core.raft();
    let Some(progress) = raft.prs().get(id) else {
        return Ok(());
    };
    let last = raft.raft_log.last_index();
    if progress.matched * 10 >= last * 9 {
        Ok(())
    } else {
        Err(Refusal::LearnerNotReady)
    }
}
