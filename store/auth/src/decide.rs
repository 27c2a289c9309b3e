//! Deciding: the effect of a request on the state after all earlier ones, or its refusal.
//!
//! The order of the checks is part of the contract: a request with two mistakes is refused for
//! the same one as in etcd.

use etcd_api::Error as Refusal;
use etcd_api::authpb::Permission;
use etcd_api::etcdserverpb::{
    AuthRoleAddRequest, AuthRoleDeleteRequest, AuthRoleGrantPermissionRequest,
    AuthRoleRevokePermissionRequest, AuthUserAddRequest, AuthUserChangePasswordRequest,
    AuthUserDeleteRequest, AuthUserGrantRoleRequest, AuthUserRevokeRoleRequest,
};

use crate::accounts::{Auth, ROOT, Role, User};
use crate::change::AuthChange;
use crate::interval::Span;
use crate::password::decode_hash;
use crate::request::{AuthRequest, EnableRequest};
use crate::token::Secret;

type Decision = Result<Option<AuthChange>, Refusal>;

impl Auth {
    /// Returns the effect of a request; `None` if it changes nothing.
    pub fn decide(&self, request: &AuthRequest) -> Decision {
        match request {
            AuthRequest::Enable(request) => self.enable(request),
            AuthRequest::Disable(_) => Ok(self.is_enabled().then(|| AuthChange::Disabled {
                revision: self.next_revision(),
            })),
            AuthRequest::UserAdd(request) => self.user_add(request),
            AuthRequest::UserDelete(request) => self.user_delete(request),
            AuthRequest::UserChangePassword(request) => self.user_change_password(request),
            AuthRequest::UserGrantRole(request) => self.user_grant_role(request),
            AuthRequest::UserRevokeRole(request) => self.user_revoke_role(request),
            AuthRequest::RoleAdd(request) => self.role_add(request),
            AuthRequest::RoleDelete(request) => self.role_delete(request),
            AuthRequest::RoleGrantPermission(request) => self.role_grant_permission(request),
            AuthRequest::RoleRevokePermission(request) => self.role_revoke_permission(request),
            // A renewal concerns no user and no role.
            AuthRequest::Renew(_) => Ok(None),
        }
    }

    fn next_revision(&self) -> u64 {
        self.revision() + 1
    }

    fn enable(&self, request: &EnableRequest) -> Decision {
        let secret = Secret::new(&request.secret).ok_or(Refusal::InvalidAuthManagement);
        if self.is_enabled() {
            let secret = secret.ok().filter(|_| self.lacks_secret());
            return Ok(secret.map(|secret| AuthChange::Enabled { secret }));
        }
        let root = self.user(ROOT).ok_or(Refusal::RootUserNotExist)?;
        if !root.holds(ROOT) {
            return Err(Refusal::RootRoleNotExist);
        }
        Ok(Some(AuthChange::Enabled { secret: secret? }))
    }

    fn user_add(&self, request: &AuthUserAddRequest) -> Decision {
        if request.name.is_empty() {
            return Err(Refusal::UserEmpty);
        }
        if self.user(&request.name).is_some() {
            return Err(Refusal::UserAlreadyExist);
        }
        let no_password = request
            .options
            .as_ref()
            .is_some_and(|options| options.no_password);
        let user = User {
            hash: hash(no_password, &request.hashed_password)?,
            no_password,
            roles: Vec::new(),
            generation: self.next_revision(),
        };
        Ok(Some(self.put(&request.name, user)))
    }

    fn user_delete(&self, request: &AuthUserDeleteRequest) -> Decision {
        if self.is_enabled() && request.name == ROOT {
            return Err(Refusal::InvalidAuthManagement);
        }
        self.existing(&request.name)?;
        Ok(Some(AuthChange::UserDeleted {
            revision: self.next_revision(),
            name: request.name.clone(),
        }))
    }

    /// Ends all tokens of the user, also of one without a password.
    fn user_change_password(&self, request: &AuthUserChangePasswordRequest) -> Decision {
        let mut user = self.existing(&request.name)?;
        user.hash = hash(user.no_password, &request.hashed_password)?;
        user.generation = self.next_revision();
        Ok(Some(self.put(&request.name, user)))
    }

