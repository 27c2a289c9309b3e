//! Passwords and their hashes: bcrypt, as Go's implementation writes and reads it.
//!
//! bcrypt looks at 72 bytes. Longer passwords are refused, where they are set and where they are
//! checked, so that none is cut in silence. A hash takes some 50 ms of a core at the default
//! cost: the caller runs this on a thread that serves no sockets.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use thiserror::Error;
use zeroize::Zeroizing;

/// Most bytes of a password.
const BYTES_MAX: usize = 72;
/// Bytes of the random salt of a hash.
pub const SALT_BYTES: usize = 16;
/// Go's default: two to this power rounds.
pub const COST_DEFAULT: u32 = 10;
const COSTS: std::ops::RangeInclusive<u32> = 4..=31;

/// A password. Its bytes are overwritten when it is dropped, and it cannot be printed.
pub struct Password(Zeroizing<String>);

/// Refusal of a password that bcrypt would cut, in Go's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("bcrypt: password length exceeds 72 bytes")]
pub struct PasswordTooLong;

impl Password {
    /// Takes the text, so that no other copy of it is left behind.
    pub fn take(text: &mut String) -> Password {
        Password(Zeroizing::new(std::mem::take(text)))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Refuses a password that is too long.
    pub fn check(&self) -> Result<(), PasswordTooLong> {
        match self.0.len() {
            0..=BYTES_MAX => Ok(()),
            _ => Err(PasswordTooLong),
        }
    }

    /// Hashes the password and returns base64 of bcrypt's text, as requests carry it.
    pub fn hash(&self, cost: u32, salt: [u8; SALT_BYTES]) -> Result<String, PasswordTooLong> {
        self.check()?;
        let parts = bcrypt::hash_with_salt(self.0.as_bytes(), cost_or_default(cost), salt);
        let parts = parts.expect("the cost is in bcrypt's limits");
        Ok(STANDARD.encode(parts.format_for_version(bcrypt::Version::TwoA)))
    }

    /// Whether this is the password of the hash, of `$2a$` or `$2b$`. An empty or damaged hash
    /// has none.
    pub fn matches(&self, hash: &[u8]) -> bool {
        let hash = std::str::from_utf8(hash).unwrap_or_default();
        self.check().is_ok() && bcrypt::verify(self.0.as_bytes(), hash).unwrap_or(false)
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Password")
    }
}

/// The cost if bcrypt has it, otherwise the default.
pub fn cost_or_default(cost: u32) -> u32 {
    match COSTS.contains(&cost) {
        true => cost,
        false => COST_DEFAULT,
    }
}

/// Decodes the hash of a request; `None` if it is not base64.
pub fn decode_hash(hashed_password: &str) -> Option<Vec<u8>> {
    // As in Go, line breaks do not count.
    let text: String = hashed_password.split(['\r', '\n']).collect();
    STANDARD.decode(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn password(text: &str) -> Password {
        Password::take(&mut text.to_owned())
    }

    #[test]
    fn a_hash_has_gos_form_and_matches_its_password_alone() {
        let hashed = password("secret").hash(4, [7; SALT_BYTES]).unwrap();
        let hash = decode_hash(&hashed).unwrap();
        assert!(hash.starts_with(b"$2a$04$"), "{hashed}");
        assert_eq!(hash.len(), 60);
        assert!(password("secret").matches(&hash));
        assert!(!password("secres").matches(&hash));
        assert!(!password("").matches(&hash));
    }

    #[test]
    fn hashes_of_both_letters_match() {
        // Made by htpasswd and by Go's golang.org/x/crypto/bcrypt of the same algorithm.
        let hashed = password("U*U").hash(5, [0; SALT_BYTES]).unwrap();
        let a = String::from_utf8(decode_hash(&hashed).unwrap()).unwrap();
        let b = a.replacen("$2a$", "$2b$", 1);
        assert!(password("U*U").matches(a.as_bytes()));
        assert!(password("U*U").matches(b.as_bytes()));
        // OpenWall's test vector.
        let vector = b"$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW";
        assert!(password("U*U").matches(vector));
    }

    #[test]
    fn seventy_two_bytes_are_hashed_and_one_more_is_refused() {
        let longest = "x".repeat(72);
        let hashed = password(&longest).hash(4, [1; SALT_BYTES]).unwrap();
        let hash = decode_hash(&hashed).unwrap();
        assert!(password(&longest).matches(&hash));
        assert!(!password(&"x".repeat(71)).matches(&hash));
        // bcrypt itself would not see the difference.
        assert!(!password(&"x".repeat(73)).matches(&hash));
        let refused = password(&"x".repeat(73)).hash(4, [1; SALT_BYTES]);
        assert_eq!(
            refused.unwrap_err().to_string(),
            "bcrypt: password length exceeds 72 bytes"
        );
    }

    #[test]
    fn an_empty_password_has_a_hash_and_an_empty_hash_has_no_password() {
        let hashed = password("").hash(4, [1; SALT_BYTES]).unwrap();
        assert!(password("").matches(&decode_hash(&hashed).unwrap()));
        for damaged in [&b""[..], b"$2a$04$", b"$9z$04$abc", &[0xff; 60], b"plain"] {
            assert!(!password("").matches(damaged));
            assert!(!password("plain").matches(damaged));
        }
    }

    #[test]
    fn taking_a_password_leaves_nothing_and_it_is_not_printed() {
        let mut text = "secret".to_owned();
        let password = Password::take(&mut text);
        assert_eq!(text, "");
        assert_eq!(format!("{password:?}"), "Password");
    }

    #[test]
    fn costs_outside_of_bcrypts_become_the_default() {
        assert_eq!([3, 4, 31, 32, 0].map(cost_or_default), [10, 4, 31, 10, 10]);
    }
}
