//! Finishing frames before they are written.
//!
//! Producers fill in records; what depends on order and time (sequence, chain,
//! "synced up to") is known only when the committer writes, so it finishes
//! every header then, in one pass over the buffer. An explicit frame arrives
//! with a provisional header that holds its tag and length; a shared frame's
//! header is blank.

use crate::body::Body;
use crate::format::{
    FRAME_HEADER_BYTES, FrameHeader, FrameKind, RECORD_HEADER_BYTES, Salt, crc32c,
};
use crate::record::{self, RecordHeader};
use crate::{Position, Record, Sequence, Tag};

/// What a frame inherits from the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chain {
    /// Salt of the log.
    pub salt: Salt,
    /// Epoch of this opening.
    pub epoch: u32,
    /// Sequence of the next frame.
    pub next: Sequence,
    /// Header CRC of the last frame, 0 before the first.
    pub previous_crc: u32,
    /// All before this is on stable storage.
    pub synced_up_to: Position,
}

/// Fills `target` with a frame that has a provisional header.
pub(crate) fn encode_group(target: &mut [u8], tag: Tag, bodies: &[&Body]) {
    provisional_header(target, FrameKind::Group, tag);
    let mut at = FRAME_HEADER_BYTES;
    for body in bodies {
        let end = at + body.bytes().len();
        target[at..end].copy_from_slice(body.bytes());
        at = end;
    }
    assert_eq!(at, target.len(), "bodies fill their frame");
}

