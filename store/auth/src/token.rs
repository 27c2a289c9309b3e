//! Our own tokens, the default (`--auth-token simple`).
//!
//! ```text
//!   ink1.   base64url of   number u64 │ ends u64 │ generation u64 │ tag, 16 bytes
//!                          └───────────── HMAC-SHA-256 ──────────┘
//! ```
//!
//! All numbers are little-endian. The key is a secret that the log holds while calls are checked,
//! so every member can check every token by itself: a restart, a failover or a lagging member
//! ends none. The generation names the user and its password: when the user is deleted or gets
//! another password, the generation is gone, and so is every token with it. When checking is
//! switched off the secret is gone.
//!
//! A token that is used late in its life lives on ([`Renewals`]): the member that saw it writes
//! so to the log, once in half a life.

use std::collections::{BTreeSet, HashMap};
use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use zeroize::Zeroizing;

const PREFIX: &str = "ink1.";
/// Keeps these tags apart from all others that may ever be made with the same key.
const PURPOSE: &[u8] = b"inkstone token 1";
const BODY_BYTES: usize = 24;
const TAG_BYTES: usize = 16;
/// Letters after the prefix.
const LETTERS: usize = 54;
/// Bytes of a [`Secret`].
pub const SECRET_BYTES: usize = 32;

/// The key of tokens. It is overwritten when it is dropped, and cannot be printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<[u8; SECRET_BYTES]>);

/// Content of a simple token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimpleToken {
    /// A random number, by which the token is known.
    pub number: u64,
    /// When it ends unless it is renewed, in seconds since 1970.
    pub ends: u64,
    /// The user and its password.
    pub generation: u64,
}

impl Secret {
    /// Returns the secret of 32 bytes; `None` for any other number.
    pub fn new(bytes: &[u8]) -> Option<Secret> {
        let bytes = <[u8; SECRET_BYTES]>::try_from(bytes).ok()?;
        Some(Secret(Zeroizing::new(bytes)))
    }

    /// Stands for a secret that is not picked yet: no token counts. A store that was restored from a
    /// file of etcd begins with it.
    pub fn missing() -> Secret {
        Secret(Zeroizing::new([0; SECRET_BYTES]))
    }

    /// Whether it is still to be picked.
    pub fn is_missing(&self) -> bool {
        self.0.iter().all(|byte| *byte == 0)
    }

    /// The bytes, for the log.
    pub fn bytes(&self) -> &[u8; SECRET_BYTES] {
        &self.0
    }

    /// Writes a token.
    pub fn write(&self, token: &SimpleToken) -> String {
        let body = [token.number, token.ends, token.generation].map(u64::to_le_bytes);
        let body = body.concat();
        let tag = self.keyed(&body).finalize().into_bytes();
        let bytes = [&body[..], &tag[..TAG_BYTES]].concat();
        format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes))
    }

    /// Whether a text has the form of a token, of whatever secret.
    pub fn wrote_like(text: &[u8]) -> bool {
        let letters = text.strip_prefix(PREFIX.as_bytes());
        letters.is_some_and(|letters| letters.len() == LETTERS)
    }

    /// Reads a token; `None` if it was not written with this secret.
    pub fn read(&self, text: &[u8]) -> Option<SimpleToken> {
        if !Secret::wrote_like(text) {
            return None;
        }
        let letters = &text[PREFIX.len()..];
        let bytes = URL_SAFE_NO_PAD.decode(letters).ok()?;
        let (body, tag) = bytes.split_at_checked(BODY_BYTES)?;
        // Compares in constant time.
        self.keyed(body).verify_truncated_left(tag).ok()?;
        let number = |place: usize| {
            let bytes = body[place..place + 8].try_into();
            u64::from_le_bytes(bytes.expect("eight bytes"))
        };
        Some(SimpleToken {
            number: number(0),
            ends: number(8),
            generation: number(16),
        })
    }

    fn keyed(&self, body: &[u8]) -> Hmac<Sha256> {
        let keyed = Hmac::<Sha256>::new_from_slice(&self.0[..]);
        let mut keyed = keyed.expect("HMAC takes keys of any length");
        keyed.update(PURPOSE);
        keyed.update(body);
        keyed
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret")
    }
}

