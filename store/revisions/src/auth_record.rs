//! State records of users, roles and tokens, and their part of a checkpoint.
//!
//! Layout (docs/formats/state.md), little-endian throughout; a text is its length u32 and UTF-8,
//! bytes are their length u32 and themselves; every record but 12 begins with the revision of
//! users and roles that it makes, u64:
//!
//! ```text
//! 12  enabled        secret, 32 bytes         16  role added            name
//! 13  disabled                                17  role deleted          name
//! 14  user           name, user               18  permission            role, permission
//! 15  user deleted   name                     19  permission removed    role, key, range end
//! 20  token renewed  number u64, until u64, now u64: without a revision
//! 22  all replaced   users and roles as in a checkpoint, without renewed tokens
//!
//! user         generation u64, no password u8, hash bytes, roles: texts
//! permission   type i32, key bytes, range end bytes
//! ```

use auth::{Auth, AuthChange, Renewals, Role, Secret, User};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use engine::{Batch, Change};
use etcd_api::authpb::Permission;

use crate::Error;
use crate::fields::{Fields, put_count, put_long_bytes, put_text, put_texts};

/// The first of these kinds; those of members are below.
pub(crate) const FIRST: u8 = ENABLED;
const ENABLED: u8 = 12;
const DISABLED: u8 = 13;
const USER: u8 = 14;
const USER_DELETED: u8 = 15;
const ROLE_ADDED: u8 = 16;
const ROLE_DELETED: u8 = 17;
const PERMISSION: u8 = 18;
const PERMISSION_REMOVED: u8 = 19;
pub(crate) const TOKEN_RENEWED: u8 = 20;
const REPLACED: u8 = 22;
const SECRET_BYTES: usize = 32;

/// Returns the kind.
pub(crate) fn put_change(payload: &mut BytesMut, change: &AuthChange) -> u8 {
    match change {
        AuthChange::Enabled { secret } => {
            payload.put_slice(secret.bytes());
            ENABLED
        }
        AuthChange::Disabled { revision } => {
            payload.put_u64_le(*revision);
            DISABLED
        }
        AuthChange::UserPut {
            revision,
            name,
            user,
        } => {
            put_named(payload, *revision, name);
            put_user(payload, user);
            USER
        }
        AuthChange::UserDeleted { revision, name } => {
            put_named(payload, *revision, name);
            USER_DELETED
        }
        AuthChange::RoleAdded { revision, name } => {
            put_named(payload, *revision, name);
            ROLE_ADDED
        }
        AuthChange::RoleDeleted { revision, name } => {
            put_named(payload, *revision, name);
            ROLE_DELETED
        }
        AuthChange::PermissionPut {
            revision,
            role,
            permission,
        } => {
            put_named(payload, *revision, role);
            put_permission(payload, permission);
            PERMISSION
        }
        AuthChange::PermissionRemoved {
            revision,
            role,
            key,
            range_end,
        } => {
            put_named(payload, *revision, role);
            put_long_bytes(payload, key);
            put_long_bytes(payload, range_end);
            PERMISSION_REMOVED
        }
        AuthChange::Replaced { auth } => {
            put_state(payload, auth, &Renewals::default());
            REPLACED
        }
    }
}

pub(crate) fn change(kind: u8, fields: &mut Fields<'_>) -> Result<AuthChange, Error> {
    if kind == ENABLED {
        let secret = secret(fields)?;
        return Ok(AuthChange::Enabled { secret });
    }
    if kind == REPLACED {
        let (auth, renewals) = state(fields)?;
        let auth = Box::new(auth);
        return match renewals.is_empty() {
            true => Ok(AuthChange::Replaced { auth }),
            false => Err(fields.unfit("renewed tokens of replaced users")),
        };
    }
    if !(DISABLED..=PERMISSION_REMOVED).contains(&kind) {
        return Err(fields.unfit("unknown kind"));
    }
    let revision = fields.u64()?;
    Ok(match kind {
        DISABLED => AuthChange::Disabled { revision },
        USER => AuthChange::UserPut {
            revision,
            name: fields.text()?,
            user: user(fields)?,
        },
        USER_DELETED => AuthChange::UserDeleted {
            revision,
            name: fields.text()?,
        },
        ROLE_ADDED => AuthChange::RoleAdded {
            revision,
            name: fields.text()?,
        },
        ROLE_DELETED => AuthChange::RoleDeleted {
            revision,
            name: fields.text()?,
        },
        PERMISSION => AuthChange::PermissionPut {
            revision,
            role: fields.text()?,
            permission: permission(fields)?,
        },
        _ => AuthChange::PermissionRemoved {
            revision,
            role: fields.text()?,
            key: key(fields)?,
            range_end: key(fields)?,
        },
    })
}

