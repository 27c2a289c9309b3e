//! Users with a password and a role for all keys, as a trial's clients have them.

use bytes::Bytes;
use etcd_api::authpb::Permission;
use etcd_api::authpb::permission::Type;
use etcd_api::etcdserverpb::auth_client::AuthClient;
use etcd_api::etcdserverpb::{
    AuthEnableRequest, AuthRoleAddRequest, AuthRoleGrantPermissionRequest, AuthUserAddRequest,
    AuthUserGrantRoleRequest, AuthenticateRequest,
};
use tonic::Status;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::Channel;

const ADMINISTRATOR: &str = "root";
/// The role of all users but the administrator.
const ROLE: &str = "clients";

/// Name and password of a user.
#[derive(Clone, Debug)]
pub(crate) struct Login {
    name: String,
    password: String,
}

impl Login {
    /// The login of the user that [`create_users`] makes with this name.
    pub(crate) fn of(name: &str) -> Login {
        Login {
            name: name.to_owned(),
            password: format!("password of {name}"),
        }
    }

    /// A new token.
    pub(crate) async fn token(&self, channel: Channel) -> Result<MetadataValue<Ascii>, Status> {
        let request = AuthenticateRequest {
            name: self.name.clone(),
            password: self.password.clone(),
        };
        let answer = AuthClient::new(channel).authenticate(request).await?;
        let token = answer.into_inner().token.parse();
        token.map_err(|_| Status::internal("the token is no text"))
    }

    fn user(&self) -> AuthUserAddRequest {
        AuthUserAddRequest {
            name: self.name.clone(),
            password: self.password.clone(),
            ..AuthUserAddRequest::default()
        }
    }
}

/// Makes an administrator, and users of these names with a role for all keys, and switches
/// users on.
pub(crate) async fn create_users(channel: Channel, names: &[String]) -> Result<(), Status> {
    let mut auth = AuthClient::new(channel);
    let role = |name: &str| AuthRoleAddRequest {
        name: name.to_owned(),
    };
    auth.role_add(role(ADMINISTRATOR)).await?;
    auth.role_add(role(ROLE)).await?;
    let all_keys = Permission {
        perm_type: Type::Readwrite as i32,
        key: Bytes::from_static(b"\0"),
        range_end: Bytes::from_static(b"\0"),
    };
    auth.role_grant_permission(AuthRoleGrantPermissionRequest {
        name: ROLE.to_owned(),
        perm: Some(all_keys),
    })
    .await?;
    let users = names.iter().map(|name| (name.as_str(), ROLE));
    for (name, role) in users.chain([(ADMINISTRATOR, ADMINISTRATOR)]) {
        auth.user_add(Login::of(name).user()).await?;
        auth.user_grant_role(AuthUserGrantRoleRequest {
            user: name.to_owned(),
            role: role.to_owned(),
        })
        .await?;
    }
    auth.auth_enable(AuthEnableRequest {}).await?;
    Ok(())
}
