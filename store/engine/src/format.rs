//! Bytes of the engine's records. The page: `docs/formats/engine.md`.
//!
//! ```text
//! key version (log record kind 1)          state record (log record kind 2)
//!  0  u64 main revision                     0  u8  caller's kind
//!  8  u64 created (main revision)           1  u8  zero, 7 times
//! 16  u64 version                           8      caller's payload
//! 24  u64 lease
//! 32  u32 sub revision
//! 36  u32 kv length
//! 40  u32 key length
//! 44  u16 key offset inside kv
//! 46  u16 flags: bit 0 tombstone
//! 48      kv, then zeros up to the size class
//! ```
//!
//! hard state (log record kind 3): u64 term, u64 vote, u64 commit
//!
//! All little-endian.

/// Log record kind of a key version.
pub(crate) const KIND_KEY: u8 = 1;
/// Log record kind of a state record.
pub(crate) const KIND_STATE: u8 = 2;
/// Log record kind of a hard state: alone in a group without a tag.
pub(crate) const KIND_HARD_STATE: u8 = 3;
/// Bytes before a key version's kv.
pub(crate) const KEY_HEADER_BYTES: usize = 48;
/// Bytes before a state record's payload.
pub(crate) const STATE_HEADER_BYTES: usize = 8;
const FLAG_TOMBSTONE: u16 = 1;

/// The fixed part of a key version's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyHeader {
    pub(crate) main: u64,
    pub(crate) created: u64,
    pub(crate) version: u64,
    pub(crate) lease: u64,
    pub(crate) sub: u32,
    pub(crate) kv_bytes: u32,
    pub(crate) key_bytes: u32,
    pub(crate) key_offset: u16,
    pub(crate) tombstone: bool,
}

impl KeyHeader {
    pub(crate) fn encode(&self) -> [u8; KEY_HEADER_BYTES] {
        let mut bytes = [0; KEY_HEADER_BYTES];
        bytes[0..8].copy_from_slice(&self.main.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.created.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.version.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.lease.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.sub.to_le_bytes());
        bytes[36..40].copy_from_slice(&self.kv_bytes.to_le_bytes());
        bytes[40..44].copy_from_slice(&self.key_bytes.to_le_bytes());
        bytes[44..46].copy_from_slice(&self.key_offset.to_le_bytes());
        let flags = if self.tombstone { FLAG_TOMBSTONE } else { 0 };
        bytes[46..48].copy_from_slice(&flags.to_le_bytes());
        bytes
    }

    /// Refuses what this version never writes.
    pub(crate) fn decode(payload: &[u8]) -> Result<KeyHeader, &'static str> {
        let bytes = payload
            .get(..KEY_HEADER_BYTES)
            .ok_or("shorter than its header")?;
        let flags = u16_at(bytes, 46);
        if flags & !FLAG_TOMBSTONE != 0 {
            return Err("unknown flags");
        }
        let header = KeyHeader {
            main: u64_at(bytes, 0),
            created: u64_at(bytes, 8),
            version: u64_at(bytes, 16),
            lease: u64_at(bytes, 24),
            sub: u32_at(bytes, 32),
            kv_bytes: u32_at(bytes, 36),
            key_bytes: u32_at(bytes, 40),
            key_offset: u16_at(bytes, 44),
            tombstone: flags & FLAG_TOMBSTONE != 0,
        };
        header.check(payload.len())?;
        Ok(header)
    }

    fn check(&self, payload_bytes: usize) -> Result<(), &'static str> {
        if self.kv_bytes as usize > payload_bytes - KEY_HEADER_BYTES {
            return Err("its value reaches beyond its end");
        }
        let key_end = u64::from(self.key_offset) + u64::from(self.key_bytes);
        if key_end > u64::from(self.kv_bytes) {
            return Err("its key reaches beyond its value");
        }
        if self.main == 0 || self.main > i64::MAX as u64 {
            return Err("its revision is out of range");
        }
        Ok(())
    }
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes[at..at + 2].try_into().expect("two bytes"))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> KeyHeader {
        KeyHeader {
            main: 0x0102_0304_0506_0708,
            created: 3,
            version: 4,
            lease: u64::MAX,
            sub: 5,
            kv_bytes: 10,
            key_bytes: 6,
            key_offset: 2,
            tombstone: true,
        }
    }

    #[test]
    fn a_header_lies_byte_for_byte_as_the_page_says() {
        let bytes = header().encode();
        assert_eq!(bytes[..8], [8, 7, 6, 5, 4, 3, 2, 1]);
        assert_eq!(bytes[24..32], [0xff; 8]);
        assert_eq!(
            bytes[32..48],
            [5, 0, 0, 0, 10, 0, 0, 0, 6, 0, 0, 0, 2, 0, 1, 0]
        );
    }

    #[test]
    fn a_header_comes_back_and_every_truncation_is_refused() {
        let mut payload = header().encode().to_vec();
        payload.extend([0; 10]);
        assert_eq!(KeyHeader::decode(&payload), Ok(header()));
        for bytes in 0..payload.len() {
            assert!(KeyHeader::decode(&payload[..bytes]).is_err(), "{bytes}");
        }
    }

    #[test]
    fn lengths_and_flags_that_do_not_fit_are_refused() {
        let decode = |change: fn(&mut [u8])| {
            let mut payload = header().encode().to_vec();
            payload.extend([0; 10]);
            change(&mut payload);
            KeyHeader::decode(&payload)
        };
        assert!(decode(|bytes| bytes[40] = 9).is_err());
        assert!(decode(|bytes| bytes[43] = 0xff).is_err());
        assert!(decode(|bytes| bytes[46] = 2).is_err());
        assert!(decode(|bytes| bytes[..8].fill(0)).is_err());
        assert!(decode(|bytes| bytes[7] = 0x80).is_err());
    }
}
