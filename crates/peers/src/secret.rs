//! What all members know and no stranger does.
//!
//! Each side proves that it has the secret by a keyed hash (HMAC-SHA-256) over two fresh
//! challenges, one of each side, and everything else that was said so far. The secret
//! itself is never sent, and no proof is of use a second time, to the other side, or for
//! other ids. The keys of the records that follow are drawn from the same.

use std::fmt;
use std::sync::Arc;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use thiserror::Error;

/// Bytes of a challenge, a proof and a key.
pub(crate) const HASH_BYTES: usize = 32;
/// A shorter secret could be guessed from one recorded greeting.
const SECRET_BYTES_MIN: usize = 32;
/// More is surely another file.
const SECRET_BYTES_MAX: usize = 64 << 10;

pub(crate) type Keyed = Hmac<Sha256>;

/// The secret that the members of a cluster share. Clones share it; nothing prints it.
#[derive(Clone)]
pub struct PeerSecret(Arc<[u8]>);

/// Why bytes are no secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SecretError {
    /// It could be guessed.
    #[error(
        "a peer secret has at least 32 bytes, this one has {0}; \
         make one with: head -c 32 /dev/urandom > FILE"
    )]
    TooShort(usize),
    /// Surely it is something else.
    #[error("a peer secret has at most 65536 bytes, this one has {0}")]
    TooLong(usize),
}

impl PeerSecret {
    /// Takes the bytes of a key file. One line end behind at least 32 bytes, as editors
    /// and shells add it, is not part of the secret.
    pub fn new(bytes: &[u8]) -> Result<PeerSecret, SecretError> {
        let line = bytes.strip_suffix(b"\n");
        let line = line.map(|line| line.strip_suffix(b"\r").unwrap_or(line));
        let bytes = line
            .filter(|line| line.len() >= SECRET_BYTES_MIN)
            .unwrap_or(bytes);
        match bytes.len() {
            length if length < SECRET_BYTES_MIN => Err(SecretError::TooShort(length)),
            length if length > SECRET_BYTES_MAX => Err(SecretError::TooLong(length)),
            _ => Ok(PeerSecret(bytes.into())),
        }
    }

    /// A keyed hash of `said` under a label of ours, to be finished or compared.
    pub(crate) fn keyed(&self, label: Label, said: &[&[u8]]) -> Keyed {
        let mut keyed = Keyed::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        keyed.update(label.text());
        said.iter().for_each(|part| keyed.update(part));
        keyed
    }

    /// The hash itself: a proof to be sent, or a key.
    pub(crate) fn hash(&self, label: Label, said: &[&[u8]]) -> [u8; HASH_BYTES] {
        self.keyed(label, said).finalize().into_bytes().into()
    }
}

impl fmt::Debug for PeerSecret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("PeerSecret")
    }
}

/// What a hash is for: none of one purpose passes for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Label {
    ListenerProves,
    DialerProves,
    FromDialer,
    FromListener,
}

impl Label {
    fn text(self) -> &'static [u8] {
        match self {
            Label::ListenerProves => b"inkstone peers 1: the listener proves\0",
            Label::DialerProves => b"inkstone peers 1: the dialer proves\0",
            Label::FromDialer => b"inkstone peers 1: records of the dialer\0",
            Label::FromListener => b"inkstone peers 1: records of the listener\0",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(secret: &[u8], label: Label, said: &[u8]) -> [u8; HASH_BYTES] {
        PeerSecret::new(secret).unwrap().hash(label, &[said])
    }

    #[test]
    fn a_line_end_is_no_part_of_a_secret_and_short_ones_are_refused() {
        let plain = [7; 32];
        let line = [&plain[..], b"\n"].concat();
        let windows_line = [&plain[..], b"\r\n"].concat();
        let expected = hash(&plain, Label::DialerProves, b"x");
        assert_eq!(hash(&line, Label::DialerProves, b"x"), expected);
        assert_eq!(hash(&windows_line, Label::DialerProves, b"x"), expected);
        // Random bytes may end like a line.
        let random = [&[7; 31][..], b"\n"].concat();
        assert!(PeerSecret::new(&random).is_ok());
        let told = PeerSecret::new(&plain[1..]).unwrap_err().to_string();
        assert!(
            told.contains("at least 32 bytes, this one has 31"),
            "{told}"
        );
        assert!(PeerSecret::new(&vec![1; SECRET_BYTES_MAX + 2]).is_err());
    }

    #[test]
    fn no_hash_passes_for_another() {
        let labels = [
            Label::ListenerProves,
            Label::DialerProves,
            Label::FromDialer,
            Label::FromListener,
        ];
        let mut seen = std::collections::BTreeSet::new();
        for label in labels {
            for (secret, said) in [([1; 32], b"a"), ([1; 32], b"b"), ([2; 32], b"a")] {
                assert!(seen.insert(hash(&secret, label, said)));
            }
        }
    }

    #[test]
    fn nothing_prints_a_secret() {
        let secret = PeerSecret::new(&[b'k'; 40]).unwrap();
        assert_eq!(format!("{secret:?}"), "PeerSecret");
    }
}
