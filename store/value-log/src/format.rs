//! The bytes of a segment; `docs/formats/value-log.md` is the same in prose.
//!
//! ```text
//!   0         512        1024    4096
//!  ┌─────────┬──────────┬───────┬────────┬─────────┬──┬────────┬──── ─ ─ ─
//!  │ segment │ seal     │ reach │ frame  │ frame   │  │ frame  │ stale or
//!  │ header  │ note     │ note  │        │         │  │        │ zero bytes
//!  └─────────┴──────────┴───────┴────────┴─────────┴──┴────────┴──── ─ ─ ─
//!            written when  │                       gap: the next frame would
//!            the segment   │                       touch one 4 KiB block more
//!            is left      written before a frame goes further
//!
//!   frame:  ┌────────────┬────────┬────────┬────────┬ ─ ─
//!           │ header, 88 │ record │ record │ record │
//!           └────────────┴────────┴────────┴────────┴ ─ ─
//!   record: ┌────────┬────────┬──────┬───────┬─────────┬───────────────┐
//!           │ CRC  4 │ len  4 │ kind │ 0   3 │ payload │ 0 to 7 zeros  │
//!           └────────┴────────┴──────┴───────┴─────────┴───────────────┘
//! ```
//!
//! All numbers are little-endian. CRC means CRC-32C (CRC-32/ISCSI).
//!
//! What makes a stale frame unmistakable: it carries its segment's id (ids are
//! never used twice, so bytes of a recycled file's former life never match),
//! the epoch of the opening that wrote it (never falls along the chain), its
//! sequence (+1 each) and the header CRC of the frame before it.
//!
//! What makes a frame inside a value no frame: its header would have to know
//! the log's [`Salt`], which is in segment headers only.

use crate::{Blocks, Position, SegmentKind, Sequence, Tag};

/// Version of everything below.
pub(crate) const VERSION: u32 = 2;
/// The unit in which the device is charged.
pub(crate) const BLOCK_BYTES: u64 = 4096;
/// Where the first frame of a segment starts.
pub(crate) const FRAMES_START: u64 = BLOCK_BYTES;
/// Size of the segment header.
pub(crate) const SEGMENT_HEADER_BYTES: usize = 48;
/// Where the seal note is.
pub(crate) const SEAL_NOTE_START: u64 = 512;
/// Size of the seal note.
pub(crate) const SEAL_NOTE_BYTES: usize = 104;
/// Where the reach note is.
pub(crate) const REACH_NOTE_START: u64 = 1024;
/// Size of the reach note.
pub(crate) const REACH_NOTE_BYTES: usize = 32;
/// Size of a frame header.
pub(crate) const FRAME_HEADER_BYTES: usize = 88;
/// Size of a record header.
pub(crate) const RECORD_HEADER_BYTES: usize = 12;

/// Where the salt is in a segment header.
const SALT_START: usize = 36;
/// Where the half of the salt is that a frame header shows.
const FRAME_SALT_START: usize = 80;
/// Where its CRC is, and the other half while that is computed.
const FRAME_CRC_START: usize = 84;

const SEGMENT_MAGIC: [u8; 8] = *b"INKSTSEG";
const SEAL_MAGIC: [u8; 8] = *b"INKSTEND";
const REACH_MAGIC: [u8; 8] = *b"INKSTFAR";
const FRAME_MAGIC: [u8; 4] = *b"IKFR";

pub(crate) use crate::checksum::crc32c;

/// Drawn when a log is made, the same in all its segments. A client that fills
/// values does not know it, so no value can pass for a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Salt(pub u64);

impl Salt {
    /// Of a header that is not finished yet, so that it verifies in no log.
    pub const PROVISIONAL: Salt = Salt(0);

    /// The half that frames show.
    fn shown(self) -> u32 {
        self.0 as u32
    }