/// Whether a batch changes users or roles.
pub(crate) fn changes_users(batch: &Batch) -> bool {
    let of_users = |change: &Change| match change {
        Change::Key(_) => false,
        Change::State { kind, .. } => {
            (ENABLED..=PERMISSION_REMOVED).contains(kind) || *kind == REPLACED
        }
    };
    batch.changes.iter().any(of_users)
}

/// Whether users are checked, in a checkpoint. An earlier release refuses the third, as it must: it would
/// take any number for the secret.
const UNCHECKED: u8 = 0;
const CHECKED: u8 = 1;
const CHECKED_WITHOUT_SECRET: u8 = 2;

/// The part of a checkpoint: revision u64; whether enabled u8, if it is 1 the secret; users: their
/// count u32, each name and user; roles: their count u32, each name, count of permissions u32,
/// permissions; renewed tokens: their count u32, each number u64 and until u64.
pub(crate) fn put_state(blob: &mut BytesMut, auth: &Auth, renewals: &Renewals) {
    blob.put_u64_le(auth.revision());
    blob.put_u8(match (auth.is_enabled(), auth.lacks_secret()) {
        (false, _) => UNCHECKED,
        (true, false) => CHECKED,
        (true, true) => CHECKED_WITHOUT_SECRET,
    });
    if let Some(secret) = auth.secret() {
        blob.put_slice(secret.bytes());
    }
    put_count(blob, auth.users().len());
    for (name, user) in auth.users() {
        put_text(blob, name);
        put_user(blob, user);
    }
    put_count(blob, auth.roles().len());
    for (name, role) in auth.roles() {
        put_text(blob, name);
        put_count(blob, role.permissions.len());
        let permissions = role.permissions.iter();
        permissions.for_each(|permission| put_permission(blob, permission));
    }
    put_count(blob, renewals.len());
    for (number, until) in renewals.iter() {
        blob.put_u64_le(number);
        blob.put_u64_le(until);
    }
}

pub(crate) fn state(fields: &mut Fields<'_>) -> Result<(Auth, Renewals), Error> {
    let revision = fields.u64()?;
    let secret = match fields.u8()? {
        UNCHECKED => None,
        CHECKED => Some(secret(fields)?),
        CHECKED_WITHOUT_SECRET => Some(Secret::missing()),
        _ => return Err(fields.unfit("users that are neither checked nor not")),
    };
    // A count is not trusted with memory.
    let mut users = Vec::new();
    for _ in 0..fields.u32()? {
        users.push((fields.text()?, user(fields)?));
    }
    let mut roles = Vec::new();
    for _ in 0..fields.u32()? {
        let name = fields.text()?;
        let permissions = (0..fields.u32()?).map(|_| permission(fields));
        let permissions = permissions.collect::<Result<_, _>>()?;
        roles.push((name, Role { permissions }));
    }
    let mut renewals = Renewals::default();
    for _ in 0..fields.u32()? {
        let (number, until) = (fields.u64()?, fields.u64()?);
        renewals.renew(number, until, 0);
    }
    let auth = Auth::restore(secret, revision, users, roles);
    Ok((auth.map_err(|what| fields.unfit(what))?, renewals))
}

fn put_named(payload: &mut BytesMut, revision: u64, name: &str) {
    payload.put_u64_le(revision);
    put_text(payload, name);
}

fn put_user(payload: &mut BytesMut, user: &User) {
    payload.put_u64_le(user.generation);
    payload.put_u8(u8::from(user.no_password));
    put_long_bytes(payload, &user.hash);
    put_texts(payload, &user.roles);
}

