//! Tokens as the server issues and finds them (`--auth-token`).

use auth::{Auth, Identity, Jwt, JwtError, Proof, Secret, SimpleToken};
use environment::randomness::secret_bytes;
use revisions::Reader;

/// The kind of tokens of this server.
#[derive(Debug)]
pub enum Tokens {
    /// `--auth-token ""`: none are issued, and none count.
    Off,
    /// Ours, which every member can check alone.
    Simple { ttl_seconds: u64 },
    /// Signed ones.
    Jwt { jwt: Box<Jwt>, ttl_seconds: u64 },
}

/// Standing of a token at a member.
pub(crate) enum Found {
    Valid(ValidToken),
    /// It does not count by the applied users, but may by newer ones.
    Unknown,
    Invalid,
}

/// A token that counts.
pub(crate) struct ValidToken {
    pub(crate) identity: Identity,
    /// Until then, in seconds since 1970, it counts as long as the users do not change.
    pub(crate) fresh_until: u64,
    /// Set if the token should live on.
    pub(crate) renewal: Option<Renewal>,
}

/// The renewal of a token.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Renewal {
    pub(crate) number: u64,
    pub(crate) until: u64,
    pub(crate) now: u64,
}

/// Why no token can be issued.
pub(crate) enum NotIssued {
    /// This server has no tokens.
    Off,
    /// Users are not checked any more.
    Disabled,
    /// The leader has not picked the key of tokens yet.
    NoKeyYet,
    Jwt(JwtError),
    /// The kernel returned no random bytes.
    Randomness(std::io::Error),
}

impl Tokens {
    /// Issues a token for a user, at the time `now` in seconds since 1970.
    pub(crate) fn issue(
        &self,
        name: &str,
        generation: u64,
        users: &Auth,
        now: u64,
    ) -> Result<String, NotIssued> {
        match self {
            Tokens::Off => Err(NotIssued::Off),
            Tokens::Simple { ttl_seconds } => {
                let secret = users.secret().ok_or(match users.is_enabled() {
                    true => NotIssued::NoKeyYet,
                    false => NotIssued::Disabled,
                })?;
                let number = secret_bytes().map_err(NotIssued::Randomness)?;
                Ok(secret.write(&SimpleToken {
                    number: u64::from_le_bytes(number),
                    ends: now.saturating_add(*ttl_seconds),
                    generation,
                }))
            }
            Tokens::Jwt { jwt, ttl_seconds } => {
                let ends = now.saturating_add(*ttl_seconds);
                let token = jwt.sign(name, users.revision(), ends);
                token.map_err(NotIssued::Jwt)
            }
        }
    }

    /// Finds out what a token says, at the time `now` in seconds since 1970.
    pub(crate) fn find(&self, token: &[u8], users: &Auth, reader: &Reader, now: u64) -> Found {
        match self {
            Tokens::Off => Found::Invalid,
            Tokens::Simple { ttl_seconds } => {
                if !Secret::wrote_like(token) {
                    return Found::Invalid;
                }
                let found = simple(token, users, reader, now, *ttl_seconds);
                found.map_or(Found::Unknown, Found::Valid)
            }
            Tokens::Jwt { jwt, .. } => match jwt.verify(token, now) {
                None => Found::Invalid,
                Some(verified) => Found::Valid(ValidToken {
                    identity: verified.identity,
                    fresh_until: verified.ends.unwrap_or(u64::MAX),
                    renewal: None,
                }),
            },
        }
    }
}

