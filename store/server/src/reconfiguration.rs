//! etcd's strict check: whether the cluster keeps a quorum after a change of its members.
//!
//! As in etcd, the member that a client asks looks at its own connections: another member
//! counts if its connection has lasted for a while. The leader checks the logs of the
//! others itself, when it evaluates the change.

use std::time::Duration;

use etcd_api::Error as Refusal;
use revisions::{Command, Members, quorum};
use tracing::warn;

use crate::backend::Backend;

/// A connection that has lasted longer than this counts as healthy (etcd's HealthInterval).
const HEALTH_INTERVAL: Duration = Duration::from_secs(5);

/// This member's view of the others.
struct MembersView<'a> {
    members: &'a Members,
    own_id: u64,
    /// For how long another member has been connected; `None` if it is not.
    connected: &'a dyn Fn(u64) -> Option<Duration>,
}

/// Refuses a change that would leave too few healthy members.
pub(crate) fn check(backend: &Backend, command: &Command) -> Result<(), Refusal> {
    if !backend.config.cluster.strict_reconfiguration {
        return Ok(());
    }
    let now = backend.clock.now();
    let connected = |id| {
        let since = backend.node.connected_since(id)?;
        Some(now.saturating_since(since))
    };
    let view = MembersView {
        members: &backend.reader().members(),
        own_id: backend.identity.member,
        connected: &connected,
    };
    let outcome = view.check(command);
    if let Err(refusal) = &outcome {
        let reason = refusal.message();
        warn!(
            reason,
            "rejecting a change of the members; see --strict-reconfig-check"
        );
    }
    outcome
}

impl MembersView<'_> {
    fn check(&self, command: &Command) -> Result<(), Refusal> {
        // A member that waits for its first snapshot knows of no member at all.
        if self.members.get(self.own_id).is_none() {
            return Err(Refusal::Unhealthy);
        }
        match command {
            Command::MemberAdd(request) => self.check_add(request.is_learner),
            Command::MemberRemove(request) => self.check_remove(request.id),
            Command::MemberPromote(_) if !self.members.may_promote() => {
                Err(Refusal::MemberNotEnoughStarted)
            }
            _ => Ok(()),
        }
    }

    /// The new member counts as one that is down.
    fn check_add(&self, is_learner: bool) -> Result<(), Refusal> {
        if !is_learner && !self.members.may_add_voter() {
            return Err(Refusal::MemberNotEnoughStarted);
        }
        let voters = self.members.voters().count();
        match voters == 1 || self.healthy() >= quorum(voters + 1) {
            true => Ok(()),
            false => Err(Refusal::Unhealthy),
        }
    }

    fn check_remove(&self, id: u64) -> Result<(), Refusal> {
        // This member may be behind: only the leader knows that there is no such member.
        let is_voter = |member: &revisions::Member| !member.is_learner;
        if !self.members.get(id).is_some_and(is_voter) {
            return Ok(());
        }
        if !self.members.may_remove(id) {
            return Err(Refusal::MemberNotEnoughStarted);
        }
        // A member that is down is no loss to the quorum.
        if id != self.own_id && (self.connected)(id).is_none() {
            return Ok(());
        }
        let left = self.members.voters().count() - 1;
        match self.healthy() > quorum(left) {
            true => Ok(()),
            false => Err(Refusal::Unhealthy),
        }
    }

    /// Number of voters that have been connected for long enough, this one included.
    fn healthy(&self) -> usize {
        let healthy = |id: u64| {
            let connected = (self.connected)(id);
            id == self.own_id || connected.is_some_and(|length| length > HEALTH_INTERVAL)
        };
        self.members
            .voters()
            .filter(|voter| healthy(voter.id))
            .count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etcd_api::etcdserverpb::{MemberAddRequest, MemberPromoteRequest, MemberRemoveRequest};

    #[test]
    fn a_member_without_its_first_snapshot_refuses_changes_for_now() {
        let view = MembersView {
            members: &Members::default(),
            own_id: 1,
            connected: &|_| Some(HEALTH_INTERVAL * 2),
        };
        let commands = [
            Command::MemberRemove(MemberRemoveRequest { id: 2 }),
            Command::MemberAdd(MemberAddRequest::default()),
            Command::MemberPromote(MemberPromoteRequest { id: 2 }),
        ];
        for command in commands {
            let refusal = view.check(&command);
            assert_eq!(refusal, Err(Refusal::Unhealthy), "{command:?}");
        }
    }
}
