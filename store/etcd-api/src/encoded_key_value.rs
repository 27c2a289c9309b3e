//! A `mvccpb.KeyValue` that stays encoded.
//!
//! ```text
//!   put ── encode once ──► log record ──► Range ──► socket
//!                              ├────────► Watch ──► socket
//!                              └────────► HashKV
//! ```
//!
//! The server never decodes a stored version in order to encode it again: this
//! type is a protobuf message that encodes to the bytes from which it was made. The
//! price is that reading a field walks the few fields before it, so callers that need
//! several fields call [`EncodedKeyValue::fields`] once.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use prost::{
    DecodeError, Message,
    encoding::{self, DecodeContext, WireType},
};

use crate::mvccpb::KeyValue;

/// Encoded `mvccpb.KeyValue` bytes; equal when the bytes are equal.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct EncodedKeyValue(pub Bytes);

/// The fields of a key version: borrowed from its encoded bytes, or to be encoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fields<'a> {
    /// Field 1.
    pub key: &'a [u8],
    /// Field 2.
    pub create_revision: i64,
    /// Field 3.
    pub mod_revision: i64,
    /// Field 4.
    pub version: i64,
    /// Field 5.
    pub value: &'a [u8],
    /// Field 6.
    pub lease: i64,
}

impl Fields<'_> {
    /// Encodes the borrowed fields, as [`KeyValue`] would encode them. Making a `KeyValue`
    /// first would copy every field once more.
    pub fn encode(&self) -> EncodedKeyValue {
        let mut encoded = BytesMut::with_capacity(self.encoded_len());
        put_bytes(1, self.key, &mut encoded);
        put_number(2, self.create_revision, &mut encoded);
        put_number(3, self.mod_revision, &mut encoded);
        put_number(4, self.version, &mut encoded);
        put_bytes(5, self.value, &mut encoded);
        put_number(6, self.lease, &mut encoded);
        EncodedKeyValue(encoded.freeze())
    }

    fn encoded_len(&self) -> usize {
        bytes_len(1, self.key)
            + number_len(2, self.create_revision)
            + number_len(3, self.mod_revision)
            + number_len(4, self.version)
            + bytes_len(5, self.value)
            + number_len(6, self.lease)
    }
}

fn bytes_len(tag: u32, bytes: &[u8]) -> usize {
    match bytes.len() {
        0 => 0,
        length => encoding::key_len(tag) + encoding::encoded_len_varint(length as u64) + length,
    }
}

fn number_len(tag: u32, number: i64) -> usize {
    match number {
        0 => 0,
        number => encoding::int64::encoded_len(tag, &number),
    }
}

fn put_bytes(tag: u32, bytes: &[u8], target: &mut BytesMut) {
    if !bytes.is_empty() {
        encoding::encode_key(tag, WireType::LengthDelimited, target);
        encoding::encode_varint(bytes.len() as u64, target);
        target.put_slice(bytes);
    }
}

fn put_number(tag: u32, number: i64, target: &mut BytesMut) {
    if number != 0 {
        encoding::int64::encode(tag, &number, target);
    }
}

impl EncodedKeyValue {
    /// The typed message; an error when the bytes are no `KeyValue`.
    pub fn decode(&self) -> Result<KeyValue, DecodeError> {
        KeyValue::decode(self.0.clone())
    }

    /// All fields, without an allocation. If the bytes are damaged, only the fields before
    /// the damage are set.
    pub fn fields(&self) -> Fields<'_> {
        let mut fields = Fields::default();
        let mut rest: &[u8] = &self.0;
        while let Some((tag, field)) = next_field(&mut rest) {
            match (tag, field) {
                (1, Field::Bytes(key)) => fields.key = key,
                (2, Field::Number(number)) => fields.create_revision = number as i64,
                (3, Field::Number(number)) => fields.mod_revision = number as i64,
                (4, Field::Number(number)) => fields.version = number as i64,
                (5, Field::Bytes(value)) => fields.value = value,
                (6, Field::Number(number)) => fields.lease = number as i64,
                _ => {}
            }
        }
        fields
    }

    /// The key.
    pub fn key(&self) -> &[u8] {
        self.fields().key
    }

    /// The value.
    pub fn value(&self) -> &[u8] {
        self.fields().value
    }

    /// Main revision of the put that created the key.
    pub fn create_revision(&self) -> i64 {
        self.fields().create_revision
    }

    /// Main revision of the put that wrote this version.
    pub fn mod_revision(&self) -> i64 {
        self.fields().mod_revision
    }

    /// Number of puts since the key was created.
    pub fn version(&self) -> i64 {
        self.fields().version
    }

    /// The lease that holds the key, or 0.
    pub fn lease(&self) -> i64 {
        self.fields().lease
    }
}

impl EncodedKeyValue {
    /// A number that is no field of etcd's, as embedded maps have one.
    pub fn other_number(&self, wanted: u32) -> Option<u64> {
        let mut rest: &[u8] = &self.0;
        while let Some((tag, field)) = next_field(&mut rest) {
            match field {
                Field::Number(number) if tag == wanted => return Some(number),
                _ => {}
            }
        }
        None
    }
}

impl std::fmt::Debug for EncodedKeyValue {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.fields().fmt(formatter)
    }
}

impl From<KeyValue> for EncodedKeyValue {
    fn from(key_value: KeyValue) -> Self {
        EncodedKeyValue::from(&key_value)
    }
}

impl From<&KeyValue> for EncodedKeyValue {
    fn from(key_value: &KeyValue) -> Self {
        EncodedKeyValue(key_value.encode_to_vec().into())
    }
}

impl From<Bytes> for EncodedKeyValue {
    fn from(encoded: Bytes) -> Self {
        EncodedKeyValue(encoded)
    }
}

