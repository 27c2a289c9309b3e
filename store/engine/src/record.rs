//! Encodes the key versions of a batch as records of the log, and decodes them.

use crate::format::{KEY_HEADER_BYTES, KIND_KEY, KIND_STATE, KeyHeader, STATE_HEADER_BYTES};
use crate::record_pointer::{needs_no_padding, padding};
use crate::short_key::{self, KIND_SHORT_KEY, SHORT_HEADER_BYTES};
use crate::{Batch, Change, Error, Headers, KeyChange, Lineage, Revision};
use bytes::Bytes;
use std::ops::Range;
use value_log::{Body, BodyBuilder, Log, Position, Record};

/// Source of padding bytes.
pub(crate) static ZEROS: [u8; 4096] = [0; 4096];

impl Batch {
    /// Encodes its records, as they lie in the log of every member. Fails for a malformed
    /// batch; one without changes is an entry too.
    pub fn encode(&self) -> Result<Body, Error> {
        self.encode_with(Headers::Long)
    }

    /// [`Batch::encode`] with headers of the other form.
    pub fn encode_with(&self, headers: Headers) -> Result<Body, Error> {
        let invalid = |what: String| Error::InvalidBatch {
            index: self.index,
            what,
        };
        check(self).map_err(invalid)?;
        let bytes: u64 = self.changes.iter().map(log_bytes).sum();
        let mut body = BodyBuilder::with_capacity(bytes as usize);
        for change in &self.changes {
            push(&mut body, change, headers).map_err(invalid)?;
        }
        let body = body.finish();
        let body_bytes = body.bytes().len() as u64;
        let as_long_as_they_say = match headers {
            Headers::Long => body_bytes == bytes,
            Headers::Short => body_bytes <= bytes,
        };
        assert!(
            as_long_as_they_say,
            "changes of {bytes} bytes take {body_bytes}"
        );
        Ok(body)
    }

    /// Whether an encoded batch is a single [`Change::State`]; looks at two records'
    /// headers at most.
    pub fn is_one_state(body: &Body) -> bool {
        let mut records = body.records();
        let first = records
            .next()
            .is_some_and(|(_, kind, _)| kind == KIND_STATE);
        first && records.next().is_none()
    }

    /// Reads what [`Batch::encode`] wrote. The changes share the body's memory.
    pub fn decode(term: u64, index: u64, body: &Body) -> Result<Batch, Error> {
        let invalid = |what| Error::InvalidBatch { index, what };
        let changes: Vec<Change> = decode_changes(body).map_err(|(at, what)| {
            invalid(format!("its record at byte {at} is unreadable: {what}"))
        })?;
        let batch = Batch {
            term,
            index,
            changes,
        };
        check(&batch).map_err(invalid)?;
        Ok(batch)
    }
}

fn push(body: &mut BodyBuilder, change: &Change, headers: Headers) -> Result<(), String> {
    match change {
        Change::Key(key) => push_key(body, key, headers)?,
        Change::State { kind, payload } => {
            let header: &[u8; STATE_HEADER_BYTES] = &[*kind, 0, 0, 0, 0, 0, 0, 0];
            body.push(&Record {
                kind: KIND_STATE,
                parts: &[header, payload],
            });
        }
    }
    Ok(())
}

fn push_key(body: &mut BodyBuilder, key: &KeyChange, headers: Headers) -> Result<(), String> {
    let header = header_of(key)?;
    if headers == Headers::Short
        && let Some(short) = short_key::encode(&header, &key.kv)
    {
        body.push(&Record {
            kind: KIND_SHORT_KEY,
            parts: &[&short, &key.kv],
        });
        return Ok(());
    }
    let header = &header.encode();
    let zeros = &ZEROS[..padding(header.len() + key.kv.len())];
    body.push(&Record {
        kind: KIND_KEY,
        parts: &[header, &key.kv, zeros],
    });
    Ok(())
}

fn log_bytes(change: &Change) -> u64 {
    match change {
        Change::Key(key) => key.log_bytes(),
        Change::State { payload, .. } => {
            Log::record_bytes(STATE_HEADER_BYTES + payload.len()) as u64
        }
    }
}

