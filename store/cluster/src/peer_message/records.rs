//! Messages that repair a value which is damaged on one member.

use bytes::{BufMut, Bytes, BytesMut};
use engine::DamagedVersion;

use super::{RECORD_GIVEN, RECORD_WANTED, words};
use crate::fields::Fields;

/// A request or a record for one version of a key. The request is repeated until the
/// value is repaired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordMessage {
    /// The sender's record of this version is damaged; it asks for the receiver's.
    Wanted(DamagedVersion),
    /// The sender's record of this version, as the engine encodes it.
    Given(DamagedVersion, Bytes),
}

impl RecordMessage {
    /// Whether the message may be large.
    pub(super) fn is_bulk(&self) -> bool {
        matches!(self, RecordMessage::Given(..))
    }

    /// Encodes the message: its kind, and its bytes in several parts.
    pub(super) fn encode(&self) -> (u8, Vec<Bytes>) {
        match self {
            RecordMessage::Wanted(DamagedVersion { key, main }) => {
                (RECORD_WANTED, vec![words(&[*main as u64]), key.clone()])
            }
            RecordMessage::Given(DamagedVersion { key, main }, record) => {
                let mut head = BytesMut::with_capacity(12);
                head.put_u64_le(*main as u64);
                head.put_u32_le(key.len() as u32);
                (
                    RECORD_GIVEN,
                    vec![head.freeze(), key.clone(), record.clone()],
                )
            }
        }
    }

    /// Decodes a message from the joined parts of [`RecordMessage::encode`].
    pub(super) fn decode(kind: u8, mut fields: Fields) -> Result<RecordMessage, String> {
        let main = fields.u64()? as i64;
        if kind == RECORD_WANTED {
            let key = fields.0;
            return Ok(RecordMessage::Wanted(DamagedVersion { key, main }));
        }
        let key = fields.sized()?;
        Ok(RecordMessage::Given(DamagedVersion { key, main }, fields.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version() -> DamagedVersion {
        DamagedVersion {
            key: Bytes::from_static(b"key"),
            main: 7,
        }
    }

    #[test]
    fn record_messages_round_trip_and_are_refused_when_truncated() {
        let given = RecordMessage::Given(version(), Bytes::from_static(b"record"));
        for (message, shortest) in [(RecordMessage::Wanted(version()), 8), (given, 15)] {
            let (kind, parts) = message.encode();
            let whole = Bytes::from(parts.concat());
            assert_eq!(
                RecordMessage::decode(kind, Fields(whole.clone())),
                Ok(message)
            );
            for length in 0..shortest {
                assert!(RecordMessage::decode(kind, Fields(whole.slice(..length))).is_err());
            }
        }
    }
}
