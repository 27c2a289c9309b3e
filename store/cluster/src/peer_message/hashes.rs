//! Messages in which members compare their states.

use bytes::{BufMut, Bytes, BytesMut};
use engine::StateHash;
use revisions::KeyValueHash;

use super::{HASH_ANSWER, HASH_QUESTION, STATE_HASH_REACHED, STATE_HASH_STATED, words};
use crate::fields::Fields;

/// A hash of a member's state, or a request for one. A member of a release before this message
/// drops it.
#[derive(Clone, Debug)]
pub enum HashMessage {
    /// A leader states the hash of its state after a batch.
    Stated(StateHash),
    /// The member's own hash after the same batch.
    Reached(StateHash),
    /// A request for HashKV at a revision; 0 is the newest.
    Question {
        /// The sender's number for the question.
        number: u64,
        revision: i64,
    },
    /// The answer to `Question`.
    Answer {
        /// The number of the question.
        number: u64,
        outcome: Result<KeyValueHash, revisions::Error>,
    },
}

const YES: u8 = 1;
const NO: u8 = 0;

impl HashMessage {
    /// Encodes the message: its kind, and its bytes in several parts.
    pub(super) fn encode(&self) -> (u8, Vec<Bytes>) {
        match self {
            HashMessage::Stated(hash) => (STATE_HASH_STATED, vec![encode_state(hash)]),
            HashMessage::Reached(hash) => (STATE_HASH_REACHED, vec![encode_state(hash)]),
            HashMessage::Question { number, revision } => {
                (HASH_QUESTION, vec![words(&[*number, *revision as u64])])
            }
            HashMessage::Answer { number, outcome } => {
                let body = match outcome {
                    Ok(hash) => encode_key_value_hash(hash),
                    Err(error) => error.encode(),
                };
                let mut head = BytesMut::with_capacity(9);
                head.put_u64_le(*number);
                head.put_u8(if outcome.is_ok() { YES } else { NO });
                (HASH_ANSWER, vec![head.freeze(), body])
            }
        }
    }

    /// Decodes a message from the joined parts of [`HashMessage::encode`].
    pub(super) fn decode(kind: u8, mut fields: Fields) -> Result<HashMessage, String> {
        Ok(match kind {
            STATE_HASH_STATED => HashMessage::Stated(decode_state(fields)?),
            STATE_HASH_REACHED => HashMessage::Reached(decode_state(fields)?),
            HASH_QUESTION => HashMessage::Question {
                number: fields.u64()?,
                revision: fields.u64()? as i64,
            },
            _ => HashMessage::Answer {
                number: fields.u64()?,
                outcome: match fields.u8()? {
                    YES => Ok(decode_key_value_hash(fields)?),
                    _ => Err(revisions::Error::decode(fields.0).map_err(|it| it.to_string())?),
                },
            },
        })
    }
}

/// The words of the hash, and their sum. A member with a flipped bit in its memory must not appear as
/// one with another state.
fn encode_state(hash: &StateHash) -> Bytes {
    let words_of_it = words_of(hash);
    let [index, revision, since, effects, keys] = words_of_it;
    words(&[index, revision, since, effects, keys, check(&words_of_it)])
}

fn decode_state(mut fields: Fields) -> Result<StateHash, String> {
    let hash = StateHash {
        index: fields.u64()?,
        revision: fields.u64()? as i64,
        since: fields.u64()?,
        effects: fields.u64()?,
        keys: fields.u64()?,
    };
    if fields.u64()? != check(&words_of(&hash)) {
        return Err("the hash of a state fails its own checksum".into());
    }
    Ok(hash)
}

fn words_of(hash: &StateHash) -> [u64; 5] {
    let revision = hash.revision as u64;
    [hash.index, revision, hash.since, hash.effects, hash.keys]
}

fn check(words: &[u64]) -> u64 {
    words.iter().fold(0x9e37_79b9_7f4a_7c15, |sum, word| {
        (sum ^ word).wrapping_mul(0x0100_0000_01b3).rotate_left(23)
    })
}

fn encode_key_value_hash(hash: &KeyValueHash) -> Bytes {
    words(&[
        u64::from(hash.hash),
        hash.compact_revision as u64,
        hash.hash_revision as u64,
        hash.revision as u64,
    ])
}

fn decode_key_value_hash(mut fields: Fields) -> Result<KeyValueHash, String> {
    let hash = fields.u64()?;
    Ok(KeyValueHash {
        hash: u32::try_from(hash).map_err(|_| format!("{hash} is no HashKV"))?,
        compact_revision: fields.u64()? as i64,
        hash_revision: fields.u64()? as i64,
        revision: fields.u64()? as i64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> StateHash {
        StateHash {
            index: 7,
            revision: -1,
            since: 0,
            effects: u64::MAX,
            keys: 1,
        }
    }

    fn whole(message: &HashMessage) -> (u8, Bytes) {
        let (kind, parts) = message.encode();
        (kind, parts.concat().into())
    }

    #[test]
    fn hash_messages_round_trip_and_are_refused_when_truncated() {
        let hash = KeyValueHash {
            hash: u32::MAX,
            compact_revision: -1,
            hash_revision: 8,
            revision: 9,
        };
        let answer = |outcome| HashMessage::Answer { number: 5, outcome };
        let (number, revision) = (3, -4);
        for (message, shortest) in [
            (HashMessage::Stated(state()), 48),
            (HashMessage::Reached(state()), 48),
            (HashMessage::Question { number, revision }, 16),
            (answer(Ok(hash)), 41),
            (answer(Err(etcd_api::Error::Compacted.into())), 10),
        ] {
            let (kind, bytes) = whole(&message);
            let decoded = HashMessage::decode(kind, Fields(bytes.clone())).unwrap();
            assert_eq!(format!("{decoded:?}"), format!("{message:?}"));
            for length in 0..shortest {
                let cut = Fields(bytes.slice(..length));
                assert!(
                    HashMessage::decode(kind, cut).is_err(),
                    "{message:?} {length}"
                );
            }
        }
    }

    #[test]
    fn every_flipped_bit_of_a_state_hash_is_refused() {
        let (kind, bytes) = whole(&HashMessage::Reached(state()));
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.to_vec();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let decoded = HashMessage::decode(kind, Fields(flipped.into()));
            assert!(decoded.is_err(), "bit {bit}");
        }
    }
}