impl KeyChange {
    /// Bytes that it takes in the log with a long header, to the byte. A short one makes it
    /// shorter.
    pub fn log_bytes(&self) -> u64 {
        KeyChange::log_bytes_of(self.kv.len())
    }

    /// The same for any change with an encoded `KeyValue` of `kv_bytes`.
    pub fn log_bytes_of(kv_bytes: usize) -> u64 {
        let payload_bytes = KEY_HEADER_BYTES + kv_bytes;
        Log::record_bytes(payload_bytes + padding(payload_bytes)) as u64
    }

    /// Bytes that it takes in the log with these headers, if it is a version that may have them.
    pub fn log_bytes_with(kv_bytes: usize, headers: Headers) -> u64 {
        let short_bytes = SHORT_HEADER_BYTES + kv_bytes;
        match headers {
            Headers::Short if needs_no_padding(short_bytes) => {
                Log::record_bytes(short_bytes) as u64
            }
            _ => KeyChange::log_bytes_of(kv_bytes),
        }
    }

    /// Reads a record's payload; key and value share its bytes.
    pub(crate) fn decode(kind: u8, payload: &Bytes) -> Result<KeyChange, &'static str> {
        KeyChange::decode_in(kind, payload, 0..payload.len())
    }

    /// The same for a payload that is a part of `bytes`.
    pub(crate) fn decode_in(
        kind: u8,
        bytes: &Bytes,
        payload: Range<usize>,
    ) -> Result<KeyChange, &'static str> {
        let header = header_in(kind, &bytes[payload.clone()])?;
        let kv_start = payload.start + header_bytes(kind);
        let kv = bytes.slice(kv_start..kv_start + header.kv_bytes as usize);
        let key_start = usize::from(header.key_offset);
        Ok(KeyChange {
            revision: Revision {
                main: header.main as i64,
                sub: i64::from(header.sub),
            },
            tombstone: header.tombstone,
            created: header.created as i64,
            version: header.version as i64,
            lease: header.lease as i64,
            key: kv.slice(key_start..key_start + header.key_bytes as usize),
            kv,
        })
    }
}

impl From<KeyHeader> for Lineage {
    fn from(header: KeyHeader) -> Lineage {
        Lineage {
            created: header.created as i64,
            version: header.version as i64,
            lease: header.lease as i64,
        }
    }
}

/// Where in the payload of a record the kv of the version is that was written at `main`; `None`: it
/// is no such version.
pub(crate) fn kv_in(kind: u8, payload: &[u8], main: i64) -> Option<Range<usize>> {
    let header = header_in(kind, payload).ok()?;
    let start = header_bytes(kind);
    (header.main as i64 == main).then_some(start..start + header.kv_bytes as usize)
}

/// Whether records of this kind are key versions.
pub(crate) fn is_key_version(kind: u8) -> bool {
    kind == KIND_KEY || kind == KIND_SHORT_KEY
}

/// Bytes before the kv in a key version of this kind.
fn header_bytes(kind: u8) -> usize {
    match kind {
        KIND_SHORT_KEY => SHORT_HEADER_BYTES,
        _ => KEY_HEADER_BYTES,
    }
}

/// Long header and kv of a version, without zeros; shares the memory of its `payload` where
/// that has them.
pub(crate) fn with_long_header(payload: Bytes, stored: &KeyChange) -> Bytes {
    let long_bytes = KEY_HEADER_BYTES + stored.kv.len();
    if payload.len() >= long_bytes {
        return payload.slice(..long_bytes);
    }
    let header = header_of(stored).expect("a version that was stored can be stored");
    [&header.encode()[..], &stored.kv].concat().into()
}

/// The header that a key version's payload begins with.
pub(crate) fn header_in(kind: u8, payload: &[u8]) -> Result<KeyHeader, &'static str> {
    match kind {
        KIND_KEY => KeyHeader::decode(payload),
        KIND_SHORT_KEY => short_key::decode(payload),
        _ => Err("not a key version"),
    }
}

