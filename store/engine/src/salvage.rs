//! What is left of a key version when its record fails its checksum.
//!
//! ```text
//!   record   crc │ len kind │ main created version lease .. │ key create mod version VALUE lease │ 0
//!                │          └── the header ────────────────┘ └── the kv says it all again ──────┘
//! ```
//!
//! A record holds its numbers twice, and the index knows its key, main revision and
//! length. So if only one copy is damaged, the other one says what was there: either
//! both copies of the numbers agree, and the damage is elsewhere, or a record that is
//! rebuilt from one copy has the checksum that was written.
//!
//! Tombstones have no second copy, nor have versions with a short header (`short_key.rs`): of
//! these only the key is found, to name it.

use crate::DamagedVersion;
use crate::checkpoint::format;
use crate::format::{KEY_HEADER_BYTES, KIND_KEY, KeyHeader};
use crate::record::varint_bytes;
use crate::record_pointer::padding;
use crate::short_key::SHORT_HEADER_BYTES;
use bytes::Bytes;
use value_log::Suspect;

/// Subs that a rebuilt header is tried with: the kv does not have it.
const SUBS_TRIED: u32 = 128;

/// The numbers of a kv, and where its parts lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct KvNumbers {
    created: u64,
    main: u64,
    version: u64,
    lease: u64,
    key_start: usize,
    key_bytes: usize,
    /// End of the whole kv.
    end: usize,
}

/// Keys that the record may be of: the caller asks the index.
pub(crate) fn keys(suspect: &Suspect) -> Vec<Bytes> {
    let left = suspect.payload();
    let kv = left.get(KEY_HEADER_BYTES..).unwrap_or_default();
    let by_header = KeyHeader::decode(left).ok().map(|header| {
        let start = usize::from(header.key_offset);
        (start, header.key_bytes as usize)
    });
    let by_kv = take_bytes(kv, &mut 0, 1);
    let short_kv = left.get(SHORT_HEADER_BYTES..).unwrap_or_default();
    let by_short_kv = take_bytes(short_kv, &mut 0, 1);
    let found = [(kv, by_header), (kv, by_kv), (short_kv, by_short_kv)];
    let keys = found.into_iter().filter_map(|(kv, place)| {
        let (start, bytes) = place?;
        kv.get(start..)?.get(..bytes)
    });
    keys.map(Bytes::copy_from_slice).collect()
}

/// The payload that was written, proved by the record's checksum, whatever its key is.
pub(crate) fn unnamed_payload(suspect: &Suspect) -> Option<Vec<u8>> {
    candidates(suspect).find_map(|version| payload(suspect, &version.key, version.main))
}

/// Keys and revisions that either copy names.
fn candidates(suspect: &Suspect) -> impl Iterator<Item = DamagedVersion> {
    let left = suspect.payload();
    let by_header = KeyHeader::decode(left).ok().map(|header| header.main);
    let by_kv = left.get(KEY_HEADER_BYTES..).and_then(numbers);
    let by_kv = by_kv.map(|numbers| numbers.main);
    let mains: Vec<i64> = [by_header, by_kv]
        .into_iter()
        .flatten()
        .filter_map(|main| i64::try_from(main).ok())
        .collect();
    let keys = keys(suspect).into_iter();
    keys.flat_map(move |key| {
        mains.clone().into_iter().map(move |main| DamagedVersion {
            key: key.clone(),
            main,
        })
    })
}

/// The payload that was written, proved by the record's checksum.
pub(crate) fn payload(suspect: &Suspect, key: &[u8], main: i64) -> Option<Vec<u8>> {
    let left = suspect.payload();
    let was = |payload: &Vec<u8>| suspect.was(KIND_KEY, payload);
    from_kv(left, key, main)
        .find(was)
        .or_else(|| from_header(left, key, main).filter(was))
}

/// The header that was written: its copy in the kv agrees with it, or its whole record
/// is proved.
pub(crate) fn header(suspect: &Suspect, key: &[u8], main: i64) -> Option<KeyHeader> {
    agreeing(suspect.payload(), key, main).or_else(|| {
        let payload = payload(suspect, key, main)?;
        KeyHeader::decode(&payload).ok()
    })
}

/// The header in a damaged payload, where the kv says the same.
fn agreeing(left: &[u8], key: &[u8], main: i64) -> Option<KeyHeader> {
    let header = KeyHeader::decode(left).ok()?;
    let kv = left
        .get(KEY_HEADER_BYTES..)?
        .get(..header.kv_bytes as usize)?;
    let numbers = numbers(kv)?;
    let agree = !header.tombstone
        && header.main == main as u64
        && numbers.end == kv.len()
        && kv.get(numbers.key_start..)?.starts_with(key)
        && header == header_of(&numbers, header.sub, kv.len())?
        && numbers.key_bytes == key.len();
    agree.then_some(header)
}

fn header_of(numbers: &KvNumbers, sub: u32, kv_bytes: usize) -> Option<KeyHeader> {
    Some(KeyHeader {
        main: numbers.main,
        created: numbers.created,
        version: numbers.version,
        lease: numbers.lease,
        sub,
        kv_bytes: u32::try_from(kv_bytes).ok()?,
        key_bytes: u32::try_from(numbers.key_bytes).ok()?,
        key_offset: u16::try_from(numbers.key_start).ok()?,
        tombstone: false,
    })
}

