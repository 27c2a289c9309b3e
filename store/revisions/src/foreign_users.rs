//! Users and roles of another cluster, as its files and messages have them.

use auth::{Auth, Role, Secret, User};
use bytes::Bytes;
use etcd_api::authpb;

/// Largest revision that is taken over: changes that follow need room above it.
const REVISION_MAX: u64 = 1 << 62;

/// Users and roles with the revision of the other cluster. Tokens that were given out before are not
/// accepted any more: the first leader picks a key for new ones. The error says what they have.
pub(crate) fn users_of(
    enabled: bool,
    revision: u64,
    users: &[authpb::User],
    roles: &[authpb::Role],
) -> Result<Auth, &'static str> {
    // Each user that was added has made a revision, which is its generation here.
    let revision = revision.max(users.len() as u64);
    if revision > REVISION_MAX {
        return Err("a revision that is too large");
    }
    let users = (1..).zip(users).map(user);
    let users = users.collect::<Result<Vec<_>, _>>()?;
    let roles = roles.iter().map(role);
    let roles = roles.collect::<Result<Vec<_>, _>>()?;
    let secret = enabled.then(Secret::missing);
    Auth::restore(secret, revision, users, roles)
}

fn user((generation, user): (u64, &authpb::User)) -> Result<(String, User), &'static str> {
    let mut roles = user.roles.clone();
    roles.sort_unstable();
    roles.dedup();
    let stored = User {
        hash: user.password.to_vec(),
        no_password: user.options.is_some_and(|options| options.no_password),
        roles,
        generation,
    };
    Ok((text(&user.name)?, stored))
}

fn role(role: &authpb::Role) -> Result<(String, Role), &'static str> {
    let mut permissions = role.key_permission.clone();
    permissions.sort_by(|one, other| {
        let order = |it: &authpb::Permission| (it.key.clone(), it.range_end.clone());
        order(one).cmp(&order(other))
    });
    Ok((text(&role.name)?, Role { permissions }))
}

fn text(name: &Bytes) -> Result<String, &'static str> {
    let text = std::str::from_utf8(name).map(str::to_owned);
    text.map_err(|_| "a name that is not UTF-8")
}
