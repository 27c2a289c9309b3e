//! Decodes frames from a stream of bytes.
//!
//! ```text
//!   socket ──► room() ──► [ header | payl      ]     room for a piece
//!                         [ header | payload | he ]  next() ──► WireFrame
//! ```
//!
//! Memory grows with the bytes that have come, not with the announced length: the
//! room for a payload doubles as it fills up. A small payload is copied out of the buffer, so
//! that a handler that keeps it does not keep the whole buffer. A larger one is a slice of the
//! buffer, and a very large one takes the buffer with it, so that the connection does not keep
//! that much room for ever.

use bytes::{Buf, Bytes, BytesMut};
use thiserror::Error;

use crate::format::{FRAME_HEADER_BYTES, FrameHeader, WireFrame, frame_crc};

/// Room offered to each read while no large payload is being received.
const READ_BYTES: usize = 64 << 10;
/// Payloads up to this size are copied out of the buffer, because a slice would keep a
/// buffer of eight times the size in memory.
const COPIED_BYTES_MAX: usize = READ_BYTES / 8;
/// A payload above this size takes the buffer with it.
const SHARED_BYTES_MAX: usize = 4 * READ_BYTES;

/// Error of bytes that are not a frame. Bytes after it cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum Malformed {
    #[error("a frame of {length} bytes came, {bytes_max} are allowed")]
    TooLong { length: u32, bytes_max: usize },
    #[error("a frame came damaged: its checksum does not match")]
    Checksum,
    #[error("a frame of a later protocol came (its spare bytes are {0:#06x})")]
    Spare(u16),
}

/// Bytes that have come and are not decoded yet.
pub(crate) struct Decoder {
    buffer: BytesMut,
    payload_bytes_max: usize,
}

impl Decoder {
    pub fn new(payload_bytes_max: usize) -> Decoder {
        Decoder {
            buffer: BytesMut::new(),
            payload_bytes_max,
        }
    }

    /// The buffer to which the caller appends the next bytes of the stream.
    pub fn room(&mut self) -> &mut BytesMut {
        let have = self.buffer.len();
        let missing = match self.header() {
            Some(header) => (FRAME_HEADER_BYTES + header.length as usize).saturating_sub(have),
            None => 0,
        };
        let room = missing.min(have).max(READ_BYTES);
        self.buffer.reserve(room);
        &mut self.buffer
    }

    /// Payload bytes of the frame that is being received, once its header has come.
    pub fn announced(&self) -> Option<usize> {
        self.header().map(|header| header.length as usize)
    }

    /// Whether the stream may end here without cutting a frame.
    pub fn is_between_frames(&self) -> bool {
        self.buffer.is_empty()
    }

    /// Decodes the next frame. Returns `None` if it has not come completely.
    pub fn next(&mut self) -> Result<Option<WireFrame>, Malformed> {
        let Some(header) = self.header() else {
            return Ok(None);
        };
        if header.length as usize > self.payload_bytes_max {
            return Err(Malformed::TooLong {
                length: header.length,
                bytes_max: self.payload_bytes_max,
            });
        }
        let end = FRAME_HEADER_BYTES + header.length as usize;
        if self.buffer.len() < end {
            return Ok(None);
        }
        if frame_crc(&self.buffer[..end]) != header.crc {
            return Err(Malformed::Checksum);
        }
        if header.spare != 0 {
            return Err(Malformed::Spare(header.spare));
        }
        Ok(Some(WireFrame {
            kind: header.kind,
            role: header.role,
            payload: self.take_payload(header.length as usize),
        }))
    }

    fn header(&self) -> Option<FrameHeader> {
        self.buffer.first_chunk().map(FrameHeader::decode)
    }

    fn take_payload(&mut self, length: usize) -> Bytes {
        let whole = FRAME_HEADER_BYTES + length;
        assert!(self.buffer.len() >= whole, "the payload has not come");
        self.buffer.advance(FRAME_HEADER_BYTES);
        if length <= COPIED_BYTES_MAX {
            let payload = Bytes::copy_from_slice(&self.buffer[..length]);
            self.buffer.advance(length);
            return payload;
        }
        let payload = self.buffer.split_to(length).freeze();
        if length > SHARED_BYTES_MAX {
            self.buffer = BytesMut::from(&self.buffer[..]);
        }
        payload
    }

    /// Bytes that the buffer could hold without growing.
    #[cfg(test)]
    pub fn capacity(&self) -> usize {
        self.buffer.capacity()
    }
}

#[cfg(test)]
mod tests {
    use environment::randomness::Random;

    use super::*;

    const LIMIT: usize = 1 << 20;

    fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
        let length = payload.len() as u32;
        let mut bytes = FrameHeader::encode(kind, 0, length, std::iter::once(payload)).to_vec();
        bytes.extend_from_slice(payload);
        bytes
    }

    fn feed(decoder: &mut Decoder, bytes: &[u8]) {
        decoder.room().extend_from_slice(bytes);
    }

    #[test]
    fn frames_are_decoded_unchanged_from_pieces_of_any_size() {
        let mut random = Random::from_seed(11);
        let payloads: Vec<Vec<u8>> = (0..200)
            .map(|_| vec![random.next_u64() as u8; random.below(20_000) as usize])
            .collect();
        let wire: Vec<u8> = payloads.iter().flat_map(|it| frame(7, it)).collect();
        let mut decoder = Decoder::new(LIMIT);
        let (mut rest, mut came) = (&wire[..], Vec::new());
        while !rest.is_empty() {
            let (piece, after) =
                rest.split_at(1 + random.below(rest.len().min(9_000) as u64) as usize);
            feed(&mut decoder, piece);
            rest = after;
            while let Some(frame) = decoder.next().unwrap() {
                came.push(frame.payload.to_vec());
            }
        }
        assert!(decoder.is_between_frames());
        assert!(came == payloads, "every payload, in order");
    }

    #[test]
    fn an_announced_length_takes_no_memory_before_its_bytes_come() {
        let mut decoder = Decoder::new(64 << 20);
        let header = FrameHeader::encode(1, 0, 64 << 20, std::iter::empty());
        feed(&mut decoder, &header);
        assert_eq!(decoder.next(), Ok(None));
        assert!(decoder.room().capacity() <= 2 * READ_BYTES);
        feed(&mut decoder, &vec![0; 1 << 20]);
        assert!(decoder.room().capacity() <= 4 << 20);
        assert!(decoder.capacity() >= 1 << 20);
    }

    #[test]
    fn a_length_above_the_limit_is_refused_at_its_header() {
        let mut decoder = Decoder::new(LIMIT);
        let header = FrameHeader::encode(1, 0, LIMIT as u32 + 1, std::iter::empty());
        feed(&mut decoder, &header);
        let text = decoder.next().unwrap_err().to_string();
        assert_eq!(text, "a frame of 1048577 bytes came, 1048576 are allowed");
    }

    #[test]
    fn a_frame_with_a_flipped_bit_is_refused() {
        let good = frame(3, b"ink on stone");
        for bit in 0..good.len() * 8 {
            let mut bytes = good.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let mut decoder = Decoder::new(LIMIT);
            feed(&mut decoder, &bytes);
            // With a greater length, the decoder waits for more bytes.
            let result = decoder.next();
            assert!(!matches!(result, Ok(Some(_))), "bit {bit}: {result:?}");
        }
    }

    #[test]
    fn random_bytes_are_never_decoded_as_a_frame() {
        let mut random = Random::from_seed(5);
        for _ in 0..2_000 {
            let mut bytes = vec![0; random.below(300) as usize];
            random.fill(&mut bytes);
            // Random lengths are rarely short, so half of the inputs get a short one.
            if bytes.len() > 8 && random.chance(1, 2) {
                bytes[5..8].fill(0);
            }
            let mut decoder = Decoder::new(LIMIT);
            feed(&mut decoder, &bytes);
            assert!(!matches!(decoder.next(), Ok(Some(_))));
        }
    }

    /// Runs the targets of the fuzzer on a few inputs.
    #[test]
    fn random_bytes_with_right_checksums_decode_to_themselves() {
        let mut random = Random::from_seed(8);
        for _ in 0..500 {
            let mut bytes = vec![0; random.below(2_000) as usize];
            random.fill(&mut bytes);
            for header in bytes.chunks_exact_mut(64) {
                header[4..8].copy_from_slice(&52_u32.to_le_bytes());
                header[10..12].fill(0);
            }
            crate::fuzzing::seal(&mut bytes);
            crate::fuzzing::frames(&bytes, 1 + random.below(300) as usize);
            crate::fuzzing::greetings(&bytes);
        }
    }

    #[test]
    fn a_large_payload_takes_its_buffer_with_it() {
        let mut decoder = Decoder::new(LIMIT);
        let mut wire = frame(1, &vec![7; LIMIT]);
        wire.extend_from_slice(&frame(2, b"next"));
        for piece in wire.chunks(READ_BYTES) {
            feed(&mut decoder, piece);
        }
        assert_eq!(decoder.next().unwrap().unwrap().payload.len(), LIMIT);
        decoder.room();
        assert!(decoder.capacity() <= 2 * READ_BYTES);
        assert_eq!(decoder.next().unwrap().unwrap().payload, "next");
    }

    #[test]
    fn a_small_payload_does_not_pin_the_buffer() {
        let mut decoder = Decoder::new(LIMIT);
        feed(&mut decoder, &frame(1, b"small"));
        let before = decoder.capacity();
        let kept = decoder.next().unwrap().unwrap();
        decoder.room();
        assert!(decoder.capacity() <= before, "the buffer is used again");
        assert_eq!(kept.payload, "small");
    }
}
