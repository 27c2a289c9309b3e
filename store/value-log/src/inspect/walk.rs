//! A walk from frame to frame through one segment.
//!
//! The next frame starts where the last one ended, or at the block boundary
//! after it. Where neither place holds a frame that follows, three things are
//! possible, which are distinguished as recovery does:
//!
//! ```text
//!   the bytes there are ..        and were promised            were not promised
//!   zero, or of a former life     damaged                      the end
//!   ours, and do not verify       damaged                      torn
//! ```
//!
//! A promise is the seal note, or a later frame of this life with a "synced up
//! to" beyond the place.

use bytes::Bytes;

use crate::format::{
    self, BLOCK_BYTES, FRAME_HEADER_BYTES, FRAMES_START, FrameHeader, FrameKind,
    RECORD_HEADER_BYTES, Salt, Unreadable,
};
use crate::record;
use crate::{Position, Tag};

const ALIGNMENT: usize = 8;

/// What the next frame must refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Number of the last frame.
    pub sequence: u64,
    /// Opening that wrote it.
    pub epoch: u32,
    /// CRC of its header.
    pub crc: u32,
}

/// A frame that verifies as a whole.
#[derive(Clone, Debug)]
pub struct Frame {
    /// What it is for.
    pub kind: FrameKind,
    /// Its number and checksum.
    pub link: Link,
    /// All before this was stable when the frame was written.
    pub synced_up_to: Position,
    /// The appender's numbers.
    pub tag: Tag,
    /// First byte in the segment.
    pub start: u64,
    /// Byte after the last one.
    pub end: u64,
    /// Its records.
    pub records: Vec<FrameRecord>,
}

/// A record that verifies.
#[derive(Clone, Debug)]
pub struct FrameRecord {
    /// Where it is.
    pub position: Position,
    /// The appender's mark.
    pub kind: u8,
    /// Its bytes in the segment, header and padding included.
    pub record_bytes: u64,
    /// The payload.
    pub payload: Bytes,
}

/// Where a walk ended, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stop {
    /// Offset in the segment.
    pub offset: u64,
    /// The reason.
    pub why: Why,
}

/// Why a walk ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// Nothing more was written.
    End,
    /// An unfinished frame that was never promised; recovery drops it.
    Torn(String),
    /// Bytes that were stable once no longer verify.
    Damaged(String),
}

/// The frames of one segment, in order.
#[derive(Debug)]
pub struct Walk {
    bytes: Bytes,
    segment: u32,
    salt: Salt,
    last: Option<Link>,
    /// End of the last frame.
    at: u64,
    /// Bytes before this offset were stable once.
    promised: u64,
    stop: Option<Stop>,
}

/// Why there is no frame at a place.
enum Absent {
    /// Nothing of this segment's present life.
    Nothing,
    /// Something of it, broken at an offset.
    Broken(u64, String),
}

impl Walk {
    pub(super) fn new(
        bytes: Bytes,
        segment: u32,
        salt: Salt,
        last: Option<Link>,
        promised: u64,
    ) -> Walk {
        Walk {
            bytes,
            segment,
            salt,
            last,
            at: FRAMES_START,
            promised,
            stop: None,
        }
    }

    /// Why it ended; `None` while it has not.
    pub fn stop(&self) -> Option<&Stop> {
        self.stop.as_ref()
    }

    /// What the first frame of the next segment must refer to.
    pub fn link(&self) -> Option<Link> {
        self.last
    }

    /// End of the last frame.
    pub fn end(&self) -> u64 {
        self.at
    }

    /// Continues behind the damage at `from`, the end of the last sound frame.
    /// A damaged frame with a valid header is skipped as a whole, because its length is
    /// known. The walk may come to the next damaged frame only.
    pub(super) fn behind(mut self, from: u64) -> Option<Walk> {
        let (start, header, crc) = self.header_from(from)?;
        let sequence = header.sequence.0;
        let link = |sequence, crc| Link {
            sequence,
            epoch: header.epoch,
            crc,
        };
        let is_next = self
            .last
            .map_or(start == from, |last| sequence == last.sequence + 1);
        self.at = start;
        self.last = Some(link(sequence.checked_sub(1)?, header.previous_crc));
        if is_next && self.frame_at(start).is_err() {
            self.at = start + header.frame_bytes();
            self.last = Some(link(sequence, crc));
            self.header_from(self.at)?;
        }
        Some(self)
    }

    /// The first header at or behind `from` that verifies and is of this
    /// life, and its CRC. A sealed segment has none behind its end.
    fn header_from(&self, from: u64) -> Option<(u64, FrameHeader, u32)> {
        let sealed_end = Some(self.promised as usize).filter(|&end| end > 0);
        let end = sealed_end.unwrap_or(usize::MAX).min(self.bytes.len());
        (from as usize..end).step_by(ALIGNMENT).find_map(|offset| {
            let (header, crc) = FrameHeader::decode(&self.bytes[offset..], self.salt).ok()?;
            self.may_follow(&header)
                .then_some((offset as u64, header, crc))
        })
    }