fn simple(
    token: &[u8],
    users: &Auth,
    reader: &Reader,
    now: u64,
    ttl_seconds: u64,
) -> Option<ValidToken> {
    let token = users.secret()?.read(token)?;
    let user = users.user_of_generation(token.generation)?;
    let half_seconds = ttl_seconds.div_ceil(2);
    let mut ends = token.ends;
    if now.saturating_add(half_seconds) >= ends {
        ends = reader.users().end_of_token(&token);
    }
    if now >= ends {
        return None;
    }
    let fresh_until = ends.saturating_sub(half_seconds);
    let renewal = Renewal {
        number: token.number,
        until: now.saturating_add(ttl_seconds),
        now,
    };
    Some(ValidToken {
        identity: Identity {
            user: user.to_owned(),
            proof: Proof::Generation(token.generation),
        },
        fresh_until,
        renewal: (now >= fresh_until).then_some(renewal),
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use auth::{AuthRequest, EnableRequest, RenewRequest};
    use environment::simulated::{SimulatedClock, SimulatedDisk};
    use etcd_api::etcdserverpb::{
        AuthDisableRequest, AuthUserAddRequest, AuthUserChangePasswordRequest,
        AuthUserGrantRoleRequest,
    };
    use revisions::{Command, Machine, Options};

    use super::*;

    const TTL_SECONDS: u64 = 300;
    const NOW: u64 = 1_000_000;
    const TOKENS: Tokens = Tokens::Simple {
        ttl_seconds: TTL_SECONDS,
    };

    /// A machine with the user `root`, which is checked.
    struct Store {
        machine: Machine,
        reader: Reader,
        index: u64,
    }

    impl Store {
        fn new() -> Store {
            let mut options = Options::default();
            options.engine.log.segment_bytes = 1 << 20;
            options.engine.log.reserve_bytes = 0;
            let (disk, clock) = (SimulatedDisk::new(1), SimulatedClock::stepped());
            let opened = Machine::open(Arc::new(disk), Path::new("/d"), options, Arc::new(clock));
            let (machine, reader, _) = opened.unwrap();
            let mut store = Store {
                machine,
                reader,
                index: 0,
            };
            store.run(AuthRequest::UserAdd(AuthUserAddRequest {
                name: "root".into(),
                ..Default::default()
            }));
            store.run(AuthRequest::UserGrantRole(AuthUserGrantRoleRequest {
                user: "root".into(),
                role: "root".into(),
            }));
            store.enable(1);
            store
        }

        fn enable(&mut self, byte: u8) {
            let secret = vec![byte; 32];
            self.run(AuthRequest::Enable(EnableRequest { secret }));
        }

        fn run(&mut self, request: AuthRequest) {
            let command = Command::Auth(request.into());
            self.machine.evaluate_own(&command).unwrap();
            let batch = self.machine.seal(1, self.index + 1).unwrap();
            self.index += 1;
            let engine = self.reader.engine();
            let appended = engine.append(&batch).unwrap();
            engine.wait_durable(appended.sequence).unwrap();
            self.machine.apply(batch, appended);
        }

        fn issue(&self, now: u64) -> String {
            let users = self.reader.users().current();
            let generation = users.user("root").unwrap().generation;
            let issued = TOKENS.issue("root", generation, &users, now);
            issued.unwrap_or_else(|_| panic!("a token is issued"))
        }

        /// The user of a token and its renewal.
        fn find(&self, token: &str, now: u64) -> Option<(String, Option<Renewal>)> {
            let users = self.reader.users().current();
            match TOKENS.find(token.as_bytes(), &users, &self.reader, now) {
                Found::Valid(valid) => Some((valid.identity.user, valid.renewal)),
                Found::Unknown | Found::Invalid => None,
            }
        }
    }

    #[test]
    fn a_token_that_is_used_late_is_renewed_and_an_idle_one_ends() {
        let mut store = Store::new();
        let token = store.issue(NOW);
        let idle = store.issue(NOW);
        assert!(store.find(&token, NOW + 149).unwrap().1.is_none());
        let renewal = store.find(&token, NOW + 150).unwrap().1.unwrap();
        assert_eq!(renewal.until, NOW + 150 + TTL_SECONDS);
        store.run(AuthRequest::Renew(RenewRequest {
            token: renewal.number,
            until: renewal.until,
            now: renewal.now,
        }));
        assert!(store.find(&token, NOW + 200).unwrap().1.is_none());
        assert!(store.find(&token, NOW + 449).is_some());
        assert_eq!(store.find(&token, NOW + 450).map(|it| it.0), None);
        assert!(store.find(&idle, NOW + 299).is_some());
        assert_eq!(store.find(&idle, NOW + 300).map(|it| it.0), None);
    }

    #[test]
    fn a_token_ends_with_its_password_and_with_the_secret() {
        let mut store = Store::new();
        let token = store.issue(NOW);
        assert_eq!(store.find(&token, NOW).unwrap().0, "root");
        store.run(AuthRequest::UserChangePassword(
            AuthUserChangePasswordRequest {
                name: "root".into(),
                ..Default::default()
            },
        ));
        assert!(store.find(&token, NOW).is_none());
        let token = store.issue(NOW);
        assert!(store.find(&token, NOW).is_some());
        store.run(AuthRequest::Disable(AuthDisableRequest {}));
        assert!(store.find(&token, NOW).is_none());
        store.enable(2);
        assert!(store.find(&token, NOW).is_none());
    }

    #[test]
    fn without_tokens_none_is_issued_and_none_is_found() {
        let store = Store::new();
        let token = store.issue(NOW);
        let users = store.reader.users().current();
        assert!(matches!(
            Tokens::Off.issue("root", 2, &users, NOW),
            Err(NotIssued::Off)
        ));
        let found = Tokens::Off.find(token.as_bytes(), &users, &store.reader, NOW);
        assert!(matches!(found, Found::Invalid));
    }
}
