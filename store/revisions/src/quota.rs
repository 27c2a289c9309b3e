//! The space quota: what a request will cost, and whether there is room.
//!
//! Costs are etcd's estimates, not what the log will take: whether a write
//! passes must not depend on the format. A request that costs nothing
//! (deletions, compaction, reads) always passes; that is the way out.
//!
//! Each member has its own quota and its own store: a leader looks at its own before it
//! evaluates a write, a follower before it sends one on and after it has applied some.

use etcd_api::Error as Refusal;
use etcd_api::etcdserverpb::request_op::Request as Operation;
use etcd_api::etcdserverpb::{AlarmType, PutRequest, RequestOp, TxnRequest};

use crate::machine::Machine;
use crate::{Command, Error};

/// Estimated bytes of a key besides its data.
const KEY_BYTES: u64 = 256;
/// Estimated bytes of a lease.
const LEASE_BYTES: u64 = 64;

impl Machine {
    /// Refuses a command that costs space when the quota is used up, and raises the NOSPACE alarm
    /// the first time.
    pub(crate) fn check_quota(&mut self, command: &Command) -> Result<(), Error> {
        let cost_bytes = cost(command);
        if cost_bytes == 0 {
            return Ok(());
        }
        if self.decided.alarms.raised(AlarmType::Nospace) {
            return Err(Refusal::NoSpace.into());
        }
        if self.fits_quota(cost_bytes) {
            return Ok(());
        }
        self.raise_no_space();
        Err(Refusal::NoSpace.into())
    }

    /// Returns whether the command fits this member's own quota, even if another member evaluates
    /// it.
    pub fn has_room_for(&self, command: &Command) -> bool {
        let cost_bytes = cost(command);
        cost_bytes == 0 || self.fits_quota(cost_bytes)
    }

    /// Returns whether this member's store exceeds its quota and no member has raised the alarm.
    pub fn is_over_quota(&self) -> bool {
        !self.fits_quota(0) && !self.alarm_is_raised(AlarmType::Nospace)
    }

    fn fits_quota(&self, cost_bytes: u64) -> bool {
        let Some(quota_bytes) = self.shared.options.quota_bytes else {
            return true;
        };
        let used_bytes = self.shared.used_bytes() + self.unapplied_bytes();
        used_bytes.saturating_add(cost_bytes) < quota_bytes
    }
}

impl Command {
    /// Returns whether the command costs no space, so that it passes a full quota.
    pub fn needs_no_room(&self) -> bool {
        cost(self) == 0
    }
}

fn cost(command: &Command) -> u64 {
    match command {
        Command::Put(request) => of_put(request),
        Command::Txn(request) => of_txn(request),
        Command::LeaseGrant(_) => LEASE_BYTES,
        Command::DeleteRange(_)
        | Command::Compact(_)
        | Command::LeaseRevoke(_)
        | Command::Alarm(_)
        | Command::MemberAdd(_)
        | Command::MemberRemove(_)
        | Command::MemberUpdate(_)
        | Command::MemberPromote(_)
        | Command::MemberPublish(_) => 0,
    }
}

fn of_put(request: &PutRequest) -> u64 {
    KEY_BYTES + (request.key.len() + request.value.len()) as u64
}

/// The cost of the more expensive branch, as it is not known yet which one runs.
fn of_txn(request: &TxnRequest) -> u64 {
    of_operations(&request.success).max(of_operations(&request.failure))
}

fn of_operations(operations: &[RequestOp]) -> u64 {
    let costs = operations.iter().map(|operation| match &operation.request {
        Some(Operation::RequestPut(request)) => of_put(request),
        Some(Operation::RequestTxn(request)) => of_txn(request),
        _ => 0,
    });
    costs.sum()
}