/// The header of `change`, or what makes it impossible to store.
pub(crate) fn header_of(change: &KeyChange) -> Result<KeyHeader, String> {
    let length =
        |bytes: usize| u32::try_from(bytes).map_err(|_| format!("{bytes} bytes in one value"));
    let key_offset = key_offset(change).ok_or("its key is not part of its value")?;
    Ok(KeyHeader {
        main: change.revision.main as u64,
        created: change.created as u64,
        version: change.version as u64,
        lease: change.lease as u64,
        sub: u32::try_from(change.revision.sub).map_err(|_| "its sub revision is out of range")?,
        kv_bytes: length(change.kv.len())?,
        key_bytes: length(change.key.len())?,
        key_offset,
        tombstone: change.tombstone,
    })
}

/// Where the key lies in the value. Protobuf puts it first: one byte of tag
/// and a length of one to five.
fn key_offset(change: &KeyChange) -> Option<u16> {
    let (key, kv) = (&change.key[..], &change.kv[..]);
    if key.is_empty() {
        return Some(0);
    }
    let at = |offset: &usize| kv.get(*offset..).is_some_and(|rest| rest.starts_with(key));
    let expected = 1 + varint_bytes(key.len());
    let offset = Some(expected)
        .filter(at)
        .or_else(|| (0..kv.len()).find(at))?;
    u16::try_from(offset).ok()
}

pub(crate) fn varint_bytes(number: usize) -> usize {
    (usize::BITS - number.leading_zeros()).max(1).div_ceil(7) as usize
}

/// Decodes the records of a group into changes, which share the body's memory.
pub(crate) fn decode_changes(body: &Body) -> Result<Vec<Change>, (usize, &'static str)> {
    body.records()
        .map(|(at, kind, payload)| decode_change(kind, payload).map_err(|what| (at, what)))
        .collect()
}

fn decode_change(kind: u8, payload: Bytes) -> Result<Change, &'static str> {
    match kind {
        KIND_STATE => decode_state(payload),
        _ => {
            let change = KeyChange::decode(kind, &payload)?;
            check_padding(kind, change.kv.len(), &payload)?;
            Ok(Change::Key(change))
        }
    }
}

fn check_padding(kind: u8, kv_bytes: usize, payload: &[u8]) -> Result<(), &'static str> {
    let bytes = header_bytes(kind) + kv_bytes;
    match payload.len() == bytes + padding(bytes) {
        true => Ok(()),
        false => Err("longer than its kv and the zeros behind it"),
    }
}

/// The key of a version, and its header.
pub(crate) fn key_in(kind: u8, payload: &[u8]) -> Result<(&[u8], KeyHeader), &'static str> {
    let header = header_in(kind, payload)?;
    check_padding(kind, header.kv_bytes as usize, payload)?;
    let start = header_bytes(kind) + usize::from(header.key_offset);
    Ok((&payload[start..start + header.key_bytes as usize], header))
}

fn decode_state(payload: Bytes) -> Result<Change, &'static str> {
    if payload.len() < STATE_HEADER_BYTES {
        return Err("shorter than its header");
    }
    let kind = payload[0];
    Ok(Change::State {
        kind,
        payload: payload.slice(STATE_HEADER_BYTES..),
    })
}

pub(crate) fn unreadable(position: Position, what: &'static str) -> Error {
    Error::RecordUnreadable {
        segment: position.segment(),
        offset: position.offset(),
        what,
    }
}

/// Checks what [`Batch`] promises.
pub(crate) fn check(batch: &Batch) -> Result<(), String> {
    let mut last: Option<Revision> = None;
    for key in batch.keys() {
        let now = key.revision;
        if !now.may_follow(last) {
            return Err(format!("revision {}.{} after {last:?}", now.main, now.sub));
        }
        last = Some(now);
    }
    Ok(())
}

