//! Changes: the effects that the log holds.

use bytes::Bytes;
use etcd_api::authpb::Permission;

use crate::accounts::{Auth, Role, User};
use crate::token::Secret;

/// An effect on users and roles. It carries what becomes of it, the revision included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuthChange {
    /// Calls are checked from now on. The revision stays.
    Enabled {
        /// The key of all tokens until calls are not checked any more.
        secret: Secret,
    },
    /// Calls are not checked any more, and all tokens end.
    Disabled {
        revision: u64,
    },
    /// A user was added or changed.
    UserPut {
        revision: u64,
        name: String,
        user: User,
    },
    UserDeleted {
        revision: u64,
        name: String,
    },
    /// A role was added, without permissions.
    RoleAdded {
        revision: u64,
        name: String,
    },
    /// A role is gone, also from all users that held it.
    RoleDeleted {
        revision: u64,
        name: String,
    },
    /// A role got a permission; it replaces the one for the same keys.
    PermissionPut {
        revision: u64,
        role: String,
        permission: Permission,
    },
    /// A role lost the permission for exactly these keys.
    PermissionRemoved {
        revision: u64,
        role: String,
        key: Bytes,
        range_end: Bytes,
    },
    /// All users and roles were replaced by those of another cluster, with its revision. Simple tokens
    /// that were given out before do not count any more.
    Replaced {
        auth: Box<Auth>,
    },
}

impl AuthChange {
    /// The revision that the change makes; `None` if it makes none.
    fn revision(&self) -> Option<u64> {
        match self {
            AuthChange::Enabled { .. } | AuthChange::Replaced { .. } => None,
            AuthChange::Disabled { revision }
            | AuthChange::UserPut { revision, .. }
            | AuthChange::UserDeleted { revision, .. }
            | AuthChange::RoleAdded { revision, .. }
            | AuthChange::RoleDeleted { revision, .. }
            | AuthChange::PermissionPut { revision, .. }
            | AuthChange::PermissionRemoved { revision, .. } => Some(*revision),
        }
    }
}

impl Auth {
    /// Carries out a change. Fails if it contradicts the state.
    pub fn apply(&mut self, change: AuthChange) -> Result<(), &'static str> {
        let due = self.revision() + 1;
        if change.revision().is_some_and(|revision| revision != due) {
            return Err("not the next revision of users and roles");
        }
        self.set_revision(change.revision().unwrap_or(self.revision()));
        match change {
            AuthChange::Enabled { secret } => self.set_secret(Some(secret)),
            AuthChange::Disabled { .. } => self.set_secret(None),
            AuthChange::Replaced { auth } => *self = *auth,
            AuthChange::UserPut { name, user, .. } => {
                let owner = self.user_of_generation(user.generation);
                if owner.is_some_and(|owner| owner != name) {
                    return Err("a generation of another user");
                }
                self.put_user(name, user);
            }
            AuthChange::UserDeleted { name, .. } => self.remove_user(&name),
            AuthChange::RoleAdded { name, .. } => self.put_role(name, Role::default()),
            AuthChange::RoleDeleted { name, .. } => self.remove_role(&name),
            AuthChange::PermissionPut {
                role, permission, ..
            } => self.change_role(role, |it| it.put(permission))?,
            AuthChange::PermissionRemoved {
                role,
                key,
                range_end,
                ..
            } => self.change_role(role, |it| it.remove(&key, &range_end))?,
        }
        Ok(())
    }

    fn change_role(
        &mut self,
        name: String,
        change: impl FnOnce(&mut Role),
    ) -> Result<(), &'static str> {
        let mut role = self
            .role(&name)
            .cloned()
            .ok_or("a role that is not there")?;
        change(&mut role);
        self.put_role(name, role);
        Ok(())
    }

    /// Restores a state from its parts, as a checkpoint has them. Fails if they contradict each
    /// other.
    pub fn restore(
        secret: Option<Secret>,
        revision: u64,
        users: Vec<(String, User)>,
        roles: Vec<(String, Role)>,
    ) -> Result<Auth, &'static str> {
        let mut auth = Auth::default();
        auth.set_revision(revision);
        auth.set_secret(secret);
        for (name, role) in roles {
            if auth.role(&name).is_some() {
                return Err("a role twice");
            }
            auth.put_role(name, role);
        }
        for (name, user) in users {
            let known = auth.user_of_generation(user.generation).is_some();
            if known || auth.user(&name).is_some() {
                return Err("a user twice");
            }
            auth.put_user(name, user);
        }
        Ok(auth)
    }
}
