//! Records that fail their checksum: looking at what is left of one, and writing it
//! again from another copy.

use crate::format::RECORD_HEADER_BYTES;
use crate::reader::{read_exactly, verified};
use crate::record;
use crate::shared::Shared;
use crate::{Error, Position, Record};

/// The bytes at a record's place, none of which can be trusted by itself.
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

impl Shared {
    /// The bytes of the `record_bytes` long record at `position`, not verified.
    pub fn suspect(&self, position: Position, record_bytes: usize) -> Result<Suspect, Error> {
        assert!(record_bytes >= RECORD_HEADER_BYTES, "a record has a header");
        self.in_segment_of(position, |segment| {
            let mut bytes = vec![0; record_bytes];
            read_exactly(segment, &mut bytes, position.offset())?;
            Ok(Suspect { bytes })
        })
    }

    /// Writes the record at `position` once more where it fails its checksum, durably,
    /// and reads it back. False: it is sound. The caller keeps
    /// the segment from being released during the call.
    pub fn mend(&self, position: Position, record: &Record<'_>) -> Result<bool, Error> {
        let mut whole = vec![0; record::record_bytes(record.payload_bytes())];
        record::encode(&mut whole, record);
        self.in_segment_of(position, |segment| {
            let offset = position.offset();
            let mut now = vec![0; whole.len()];
            let is_sound = match read_exactly(segment, &mut now, offset) {
                Ok(()) => verified(segment, offset, &now).is_ok(),
                // A sector that cannot be read may still be written.
                Err(_) => false,
            };
            if is_sound {
                return Ok(false);
            }
            segment
                .file
                .write_durable_at(&[&whole], offset)
                .map_err(Error::io("write", &segment.path))?;
            read_exactly(segment, &mut now, offset)?;
            verified(segment, offset, &now)?;
            Ok(true)
        })
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
