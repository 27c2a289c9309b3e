//! The state of a replica as its owner sees it.

use std::sync::Arc;

use revisions::Reader;

use super::Replica;
use super::agreement::Agreements;
use super::leader::Leader;
use super::snapshot_receive::Installed;
use crate::{Error, ReadLease, Status};

impl Replica {
    pub fn member_id(&self) -> u64 {
        self.core.member_id
    }

    /// A reader of the applied state.
    pub fn reader(&self) -> &Reader {
        &self.core.reader
    }

    pub fn term(&self) -> u64 {
        self.core.raft().term
    }

    /// Id of the leader, as far as this member knows; 0 if it knows of none.
    pub fn leader(&self) -> u64 {
        self.core.leader
    }

    /// Whether this member leads and evaluates commands.
    pub fn leads(&self) -> bool {
        self.role.is_ready() && self.core.is_raft_leader()
    }

    /// Whether this member leads and is the only voter. Then everything that was ever
    /// acknowledged is applied here.
    pub fn leads_alone(&self) -> bool {
        self.leads() && self.core.is_only_voter()
    }

    /// Whether this member leads a cluster that has other voters.
    pub(super) fn has_followers(&self) -> bool {
        self.leads() && !self.leads_alone()
    }

    /// Whether this member is the only voter.
    pub fn stands_alone(&self) -> bool {
        self.core.raft().promotable() && self.core.is_only_voter()
    }

    /// Whether this member is Raft's leader, even if it does not evaluate commands yet.
    pub fn holds_leadership(&self) -> bool {
        self.core.holds_leadership()
    }

    /// Whether another member leads, or this one cannot hand leadership over: it is the only
    /// voter or has failed.
    pub fn is_handed_over(&self) -> bool {
        let leader = self.core.raft().leader_id;
        self.core.failed.is_some()
            || self.core.is_only_voter()
            || (leader != 0 && leader != self.core.member_id)
    }

    /// Index of the last entry in the log.
    pub fn index(&self) -> u64 {
        self.core.raft().raft_log.last_index()
    }

    /// Index of the last entry that is applied.
    pub fn applied_index(&self) -> u64 {
        self.core.engine().applied_index()
    }

    /// The error that has ended the replica, if it has ended: it writes nothing any more.
    pub fn failure(&self) -> Option<&Error> {
        self.core.failed.as_ref()
    }

    /// The lease under which this member may serve reads without asking other members.
    pub fn read_lease(&self) -> &Arc<ReadLease> {
        &self.leader_lease.published
    }

    /// Whether this member may lack entries that it has acknowledged. Such a member does not
    /// stand for election, and votes only as `rejoin.rs` says.
    pub fn is_rejoining(&self) -> bool {
        self.rejoin.is_under_way()
    }

    /// Whether a snapshot from the leader is being imported.
    pub fn is_importing(&self) -> bool {
        self.receiving.incoming.is_some()
    }

    /// The snapshot that was installed last, since the start.
    pub fn installed(&self) -> Option<Installed> {
        self.receiving.installed
    }

    /// Whether no command waits here or at the leader: none is in the open batch, in flight,
    /// to be evaluated again, waiting for confirmation, forwarded or to be tried again.
    pub fn is_idle(&self) -> bool {
        let leader = self.role.leader();
        leader.is_none_or(Leader::has_nothing_to_lose) && self.requests.has_no_command()
    }

    /// Whether a command waits to be evaluated for which the open batch has room: one of
    /// the replica's own, one that is evaluated again, or one that another member forwarded.
    pub fn has_commands_to_evaluate(&self) -> bool {
        let leader = self.role.leader();
        leader.is_some_and(|it| it.has_commands_to_evaluate(&self.core))
    }

    /// Whether no command was evaluated since the last batch was sealed.
    pub fn open_is_empty(&self) -> bool {
        self.role.leader().is_none_or(|it| it.open.is_empty())
    }

    /// Whether a batch of more than `changes_max` changes is open or waits to be applied.
    pub fn has_a_batch_above(&self, changes_max: usize) -> bool {
        self.core.machine.open_changes() > changes_max
            || self.core.consensus.has_a_batch_above(changes_max)
    }

    /// Findings of the comparison of the members' states, since the start.
    pub fn agreements(&self) -> Agreements {
        self.agreement.found
    }

    /// The state for people and metrics, without what only the node knows.
    pub fn status(&self) -> Status {
        Status {
            term: self.term(),
            leader: self.leader(),
            index: self.index(),
            applied_index: self.applied_index(),
            waiting: 0,
            leader_changes: 0,
            leases_expired: self.core.leases_expired,
            rejoining: self.is_rejoining(),
            late_heartbeats: self.late_heartbeats,
            lost_read_rounds: self.requests.reads.lost_rounds,
            reads_given_up: self.requests.reads.given_up,
            importing: self.is_importing(),
            agreements: self.agreements(),
            full: self.room.is_full(&self.core, self.role.is_leader()),
        }
    }
}
