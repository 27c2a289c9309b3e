//! The service Auth: users, roles and tokens.
//!
//! A password lives here only: the member that a client calls hashes or compares it and
//! overwrites it; the log and the other members see its hash. Reads do not go through the log,
//! as in etcd they do: a member that has seen every acknowledged change answers the same.

use auth::{AuthRequest, EnableRequest, Password, PasswordTooLong, SALT_BYTES, decode_hash};
use environment::randomness::secret_bytes;
use etcd_api::Error as Refusal;
use etcd_api::authpb::Permission;
use etcd_api::etcdserverpb::{
    AuthDisableRequest, AuthDisableResponse, AuthEnableRequest, AuthEnableResponse,
    AuthRoleAddRequest, AuthRoleAddResponse, AuthRoleDeleteRequest, AuthRoleDeleteResponse,
    AuthRoleGetRequest, AuthRoleGetResponse, AuthRoleGrantPermissionRequest,
    AuthRoleGrantPermissionResponse, AuthRoleListRequest, AuthRoleListResponse,
    AuthRoleRevokePermissionRequest, AuthRoleRevokePermissionResponse, AuthStatusRequest,
    AuthStatusResponse, AuthUserAddRequest, AuthUserAddResponse, AuthUserChangePasswordRequest,
    AuthUserChangePasswordResponse, AuthUserDeleteRequest, AuthUserDeleteResponse,
    AuthUserGetRequest, AuthUserGetResponse, AuthUserGrantRoleRequest, AuthUserGrantRoleResponse,
    AuthUserListRequest, AuthUserListResponse, AuthUserRevokeRoleRequest,
    AuthUserRevokeRoleResponse, AuthenticateRequest, AuthenticateResponse, ResponseHeader,
};
use revisions::Command;
use tonic::Status;
use tracing::{info, warn};

use crate::answer_body::{Answered, Handled};
use crate::backend::answer_of;
use crate::callers::Caller;
use crate::tokens::NotIssued;

/// etcd's text, with the code Unknown, for a password where there can be none.
const NO_PASSWORD_USER: &str =
    "auth: authentication failed, password was given for no password user";
/// Bytes of a name that a line of the log shows: a client without a user may send any name.
const SHOWN_NAME_BYTES: usize = 128;

/// Defines the handlers of calls that change users or roles and are answered by a header.
macro_rules! changes {
    ($($name:ident: $kind:ident $request:ident -> $answer:ident;)*) => {
        $(
            pub(crate) async fn $name(caller: Caller, request: $request) -> Handled<$answer> {
                let header = change(&caller, AuthRequest::$kind(request)).await?;
                Ok(Answered::Small($answer { header }))
            }
        )*
    };
}

changes! {
    disable: Disable AuthDisableRequest -> AuthDisableResponse;
    user_delete: UserDelete AuthUserDeleteRequest -> AuthUserDeleteResponse;
    user_grant_role: UserGrantRole AuthUserGrantRoleRequest -> AuthUserGrantRoleResponse;
    user_revoke_role: UserRevokeRole AuthUserRevokeRoleRequest -> AuthUserRevokeRoleResponse;
    role_add: RoleAdd AuthRoleAddRequest -> AuthRoleAddResponse;
    role_delete: RoleDelete AuthRoleDeleteRequest -> AuthRoleDeleteResponse;
    role_grant_permission: RoleGrantPermission
        AuthRoleGrantPermissionRequest -> AuthRoleGrantPermissionResponse;
    role_revoke_permission: RoleRevokePermission
        AuthRoleRevokePermissionRequest -> AuthRoleRevokePermissionResponse;
}

async fn change(caller: &Caller, request: AuthRequest) -> Result<Option<ResponseHeader>, Status> {
    let kind = format!("{request:?}");
    let outcome = caller.execute(Command::Auth(request.into())).await?;
    info!(kind, "changed users or roles");
    Ok(answer_of!(Auth, outcome).header)
}

