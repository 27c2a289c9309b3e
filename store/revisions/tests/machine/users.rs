//! The scripts' words about users and roles.
//!
//! ```text
//! as NAME               the caller of what follows, by its certificate
//! as NAME rev=N         by a signed token of that revision
//! as NAME token         by a token of its present password
//! as anonymous           a caller without an identity
//! users enable|disable|status
//! user add NAME [nopassword]   user passwd|del|get NAME   user list
//! user grant|revoke NAME ROLE
//! role add|del|get NAME   role list   role grant NAME r|w|rw KEYS   role revoke NAME KEYS
//! ```

use std::sync::Arc;

use auth::{Access, AuthRequest, EnableRequest, Identity, Proof};
use etcd_api::authpb::{Permission, UserAddOptions};
use etcd_api::etcdserverpb::{
    AuthDisableRequest, AuthRoleAddRequest, AuthRoleDeleteRequest, AuthRoleGrantPermissionRequest,
    AuthRoleRevokePermissionRequest, AuthUserAddRequest, AuthUserChangePasswordRequest,
    AuthUserDeleteRequest, AuthUserGrantRoleRequest, AuthUserRevokeRoleRequest,
};
use revisions::{Command, Error};

use crate::script::Words;
use crate::store::Store;

/// base64 of what stands for a hash.
const HASH: &str = "aGFzaA==";

pub fn act_as(store: &mut Store, words: &mut Words<'_>) -> String {
    let user = words.next().to_owned();
    let users = store.reader.users().current();
    let proof = match words.option() {
        Some(("rev", revision)) => Proof::Revision(revision.parse().unwrap()),
        Some(("token", _)) => Proof::Generation(users.user(&user).unwrap().generation),
        _ => Proof::Certificate,
    };
    store.caller = (user != "anonymous").then(|| Arc::new(Identity { user, proof }));
    "ok".into()
}

pub fn run(store: &mut Store, verb: &str, words: &mut Words<'_>) -> String {
    let what = words.next();
    if let Some(shown) = read(store, verb, what, words) {
        return shown;
    }
    let request = request(verb, what, words);
    match store.run(Command::Auth(request.into())) {
        Ok(_) => format!(
            "auth revision {}",
            store.reader.users().current().revision()
        ),
        Err(error) => format!("refused: {error}"),
    }
}

fn read(store: &Store, verb: &str, what: &str, words: &mut Words<'_>) -> Option<String> {
    let users = store.reader.users().current();
    Some(match (verb, what) {
        ("users", "status") => format!("{}, {}", users.is_enabled(), users.revision()),
        ("user", "get") => match users.user(words.next()) {
            Some(user) => format!("{:?}", user.roles),
            None => "none".into(),
        },
        ("role", "get") => {
            let role = users.role(words.next());
            let permissions = role.map(|role| &role.permissions[..]).unwrap_or_default();
            let line = |it: &Permission| {
                format!(
                    "  {} {:?} {:?}\n",
                    it.perm_type().as_str_name(),
                    it.key,
                    it.range_end
                )
            };
            permissions.iter().map(line).chain(["end".into()]).collect()
        }
        ("user", "list") => format!("{:?}", users.users().map(|it| it.0).collect::<Vec<_>>()),
        ("role", "list") => format!("{:?}", users.roles().map(|it| it.0).collect::<Vec<_>>()),
        _ => return None,
    })
}

fn request(verb: &str, what: &str, words: &mut Words<'_>) -> AuthRequest {
    let name = match verb {
        "users" => String::new(),
        _ => words.next().replace("''", ""),
    };
    match (verb, what) {
        ("users", "enable") => AuthRequest::Enable(EnableRequest {
            secret: vec![7; 32],
        }),
        ("users", "disable") => AuthRequest::Disable(AuthDisableRequest {}),
        ("user", "add") => AuthRequest::UserAdd(AuthUserAddRequest {
            name,
            options: Some(UserAddOptions {
                no_password: words.take("nopassword"),
            }),
            hashed_password: HASH.into(),
            ..Default::default()
        }),
        ("user", "passwd") => AuthRequest::UserChangePassword(AuthUserChangePasswordRequest {
            name,
            hashed_password: HASH.into(),
            ..Default::default()
        }),
        ("user", "del") => AuthRequest::UserDelete(AuthUserDeleteRequest { name }),
        ("user", "grant") => AuthRequest::UserGrantRole(AuthUserGrantRoleRequest {
            user: name,
            role: words.next().into(),
        }),
        ("user", "revoke") => AuthRequest::UserRevokeRole(AuthUserRevokeRoleRequest {
            name,
            role: words.next().into(),
        }),
        ("role", "add") => AuthRequest::RoleAdd(AuthRoleAddRequest { name }),
        ("role", "del") => AuthRequest::RoleDelete(AuthRoleDeleteRequest { role: name }),
        ("role", "grant") => AuthRequest::RoleGrantPermission(AuthRoleGrantPermissionRequest {
            name,
            perm: permission(words),
        }),
        ("role", "revoke") => {
            let (key, range_end) = words.keys();
            AuthRequest::RoleRevokePermission(AuthRoleRevokePermissionRequest {
                role: name,
                key,
                range_end,
            })
        }
        _ => panic!("nothing that users do: {verb} {what}"),
    }
}

fn permission(words: &mut Words<'_>) -> Option<Permission> {
    let (kind, _) = words.option()?;
    let perm_type = ["r", "w", "rw"].iter().position(|it| *it == kind).unwrap() as i32;
    let (key, range_end) = words.keys();
    Some(Permission {
        perm_type,
        key,
        range_end,
    })
}

/// Refuses a read that the caller of the script may not do.
pub fn check_read(store: &Store, key: &[u8], range_end: &[u8]) -> Result<(), Error> {
    let caller = store.caller.as_deref();
    let checked = store
        .reader
        .users()
        .current()
        .check(caller, Access::Read, key, range_end);
    checked.map_err(Error::from)
}
