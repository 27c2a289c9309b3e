//! The service Auth: users and roles do not exist, and every call says so.

use std::sync::Arc;

use etcd_api::etcdserverpb as pb;
use etcd_api::etcdserverpb::auth_server::Auth;
use tonic::{Request, Response, Status};

use crate::backend::Backend;
use crate::calls::Call;
use crate::methods::Method;
use crate::unsupported;

/// Revision of an auth store that was never written.
const FIRST_AUTH_REVISION: u64 = 1;

#[derive(Clone)]
pub(crate) struct AuthService {
    backend: Arc<Backend>,
}

impl AuthService {
    pub(crate) fn new(backend: Arc<Backend>) -> AuthService {
        AuthService { backend }
    }

    /// Counts the call and refuses it.
    fn refuse<Q, A>(&self, method: Method, request: &Request<Q>) -> Result<Response<A>, Status> {
        let call = Call::begin(&self.backend, method, request.metadata())?;
        call.end(Err(unsupported::status(unsupported::AUTH)))
    }
}

#[tonic::async_trait]
impl Auth for AuthService {
    async fn auth_status(
        &self,
        request: Request<pb::AuthStatusRequest>,
    ) -> Result<Response<pb::AuthStatusResponse>, Status> {
        let call = Call::begin(&self.backend, Method::AuthStatus, request.metadata())?;
        call.end(Ok(pb::AuthStatusResponse {
            header: self.backend.header(),
            enabled: false,
            auth_revision: FIRST_AUTH_REVISION,
        }))
    }

    /// Refused like in an etcd without authentication: tokens do not exist.
    async fn authenticate(
        &self,
        request: Request<pb::AuthenticateRequest>,
    ) -> Result<Response<pb::AuthenticateResponse>, Status> {
        let call = Call::begin(&self.backend, Method::Authenticate, request.metadata())?;
        call.end(Err(etcd_api::Error::AuthNotEnabled.to_status()))
    }

    async fn auth_enable(
        &self,
        request: Request<pb::AuthEnableRequest>,
    ) -> Result<Response<pb::AuthEnableResponse>, Status> {
        self.refuse(Method::AuthEnable, &request)
    }

    async fn auth_disable(
        &self,
        request: Request<pb::AuthDisableRequest>,
    ) -> Result<Response<pb::AuthDisableResponse>, Status> {
        self.refuse(Method::AuthDisable, &request)
    }

    async fn user_add(
        &self,
        request: Request<pb::AuthUserAddRequest>,
    ) -> Result<Response<pb::AuthUserAddResponse>, Status> {
        self.refuse(Method::UserAdd, &request)
    }

    async fn user_get(
        &self,
        request: Request<pb::AuthUserGetRequest>,
    ) -> Result<Response<pb::AuthUserGetResponse>, Status> {
        self.refuse(Method::UserGet, &request)
    }

    async fn user_list(
        &self,
        request: Request<pb::AuthUserListRequest>,
    ) -> Result<Response<pb::AuthUserListResponse>, Status> {
        self.refuse(Method::UserList, &request)
    }

    async fn user_delete(
        &self,
        request: Request<pb::AuthUserDeleteRequest>,
    ) -> Result<Response<pb::AuthUserDeleteResponse>, Status> {
        self.refuse(Method::UserDelete, &request)
    }

    async fn user_change_password(
        &self,
        request: Request<pb::AuthUserChangePasswordRequest>,
    ) -> Result<Response<pb::AuthUserChangePasswordResponse>, Status> {
        self.refuse(Method::UserChangePassword, &request)
    }

    async fn user_grant_role(
        &self,
        request: Request<pb::AuthUserGrantRoleRequest>,
    ) -> Result<Response<pb::AuthUserGrantRoleResponse>, Status> {
        self.refuse(Method::UserGrantRole, &request)
    }

    async fn user_revoke_role(
        &self,
        request: Request<pb::AuthUserRevokeRoleRequest>,
    ) -> Result<Response<pb::AuthUserRevokeRoleResponse>, Status> {
        self.refuse(Method::UserRevokeRole, &request)
    }

    async fn role_add(
        &self,
        request: Request<pb::AuthRoleAddRequest>,
    ) -> Result<Response<pb::AuthRoleAddResponse>, Status> {
        self.refuse(Method::RoleAdd, &request)
    }

    async fn role_get(
        &self,
        request: Request<pb::AuthRoleGetRequest>,
    ) -> Result<Response<pb::AuthRoleGetResponse>, Status> {
        self.refuse(Method::RoleGet, &request)
    }

    async fn role_list(
        &self,
        request: Request<pb::AuthRoleListRequest>,
    ) -> Result<Response<pb::AuthRoleListResponse>, Status> {
        self.refuse(Method::RoleList, &request)
    }

    async fn role_delete(
        &self,
        request: Request<pb::AuthRoleDeleteRequest>,
    ) -> Result<Response<pb::AuthRoleDeleteResponse>, Status> {
        self.refuse(Method::RoleDelete, &request)
    }

    async fn role_grant_permission(
        &self,
        request: Request<pb::AuthRoleGrantPermissionRequest>,
    ) -> Result<Response<pb::AuthRoleGrantPermissionResponse>, Status> {
        self.refuse(Method::RoleGrantPermission, &request)
    }

    async fn role_revoke_permission(
        &self,
        request: Request<pb::AuthRoleRevokePermissionRequest>,
    ) -> Result<Response<pb::AuthRoleRevokePermissionResponse>, Status> {
        self.refuse(Method::RoleRevokePermission, &request)
    }
}
