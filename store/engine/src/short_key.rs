//! Key versions with a short header, as embedded maps write them. The page:
//! `docs/formats/engine.md`.
//!
//! ```text
//! short key version (log record kind 124)
//!  0  40 bits  main revision
//!  5  u16      sub revision; bit 15: tombstone
//!  7           kv, to the end of the payload: 0a, bytes of the key (varint), key, ...
//! ```
//!
//! All other numbers of such a version are known: it is the first of its key (created at its
//! main revision, version 1) or a deletion (0 and 0), and has no lease. Other versions, and
//! those with numbers that do not fit or a record that needs padding, have a record of kind 1,
//! so each version has exactly one record in either form.

use crate::checkpoint::format::take_varint;
use crate::format::{KEY_HEADER_BYTES, KeyHeader, u16_at, u32_at};
use crate::record::varint_bytes;
use crate::record_pointer::needs_no_padding;

/// Log record kind of a key version with a short header. It differs from every other kind in
/// six bits or more, so that no damage of a few bits makes one of the other.
pub(crate) const KIND_SHORT_KEY: u8 = 124;
/// Bytes before the kv.
pub(crate) const SHORT_HEADER_BYTES: usize = 7;
const MAIN_MAX: u64 = (1 << 40) - 1;
const SUB_MAX: u32 = (1 << 15) - 1;
const TOMBSTONE: u16 = 1 << 15;
/// Of protobuf: field 1, bytes.
const KEY_TAG: u8 = 0x0a;

/// The short header of the version with this header and kv; `None` where it has none.
pub(crate) fn encode(header: &KeyHeader, kv: &[u8]) -> Option<[u8; SHORT_HEADER_BYTES]> {
    let fits = header.main <= MAIN_MAX
        && header.sub <= SUB_MAX
        && needs_no_padding(SHORT_HEADER_BYTES + kv.len())
        && *header == known(header.main, header.sub, header.tombstone, kv)?;
    let flag = if header.tombstone { TOMBSTONE } else { 0 };
    let sub = (header.sub as u16 | flag).to_le_bytes();
    let main = header.main.to_le_bytes();
    fits.then(|| [main[0], main[1], main[2], main[3], main[4], sub[0], sub[1]])
}

/// Short header and kv of a payload with a long header and without zeros behind it.
pub(crate) fn of_long(payload: &[u8]) -> Option<([u8; SHORT_HEADER_BYTES], &[u8])> {
    let header = KeyHeader::decode(payload).ok()?;
    let kv = payload.get(KEY_HEADER_BYTES..)?;
    Some((encode(&header, kv)?, kv))
}

/// The header that a short payload stands for. Refuses what [`encode`] never writes.
pub(crate) fn decode(payload: &[u8]) -> Result<KeyHeader, &'static str> {
    let kv = payload
        .get(SHORT_HEADER_BYTES..)
        .ok_or("shorter than its header")?;
    let main = u64::from(u32_at(payload, 0)) | u64::from(payload[4]) << 32;
    let sub = u16_at(payload, 5);
    let tombstone = sub & TOMBSTONE != 0;
    let header = known(main, u32::from(sub & !TOMBSTONE), tombstone, kv);
    let header = header.ok_or("its kv does not begin with its key")?;
    if main == 0 {
        return Err("its revision is out of range");
    }
    if !needs_no_padding(payload.len()) {
        return Err("of a length that needs padding, without padding");
    }
    Ok(header)
}

/// The header of a first version or a deletion.
fn known(main: u64, sub: u32, tombstone: bool, kv: &[u8]) -> Option<KeyHeader> {
    let (key_offset, key_bytes) = key_in(kv)?;
    let (created, version) = if tombstone { (0, 0) } else { (main, 1) };
    Some(KeyHeader {
        main,
        created,
        version,
        lease: 0,
        sub,
        kv_bytes: u32::try_from(kv.len()).ok()?,
        key_bytes,
        key_offset,
        tombstone,
    })
}

