//! What is left of a record that fails its checksum.

use crate::Record;
use crate::format::RECORD_HEADER_BYTES;
use crate::record;

/// The bytes where a record lies, none of which can be trusted by itself.
#[derive(Debug)]
pub struct Suspect {
    bytes: Vec<u8>,
}

impl Suspect {
    /// The bytes of a whole record, header and padding included.
    pub(crate) fn new(bytes: Vec<u8>) -> Suspect {
        Suspect { bytes }
    }

    /// What lies where the payload was, and the padding behind it.
    pub fn payload(&self) -> &[u8] {
        &self.bytes[RECORD_HEADER_BYTES..]
    }

    /// Whether the record was written with this kind and payload, by the checksum that
    /// is left of it.
    pub fn was(&self, kind: u8, payload: &[u8]) -> bool {
        let mut whole = vec![0; record::record_bytes(payload.len())];
        record::encode(
            &mut whole,
            &Record {
                kind,
                parts: &[payload],
            },
        );
        whole.len() == self.bytes.len() && whole[..4] == self.bytes[..4]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suspect_is_known_by_its_checksum_only() {
        let record = Record {
            kind: 3,
            parts: &[b"payload"],
        };
        let mut bytes = vec![0; record::record_bytes(7)];
        record::encode(&mut bytes, &record);
        bytes[RECORD_HEADER_BYTES] ^= 1;
        let suspect = Suspect { bytes };
        assert!(suspect.was(3, b"payload"));
        assert!(!suspect.was(2, b"payload"));
        assert!(!suspect.was(3, b"payloads"));
        assert!(!suspect.was(3, b"other payload"));
    }
}
