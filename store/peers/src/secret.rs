//! The secret that the members of a cluster share.
//!
//! Each side proves that it has the secret by a keyed hash (HMAC-SHA-256) over two fresh
//! challenges, one from each side, and everything else that was sent before. The secret
//! itself is never sent. A proof is worthless on another connection, in the other direction,
//! and for other ids. The keys of the records that follow are derived in the same way.

use std::fmt;
use std::sync::Arc;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use thiserror::Error;

/// Bytes of a challenge, a proof and a key.
pub(crate) const HASH_BYTES: usize = 32;
/// A shorter secret could be guessed from one recorded greeting.
const SECRET_BYTES_MIN: usize = 32;
/// A longer file is surely not a secret.
const SECRET_BYTES_MAX: usize = 64 << 10;

pub(crate) type Keyed = Hmac<Sha256>;

/// The secret that the members of a cluster share. Clones share the bytes, and `Debug` does
/// not print them.
#[derive(Clone)]
pub struct PeerSecret(Arc<[u8]>);

/// Error of [`PeerSecret::new`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SecretError {
    /// The secret is short enough to be guessed.
    #[error(
        "a peer secret has at least 32 bytes, this one has {0}; \
         make one with: head -c 32 /dev/urandom > FILE"
    )]
    TooShort(usize),
    /// The file is surely not a secret.
    #[error("a peer secret has at most 65536 bytes, this one has {0}")]
    TooLong(usize),
}

impl PeerSecret {
    /// Takes the bytes of a key file. One line end after at least 32 bytes, as editors
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

    /// Starts a keyed hash of `label` and `said`, which the caller finishes or compares.
    pub(crate) fn keyed(&self, label: Label, said: &[&[u8]]) -> Keyed {
        let mut keyed = Keyed::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        keyed.update(label.text());
        said.iter().for_each(|part| keyed.update(part));
        keyed
    }

    /// The keyed hash of `label` and `said`: a proof to send, or a key.
    pub(crate) fn hash(&self, label: Label, said: &[&[u8]]) -> [u8; HASH_BYTES] {
        self.keyed(label, said).finalize().into_bytes().into()
    }
}

impl fmt::Debug for PeerSecret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("PeerSecret")
    }
}

/// Purpose of a hash. It is part of the hash, so a hash never passes for another purpose.
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
        let text = PeerSecret::new(&plain[1..]).unwrap_err().to_string();
        assert!(
            text.contains("at least 32 bytes, this one has 31"),
            "{text}"
        );
        assert!(PeerSecret::new(&vec![1; SECRET_BYTES_MAX + 2]).is_err());
    }

    #[test]
    fn hashes_differ_by_label_secret_and_message() {
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
    fn debug_does_not_print_the_secret() {
        let secret = PeerSecret::new(&[b'k'; 40]).unwrap();
        assert_eq!(format!("{secret:?}"), "PeerSecret");
    }
}