impl Message for EncodedKeyValue {
    fn encode_raw(&self, buffer: &mut impl BufMut) {
        buffer.put_slice(&self.0);
    }

    fn merge_field(
        &mut self,
        tag: u32,
        wire_type: WireType,
        buffer: &mut impl Buf,
        context: DecodeContext,
    ) -> Result<(), DecodeError> {
        let collected = std::mem::take(&mut self.0);
        let mut collected = collected
            .try_into_mut()
            .unwrap_or_else(|shared| BytesMut::from(&shared[..]));
        let merged = copy_field(tag, wire_type, buffer, &mut collected, context);
        self.0 = collected.freeze();
        merged
    }

    fn encoded_len(&self) -> usize {
        self.0.len()
    }

    fn clear(&mut self) {
        self.0.clear();
    }
}

/// Moves one field from `source` to the end of `target`, as it is.
fn copy_field(
    tag: u32,
    wire_type: WireType,
    source: &mut impl Buf,
    target: &mut BytesMut,
    context: DecodeContext,
) -> Result<(), DecodeError> {
    match wire_type {
        WireType::Varint => {
            let mut number = 0;
            encoding::uint64::merge(wire_type, &mut number, source, context)?;
            encoding::uint64::encode(tag, &number, target);
        }
        WireType::LengthDelimited => {
            let mut content = Bytes::new();
            encoding::bytes::merge(wire_type, &mut content, source, context)?;
            encoding::bytes::encode(tag, &content, target);
        }
        // No field of a KeyValue has another wire type: unknown, so dropped.
        _ => encoding::skip_field(wire_type, tag, source, context)?,
    }
    Ok(())
}

enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// Takes the next field off `rest`; None at the end and at damage.
fn next_field<'a>(rest: &mut &'a [u8]) -> Option<(u32, Field<'a>)> {
    if rest.is_empty() {
        return None;
    }
    let (tag, wire_type) = encoding::decode_key(rest).ok()?;
    let number = encoding::decode_varint(rest).ok()?;
    match wire_type {
        WireType::Varint => Some((tag, Field::Number(number))),
        WireType::LengthDelimited => {
            let (content, after) = rest.split_at_checked(usize::try_from(number).ok()?)?;
            *rest = after;
            Some((tag, Field::Bytes(content)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> KeyValue {
        KeyValue {
            key: Bytes::from_static(b"ink"),
            create_revision: 2,
            mod_revision: 300,
            version: 5,
            value: Bytes::from_static(b"stone"),
            lease: 7,
        }
    }

    #[test]
    fn bytes_are_those_etcd_writes() {
        let encoded = EncodedKeyValue::from(sample());
        let golden = b"\x0a\x03ink\x10\x02\x18\xac\x02\x20\x05\x2a\x05stone\x30\x07";
        assert_eq!(&encoded.0[..], golden);
    }

    #[test]
    fn zero_fields_are_left_out() {
        let tombstone = KeyValue {
            key: Bytes::from_static(b"k"),
            ..KeyValue::default()
        };
        assert_eq!(&EncodedKeyValue::from(tombstone).0[..], b"\x0a\x01k");
    }

    #[test]
    fn fields_are_read_without_decoding() {
        let encoded = EncodedKeyValue::from(sample());
        assert_eq!(encoded.key(), b"ink");
        assert_eq!(encoded.value(), b"stone");
        assert_eq!(encoded.create_revision(), 2);
        assert_eq!(encoded.mod_revision(), 300);
        assert_eq!(encoded.version(), 5);
        assert_eq!(encoded.lease(), 7);
        assert_eq!(encoded.decode().unwrap(), sample());
    }

    #[test]
    fn fields_encode_to_the_bytes_of_the_message() {
        let long = vec![b'x'; 70_000];
        let numbers = [0, 1, 127, 128, 300, i64::MAX, -1];
        for (at, number) in numbers.into_iter().enumerate() {
            for value in [&b""[..], b"stone", &long[..127], &long[..128], &long] {
                let message = KeyValue {
                    key: Bytes::from_static(b"ink"),
                    create_revision: number,
                    mod_revision: numbers[(at + 1) % numbers.len()],
                    version: numbers[(at + 2) % numbers.len()],
                    value: Bytes::copy_from_slice(value),
                    lease: numbers[(at + 3) % numbers.len()],
                };
                let encoded = EncodedKeyValue::from(&message);
                assert_eq!(encoded.fields().encode(), encoded, "{number}");
                assert_eq!(encoded.fields().encoded_len(), encoded.0.len());
            }
        }
    }

    #[test]
    fn negative_numbers_survive() {
        let encoded = EncodedKeyValue::from(KeyValue {
            lease: -1,
            ..sample()
        });
        assert_eq!(encoded.lease(), -1);
    }

    #[test]
    fn truncated_bytes_give_what_precedes_the_damage_and_no_message() {
        let whole = EncodedKeyValue::from(sample()).0;
        for length in 0..whole.len() {
            let cut = EncodedKeyValue(whole.slice(..length));
            assert!(cut.key().is_empty() || cut.key() == b"ink");
        }
        assert!(EncodedKeyValue(whole.slice(..4)).decode().is_err());
    }

    #[test]
    fn a_message_decoded_from_the_wire_encodes_to_the_same_bytes() {
        use crate::etcdserverpb::RangeResponse;
        let response = RangeResponse {
            kvs: vec![sample().into(), EncodedKeyValue::default()],
            count: 2,
            ..RangeResponse::default()
        };
        let wire = response.encode_to_vec();
        let back = RangeResponse::decode(&wire[..]).unwrap();
        assert_eq!(back, response);
        assert_eq!(back.encode_to_vec(), wire);
    }
}