/// Offset and bytes of the key at the start of a kv; its length is a varint of as few bytes
/// as possible. An empty key has no field in a kv.
fn key_in(kv: &[u8]) -> Option<(u16, u32)> {
    let mut rest = kv.strip_prefix(&[KEY_TAG])?;
    let length_starts = kv.len() - rest.len();
    let bytes = take_varint(&mut rest)?;
    let offset = kv.len() - rest.len();
    let bytes = usize::try_from(bytes).ok().filter(|&it| it <= rest.len())?;
    let is_shortest = offset - length_starts == varint_bytes(bytes);
    (is_shortest && bytes > 0).then_some((offset as u16, u32::try_from(bytes).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KV: &[u8] = b"\x0a\x04name\x2a\x05value";

    fn header() -> KeyHeader {
        known(0x05_0403_0201, 6, false, KV).unwrap()
    }

    fn payload(header: &KeyHeader, kv: &[u8]) -> Vec<u8> {
        [&encode(header, kv).unwrap()[..], kv].concat()
    }

    #[test]
    fn a_header_lies_byte_for_byte_as_the_page_says() {
        assert_eq!(encode(&header(), KV), Some([1, 2, 3, 4, 5, 6, 0]));
        let deletion = known(MAIN_MAX, SUB_MAX, true, b"\x0a\x01k").unwrap();
        assert_eq!(encode(&deletion, b"\x0a\x01k"), Some([0xff; 7]));
    }

    #[test]
    fn a_header_comes_back_and_no_truncation_reaches_beyond_its_end() {
        let whole = payload(&header(), KV);
        assert_eq!(decode(&whole), Ok(header()));
        // A kv may end anywhere behind its key.
        let key_end = SHORT_HEADER_BYTES + 6;
        for bytes in 0..whole.len() {
            assert_eq!(decode(&whole[..bytes]).is_ok(), bytes >= key_end, "{bytes}");
        }
    }

    #[test]
    fn a_version_with_other_numbers_has_no_short_header() {
        let changes: [fn(&mut KeyHeader); 9] = [
            |header| header.main = MAIN_MAX + 1,
            |header| header.sub = SUB_MAX + 1,
            |header| header.created -= 1,
            |header| header.version = 2,
            |header| header.lease = 1,
            |header| header.kv_bytes -= 1,
            |header| header.key_bytes -= 1,
            |header| header.key_offset += 1,
            |header| header.tombstone = true,
        ];
        for (number, change) in changes.into_iter().enumerate() {
            let mut header = header();
            change(&mut header);
            assert_eq!(encode(&header, KV), None, "{number}");
        }
    }

    #[test]
    fn a_kv_that_does_not_begin_with_its_key_is_refused() {
        for kv in [
            &b""[..],
            b"\x0a",
            b"\x2a\x05value",
            b"\x0a\x05name",
            b"\x0a\x00",
            b"\x0a\x84\x00name",
            b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01name",
            b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        ] {
            let payload = [&[1, 0, 0, 0, 0, 0, 0], kv].concat();
            assert!(decode(&payload).is_err(), "{kv:?}");
        }
        let zero = [&[0; 7], KV].concat();
        assert!(decode(&zero).is_err(), "revision 0");
    }

    #[test]
    fn a_record_that_needs_padding_has_a_long_header() {
        let key_field = b"\x0a\x01k";
        let mut kv = key_field.to_vec();
        kv.resize(262_136 - 12 - SHORT_HEADER_BYTES, 7);
        let longest = known(9, 0, false, &kv).unwrap();
        assert_eq!(decode(&payload(&longest, &kv)), Ok(longest));
        kv.resize(kv.len() + 9, 7);
        let longer = known(9, 0, false, &kv).unwrap();
        assert_eq!(encode(&longer, &kv), None);
        assert!(decode(&[&[9, 0, 0, 0, 0, 0, 0], &kv[..]].concat()).is_err());
    }
}