fn user(fields: &mut Fields<'_>) -> Result<User, Error> {
    let user = User {
        generation: fields.u64()?,
        no_password: fields.bool()?,
        hash: fields.long_bytes()?.to_vec(),
        roles: fields.texts()?,
    };
    match user.roles.is_sorted_by(|one, other| one < other) {
        true => Ok(user),
        false => Err(fields.unfit("roles of a user that do not ascend")),
    }
}

fn put_permission(payload: &mut BytesMut, permission: &Permission) {
    payload.put_i32_le(permission.perm_type);
    put_long_bytes(payload, &permission.key);
    put_long_bytes(payload, &permission.range_end);
}

fn permission(fields: &mut Fields<'_>) -> Result<Permission, Error> {
    Ok(Permission {
        perm_type: fields.bytes(4)?.get_i32_le(),
        key: key(fields)?,
        range_end: key(fields)?,
    })
}

fn key(fields: &mut Fields<'_>) -> Result<Bytes, Error> {
    fields.long_bytes().map(Bytes::copy_from_slice)
}

fn secret(fields: &mut Fields<'_>) -> Result<Secret, Error> {
    let secret = Secret::new(fields.bytes(SECRET_BYTES)?);
    Ok(secret.expect("it has the bytes of a secret"))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A change of each kind.
    pub(crate) fn changes() -> [AuthChange; 8] {
        let user = User {
            hash: b"$2a$04$hash".to_vec(),
            no_password: true,
            roles: vec!["a".into(), "ä".into()],
            generation: 7,
        };
        let permission = Permission {
            perm_type: -1,
            key: "k".into(),
            range_end: "\0".into(),
        };
        let role = || "role".to_owned();
        [
            AuthChange::Enabled {
                secret: Secret::new(&[9; 32]).unwrap(),
            },
            AuthChange::Disabled { revision: 2 },
            AuthChange::UserPut {
                revision: 3,
                name: "ä".into(),
                user,
            },
            AuthChange::UserDeleted {
                revision: 4,
                name: String::new(),
            },
            AuthChange::RoleAdded {
                revision: 5,
                name: role(),
            },
            AuthChange::RoleDeleted {
                revision: 6,
                name: role(),
            },
            AuthChange::PermissionPut {
                revision: 7,
                role: role(),
                permission,
            },
            AuthChange::PermissionRemoved {
                revision: u64::MAX,
                role: role(),
                key: "k".into(),
                range_end: Bytes::new(),
            },
        ]
    }

    /// Users and roles of all kinds, enabled.
    pub(crate) fn users() -> Auth {
        let user = |generation, roles: &[&str]| User {
            hash: vec![generation as u8; 60],
            no_password: generation == 4,
            roles: roles.iter().map(|role| (*role).to_owned()).collect(),
            generation,
        };
        let permission = |key: &str, range_end: &str| Permission {
            perm_type: 2,
            key: Bytes::copy_from_slice(key.as_bytes()),
            range_end: Bytes::copy_from_slice(range_end.as_bytes()),
        };
        let permissions = vec![permission("a", "b"), permission("k", "\0")];
        let users = vec![
            ("root".to_owned(), user(3, &["root"])),
            ("bot".to_owned(), user(4, &["r", "s"])),
        ];
        let roles = vec![
            ("r".to_owned(), Role { permissions }),
            ("s".to_owned(), Role::default()),
        ];
        Auth::restore(Secret::new(&[5; 32]), 9, users, roles).unwrap()
    }

    #[test]
    fn a_user_twice_and_a_generation_of_two_users_are_refused() {
        let user = |generation| User {
            generation,
            ..User::default()
        };
        let restore = |users: [(&str, User); 2]| {
            let users = users.map(|(name, user)| (name.to_owned(), user));
            Auth::restore(None, 9, users.to_vec(), Vec::new()).is_ok()
        };
        assert!(restore([("a", user(2)), ("b", user(3))]));
        assert!(!restore([("a", user(2)), ("a", user(3))]));
        assert!(!restore([("a", user(2)), ("b", user(2))]));
    }
}