    /// The half that only goes into their checksums.
    fn hidden(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// Why bytes are not what they should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// Other magic: nothing of ours.
    Foreign,
    /// Ours, of another version.
    Version(u32),
    /// Ours, but the checksum differs.
    Checksum,
    /// The checksum holds and the contents make no sense.
    Nonsense,
}

/// First bytes of every segment.
///
/// ```text
///   0  8  magic "INKSTSEG"
///   8  4  version
///  12  4  segment id
///  16  4  id of the log segment before this one (0: none, or a sorted segment)
///  20  4  epoch of the opening that prepared it
///  24  8  size of the segment in bytes
///  32  1  kind: 1 log, 2 sorted
///  33  1  blocks: 0 written, 1 reserved
///  34  1  growth: 0 all blocks were ready from the beginning, 1 they are made ready in steps
///  35  1  zero
///  36  8  salt of the log
///  44  4  CRC of bytes 0 to 43
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// The segment's id.
    pub id: u32,
    /// Ids of log segments have gaps where sorted segments took a number; this
    /// link tells such a gap from a lost file.
    pub previous: u32,
    /// Epoch of the opening that prepared it.
    pub epoch: u32,
    /// Size of the segment.
    pub segment_bytes: u64,
    /// What the segment is for.
    pub kind: SegmentKind,
    /// How its blocks were made ready.
    pub blocks: Blocks,
    /// Whether they are made ready in steps, as the log comes near them. Of written blocks, those
    /// behind the reach note's end may then be missing, of reserved ones those behind the last frame.
    pub grows: bool,
    /// The salt of its log.
    pub salt: Salt,
}

impl SegmentHeader {
    pub(crate) fn encode(&self) -> [u8; SEGMENT_HEADER_BYTES] {
        assert!(self.id > 0, "segments are numbered from 1");
        assert!(self.previous < self.id, "{self:?} follows a newer segment");
        let mut bytes = [0; SEGMENT_HEADER_BYTES];
        bytes[0..8].copy_from_slice(&SEGMENT_MAGIC);
        put_u32(&mut bytes, 8, VERSION);
        put_u32(&mut bytes, 12, self.id);
        put_u32(&mut bytes, 16, self.previous);
        put_u32(&mut bytes, 20, self.epoch);
        put_u64(&mut bytes, 24, self.segment_bytes);
        bytes[32] = self.kind as u8;
        bytes[33] = self.blocks as u8;
        bytes[34] = u8::from(self.grows);
        put_u64(&mut bytes, SALT_START, self.salt.0);
        seal_crc(&mut bytes);
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<SegmentHeader, Unreadable> {
        let bytes = verified(bytes, SEGMENT_HEADER_BYTES, SEGMENT_MAGIC)?;
        match get_u32(bytes, 8) {
            VERSION => {}
            other => return Err(Unreadable::Version(other)),
        }
        Ok(SegmentHeader {
            id: get_u32(bytes, 12),
            previous: get_u32(bytes, 16),
            epoch: get_u32(bytes, 20),
            segment_bytes: get_u64(bytes, 24),
            kind: [SegmentKind::Log, SegmentKind::Sorted]
                .into_iter()
                .find(|&kind| kind as u8 == bytes[32])
                .ok_or(Unreadable::Nonsense)?,
            // A hint about time, so no value of it is wrong.
            blocks: match bytes[33] {
                1 => Blocks::Reserved,
                _ => Blocks::Written,
            },
            grows: bytes[34] == 1,
            salt: Salt(get_u64(bytes, SALT_START)),
        })
    }

    /// The salt that a segment's first bytes show, whether they verify or not:
    /// frames do so under the right one only.
    pub(crate) fn salt_of(bytes: &[u8]) -> Option<Salt> {
        let bytes = bytes.get(..SEGMENT_HEADER_BYTES)?;
        Some(Salt(get_u64(bytes, SALT_START)))
    }
}

/// What a segment held when it was left: saves a walk, promises nothing that a
/// walk would not find.
///
/// ```text
///   0  8  magic "INKSTEND"
///   8  4  segment id
///  12  4  zero
///  16  8  end: bytes from the start of the file to the end of the last frame
///  24  8  sequence of the last frame
///  32 32  first tag (term, index, first, last)
///  64 32  last tag
///  96  4  zero
/// 100  4  CRC of bytes 0 to 99
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealNote {
    /// The segment's id.
    pub segment: u32,
    /// End of its last group.
    pub end: u64,
    /// Sequence of its last group.
    pub sequence: Sequence,
    /// Its first tag.
    pub first_tag: Tag,
    /// Its last tag.
    pub last_tag: Tag,
}

impl SealNote {
    pub(crate) fn encode(&self) -> [u8; SEAL_NOTE_BYTES] {
        assert!(
            self.end >= FRAMES_START && self.end.is_multiple_of(8),
            "{self:?} ends within a frame"
        );
        let mut bytes = [0; SEAL_NOTE_BYTES];
        bytes[0..8].copy_from_slice(&SEAL_MAGIC);
        put_u32(&mut bytes, 8, self.segment);
        put_u64(&mut bytes, 16, self.end);
        put_u64(&mut bytes, 24, self.sequence.0);
        put_tag(&mut bytes, 32, self.first_tag);
        put_tag(&mut bytes, 64, self.last_tag);
        seal_crc(&mut bytes);
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<SealNote, Unreadable> {
        let bytes = verified(bytes, SEAL_NOTE_BYTES, SEAL_MAGIC)?;
        Ok(SealNote {
            segment: get_u32(bytes, 8),
            end: get_u64(bytes, 16),
            sequence: Sequence(get_u64(bytes, 24)),
            first_tag: get_tag(bytes, 32),
            last_tag: get_tag(bytes, 64),
        })
    }
}

/// How far the frames of a segment can reach: saves recovery a search of what
/// was never written.
///
/// ```text
///   0  8  magic "INKSTFAR"
///   8  4  segment id
///  12  4  zero
///  16  8  reach: no frame of the segment ends beyond this offset
///  24  4  zero
///  28  4  CRC of bytes 0 to 27
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReachNote {
    pub segment: u32,
    pub reach: u64,
}

impl ReachNote {
    pub fn encode(&self) -> [u8; REACH_NOTE_BYTES] {
        let mut bytes = [0; REACH_NOTE_BYTES];
        bytes[0..8].copy_from_slice(&REACH_MAGIC);
        put_u32(&mut bytes, 8, self.segment);
        put_u64(&mut bytes, 16, self.reach);
        seal_crc(&mut bytes);
        bytes
    }

