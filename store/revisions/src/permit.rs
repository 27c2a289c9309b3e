//! Permission: whether a caller may do what it asks for, while users are checked.
//!
//! Each check looks at everything that a request could touch, whatever it will touch: a
//! transaction at the conditions and both branches, nested ones included. All checks of
//! permissions on keys are here; those on users themselves are in the crate `auth`.

use std::collections::BTreeSet;

use auth::{Access, Auth, AuthRequest, Identity};
use bytes::Bytes;
use etcd_api::Error as Refusal;
use etcd_api::etcdserverpb::alarm_request::AlarmAction;
use etcd_api::etcdserverpb::request_op::Request as Operation;
use etcd_api::etcdserverpb::{AlarmRequest, DeleteRangeRequest, PutRequest, RequestOp, TxnRequest};

use crate::Command;

type Permitted = Result<(), Refusal>;

/// The keys that are attached to a lease.
pub(crate) type KeysOfLease<'a> = &'a dyn Fn(i64) -> BTreeSet<Bytes>;

/// A caller before the users of one moment.
#[derive(Clone, Copy)]
pub(crate) struct Permit<'a> {
    pub auth: &'a Auth,
    /// `None`: it has no identity.
    pub caller: Option<&'a Identity>,
    pub keys_of_lease: KeysOfLease<'a>,
}

impl Permit<'_> {
    /// Checks a command. The match is exhaustive: a new command cannot go without a check.
    pub fn command(&self, command: &Command) -> Permitted {
        if !self.auth.is_enabled() {
            return Ok(());
        }
        match command {
            Command::Put(request) => self.put(request),
            Command::DeleteRange(request) => self.delete_range(request),
            Command::Txn(request) => self.txn(request),
            Command::LeaseGrant(_) => self.auth.require(self.caller),
            Command::LeaseRevoke(request) => {
                self.auth.require(self.caller)?;
                self.keys_of(request.id, Access::Write)
            }
            Command::Alarm(request) => self.alarm(request),
            Command::Auth(command) => match &command.request {
                // Only members renew tokens.
                Some(AuthRequest::Renew(_)) => Err(Refusal::PermissionDenied),
                _ => self.auth.check_admin(self.caller),
            },
            Command::Compact(_)
            | Command::MemberAdd(_)
            | Command::MemberRemove(_)
            | Command::MemberUpdate(_)
            | Command::MemberPromote(_)
            | Command::Downgrade(_) => self.auth.check_admin(self.caller),
            // Clients cannot send it: a member publishes its own name before it has any user.
            Command::MemberPublish(_) => Ok(()),
            Command::As(_) => Err(Refusal::PermissionDenied),
        }
    }

    pub fn alarm(&self, request: &AlarmRequest) -> Permitted {
        match request.action == AlarmAction::Get as i32 {
            true => self.auth.require(self.caller),
            false => self.auth.check_admin(self.caller),
        }
    }

    fn put(&self, request: &PutRequest) -> Permitted {
        self.check(Access::Write, &request.key, &[])?;
        // A caller that attaches a key can end the lease, and all of its keys with it.
        self.keys_of(request.lease, Access::Write)?;
        match request.prev_kv {
            true => self.check(Access::Read, &request.key, &[]),
            false => Ok(()),
        }
    }

    fn delete_range(&self, request: &DeleteRangeRequest) -> Permitted {
        self.check(Access::Write, &request.key, &request.range_end)?;
        match request.prev_kv {
            true => self.check(Access::Read, &request.key, &request.range_end),
            false => Ok(()),
        }
    }

    pub fn txn(&self, request: &TxnRequest) -> Permitted {
        for compare in &request.compare {
            self.check(Access::Read, &compare.key, &compare.range_end)?;
        }
        let mut operations = request.success.iter().chain(&request.failure);
        operations.try_for_each(|operation| self.operation(operation))
    }

    fn operation(&self, operation: &RequestOp) -> Permitted {
        match &operation.request {
            Some(Operation::RequestRange(request)) => {
                self.check(Access::Read, &request.key, &request.range_end)
            }
            Some(Operation::RequestPut(request)) => self.put(request),
            Some(Operation::RequestDeleteRange(request)) => self.delete_range(request),
            Some(Operation::RequestTxn(request)) => self.txn(request),
            None => Ok(()),
        }
    }

    /// Checks access to all keys of a lease. An administrator has it, whatever its revision.
    pub fn keys_of(&self, lease: i64, access: Access) -> Permitted {
        if lease == 0 || self.auth.check_admin(self.caller).is_ok() {
            return Ok(());
        }
        let keys = (self.keys_of_lease)(lease);
        keys.iter().try_for_each(|key| self.check(access, key, &[]))
    }

    fn check(&self, access: Access, key: &[u8], range_end: &[u8]) -> Permitted {
        self.auth.check(self.caller, access, key, range_end)
    }
}
