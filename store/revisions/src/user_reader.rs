//! Users and roles for request tasks: checks by the applied state.

use std::sync::Arc;

use auth::{Access, Auth, Identity, SimpleToken};
use etcd_api::Error as Refusal;
use etcd_api::etcdserverpb::TxnRequest;

use crate::Command;
use crate::machine_state::MachineState;
use crate::permit::Permit;

/// The applied users, and what depends on them.
#[derive(Clone, Copy, Debug)]
pub struct UserReader<'a> {
    pub(crate) shared: &'a MachineState,
}

impl UserReader<'_> {
    /// Whether users are checked, in the applied state: one load.
    pub fn are_checked(&self) -> bool {
        self.shared.users.are_checked()
    }

    /// Number that changes with every change of the applied users; odd during one.
    pub fn version(&self) -> u64 {
        self.shared.users.version()
    }

    /// The applied users and roles.
    pub fn current(&self) -> Arc<Auth> {
        self.shared.users.current()
    }

    /// When a token ends, in seconds since 1970, its renewals considered.
    pub fn end_of_token(&self, token: &SimpleToken) -> u64 {
        self.shared.applied().renewals.end_of(token)
    }

    /// Makes a command that this member itself asks for pass while users are checked.
    #[must_use]
    pub fn own_command(&self, command: Command) -> Command {
        self.shared.users.own_command(command)
    }

    /// Refuses a transaction, by the applied users.
    pub fn check_txn(
        &self,
        auth: &Auth,
        caller: Option<&Identity>,
        request: &TxnRequest,
    ) -> Result<(), Refusal> {
        self.permit(auth, caller, |permit| permit.txn(request))
    }

    /// Refuses a caller that may not access all keys of a lease, by the applied users.
    pub fn check_keys_of_lease(
        &self,
        auth: &Auth,
        caller: Option<&Identity>,
        lease: i64,
        access: Access,
    ) -> Result<(), Refusal> {
        self.permit(auth, caller, |permit| permit.keys_of(lease, access))
    }

    /// Refuses a caller that may not read all keys of all leases, by the applied users.
    pub fn check_all_leases(&self, auth: &Auth, caller: Option<&Identity>) -> Result<(), Refusal> {
        auth.require(caller)?;
        let leases = self.shared.applied().lessor.by_expiry();
        self.permit(auth, caller, |permit| {
            let mut leases = leases.iter();
            leases.try_for_each(|&lease| permit.keys_of(lease, Access::Read))
        })
    }

    fn permit(
        &self,
        auth: &Auth,
        caller: Option<&Identity>,
        check: impl FnOnce(Permit<'_>) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        if !auth.is_enabled() {
            return Ok(());
        }
        let keys_of_lease = |lease| self.shared.applied().lessor.keys(lease);
        check(Permit::new(auth, caller, &keys_of_lease))
    }
}
