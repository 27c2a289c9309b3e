//! The bytes in which both sides prove that they have the secret. The section "Proof" of
//! `docs/formats/peers.md` describes them in prose.
//!
//! ```text
//!   dialer                                   listener
//!     │ opening ──────────────────────────────► │  ids and a challenge
//!     │ ◄───────────────────────────── answer   │  a challenge and the listener's proof
//!     │ proof ────────────────────────────────► │  the dialer's proof
//! ```
//!
//! All numbers are little-endian.

use crate::format::Hello;
use crate::secret::HASH_BYTES;

/// First bytes of an opening and of an answer.
pub(crate) const MAGIC: [u8; 8] = *b"INKPROOF";
/// Version of everything below.
pub(super) const VERSION: u16 = 1;
/// Size of an opening.
pub(super) const OPENING_BYTES: usize = 72;
/// Size of an answer before its proof.
pub(super) const ANSWER_HEAD_BYTES: usize = 48;
/// Size of an answer.
pub(super) const ANSWER_BYTES: usize = ANSWER_HEAD_BYTES + HASH_BYTES;

/// The ids that the opening carries and the dialer's hello repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ids {
    pub cluster: u64,
    pub sender: u64,
    pub receiver: u64,
}

impl Ids {
    /// The ids in a hello.
    pub(crate) fn of(hello: &Hello) -> Ids {
        Ids {
            cluster: hello.cluster,
            sender: hello.sender,
            receiver: hello.receiver,
        }
    }
}

/// First bytes of a dialer that has a secret.
///
/// ```text
///   0  8  magic "INKPROOF"
///   8  2  version
///  10  6  zero
///  16  8  cluster id
///  24  8  id of the sender
///  32  8  id of the member that the sender expects here
///  40 32  challenge: random, new for each connection
/// ```
pub(super) fn opening(ids: Ids, challenge: &[u8; HASH_BYTES]) -> [u8; OPENING_BYTES] {
    let mut bytes = [0; OPENING_BYTES];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..10].copy_from_slice(&VERSION.to_le_bytes());
    for (place, id) in
        bytes[16..40]
            .chunks_exact_mut(8)
            .zip([ids.cluster, ids.sender, ids.receiver])
    {
        place.copy_from_slice(&id.to_le_bytes());
    }
    bytes[40..].copy_from_slice(challenge);
    bytes
}

/// The ids of an opening.
pub(super) fn ids(opening: &[u8; OPENING_BYTES]) -> Ids {
    let id = |at: usize| u64::from_le_bytes(std::array::from_fn(|index| opening[at + index]));
    Ids {
        cluster: id(16),
        sender: id(24),
        receiver: id(32),
    }
}

/// The version in an opening or an answer.
pub(super) fn version(bytes: &[u8]) -> u16 {
    u16::from_le_bytes([bytes[8], bytes[9]])
}

/// The beginning of a listener's answer; the listener's proof follows, 32 bytes.
///
/// ```text
///   0  8  magic "INKPROOF"
///   8  2  version
///  10  6  zero
///  16 32  challenge: random, new for each connection
///  48 32  proof of the listener
/// ```
pub(super) fn answer_head(challenge: &[u8; HASH_BYTES]) -> [u8; ANSWER_HEAD_BYTES] {
    let mut bytes = [0; ANSWER_HEAD_BYTES];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..10].copy_from_slice(&VERSION.to_le_bytes());
    bytes[16..].copy_from_slice(challenge);
    bytes
}

#[cfg(test)]
mod tests {
    use crate::PeerSecret;
    use crate::secret::Label;

    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// If this fails, the protocol has changed: raise its version. The hashes are those
    /// of another implementation.
    #[test]
    fn proofs_and_keys_are_the_documented_ones() {
        let ids = Ids {
            cluster: 1,
            sender: 2,
            receiver: 3,
        };
        let opening = opening(ids, &[0x11; HASH_BYTES]);
        assert_eq!(super::ids(&opening), ids);
        let beginning = "494e4b50524f4f460100000000000000\
                         010000000000000002000000000000000300000000000000";
        assert_eq!(hex(&opening), format!("{beginning}{}", "11".repeat(32)));
        let head = answer_head(&[0x22; HASH_BYTES]);
        let beginning = "494e4b50524f4f460100000000000000";
        assert_eq!(hex(&head), format!("{beginning}{}", "22".repeat(32)));
        let secret = PeerSecret::new(&[7; 32]).unwrap();
        for (label, expected) in [
            (
                Label::ListenerProves,
                "b3bdfaa18a53232520a19109cb281c7ead3211086730de00d2fc9e6d37fd19bd",
            ),
            (
                Label::DialerProves,
                "7917ecb7cb797a864577d471f1733c1d7509a4cc2bd3ecb42abd6fef0ae86c40",
            ),
            (
                Label::FromDialer,
                "43a8b2c361aaf9cd899365900786107be3d122fbdd7e12210f472898eabe0df5",
            ),
            (
                Label::FromListener,
                "ff75ad338b99513b4427b4f5afadb6a3b6eb5e316101257e171006a6fc3ba2ae",
            ),
        ] {
            assert_eq!(hex(&secret.hash(label, &[&opening, &head])), expected);
        }
    }
}