    pub fn decode(bytes: &[u8]) -> Result<ReachNote, Unreadable> {
        let bytes = verified(bytes, REACH_NOTE_BYTES, REACH_MAGIC)?;
        Ok(ReachNote {
            segment: get_u32(bytes, 8),
            reach: get_u64(bytes, 16),
        })
    }
}

/// What a frame is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// Records of the appender.
    Group = 1,
    /// Written and flushed by every opening before anything else; empty.
    Opening = 2,
    /// Written by a clean close; empty.
    Closing = 3,
}

/// First bytes of a frame.
///
/// ```text
///   0  4  magic "IKFR"
///   4  2  version
///   6  1  kind: 1 group, 2 opening, 3 closing
///   7  1  zero
///   8  4  segment id
///  12  4  epoch
///  16  8  sequence
///  24  8  synced up to: a position; all before it was stable when this was written
///  32 32  tag (term, index, first, last)
///  64  4  bytes of records that follow, a multiple of 8
///  68  4  number of records
///  72  4  digest: CRC of the records' CRCs, in order
///  76  4  CRC of the previous frame's header (its bytes 84 to 87)
///  80  4  first half of the salt
///  84  4  CRC of bytes 0 to 87, the second half of the salt in bytes 84 to 87
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameHeader {
    pub kind: FrameKind,
    pub segment: u32,
    pub epoch: u32,
    pub sequence: Sequence,
    /// Tells damage from a torn tail: a frame that does not verify although a
    /// later one promised it is damaged; one that nobody promised is torn.
    pub synced_up_to: Position,
    pub tag: Tag,
    pub payload_bytes: u32,
    pub record_count: u32,
    pub digest: u32,
    pub previous_crc: u32,
}

impl FrameHeader {
    /// Writes the header; returns its CRC, the next frame's `previous_crc`.
    pub fn encode_into(&self, target: &mut [u8], salt: Salt) -> u32 {
        assert!(
            self.payload_bytes.is_multiple_of(8),
            "{self:?} is not aligned"
        );
        let bytes = &mut target[..FRAME_HEADER_BYTES];
        bytes[0..4].copy_from_slice(&FRAME_MAGIC);
        bytes[4..6].copy_from_slice(&(VERSION as u16).to_le_bytes());
        bytes[6] = self.kind as u8;
        bytes[7] = 0;
        put_u32(bytes, 8, self.segment);
        put_u32(bytes, 12, self.epoch);
        put_u64(bytes, 16, self.sequence.0);
        put_u64(bytes, 24, self.synced_up_to.to_bits());
        put_tag(bytes, 32, self.tag);
        put_u32(bytes, 64, self.payload_bytes);
        put_u32(bytes, 68, self.record_count);
        put_u32(bytes, 72, self.digest);
        put_u32(bytes, 76, self.previous_crc);
        put_u32(bytes, FRAME_SALT_START, salt.shown());
        let crc = salted_crc(bytes, salt);
        put_u32(bytes, FRAME_CRC_START, crc);
        crc
    }