/// Fills `target` with records.
pub(crate) fn encode_records(
    target: &mut [u8],
    records: &[Record<'_>],
    mut place: impl FnMut(usize),
) {
    let mut at = 0;
    for record in records {
        place(at);
        at += record::encode(&mut target[at..], record);
    }
    assert_eq!(at, target.len(), "records fill their stretch");
}

/// A frame without records.
pub(crate) fn empty_frame(kind: FrameKind) -> Vec<u8> {
    let mut bytes = vec![0; FRAME_HEADER_BYTES];
    provisional_header(&mut bytes, kind, Tag::default());
    bytes
}

fn provisional_header(target: &mut [u8], kind: FrameKind, tag: Tag) {
    let payload_bytes = target.len() - FRAME_HEADER_BYTES;
    blank_header(kind, tag, payload_bytes).encode_into(target, Salt::PROVISIONAL);
}

fn blank_header(kind: FrameKind, tag: Tag, payload_bytes: usize) -> FrameHeader {
    FrameHeader {
        kind,
        segment: 0,
        epoch: 0,
        sequence: Sequence(0),
        synced_up_to: Position::NONE,
        tag,
        payload_bytes: u32::try_from(payload_bytes).expect("a frame fits a segment"),
        record_count: 0,
        digest: 0,
        previous_crc: 0,
    }
}

/// Finishes headers; keeps its scratch memory from frame to frame.
#[derive(Debug, Default)]
pub(crate) struct Finisher {
    /// The CRCs of one frame's records, little-endian.
    crcs: Vec<u8>,
}

impl Finisher {
    /// Finishes the frame with a provisional header at the start of `bytes`
    /// and advances the chain. Returns its header.
    pub fn finish(&mut self, bytes: &mut [u8], segment: u32, chain: &mut Chain) -> FrameHeader {
        let (header, _) = FrameHeader::decode(bytes, Salt::PROVISIONAL)
            .expect("the producer wrote a header here");
        self.complete(bytes, header, segment, chain)
    }

    /// The same for a shared frame that fills `bytes`; its header is blank.
    pub fn finish_shared(
        &mut self,
        bytes: &mut [u8],
        segment: u32,
        chain: &mut Chain,
    ) -> FrameHeader {
        let payload_bytes = bytes.len() - FRAME_HEADER_BYTES;
        let header = blank_header(FrameKind::Group, Tag::default(), payload_bytes);
        self.complete(bytes, header, segment, chain)
    }

    /// Finishes a frame again, the last one of the chain, in which `bytes` have more records now. It keeps
    /// its place in the chain.
    pub fn finish_longer(
        &mut self,
        bytes: &mut [u8],
        (header, tag): (FrameHeader, Tag),
        chain: &mut Chain,
    ) -> FrameHeader {
        assert_eq!(header.sequence.0 + 1, chain.next.0, "it is the last frame");
        let payload = &bytes[FRAME_HEADER_BYTES..];
        let (record_count, digest) = self.digest(payload);
        let longer = FrameHeader {
            tag,
            payload_bytes: u32::try_from(payload.len()).expect("a frame fits a segment"),
            record_count,
            digest,
            ..header
        };
        chain.previous_crc = longer.encode_into(bytes, chain.salt);
        longer
    }

    fn complete(
        &mut self,
        bytes: &mut [u8],
        mut header: FrameHeader,
        segment: u32,
        chain: &mut Chain,
    ) -> FrameHeader {
        let end = FRAME_HEADER_BYTES + header.payload_bytes as usize;
        (header.record_count, header.digest) = self.digest(&bytes[FRAME_HEADER_BYTES..end]);
        header.segment = segment;
        header.epoch = chain.epoch;
        header.sequence = chain.next;
        header.synced_up_to = chain.synced_up_to;
        header.previous_crc = chain.previous_crc;
        assert!(
            header.sequence.0 > 0 && header.epoch > 0,
            "{header:?} was never opened"
        );
        assert!(
            header.kind == FrameKind::Group || header.record_count == 0,
            "{header:?} marks a place and has records"
        );
        chain.previous_crc = header.encode_into(bytes, chain.salt);
        chain.next.0 += 1;
        header
    }

    /// Number of records and the CRC of their CRCs.
    fn digest(&mut self, payload: &[u8]) -> (u32, u32) {
        let covered = self.collect(payload, |_, _| true);
        assert_eq!(covered, payload.len(), "records fill their frame");
        ((self.crcs.len() / 4) as u32, crc32c(&self.crcs))
    }

    /// Whether `payload` is what `header` says: every record verifies, and
    /// together they are those that were written.
    pub fn verify(&mut self, header: &FrameHeader, payload: &[u8]) -> bool {
        let covered = self.collect(payload, |record, bytes| record.verify(bytes).is_some());
        covered == payload.len()
            && self.crcs.len() == 4 * header.record_count as usize
            && crc32c(&self.crcs) == header.digest
    }

    /// The numbers of the records of `payload` that fail their checksums, if the header's
    /// digest proves that it was written with exactly these records: their lengths and
    /// checksums. If only the stored checksum of one record is damaged, it is corrected in
    /// `payload`.
    pub fn damaged(header: &FrameHeader, payload: &mut [u8]) -> Option<Vec<usize>> {
        let mut failing = Vec::new();
        let (mut crcs, mut covered) = (Vec::new(), 0);
        for (number, (at, record, bytes)) in record::walk(payload).enumerate() {
            if record.verify(bytes).is_none() {
                failing.push((number, at, record));
            }
            covered += bytes.len();
            crcs.push(record.crc);
        }
        if covered != payload.len() || crcs.len() != header.record_count as usize {
            return None;
        }
        let digest = |crcs: &[u32]| {
            let bytes: Vec<u8> = crcs.iter().flat_map(|crc| crc.to_le_bytes()).collect();
            crc32c(&bytes)
        };
        if digest(&crcs) != header.digest {
            let &[(number, at, record)] = &failing[..] else {
                return None;
            };
            let end = at + RECORD_HEADER_BYTES + record.payload_bytes;
            crcs[number] = crc32c(payload.get(at + 4..end)?);
            if digest(&crcs) != header.digest {
                return None;
            }
            payload[at..at + 4].copy_from_slice(&crcs[number].to_le_bytes());
        }
        Some(failing.into_iter().map(|(number, ..)| number).collect())
    }

    /// Gathers the records' CRCs while `good`; returns the bytes they cover.
    fn collect(&mut self, payload: &[u8], good: impl Fn(&RecordHeader, &[u8]) -> bool) -> usize {
        self.crcs.clear();
        let mut covered = 0;
        for (_, header, bytes) in record::walk(payload) {
            if !good(&header, bytes) {
                break;
            }
            covered += bytes.len();
            self.crcs.extend_from_slice(&header.crc.to_le_bytes());
        }
        covered
    }
}
