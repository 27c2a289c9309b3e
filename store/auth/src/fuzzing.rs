//! Fuzz targets in `fuzz/`: what clients, other members and operators can hand to this crate.

use std::sync::OnceLock;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use etcd_api::authpb::Permission;
use prost::Message;

use crate::accounts::Access;
use crate::{Auth, AuthChange, AuthCommand, Identity, Jwt, JwtMethod, Proof, Role, Secret, User};

/// A time, in seconds since 1970.
const NOW: u64 = 1_800_000_000;

/// Decodes `bytes` as a command about users, decides it and carries it out.
pub fn command(bytes: &[u8]) {
    let Ok(command) = AuthCommand::decode(bytes) else {
        return;
    };
    let encoded = command.encode_to_vec();
    assert_eq!(AuthCommand::decode(&encoded[..]).as_ref(), Ok(&command));
    let Some(request) = command.request else {
        return;
    };
    let mut users = users();
    let before = users.revision();
    let Ok(Some(change)) = users.decide(&request) else {
        return;
    };
    let is_enabled = matches!(change, AuthChange::Enabled { .. });
    users
        .apply(change)
        .expect("what was decided can be applied");
    assert_eq!(users.revision(), before + u64::from(!is_enabled));
    assert_eq!(users, restored(&users), "a checkpoint has all of it");
}

/// Users and roles that a command can meet.
pub(crate) fn users() -> Auth {
    let user = |generation, roles: &[&str]| User {
        roles: roles.iter().map(|role| (*role).to_owned()).collect(),
        generation,
        ..User::default()
    };
    let permission = |key: &'static str, range_end: &'static str| Permission {
        perm_type: 2,
        key: key.into(),
        range_end: range_end.into(),
    };
    let users = vec![
        ("root".to_owned(), user(2, &["root"])),
        ("alice".to_owned(), user(3, &["r"])),
    ];
    let permissions = vec![permission("a", "c"), permission("k", "")];
    let roles = vec![("r".to_owned(), Role { permissions })];
    let restored = Auth::restore(Some(secret()), 9, users, roles);
    restored.expect("the users are in order")
}

fn restored(users: &Auth) -> Auth {
    let secret = users.stored_secret().and_then(|it| Secret::new(it.bytes()));
    let accounts = users
        .users()
        .map(|(name, it)| (name.to_owned(), it.clone()));
    let roles = users
        .roles()
        .map(|(name, it)| (name.to_owned(), it.clone()));
    let restored = Auth::restore(
        secret,
        users.revision(),
        accounts.collect(),
        roles.collect(),
    );
    restored.expect("the users are in order")
}

/// Checks a range, of which the first byte is the length of the key: an administrator may read it,
/// and a user without a role may not.
pub fn range(bytes: &[u8]) {
    let Some((length, keys)) = bytes.split_first() else {
        return;
    };
    let (key, end) = keys.split_at(usize::from(*length).min(keys.len()));
    let users = users();
    let reads = |user: &str| {
        let caller = Identity {
            user: user.to_owned(),
            proof: Proof::Revision(users.revision()),
        };
        users.check(Some(&caller), Access::Read, key, end).is_ok()
    };
    assert!(reads("root") && !reads("bob"));
    // A range that ends before it begins reads nothing.
    if reads("alice") && (end.is_empty() || end == b"\0" || key < end) {
        let is_point = key == b"k" && (end.is_empty() || end == b"k\0");
        let is_key = (&b"a"[..]..b"c").contains(&key);
        let is_in_range = is_key && end != b"\0" && end <= &b"c"[..];
        assert!(is_point || is_in_range, "{key:?} {end:?}");
    }
}

fn secret() -> Secret {
    Secret::new(&[7; 32]).expect("32 bytes")
}

