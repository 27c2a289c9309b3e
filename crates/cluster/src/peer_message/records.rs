//! What members say of a value that is damaged on one of them.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use engine::DamagedVersion;

use super::{RECORD_GIVEN, RECORD_WANTED, word, words};

/// Of one version of a key. Repeated until the member has it; all of it may be lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordMessage {
    /// The sender's record is damaged.
    Wanted(DamagedVersion),
    /// The record, as the engine gives it.
    Given(DamagedVersion, Bytes),
}

impl RecordMessage {
    /// Whether it may be large.
    pub(super) fn is_bulk(&self) -> bool {
        matches!(self, RecordMessage::Given(..))
    }

    /// Its kind, and its bytes in pieces.
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

    /// Reads what [`RecordMessage::encode`] gave, in one piece.
    pub(super) fn decode(kind: u8, mut bytes: Bytes) -> Result<RecordMessage, String> {
        let main = word(&mut bytes)? as i64;
        if kind == RECORD_WANTED {
            return Ok(RecordMessage::Wanted(DamagedVersion { key: bytes, main }));
        }
        if bytes.len() < 4 {
            return Err("the message is cut off".into());
        }
        let key_bytes = bytes.get_u32_le() as usize;
        if key_bytes > bytes.len() {
            return Err("the message is cut off".into());
        }
        let key = bytes.split_to(key_bytes);
        Ok(RecordMessage::Given(DamagedVersion { key, main }, bytes))
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
    fn messages_come_back_and_are_refused_when_cut_off() {
        let given = RecordMessage::Given(version(), Bytes::from_static(b"record"));
        for (message, shortest) in [(RecordMessage::Wanted(version()), 8), (given, 15)] {
            let (kind, parts) = message.encode();
            let whole = Bytes::from(parts.concat());
            assert_eq!(RecordMessage::decode(kind, whole.clone()), Ok(message));
            for length in 0..shortest {
                assert!(RecordMessage::decode(kind, whole.slice(..length)).is_err());
            }
        }
    }
}