pub(crate) async fn enable(caller: Caller, _: AuthEnableRequest) -> Handled<AuthEnableResponse> {
    let secret = secret_bytes::<32>().map_err(|error| no_randomness(&error))?;
    let request = AuthRequest::Enable(EnableRequest {
        secret: secret.to_vec(),
    });
    let header = change(&caller, request).await?;
    Ok(Answered::Small(AuthEnableResponse { header }))
}

pub(crate) async fn status(caller: Caller, _: AuthStatusRequest) -> Handled<AuthStatusResponse> {
    // It needs no identity, but a token that does not count is refused.
    caller.newest_standing().await?;
    let users = caller.backend.reader().users().current();
    Ok(Answered::Small(AuthStatusResponse {
        header: caller.backend.header(),
        enabled: users.is_enabled(),
        auth_revision: users.revision(),
    }))
}

pub(crate) async fn user_add(
    caller: Caller,
    mut request: AuthUserAddRequest,
) -> Handled<AuthUserAddResponse> {
    let password = Password::take(&mut request.password);
    let no_password = request
        .options
        .as_ref()
        .is_some_and(|options| options.no_password);
    request.hashed_password = match no_password {
        true => String::new(),
        false => hash(&caller, password).await?,
    };
    let header = change(&caller, AuthRequest::UserAdd(request)).await?;
    Ok(Answered::Small(AuthUserAddResponse { header }))
}

pub(crate) async fn user_change_password(
    caller: Caller,
    mut request: AuthUserChangePasswordRequest,
) -> Handled<AuthUserChangePasswordResponse> {
    let password = Password::take(&mut request.password);
    if !password.is_empty() {
        request.hashed_password = hash(&caller, password).await?;
    } else if decode_hash(&request.hashed_password).is_none() {
        return Err(Status::unknown(NO_PASSWORD_USER));
    }
    let header = change(&caller, AuthRequest::UserChangePassword(request)).await?;
    Ok(Answered::Small(AuthUserChangePasswordResponse { header }))
}

pub(crate) async fn user_get(
    caller: Caller,
    request: AuthUserGetRequest,
) -> Handled<AuthUserGetResponse> {
    if let Some(standing) = caller.newest_standing().await? {
        let identity = standing.identity.as_deref();
        standing.users.check_user_get(identity, &request.name)?;
    }
    let users = caller.backend.reader().users().current();
    let user = users.user(&request.name).ok_or(Refusal::UserNotFound)?;
    Ok(Answered::Small(AuthUserGetResponse {
        header: caller.backend.header(),
        roles: user.roles.clone(),
    }))
}

pub(crate) async fn user_list(
    caller: Caller,
    _: AuthUserListRequest,
) -> Handled<AuthUserListResponse> {
    admit_newest(&caller).await?;
    let users = caller.backend.reader().users().current();
    Ok(Answered::Small(AuthUserListResponse {
        header: caller.backend.header(),
        users: users.users().map(|(name, _)| name.to_owned()).collect(),
    }))
}

pub(crate) async fn role_get(
    caller: Caller,
    request: AuthRoleGetRequest,
) -> Handled<AuthRoleGetResponse> {
    if let Some(standing) = caller.newest_standing().await? {
        let identity = standing.identity.as_deref();
        standing.users.check_role_get(identity, &request.role)?;
    }
    let users = caller.backend.reader().users().current();
    let role = users.role(&request.role).ok_or(Refusal::RoleNotFound)?;
    let perm = match request.role == auth::ROOT {
        true => vec![Permission {
            perm_type: auth::READ_AND_WRITE,
            key: "".into(),
            range_end: "\0".into(),
        }],
        false => role.permissions.clone(),
    };
    Ok(Answered::Small(AuthRoleGetResponse {
        header: caller.backend.header(),
        perm,
    }))
}

