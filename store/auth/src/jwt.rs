//! Signed tokens (`--auth-token jwt,…`), readable by etcd and by other programs.
//!
//! ```text
//!   {"alg":"RS256","typ":"JWT"} . {"exp":…,"revision":…,"username":…} . signature
//! ```
//!
//! Nothing is kept. A token ends at its time, and with the next change of users or roles: it
//! carries the revision at which it was signed. The method is the server's; a token that names
//! another one, or none, is refused before its signature is looked at.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value, json};
use thiserror::Error;

use crate::identity::{Identity, Proof};
use crate::jwt_key::{self, PrivateKey, PublicKey};

/// Longer tokens are refused unread.
const BYTES_MAX: usize = 16 << 10;

macro_rules! methods {
    ($($name:ident $text:literal),* $(,)?) => {
        /// How tokens are signed.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum JwtMethod {
            $($name),*
        }

        impl JwtMethod {
            /// All methods.
            pub const ALL: &'static [JwtMethod] = &[$(JwtMethod::$name),*];

            /// The name in tokens and in the flag.
            pub const fn name(self) -> &'static str {
                match self {
                    $(JwtMethod::$name => $text),*
                }
            }
        }
    };
}

methods! {
    Rs256 "RS256", Rs384 "RS384", Rs512 "RS512",
    Ps256 "PS256", Ps384 "PS384", Ps512 "PS512",
    Es256 "ES256", Es384 "ES384", Es512 "ES512",
    EdDsa "EdDSA",
    Hs256 "HS256", Hs384 "HS384", Hs512 "HS512",
}

impl JwtMethod {
    fn of_name(name: &str) -> Option<JwtMethod> {
        let mut all = JwtMethod::ALL.iter().copied();
        all.find(|method| method.name() == name)
    }

    /// Whether the private key is a secret that verifies as well.
    pub fn is_secret(self) -> bool {
        matches!(self, JwtMethod::Hs256 | JwtMethod::Hs384 | JwtMethod::Hs512)
    }

    pub(crate) fn is_rsa(self) -> bool {
        self.name().starts_with("RS") || self.name().starts_with("PS")
    }
}

/// The options of the flag, as written: paths and a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JwtOptions {
    pub method: JwtMethod,
    /// File of the public key.
    pub public_key: Option<String>,
    /// File of the private key.
    pub private_key: Option<String>,
    /// The life of a token, as Go writes durations.
    pub ttl: Option<String>,
    /// Options that mean nothing.
    pub unknown: Vec<String>,
}

impl JwtOptions {
    /// Reads the options behind `jwt,`; `None` if etcd would refuse them.
    pub fn parse(options: &[(&str, &str)]) -> Option<JwtOptions> {
        let value = |name| {
            let mut found = options.iter().filter(|(key, _)| *key == name);
            found.next().map(|(_, value)| (*value).to_owned())
        };
        let named = |name| value(name).filter(|value: &String| !value.is_empty());
        let known = ["sign-method", "pub-key", "priv-key", "ttl"];
        let unknown = options.iter().filter(|(key, _)| !known.contains(key));
        Some(JwtOptions {
            method: JwtMethod::of_name(&value("sign-method")?)?,
            public_key: named("pub-key"),
            private_key: named("priv-key"),
            ttl: named("ttl"),
            unknown: unknown.map(|(key, _)| (*key).to_owned()).collect(),
        })
    }
}

/// Keys that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum JwtError {
    /// In etcd's words.
    #[error("auth: missing key data: give priv-key, or pub-key for tokens that others sign")]
    MissingKey,
    /// In etcd's words.
    #[error("auth: public and private keys don't match")]
    KeyMismatch,
    #[error("a key file has no PEM block: write one with `openssl genpkey` or `openssl pkey`")]
    NotPem,
    #[error("the private key does not fit sign-method {}", .method.name())]
    PrivateKey { method: JwtMethod },
    #[error("the public key does not fit sign-method {}", .method.name())]
    PublicKey { method: JwtMethod },
    #[error("this processor lacks the instructions for sign-method {}: use an HS method", .method.name())]
    Processor { method: JwtMethod },
    /// In etcd's words; the server has a public key alone.
    #[error("auth: token signing attempted with verify-only key")]
    VerifyOnly,
}

/// The keys of signed tokens.
pub struct Jwt {
    method: JwtMethod,
    private: Option<PrivateKey>,
    public: PublicKey,
}

/// A token with a right signature, at its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedJwt {
    pub identity: Identity,
    /// When it ends, in seconds since 1970; `None`: never.
    pub ends: Option<u64>,
}

