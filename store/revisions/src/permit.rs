//! Permission: whether a caller may do what it asks for, while users are checked.
//!
//! Each check looks at everything that a request could touch, whatever it will touch: a
//! transaction at the conditions and both branches, nested ones included. All checks of
//! permissions on keys are here; those on users themselves are in the crate `auth`.

use std::cell::RefCell;
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

/// A caller before the users of one moment, with one request.
pub(crate) struct Permit<'a> {
    auth: &'a Auth,
    /// `None`: it has no identity.
    caller: Option<&'a Identity>,
    keys_of_lease: KeysOfLease<'a>,
    /// Leases with keys that the caller may all write. A transaction may name the same one in
    /// each of its puts, and a lease may have very many keys.
    writable_leases: RefCell<BTreeSet<i64>>,
}

impl<'a> Permit<'a> {
    pub fn new(
        auth: &'a Auth,
        caller: Option<&'a Identity>,
        keys_of_lease: KeysOfLease<'a>,
    ) -> Permit<'a> {
        Permit {
            auth,
            caller,
            keys_of_lease,
            writable_leases: RefCell::default(),
        }
    }
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
            | Command::Downgrade(_)
            | Command::Follow(_) => self.auth.check_admin(self.caller),
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
        let writes = access == Access::Write;
        if writes && self.writable_leases.borrow().contains(&lease) {
            return Ok(());
        }
        let keys = (self.keys_of_lease)(lease);
        keys.iter()
            .try_for_each(|key| self.check(access, key, &[]))?;
        if writes {
            self.writable_leases.borrow_mut().insert(lease);
        }
        Ok(())
    }

    fn check(&self, access: Access, key: &[u8], range_end: &[u8]) -> Permitted {
        self.auth.check(self.caller, access, key, range_end)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use auth::{Proof, Role, Secret, User};
    use etcd_api::authpb::Permission;

    use super::*;

    /// A user that may read and write what begins with `/s/`.
    fn alice() -> (Auth, Identity) {
        let permission = Permission {
            perm_type: auth::READ_AND_WRITE,
            key: "/s/".into(),
            range_end: "/s0".into(),
        };
        let role = Role {
            permissions: vec![permission],
        };
        let user = User {
            roles: vec!["services".to_owned()],
            no_password: true,
            generation: 2,
            ..User::default()
        };
        let (users, roles) = (
            vec![("alice".to_owned(), user)],
            vec![("services".to_owned(), role)],
        );
        let identity = Identity {
            user: "alice".to_owned(),
            proof: Proof::Certificate,
        };
        let secret = Secret::new(&[7; 32]);
        (Auth::restore(secret, 9, users, roles).unwrap(), identity)
    }

    #[test]
    fn a_transaction_looks_at_the_keys_of_a_lease_once() {
        let (auth, alice) = alice();
        let looks = Cell::new(0);
        let keys = |_| {
            looks.set(looks.get() + 1);
            BTreeSet::from([Bytes::from("/s/attached")])
        };
        let put = RequestOp {
            request: Some(Operation::RequestPut(PutRequest {
                key: "/s/k".into(),
                lease: 7,
                ..PutRequest::default()
            })),
        };
        let txn = TxnRequest {
            success: vec![put; 100],
            ..TxnRequest::default()
        };
        assert_eq!(Permit::new(&auth, Some(&alice), &keys).txn(&txn), Ok(()));
        assert_eq!(looks.get(), 1);
    }
}