/// The tokens that live longer than they say, because they were used late in their lives. Every
/// member has the same ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Renewals {
    /// The end of each token, by its number.
    ends: HashMap<u64, u64>,
    /// The same, by the end.
    order: BTreeSet<(u64, u64)>,
}

impl Renewals {
    /// When a token ends, the renewal considered.
    pub fn end_of(&self, token: &SimpleToken) -> u64 {
        let renewed = self.ends.get(&token.number).copied();
        renewed.map_or(token.ends, |end| end.max(token.ends))
    }

    /// Lengthens the life of a token, and forgets those that ended before `now`.
    pub fn renew(&mut self, number: u64, until: u64, now: u64) {
        while let Some(&(end, token)) = self.order.first()
            && end < now
        {
            self.order.pop_first();
            self.ends.remove(&token);
        }
        let before = self.ends.get(&number).copied().unwrap_or(0);
        if until > before {
            self.order.remove(&(before, number));
            self.order.insert((until, number));
            self.ends.insert(number, until);
        }
    }

    /// Forgets all, when all tokens end.
    pub fn clear(&mut self) {
        *self = Renewals::default();
    }

    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Iterates over number and end of each, the first to end first.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        self.order.iter().map(|&(end, number)| (number, end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(byte: u8) -> Secret {
        Secret::new(&[byte; SECRET_BYTES]).unwrap()
    }

    const TOKEN: SimpleToken = SimpleToken {
        number: 7,
        ends: 1_000,
        generation: 3,
    };

    #[test]
    fn a_token_is_read_with_its_own_secret_alone() {
        let text = secret(1).write(&TOKEN);
        assert_eq!(text.len(), PREFIX.len() + LETTERS);
        assert_eq!(secret(1).read(text.as_bytes()), Some(TOKEN));
        assert_eq!(secret(2).read(text.as_bytes()), None);
    }

    #[test]
    fn every_changed_letter_and_every_other_length_is_refused() {
        let text = secret(1).write(&TOKEN).into_bytes();
        for place in 0..text.len() {
            for letter in *b"AB-z.\0\xff" {
                let mut other = text.clone();
                other[place] = letter;
                let read = secret(1).read(&other);
                assert_eq!(read.is_some(), other == text, "{place} {letter}");
            }
            assert_eq!(secret(1).read(&text[..place]), None);
        }
        assert_eq!(secret(1).read(&[&text[..], b"A"].concat()), None);
        assert_eq!(secret(1).read(&[&text[..], b"=="].concat()), None);
    }

    #[test]
    fn secrets_have_thirty_two_bytes_and_are_not_printed() {
        assert!(Secret::new(&[1; 31]).is_none());
        assert!(Secret::new(&[1; 33]).is_none());
        assert_eq!(format!("{:?}", secret(77)), "Secret");
    }

    #[test]
    fn a_renewed_token_ends_later_and_is_forgotten_after_that() {
        let mut renewals = Renewals::default();
        assert_eq!(renewals.end_of(&TOKEN), 1_000);
        renewals.renew(TOKEN.number, 1_300, 900);
        assert_eq!(renewals.end_of(&TOKEN), 1_300);
        // An earlier end changes nothing.
        renewals.renew(TOKEN.number, 1_200, 900);
        assert_eq!(renewals.end_of(&TOKEN), 1_300);
        renewals.renew(8, 2_000, 1_300);
        assert_eq!(renewals.len(), 2);
        renewals.renew(8, 2_001, 1_301);
        assert_eq!(renewals.iter().collect::<Vec<_>>(), [(8, 2_001)]);
        assert_eq!(renewals.end_of(&TOKEN), 1_000);
    }
}