    fn user_grant_role(&self, request: &AuthUserGrantRoleRequest) -> Decision {
        let mut user = self.existing(&request.user)?;
        if request.role != ROOT && self.role(&request.role).is_none() {
            return Err(Refusal::RoleNotFound);
        }
        let Err(place) = user.roles.binary_search(&request.role) else {
            return Ok(None);
        };
        user.roles.insert(place, request.role.clone());
        Ok(Some(self.put(&request.user, user)))
    }

    fn user_revoke_role(&self, request: &AuthUserRevokeRoleRequest) -> Decision {
        if self.is_enabled() && request.name == ROOT && request.role == ROOT {
            return Err(Refusal::InvalidAuthManagement);
        }
        let mut user = self.existing(&request.name)?;
        let place = user.roles.binary_search(&request.role);
        user.roles
            .remove(place.map_err(|_| Refusal::RoleNotGranted)?);
        Ok(Some(self.put(&request.name, user)))
    }

    fn role_add(&self, request: &AuthRoleAddRequest) -> Decision {
        if request.name.is_empty() {
            return Err(Refusal::RoleEmpty);
        }
        if self.role(&request.name).is_some() {
            return Err(Refusal::RoleAlreadyExist);
        }
        Ok(Some(AuthChange::RoleAdded {
            revision: self.next_revision(),
            name: request.name.clone(),
        }))
    }

    fn role_delete(&self, request: &AuthRoleDeleteRequest) -> Decision {
        if self.is_enabled() && request.role == ROOT {
            return Err(Refusal::InvalidAuthManagement);
        }
        self.existing_role(&request.role)?;
        Ok(Some(AuthChange::RoleDeleted {
            revision: self.next_revision(),
            name: request.role.clone(),
        }))
    }

    /// A permission for the same keys replaces the one before. (etcd overlooks it if another
    /// permission with the same first key lies before it, and keeps both.)
    fn role_grant_permission(&self, request: &AuthRoleGrantPermissionRequest) -> Decision {
        let given = request.perm.as_ref().ok_or(Refusal::PermissionNotGiven)?;
        if !is_valid(given) {
            return Err(Refusal::InvalidAuthManagement);
        }
        self.existing_role(&request.name)?;
        Ok(Some(AuthChange::PermissionPut {
            revision: self.next_revision(),
            role: request.name.clone(),
            permission: given.clone(),
        }))
    }

    fn role_revoke_permission(&self, request: &AuthRoleRevokePermissionRequest) -> Decision {
        let role = self.existing_role(&request.role)?;
        if role.of_keys(&request.key, &request.range_end).is_none() {
            return Err(Refusal::PermissionNotGranted);
        }
        Ok(Some(AuthChange::PermissionRemoved {
            revision: self.next_revision(),
            role: request.role.clone(),
            key: request.key.clone(),
            range_end: request.range_end.clone(),
        }))
    }

    fn existing(&self, user: &str) -> Result<User, Refusal> {
        self.user(user).cloned().ok_or(Refusal::UserNotFound)
    }

    fn existing_role(&self, role: &str) -> Result<&Role, Refusal> {
        self.role(role).ok_or(Refusal::RoleNotFound)
    }

    fn put(&self, name: &str, user: User) -> AuthChange {
        AuthChange::UserPut {
            revision: self.next_revision(),
            name: name.to_owned(),
            user,
        }
    }
}

/// The hash that a user keeps. The server has checked its base64 before.
fn hash(no_password: bool, hashed_password: &str) -> Result<Vec<u8>, Refusal> {
    match no_password {
        true => Ok(Vec::new()),
        false => decode_hash(hashed_password).ok_or(Refusal::AuthFailed),
    }
}

/// Whether a permission has a key, and an end behind it.
fn is_valid(permission: &Permission) -> bool {
    !permission.key.is_empty()
        && match Span::of_request(&permission.key, &permission.range_end) {
            Span::Point(_) | Span::Range(_, None) => true,
            Span::Range(key, Some(end)) => key < end,
        }
}
