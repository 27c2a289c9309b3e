//! The requests that change users and roles, as they go through the log's queue and between
//! members.
//!
//! A request holds the hash of a password and never the password: the member that a client
//! calls hashes it. Printing a request shows its kind alone, so that no hash and no secret
//! reaches a log.

use std::fmt;

use etcd_api::etcdserverpb::{
    AuthDisableRequest, AuthRoleAddRequest, AuthRoleDeleteRequest, AuthRoleGrantPermissionRequest,
    AuthRoleRevokePermissionRequest, AuthUserAddRequest, AuthUserChangePasswordRequest,
    AuthUserDeleteRequest, AuthUserGrantRoleRequest, AuthUserRevokeRoleRequest, ResponseHeader,
};

/// A request that changes users or roles.
#[derive(Clone, PartialEq, prost::Message)]
#[prost(skip_debug)]
pub struct AuthCommand {
    #[prost(oneof = "AuthRequest", tags = "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12")]
    pub request: Option<AuthRequest>,
}

/// The kinds of [`AuthCommand`].
#[derive(Clone, PartialEq, prost::Oneof)]
#[prost(skip_debug)]
pub enum AuthRequest {
    #[prost(message, tag = "1")]
    Enable(EnableRequest),
    #[prost(message, tag = "2")]
    Disable(AuthDisableRequest),
    #[prost(message, tag = "3")]
    UserAdd(AuthUserAddRequest),
    #[prost(message, tag = "4")]
    UserDelete(AuthUserDeleteRequest),
    #[prost(message, tag = "5")]
    UserChangePassword(AuthUserChangePasswordRequest),
    #[prost(message, tag = "6")]
    UserGrantRole(AuthUserGrantRoleRequest),
    #[prost(message, tag = "7")]
    UserRevokeRole(AuthUserRevokeRoleRequest),
    #[prost(message, tag = "8")]
    RoleAdd(AuthRoleAddRequest),
    #[prost(message, tag = "9")]
    RoleDelete(AuthRoleDeleteRequest),
    #[prost(message, tag = "10")]
    RoleGrantPermission(AuthRoleGrantPermissionRequest),
    #[prost(message, tag = "11")]
    RoleRevokePermission(AuthRoleRevokePermissionRequest),
    /// A token was used late in its life and lives on. Only members send it.
    #[prost(message, tag = "12")]
    Renew(RenewRequest),
}

/// Switches the checks on.
#[derive(Clone, PartialEq, prost::Message)]
#[prost(skip_debug)]
pub struct EnableRequest {
    /// 32 random bytes, which become the key of all tokens.
    #[prost(bytes = "vec", tag = "1")]
    pub secret: Vec<u8>,
}

/// Lengthens the life of a token.
#[derive(Clone, PartialEq, prost::Message)]
pub struct RenewRequest {
    /// The token's number.
    #[prost(fixed64, tag = "1")]
    pub token: u64,
    /// When it ends now, in seconds since 1970.
    #[prost(uint64, tag = "2")]
    pub until: u64,
    /// The time of the renewal; tokens that ended before are forgotten.
    #[prost(uint64, tag = "3")]
    pub now: u64,
}

/// The answer to an [`AuthCommand`]: as in etcd, a header alone.
#[derive(Clone, PartialEq, prost::Message)]
pub struct AuthCommandResponse {
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
}

impl AuthCommand {
    /// Whether it lengthens the life of a token, which changes no user.
    pub fn is_renewal(&self) -> bool {
        matches!(self.request, Some(AuthRequest::Renew(_)))
    }
}

impl AuthRequest {
    fn name(&self) -> &'static str {
        match self {
            AuthRequest::Enable(_) => "Enable",
            AuthRequest::Disable(_) => "Disable",
            AuthRequest::UserAdd(_) => "UserAdd",
            AuthRequest::UserDelete(_) => "UserDelete",
            AuthRequest::UserChangePassword(_) => "UserChangePassword",
            AuthRequest::UserGrantRole(_) => "UserGrantRole",
            AuthRequest::UserRevokeRole(_) => "UserRevokeRole",
            AuthRequest::RoleAdd(_) => "RoleAdd",
            AuthRequest::RoleDelete(_) => "RoleDelete",
            AuthRequest::RoleGrantPermission(_) => "RoleGrantPermission",
            AuthRequest::RoleRevokePermission(_) => "RoleRevokePermission",
            AuthRequest::Renew(_) => "Renew",
        }
    }
}

impl From<AuthRequest> for AuthCommand {
    fn from(request: AuthRequest) -> AuthCommand {
        AuthCommand {
            request: Some(request),
        }
    }
}

impl fmt::Debug for AuthCommand {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.request.as_ref().map_or("None", AuthRequest::name);
        formatter.debug_tuple("AuthCommand").field(&name).finish()
    }
}

impl fmt::Debug for AuthRequest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl fmt::Debug for EnableRequest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("EnableRequest")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_text_shows_no_hash_and_no_secret() {
        let add = AuthRequest::UserAdd(AuthUserAddRequest {
            name: "alice".into(),
            hashed_password: "aGFzaA==".into(),
            ..Default::default()
        });
        let enable = AuthRequest::Enable(EnableRequest {
            secret: vec![77; 32],
        });
        let text = format!(
            "{:?} {:?}",
            AuthCommand::from(add),
            AuthCommand::from(enable)
        );
        assert_eq!(text, "AuthCommand(\"UserAdd\") AuthCommand(\"Enable\")");
    }
}