impl Revision {
    /// Whether a change with it may stand behind one with `last` in a batch.
    pub(crate) fn may_follow(self, last: Option<Revision>) -> bool {
        let follows = last.is_none_or(|last| {
            (self.main == last.main && self.sub > last.sub) || self.main == last.main + 1
        });
        follows && self.main >= 1 && self.sub >= 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(key: &[u8], kv: Vec<u8>) -> KeyChange {
        KeyChange {
            revision: Revision { main: 7, sub: 1 },
            tombstone: false,
            key: Bytes::copy_from_slice(key),
            kv: kv.into(),
            created: 5,
            version: 2,
            lease: -3,
        }
    }

    fn encoded(key: &[u8]) -> Vec<u8> {
        assert!(key.len() < 128);
        [&[0x0a, key.len() as u8], key, b"and the rest"].concat()
    }

    #[test]
    fn a_change_comes_back_from_its_record() {
        let change = change(b"name", encoded(b"name"));
        let header = header_of(&change).unwrap();
        assert_eq!(header.key_offset, 2);
        let header = header.encode();
        let parts: [&[u8]; 2] = [&header, &change.kv];
        let state: &[u8] = &[9, 0, 0, 0, 0, 0, 0, 0, 1, 2];
        let body = Body::encode(&[
            value_log::Record {
                kind: KIND_KEY,
                parts: &parts,
            },
            value_log::Record {
                kind: KIND_STATE,
                parts: &[state],
            },
        ]);
        let state = Change::State {
            kind: 9,
            payload: Bytes::from_static(&[1, 2]),
        };
        assert_eq!(decode_changes(&body).unwrap(), [Change::Key(change), state]);
    }

    #[test]
    fn a_batch_comes_back_with_either_header_and_short_ones_where_they_fit() {
        let second = change(b"second", encoded(b"second"));
        let first = KeyChange {
            created: 7,
            version: 1,
            lease: 0,
            revision: Revision { main: 7, sub: 2 },
            ..change(b"first", encoded(b"first"))
        };
        let batch = Batch {
            term: 1,
            index: 3,
            changes: vec![Change::Key(second), Change::Key(first.clone())],
        };
        for (headers, kinds) in [
            (Headers::Long, [KIND_KEY, KIND_KEY]),
            (Headers::Short, [KIND_KEY, KIND_SHORT_KEY]),
        ] {
            let body = batch.encode_with(headers).unwrap();
            let records: Vec<_> = body.records().collect();
            assert_eq!([records[0].1, records[1].1], kinds);
            let shown = with_long_header(records[1].2.clone(), &first);
            let long = header_of(&first).unwrap().encode();
            assert_eq!(shown, [&long[..], &first.kv].concat());
            assert_eq!(Batch::decode(1, 3, &body).unwrap(), batch);
        }
    }

    #[test]
    fn a_record_longer_than_its_kv_is_refused() {
        let change = change(b"name", encoded(b"name"));
        let header = header_of(&change).unwrap().encode();
        let body = Body::encode(&[value_log::Record {
            kind: KIND_KEY,
            parts: &[&header, &change.kv, &[0]],
        }]);
        assert!(decode_changes(&body).is_err());
    }

    #[test]
    fn a_key_is_found_where_protobuf_puts_it_even_when_it_occurs_earlier() {
        // The key's bytes equal the tag and length in front of it.
        let change = change(&[0x0a], vec![0x0a, 0x01, 0x0a]);
        assert_eq!(header_of(&change).unwrap().key_offset, 2);
    }

    #[test]
    fn a_key_that_is_not_in_its_value_is_refused() {
        assert!(header_of(&change(b"absent", b"value".to_vec())).is_err());
    }

    #[test]
    fn lengths_of_varints() {
        for (number, bytes) in [(0, 1), (127, 1), (128, 2), (16_383, 2), (16_384, 3)] {
            assert_eq!(varint_bytes(number), bytes, "{number}");
        }
    }

    #[test]
    fn gaps_and_steps_back_within_a_batch_are_refused() {
        let batch = |mains: &[(i64, i64)]| Batch {
            changes: mains
                .iter()
                .map(|&(main, sub)| {
                    let mut change = change(b"k", encoded(b"k"));
                    change.revision = Revision { main, sub };
                    Change::Key(change)
                })
                .collect(),
            ..Batch::default()
        };
        assert!(check(&batch(&[(2, 0), (2, 1), (3, 0)])).is_ok());
        assert!(check(&batch(&[(2, 0), (4, 0)])).is_err());
        assert!(check(&batch(&[(2, 1), (2, 1)])).is_err());
        assert!(check(&batch(&[(3, 0), (2, 0)])).is_err());
    }
}