impl Jwt {
    /// Takes the content of the key files.
    pub fn new(
        method: JwtMethod,
        public: Option<&[u8]>,
        private: Option<&[u8]>,
    ) -> Result<Jwt, JwtError> {
        let filled = |file: Option<&'_ [u8]>| file.is_some_and(|file| !file.is_empty());
        if !filled(private) && (method.is_secret() || !filled(public)) {
            return Err(JwtError::MissingKey);
        }
        if !method.is_secret() && !graviola::util::is_cpu_supported() {
            return Err(JwtError::Processor { method });
        }
        let private = private.filter(|file| !file.is_empty());
        let private = private.map(|file| jwt_key::private_key(method, file));
        let private = private.transpose()?;
        let given = public.filter(|file| !file.is_empty() && !method.is_secret());
        let given = given.map(|file| jwt_key::public_key(method, file));
        let (given, own) = (
            given.transpose()?,
            private.as_ref().map(PrivateKey::public_key),
        );
        let public = match (own, given) {
            (None, Some(given)) => given,
            (Some(own), None) => own.ok_or(JwtError::PrivateKey { method })?,
            (Some(own), Some(given)) => {
                let key = private.as_ref().expect("it has a public key");
                let proof = key.sign(method, b"match").unwrap_or_default();
                if !given.verifies(method, b"match", &proof) {
                    return Err(JwtError::KeyMismatch);
                }
                own.ok_or(JwtError::PrivateKey { method })?
            }
            (None, None) => return Err(JwtError::MissingKey),
        };
        Ok(Jwt {
            method,
            private,
            public,
        })
    }

    /// Signs a token for a user at a revision; it ends at `ends`, in seconds since 1970.
    pub fn sign(&self, user: &str, revision: u64, ends: u64) -> Result<String, JwtError> {
        let private = self.private.as_ref().ok_or(JwtError::VerifyOnly)?;
        let header = json!({"alg": self.method.name(), "typ": "JWT"});
        let claims = json!({"username": user, "revision": revision, "exp": ends});
        let [header, claims] = [header, claims].map(|it| URL_SAFE_NO_PAD.encode(it.to_string()));
        let method = self.method;
        let sealed = sealed(private, method, format!("{header}.{claims}"));
        sealed.ok_or(JwtError::PrivateKey { method })
    }

    /// Signs any header and claims.
    #[cfg(any(fuzzing, test))]
    pub(crate) fn sealed(&self, message: &str) -> Option<String> {
        sealed(self.private.as_ref()?, self.method, message.to_owned())
    }

    /// Verifies a token at the time `now`, in seconds since 1970; `None` if it does not count.
    pub fn verify(&self, token: &[u8], now: u64) -> Option<VerifiedJwt> {
        let token = std::str::from_utf8(token).ok()?;
        let (message, signature) = token.rsplit_once('.')?;
        let (header, claims) = message.split_once('.')?;
        if token.len() > BYTES_MAX || claims.contains('.') {
            return None;
        }
        if object(header)?.get("alg")? != self.method.name() {
            return None;
        }
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        if !self
            .public
            .verifies(self.method, message.as_bytes(), &signature)
        {
            return None;
        }
        verified(&object(claims)?, now)
    }
}

impl fmt::Debug for Jwt {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Jwt")
            .field("method", &self.method)
            .field("signs", &self.private.is_some())
            .finish_non_exhaustive()
    }
}

fn sealed(key: &PrivateKey, method: JwtMethod, message: String) -> Option<String> {
    let signature = key.sign(method, message.as_bytes())?;
    Some(format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature)))
}

fn object(part: &str) -> Option<Map<String, Value>> {
    let bytes = URL_SAFE_NO_PAD.decode(part).ok()?;
    serde_json::from_slice(&bytes).ok()
}

fn verified(claims: &Map<String, Value>, now: u64) -> Option<VerifiedJwt> {
    let ends = time(claims, "exp")?;
    let begins = time(claims, "nbf")?;
    // Neither is used, but etcd refuses a token in which it is no time.
    time(claims, "iat")?;
    let now_f64 = now as f64;
    if ends.is_some_and(|ends| now_f64 >= ends) || begins.is_some_and(|begins| now_f64 < begins) {
        return None;
    }
    let user = claims.get("username")?.as_str()?.to_owned();
    let revision = claims.get("revision")?.as_f64()? as u64;
    Some(VerifiedJwt {
        identity: Identity {
            user,
            proof: Proof::Revision(revision),
        },
        ends: ends.map(|ends| ends as u64),
    })
}

/// A claim that is a time. The outer `None`: it is there and is none.
fn time(claims: &Map<String, Value>, name: &str) -> Option<Option<f64>> {
    match claims.get(name) {
        None => Some(None),
        // As in etcd, 0 means none.
        Some(value) => value
            .as_f64()
            .map(|time| Some(time).filter(|&time| time != 0.0)),
    }
}

#[cfg(test)]
mod tests;