    /// Reads a header of the log with that salt; also gives its CRC.
    pub fn decode(bytes: &[u8], salt: Salt) -> Result<(FrameHeader, u32), Unreadable> {
        let bytes = start_of(bytes, FRAME_HEADER_BYTES)?;
        if bytes[0..4] != FRAME_MAGIC {
            return Err(Unreadable::Foreign);
        }
        let crc = get_u32(bytes, FRAME_CRC_START);
        if get_u32(bytes, FRAME_SALT_START) != salt.shown() || crc != salted_crc(bytes, salt) {
            return Err(Unreadable::Checksum);
        }
        let version = u32::from(u16::from_le_bytes([bytes[4], bytes[5]]));
        if version != VERSION {
            return Err(Unreadable::Version(version));
        }
        let header = FrameHeader {
            kind: [FrameKind::Group, FrameKind::Opening, FrameKind::Closing]
                .into_iter()
                .find(|&kind| kind as u8 == bytes[6])
                .ok_or(Unreadable::Nonsense)?,
            segment: get_u32(bytes, 8),
            epoch: get_u32(bytes, 12),
            sequence: Sequence(get_u64(bytes, 16)),
            synced_up_to: Position::from_bits(get_u64(bytes, 24)),
            tag: get_tag(bytes, 32),
            payload_bytes: get_u32(bytes, 64),
            record_count: get_u32(bytes, 68),
            digest: get_u32(bytes, 72),
            previous_crc: get_u32(bytes, 76),
        };
        match header.payload_bytes % 8 {
            0 => Ok((header, crc)),
            _ => Err(Unreadable::Nonsense),
        }
    }

    /// Whether a frame may start with these bytes.
    pub fn has_magic(bytes: &[u8]) -> bool {
        bytes.starts_with(&FRAME_MAGIC)
    }

    /// Bytes of the whole frame.
    pub fn frame_bytes(&self) -> u64 {
        FRAME_HEADER_BYTES as u64 + u64::from(self.payload_bytes)
    }
}

fn start_of(bytes: &[u8], length: usize) -> Result<&[u8], Unreadable> {
    bytes.get(..length).ok_or(Unreadable::Foreign)
}

/// Puts the CRC of all but the last four bytes into the last four.
fn seal_crc(bytes: &mut [u8]) -> u32 {
    let at = bytes.len() - 4;
    let crc = crc32c(&bytes[..at]);
    put_u32(bytes, at, crc);
    crc
}

/// The first `length` of `bytes`, if they begin with `magic` and end in their CRC.
fn verified(bytes: &[u8], length: usize, magic: [u8; 8]) -> Result<&[u8], Unreadable> {
    let bytes = start_of(bytes, length)?;
    if bytes[..8] != magic {
        return Err(Unreadable::Foreign);
    }
    let at = length - 4;
    match get_u32(bytes, at) == crc32c(&bytes[..at]) {
        true => Ok(bytes),
        false => Err(Unreadable::Checksum),
    }
}

/// CRC of a frame header with the hidden half of the salt where the CRC goes.
fn salted_crc(header: &[u8], salt: Salt) -> u32 {
    let mut bytes: [u8; FRAME_HEADER_BYTES] = header.try_into().expect("a whole frame header");
    put_u32(&mut bytes, FRAME_CRC_START, salt.hidden());
    crc32c(&bytes)
}

pub(crate) fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

fn put_u64(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

fn put_tag(bytes: &mut [u8], at: usize, tag: Tag) {
    for (place, value) in [tag.term, tag.index, tag.first, tag.last]
        .into_iter()
        .enumerate()
    {
        put_u64(bytes, at + 8 * place, value);
    }
}

pub(crate) fn get_u32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("a slice of four bytes"))
}

fn get_u64(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(
        bytes[at..at + 8]
            .try_into()
            .expect("a slice of eight bytes"),
    )
}

fn get_tag(bytes: &[u8], at: usize) -> Tag {
    Tag {
        term: get_u64(bytes, at),
        index: get_u64(bytes, at + 8),
        first: get_u64(bytes, at + 16),
        last: get_u64(bytes, at + 24),
    }
}