    fn find_next(&self) -> Result<Frame, Stop> {
        let boundary = self.at.next_multiple_of(BLOCK_BYTES);
        let mut broken = None;
        for start in [self.at, boundary] {
            match self.frame_at(start) {
                Ok(frame) => return Ok(frame),
                Err(Absent::Broken(offset, what)) => broken = broken.or(Some((offset, what))),
                Err(Absent::Nothing) => {}
            }
        }
        Err(self.explain(broken))
    }

    /// No frame follows: is that the end, a torn tail, or damage?
    fn explain(&self, broken: Option<(u64, String)>) -> Stop {
        let promised = self.at < self.promised || self.later_frame_promises();
        let (offset, what) = match broken {
            Some((offset, what)) => (offset, what),
            None if promised => (self.at, "there is no frame where one must be".to_owned()),
            None => {
                return Stop {
                    offset: self.at,
                    why: Why::End,
                };
            }
        };
        let why = if promised {
            Why::Damaged(what)
        } else {
            Why::Torn(what)
        };
        Stop { offset, why }
    }

    /// Whether a frame further on says that all before it was stable.
    fn later_frame_promises(&self) -> bool {
        let here = Position::new(self.segment, self.at);
        (self.at as usize..self.bytes.len())
            .step_by(ALIGNMENT)
            .any(|offset| {
                FrameHeader::decode(&self.bytes[offset..], self.salt)
                    .is_ok_and(|(header, _)| self.may_follow(&header) && header.synced_up_to > here)
            })
    }

    /// Whether `header` is of this segment's present life.
    fn may_follow(&self, header: &FrameHeader) -> bool {
        header.segment == self.segment
            && self
                .last
                .is_none_or(|last| header.epoch >= last.epoch && header.sequence.0 > last.sequence)
    }

    fn frame_at(&self, start: u64) -> Result<Frame, Absent> {
        let bytes = self.bytes.get(start as usize..).ok_or(Absent::Nothing)?;
        let (header, crc) =
            FrameHeader::decode(bytes, self.salt).map_err(|unreadable| match unreadable {
                Unreadable::Foreign => Absent::Nothing,
                _ if !self.names_this_segment(bytes) => Absent::Nothing,
                _ => Absent::Broken(start, "the header of a group does not verify".to_owned()),
            })?;
        let follows = self.last.is_none_or(|last| {
            header.sequence.0 == last.sequence + 1 && header.previous_crc == last.crc
        });
        if !self.may_follow(&header) || !follows {
            return Err(Absent::Nothing);
        }
        let records = self.records(start, &header)?;
        Ok(Frame {
            kind: header.kind,
            link: Link {
                sequence: header.sequence.0,
                epoch: header.epoch,
                crc,
            },
            synced_up_to: header.synced_up_to,
            tag: header.tag,
            start,
            end: start + header.frame_bytes(),
            records,
        })
    }

    /// A header that fails its checksum may be ours, or of a former life.
    fn names_this_segment(&self, bytes: &[u8]) -> bool {
        bytes.len() >= FRAME_HEADER_BYTES && format::get_u32(bytes, 8) == self.segment
    }

    fn records(&self, start: u64, header: &FrameHeader) -> Result<Vec<FrameRecord>, Absent> {
        let first = start as usize + FRAME_HEADER_BYTES;
        let end = first + header.payload_bytes as usize;
        let group = header.sequence.0;
        let broken = |offset: usize, what: &str| {
            Absent::Broken(offset as u64, format!("group {group}: {what}"))
        };
        if end > self.bytes.len() {
            return Err(broken(self.bytes.len(), "the file ends within it"));
        }
        let mut records = Vec::with_capacity(header.record_count as usize & 0xffff);
        let mut crcs = Vec::new();
        let mut at = first;
        for (offset, record, bytes) in record::walk(&self.bytes[first..end]) {
            at = first + offset;
            let payload = record
                .verify(bytes)
                .ok_or_else(|| broken(at, "a record fails its checksum"))?;
            let payload_end = RECORD_HEADER_BYTES + payload.len();
            if bytes[payload_end..].iter().any(|&byte| byte != 0) {
                return Err(broken(
                    at + payload_end,
                    "the padding of a record is not zero",
                ));
            }
            crcs.extend(record.crc.to_le_bytes());
            records.push(FrameRecord {
                position: Position::new(self.segment, at as u64),
                kind: record.kind,
                record_bytes: bytes.len() as u64,
                payload: self.bytes.slice(at + RECORD_HEADER_BYTES..at + payload_end),
            });
            at += bytes.len();
        }
        if at != end || records.len() != header.record_count as usize {
            return Err(broken(at, "its records do not fill it"));
        }
        if format::crc32c(&crcs) != header.digest {
            return Err(broken(first, "its records are not those its header sums"));
        }
        Ok(records)
    }
}

impl Iterator for Walk {
    type Item = Frame;

    fn next(&mut self) -> Option<Frame> {
        if self.stop.is_some() {
            return None;
        }
        match self.find_next() {
            Ok(frame) => {
                assert!(frame.end > self.at, "a walk goes forward");
                self.at = frame.end;
                self.last = Some(frame.link);
                Some(frame)
            }
            Err(stop) => {
                self.stop = Some(stop);
                None
            }
        }
    }
}
