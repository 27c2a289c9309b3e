//! A key and its value as the engine stores them: an `mvccpb.KeyValue` with these two alone,
//! so that `inkstone inspect` shows them as it shows a member's (docs/formats/ordered-map.md).
//!
//! ```text
//!   0a  length  key ...  2a  length  value ...                     an empty field is left out
//!   0a  length  key ...  70  value's length  7a  length  block ... a value that is compressed
//! ```
//!
//! Crate `etcd-api` knows these bytes, too, and brings gRPC with it, which a program that embeds a
//! map does not need.

use std::ops::Range;

use bytes::{Buf, BufMut, Bytes};

use crate::compression::{Compression, decompress, decompress_within};

const KEY_TAG: u8 = 0x0a;
const VALUE_TAG: u8 = 0x2a;
/// A number, the length of the value that the block behind it stands for.
const VALUE_BYTES_TAG: u8 = 0x70;
const BLOCK_TAG: u8 = 0x7a;
/// Of a tag and a length.
const FIELD_HEADER_BYTES_MAX: usize = 6;

/// A pair, and the key in it.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    pub key: Bytes,
    pub kv: Bytes,
}

/// With an empty value for a deletion.
pub(crate) fn encode(key: &[u8], value: &[u8], compression: Compression) -> Pair {
    let block = compression.block_of(value);
    let stored = block.as_deref().unwrap_or(value);
    let bytes = key.len() + stored.len() + 3 * FIELD_HEADER_BYTES_MAX;
    let mut kv = Vec::with_capacity(bytes);
    put_field(&mut kv, KEY_TAG, key);
    let key_ends = kv.len();
    if block.is_some() {
        put_number(&mut kv, VALUE_BYTES_TAG, value.len());
        put_field(&mut kv, BLOCK_TAG, stored);
    } else {
        put_field(&mut kv, VALUE_TAG, stored);
    }
    let kv = Bytes::from(kv);
    let key = kv.slice(key_ends - key.len()..key_ends);
    Pair { key, kv }
}

/// Bytes of a kv with a value that is not compressed.
pub(crate) fn plain_bytes(key_bytes: usize, value_bytes: usize) -> usize {
    let field = |bytes: usize| match bytes {
        0 => 0,
        _ => 1 + (bytes.ilog2() as usize / 7 + 1) + bytes,
    };
    field(key_bytes) + field(value_bytes)
}

/// A value in a stored pair: a part of its bytes.
#[derive(Debug)]
enum Stored {
    Plain(Range<usize>),
    /// A block that stands for a value of `value_bytes`.
    Compressed {
        block: Range<usize>,
        value_bytes: usize,
    },
}

impl Stored {
    /// Finds the value in a stored pair; `None`: the pair is not one of this crate's.
    fn of(kv: &[u8]) -> Option<Stored> {
        let (_key, behind_key) = field(kv, 0, KEY_TAG)?;
        let value_bytes = match kv.get(behind_key) {
            Some(&VALUE_BYTES_TAG) => Some(number(kv, behind_key + 1)?),
            _ => None,
        };
        let (at, tag) = match value_bytes {
            Some((_, behind_number)) => (behind_number, BLOCK_TAG),
            None => (behind_key, VALUE_TAG),
        };
        let (stored, end) = field(kv, at, tag)?;
        if end != kv.len() {
            return None;
        }
        Some(match value_bytes {
            Some((value_bytes, _)) => Stored::Compressed {
                block: stored,
                value_bytes,
            },
            None => Stored::Plain(stored),
        })
    }
}

/// The value in a stored pair; `None`: it is no pair.
pub(crate) fn value(kv: Bytes) -> Option<Bytes> {
    match Stored::of(&kv)? {
        Stored::Plain(value) => Some(rest(kv, value)),
        Stored::Compressed { block, value_bytes } => decompress(&kv[block], value_bytes),
    }
}

/// The same for a caller that does not keep it.
pub(crate) fn value_of<'v>(kv: &'v [u8], memory: &'v mut Vec<u8>) -> Option<&'v [u8]> {
    match Stored::of(kv)? {
        Stored::Plain(value) => Some(&kv[value]),
        Stored::Compressed { block, value_bytes } => {
            decompress_within(memory, &kv[block], value_bytes)
        }
    }
}