/// Payloads with the kv as it is and a header made from it.
fn from_kv(left: &[u8], key: &[u8], main: i64) -> impl Iterator<Item = Vec<u8>> {
    let kv = left.get(KEY_HEADER_BYTES..).unwrap_or_default();
    let numbers = numbers(kv).filter(|numbers| {
        let key_end = numbers.key_start + numbers.key_bytes;
        numbers.main == main as u64 && kv.get(numbers.key_start..key_end) == Some(key)
    });
    let sub_left = left.get(32..36).and_then(|bytes| bytes.try_into().ok());
    let subs = sub_left.map(u32::from_le_bytes).into_iter();
    let subs = subs.chain(0..SUBS_TRIED);
    subs.filter_map(move |sub| {
        let numbers = numbers?;
        let header = header_of(&numbers, sub, numbers.end)?;
        Some(assembled(&header, kv.get(..numbers.end)?))
    })
}

/// The payload with the header as it is, and a kv made from it and the value that lies
/// where it must.
fn from_header(left: &[u8], key: &[u8], main: i64) -> Option<Vec<u8>> {
    let header = KeyHeader::decode(left).ok()?;
    if header.main != main as u64 || header.key_bytes as usize != key.len() {
        return None;
    }
    let kv = left
        .get(KEY_HEADER_BYTES..)?
        .get(..header.kv_bytes as usize)?;
    let mut front = Vec::new();
    put_bytes(&mut front, 1, key);
    put_number(&mut front, 2, header.created);
    put_number(&mut front, 3, header.main);
    put_number(&mut front, 4, header.version);
    let mut behind = Vec::new();
    put_number(&mut behind, 6, header.lease);
    let room = kv.len().checked_sub(front.len() + behind.len())?;
    let value_bytes = value_bytes_in(room)?;
    let value = kv
        .get(kv.len() - behind.len() - value_bytes..)?
        .get(..value_bytes)?;
    put_bytes(&mut front, 5, value);
    front.extend(behind);
    (front.len() == kv.len()).then(|| assembled(&header, &front))
}

/// Length of a value that takes `room` bytes together with its tag and length.
fn value_bytes_in(room: usize) -> Option<usize> {
    if room == 0 {
        return Some(0);
    }
    let takes = |bytes: usize| 1 + varint_bytes(bytes) + bytes;
    (1..=11)
        .filter_map(|around| room.checked_sub(around))
        .find(|&bytes| bytes > 0 && takes(bytes) == room)
}

fn assembled(header: &KeyHeader, kv: &[u8]) -> Vec<u8> {
    let mut payload = [&header.encode()[..], kv].concat();
    let padded = payload.len() + padding(payload.len());
    payload.resize(padded, 0);
    payload
}

/// Reads the fields of an encoded `mvccpb.KeyValue` in their order. `None` where they
/// are not what a put writes.
fn numbers(kv: &[u8]) -> Option<KvNumbers> {
    let mut found = KvNumbers::default();
    let mut at = 0;
    (found.key_start, found.key_bytes) = take_bytes(kv, &mut at, 1)?;
    found.created = take_number(kv, &mut at, 2)?;
    found.main = take_number(kv, &mut at, 3)?;
    found.version = take_number(kv, &mut at, 4)?;
    if kv.get(at) == Some(&tag(5, 2)) {
        take_bytes(kv, &mut at, 5)?;
    }
    if kv.get(at) == Some(&tag(6, 0)) {
        found.lease = take_number(kv, &mut at, 6)?;
    }
    found.end = at;
    Some(found)
}

fn tag(field: u8, wire: u8) -> u8 {
    field << 3 | wire
}

/// Start and length of a field of bytes.
fn take_bytes(kv: &[u8], at: &mut usize, field: u8) -> Option<(usize, usize)> {
    take_tag(kv, at, tag(field, 2))?;
    let length = usize::try_from(take_varint(kv, at)?).ok()?;
    let start = *at;
    let end = start.checked_add(length).filter(|&end| end <= kv.len())?;
    *at = end;
    Some((start, length))
}

fn take_number(kv: &[u8], at: &mut usize, field: u8) -> Option<u64> {
    take_tag(kv, at, tag(field, 0))?;
    take_varint(kv, at)
}

fn take_tag(kv: &[u8], at: &mut usize, expected: u8) -> Option<()> {
    (kv.get(*at) == Some(&expected)).then(|| *at += 1)
}

fn take_varint(kv: &[u8], at: &mut usize) -> Option<u64> {
    let mut rest = kv.get(*at..)?;
    let number = format::take_varint(&mut rest);
    *at = kv.len() - rest.len();
    number
}

fn put_bytes(target: &mut Vec<u8>, field: u8, bytes: &[u8]) {
    if !bytes.is_empty() {
        target.push(tag(field, 2));
        format::put_varint(target, bytes.len() as u64);
        target.extend(bytes);
    }
}

fn put_number(target: &mut Vec<u8>, field: u8, number: u64) {
    if number != 0 {
        target.push(tag(field, 0));
        format::put_varint(target, number);
    }
}