/// Reads `bytes` as a token of each kind, and as the claims of one with a right signature.
pub fn token(bytes: &[u8]) {
    if let Some(token) = secret().read(bytes) {
        assert_eq!(secret().write(&token).as_bytes(), bytes);
    }
    static JWT: OnceLock<Jwt> = OnceLock::new();
    let jwt = JWT.get_or_init(|| {
        let jwt = Jwt::new(JwtMethod::Hs256, None, Some(b"secret"));
        jwt.expect("a secret is a key")
    });
    let _ = jwt.verify(bytes, NOW);
    let [header, claims] = [&br#"{"alg":"HS256"}"#[..], bytes].map(|it| URL_SAFE_NO_PAD.encode(it));
    if let Some(signed) = jwt.sealed(&format!("{header}.{claims}"))
        && let Some(verified) = jwt.verify(signed.as_bytes(), NOW)
    {
        assert!(verified.ends.is_none_or(|ends| ends >= NOW));
    }
}

/// Reads `bytes` as the file of a private and of a public key, and uses what can be read.
pub fn key_file(bytes: &[u8]) {
    for &method in JwtMethod::ALL {
        if let Ok(jwt) = Jwt::new(method, Some(bytes), None) {
            assert!(jwt.sign("alice", 1, NOW).is_err(), "it has no private key");
            let _ = jwt.verify(b"e30.e30.AAAA", NOW);
        }
        if let Ok(jwt) = Jwt::new(method, None, Some(bytes)) {
            let _ = jwt.sign("alice", 1, NOW + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use environment::randomness::Random;
    use etcd_api::etcdserverpb::{
        AuthRoleGrantPermissionRequest, AuthUserAddRequest, AuthUserRevokeRoleRequest,
    };

    use super::*;
    use crate::AuthRequest;

    /// Calls `target` with damaged copies of the inputs, and with random bytes.
    fn run(target: fn(&[u8]), inputs: &[Vec<u8>], times: usize) {
        let mut random = Random::from_seed(1);
        for input in inputs {
            target(input);
        }
        for _ in 0..times {
            let input = random.pick(inputs).clone();
            target(&random.damaged(&input));
            let mut bytes = vec![0; random.below(100) as usize];
            random.fill(&mut bytes);
            target(&bytes);
        }
    }

    fn commands() -> Vec<Vec<u8>> {
        let add = AuthUserAddRequest {
            name: "bob".into(),
            hashed_password: "JDJhJDA0JA==".into(),
            ..AuthUserAddRequest::default()
        };
        let grant = AuthRoleGrantPermissionRequest {
            name: "r".into(),
            perm: Some(users().role("r").unwrap().permissions[0].clone()),
        };
        let revoke = AuthUserRevokeRoleRequest {
            name: "alice".into(),
            role: "r".into(),
        };
        let requests = [
            AuthRequest::UserAdd(add),
            AuthRequest::RoleGrantPermission(grant),
            AuthRequest::UserRevokeRole(revoke),
            AuthRequest::Disable(Default::default()),
        ];
        let encoded = requests.map(|request| {
            let request = Some(request);
            AuthCommand { request }.encode_to_vec()
        });
        encoded.to_vec()
    }

    #[test]
    fn damaged_commands_are_refused_or_carried_out() {
        run(command, &commands(), 20_000);
    }

    #[test]
    fn damaged_ranges_are_permitted_where_they_belong() {
        let ranges = ["\u{1}ac", "\u{1}k", "\u{1}a\0", "\u{2}abb"];
        run(range, &ranges.map(|it| it.as_bytes().to_vec()), 20_000);
    }

    #[test]
    fn damaged_tokens_are_refused() {
        let simple = crate::SimpleToken {
            number: 1,
            ends: NOW,
            generation: 2,
        };
        let claims = r#"{"exp":1900000000,"revision":7,"username":"alice","nbf":1}"#;
        let jwt = Jwt::new(JwtMethod::Hs256, None, Some(b"secret")).unwrap();
        let inputs = [
            secret().write(&simple),
            jwt.sign("alice", 7, NOW + 1).unwrap(),
            claims.to_owned(),
        ];
        run(token, &inputs.map(String::into_bytes), 20_000);
    }

    #[test]
    fn damaged_key_files_are_refused_or_used() {
        let vectors = include_str!("jwt/vectors.txt");
        let blocks = vectors.split("-----BEGIN ").skip(1);
        let files = blocks.map(|block| format!("-----BEGIN {block}").into_bytes());
        run(key_file, &files.collect::<Vec<_>>(), 300);
    }
}