/// A value at the end of its pair. A slice would be one more reference to the memory, which costs
/// an atomic operation.
fn rest(mut kv: Bytes, value: Range<usize>) -> Bytes {
    kv.advance(value.start);
    kv.truncate(value.len());
    kv
}

fn put_field(kv: &mut Vec<u8>, tag: u8, bytes: &[u8]) {
    if bytes.is_empty() {
        return;
    }
    put_number(kv, tag, bytes.len());
    kv.put_slice(bytes);
}

fn put_number(kv: &mut Vec<u8>, tag: u8, mut number: usize) {
    kv.put_u8(tag);
    while number >= 0x80 {
        kv.put_u8(number as u8 | 0x80);
        number >>= 7;
    }
    kv.put_u8(number as u8);
}

/// Where the field with this tag lies at `at`, and where it ends; empty when another one is
/// there.
fn field(kv: &[u8], at: usize, tag: u8) -> Option<(Range<usize>, usize)> {
    if kv.get(at) != Some(&tag) {
        return Some((at..at, at));
    }
    let (length, at) = number(kv, at + 1)?;
    let end = at.checked_add(length)?;
    (end <= kv.len()).then_some((at..end, end))
}

/// The number at `at`, and where it ends.
fn number(kv: &[u8], mut at: usize) -> Option<(usize, usize)> {
    let (mut number, mut shift) = (0_usize, 0);
    loop {
        let byte = *kv.get(at)?;
        at += 1;
        number |= usize::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            return Some((number, at));
        }
        shift += 7;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(kv: Bytes) -> Option<Bytes> {
        // This memory is longer than some values, as it is after a longer one.
        let mut memory = vec![9; 250];
        let looked_at = value_of(&kv, &mut memory).map(Bytes::copy_from_slice);
        let alone = super::value(kv);
        assert_eq!(alone, looked_at);
        alone
    }

    #[test]
    fn a_value_comes_back_whatever_its_length() {
        for length in [0, 1, 127, 128, 16_383, 16_384, 3 << 20] {
            let (key, bytes) = (vec![0x2a; length.min(300)], vec![0x0a; length]);
            for compression in [Compression::None, Compression::Lz4] {
                let pair = encode(&key, &bytes, compression);
                assert_eq!(pair.key, key);
                assert_eq!(value(pair.kv.clone()).unwrap(), bytes, "{length}");
                assert!(pair.kv.len() <= plain_bytes(key.len(), length));
                let is_shorter = length > 191 && compression == Compression::Lz4;
                assert_eq!(pair.kv.len() < key.len() + length, is_shorter);
            }
        }
    }

    #[test]
    fn a_compressed_value_has_these_bytes() {
        let pair = encode(b"ink", &[b'.'; 200], Compression::Lz4);
        // A block: one literal, and it again for 193 bytes; then the last six.
        let block = b"\x1f.\x01\x00\xae\x60......";
        assert_eq!(
            pair.kv,
            [&b"\x0a\x03ink\x70\xc8\x01\x7a\x0c"[..], block].concat()
        );
        for end in 5..pair.kv.len() {
            let cut = value(pair.kv.slice(..end));
            assert!(cut.is_none_or(|it| end == 5 && it.is_empty()), "{end}");
        }
        let longer = [&pair.kv[..], b"\x00"].concat();
        assert_eq!(value(longer.into()), None);
    }

    #[test]
    fn an_empty_key_has_no_field() {
        let pair = encode(b"", b"value", Compression::Lz4);
        assert_eq!(pair.kv, &b"\x2a\x05value"[..]);
        assert_eq!(value(pair.kv.clone()).unwrap(), &b"value"[..]);
    }

    #[test]
    fn what_is_no_pair_has_no_value() {
        for kv in [
            &b"\x0a"[..],
            b"\x0a\x05abc",
            b"\x0a\x01a\x2a\x05abc",
            b"\x0a\x01a\x10\x02",
        ] {
            assert_eq!(value(Bytes::from_static(kv)), None, "{kv:?}");
        }
        let endless = Bytes::from(vec![0xff; 40]);
        assert_eq!(value(endless), None);
    }
}