pub(crate) async fn role_list(
    caller: Caller,
    _: AuthRoleListRequest,
) -> Handled<AuthRoleListResponse> {
    admit_newest(&caller).await?;
    let users = caller.backend.reader().users().current();
    Ok(Answered::Small(AuthRoleListResponse {
        header: caller.backend.header(),
        roles: users.roles().map(|(name, _)| name.to_owned()).collect(),
    }))
}

/// Refuses a caller that is no administrator by the newest users.
async fn admit_newest(caller: &Caller) -> Result<(), Status> {
    if let Some(standing) = caller.newest_standing().await? {
        let identity = standing.identity.as_deref();
        standing.users.check_admin(identity)?;
    }
    Ok(())
}

/// Issues a token for a user with its password. If the user changes in the meantime, its new
/// password counts.
pub(crate) async fn authenticate(
    caller: Caller,
    mut request: AuthenticateRequest,
) -> Handled<AuthenticateResponse> {
    let mut password = Password::take(&mut request.password);
    let (backend, name) = (&caller.backend, &request.name);
    backend.confirm_reads().await?;
    loop {
        let users = backend.reader().users().current();
        if !users.is_enabled() {
            return Err(Refusal::AuthNotEnabled.to_status());
        }
        let user = users.user(name);
        if user.is_some_and(|user| user.no_password) {
            return Err(Status::unknown(NO_PASSWORD_USER));
        }
        let hash = match user {
            Some(user) => user.hash.to_vec(),
            None => hash_of_no_user(backend.config.users.bcrypt_cost),
        };
        let compare = move || (password.matches(&hash), password);
        let compared = backend.authentication.run(&caller, compare).await?;
        password = compared.1;
        let Some(generation) = user.filter(|_| compared.0).map(|user| user.generation) else {
            let user = shown(name);
            warn!(user, "invalid authentication was requested");
            return Err(Refusal::AuthFailed.to_status());
        };
        // After any change of users the password is compared again.
        if backend.reader().users().current().revision() != users.revision() {
            continue;
        }
        let now = backend.clock.unix_time().as_secs();
        let tokens = &backend.config.users.tokens;
        let token = tokens.issue(name, generation, &users, now);
        return Ok(Answered::Small(AuthenticateResponse {
            header: backend.header(),
            token: token.map_err(not_issued)?,
        }));
    }
}

/// A hash that no password of a client matches, to be compared with for a user that does not
/// exist: then the time of a refusal does not tell whether it does.
fn hash_of_no_user(cost: u32) -> Vec<u8> {
    format!("$2a${cost:02}$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW").into_bytes()
}

fn shown(name: &str) -> &str {
    &name[..name.floor_char_boundary(SHOWN_NAME_BYTES)]
}

/// Hashes a password on a thread for that; the result is what the log may hold.
async fn hash(caller: &Caller, password: Password) -> Result<String, Status> {
    let too_long = |error: PasswordTooLong| Status::unknown(error.to_string());
    password.check().map_err(too_long)?;
    let salt = secret_bytes::<SALT_BYTES>().map_err(|error| no_randomness(&error))?;
    let cost = caller.backend.config.users.bcrypt_cost;
    let work = move || password.hash(cost, salt);
    let hashed = caller.backend.authentication.run(caller, work).await?;
    hashed.map_err(too_long)
}

fn not_issued(reason: NotIssued) -> Status {
    match reason {
        NotIssued::Off => Refusal::AuthFailed.to_status(),
        NotIssued::Disabled => Refusal::AuthNotEnabled.to_status(),
        // The leader picks it at once: there is none.
        NotIssued::NoKeyYet => Refusal::NoLeader.to_status(),
        NotIssued::Jwt(error) => Status::unknown(error.to_string()),
        NotIssued::Randomness(error) => no_randomness(&error),
    }
}

fn no_randomness(error: &std::io::Error) -> Status {
    Status::unavailable(format!("inkstone: no randomness from the kernel: {error}"))
}
