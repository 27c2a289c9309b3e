//! A key and its value as the engine stores them: an `mvccpb.KeyValue` with these two alone,
//! so that `inkstone inspect` shows them as it shows a member's (docs/formats/ordered-map.md).
//!
//! ```text
//!   0a  length  key ...  2a  length  value ...        an empty field is left out
//! ```
//!
//! Crate `etcd-api` knows these bytes, too, and brings gRPC with it, which nobody wants who
//! embeds a map.

use bytes::{BufMut, Bytes};

const KEY_TAG: u8 = 0x0a;
const VALUE_TAG: u8 = 0x2a;
/// Of a tag and a length.
const FIELD_HEADER_BYTES_MAX: usize = 6;

/// A pair, and the key in it.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    pub key: Bytes,
    pub kv: Bytes,
}

/// With an empty value for a deletion.
pub(crate) fn encode(key: &[u8], value: &[u8]) -> Pair {
    let bytes = key.len() + value.len() + 2 * FIELD_HEADER_BYTES_MAX;
    let mut kv = Vec::with_capacity(bytes);
    put_field(&mut kv, KEY_TAG, key);
    let key_ends = kv.len();
    put_field(&mut kv, VALUE_TAG, value);
    let kv = Bytes::from(kv);
    let key = kv.slice(key_ends - key.len()..key_ends);
    Pair { key, kv }
}

/// The value in a stored pair; `None`: it is none of this crate's.
pub(crate) fn value(kv: &Bytes) -> Option<Bytes> {
    let (_key, behind_key) = field(kv, 0, KEY_TAG)?;
    let (value, end) = field(kv, behind_key, VALUE_TAG)?;
    (end == kv.len()).then(|| kv.slice(value))
}

fn put_field(kv: &mut Vec<u8>, tag: u8, bytes: &[u8]) {
    if bytes.is_empty() {
        return;
    }
    kv.put_u8(tag);
    let mut length = bytes.len();
    while length >= 0x80 {
        kv.put_u8(length as u8 | 0x80);
        length >>= 7;
    }
    kv.put_u8(length as u8);
    kv.put_slice(bytes);
}

/// Where the field with this tag lies at `at`, and where it ends; empty when another one is
/// there.
fn field(kv: &[u8], at: usize, tag: u8) -> Option<(std::ops::Range<usize>, usize)> {
    if kv.get(at) != Some(&tag) {
        return Some((at..at, at));
    }
    let (mut length, mut shift, mut at) = (0_usize, 0, at + 1);
    loop {
        let byte = *kv.get(at)?;
        at += 1;
        length |= usize::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            break;
        }
        shift += 7;
    }
    let end = at.checked_add(length)?;
    (end <= kv.len()).then_some((at..end, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_comes_back_whatever_its_length() {
        for length in [0, 1, 127, 128, 16_383, 16_384, 3 << 20] {
            let (key, bytes) = (vec![0x2a; length.min(300)], vec![0x0a; length]);
            let pair = encode(&key, &bytes);
            assert_eq!(pair.key, key);
            assert_eq!(value(&pair.kv).unwrap(), bytes, "{length}");
        }
    }

    #[test]
    fn an_empty_key_has_no_field() {
        let pair = encode(b"", b"value");
        assert_eq!(pair.kv, &b"\x2a\x05value"[..]);
        assert_eq!(value(&pair.kv).unwrap(), &b"value"[..]);
    }

    #[test]
    fn what_is_no_pair_has_no_value() {
        for kv in [
            &b"\x0a"[..],
            b"\x0a\x05abc",
            b"\x0a\x01a\x2a\x05abc",
            b"\x0a\x01a\x10\x02",
        ] {
            assert_eq!(value(&Bytes::from_static(kv)), None, "{kv:?}");
        }
        let endless = Bytes::from(vec![0xff; 40]);
        assert_eq!(value(&endless), None);
    }
}
