//! Fuzz targets in `fuzz/`: decoders of bytes that an outsider can send.

use crate::decoder::Decoder;
use crate::format::{FRAME_HEADER_BYTES, FrameHeader, Hello, Welcome, WireFrame, frame_crc};

const PAYLOAD_BYTES_MAX: usize = 1 << 20;

/// Writes the right checksums into the frames in `bytes`.
pub fn seal(bytes: &mut [u8]) {
    let mut rest = bytes;
    while let Some(header) = rest.first_chunk().map(FrameHeader::decode) {
        let end = FRAME_HEADER_BYTES.saturating_add(header.length as usize);
        let Some((frame, after)) = rest.split_at_mut_checked(end) else {
            return;
        };
        let crc = frame_crc(frame);
        frame[..4].copy_from_slice(&crc.to_le_bytes());
        rest = after;
    }
}

/// Decodes `bytes` in pieces of `piece_bytes`, and checks that the frames encode to the same
/// bytes.
pub fn frames(bytes: &[u8], piece_bytes: usize) {
    let mut decoder = Decoder::new(PAYLOAD_BYTES_MAX);
    let mut seen = Vec::new();
    for piece in bytes.chunks(piece_bytes.max(1)) {
        decoder.room().extend_from_slice(piece);
        loop {
            match decoder.next() {
                Ok(Some(frame)) => encode(&frame, &mut seen),
                Ok(None) => break,
                Err(_) => {
                    assert!(
                        bytes.starts_with(&seen),
                        "a frame that was not in the bytes"
                    );
                    return;
                }
            }
        }
    }
    assert!(
        bytes.starts_with(&seen),
        "a frame that was not in the bytes"
    );
}

fn encode(frame: &WireFrame, wire: &mut Vec<u8>) {
    let length = frame.payload.len() as u32;
    let parts = std::iter::once(&frame.payload[..]);
    let header = FrameHeader::encode(frame.kind, frame.role, length, parts);
    wire.extend_from_slice(&header);
    wire.extend_from_slice(&frame.payload);
}

/// Decodes `bytes` as greetings, and checks that a greeting is the same after encoding and
/// decoding.
pub fn greetings(bytes: &[u8]) {
    if let Ok(hello) = Hello::decode(bytes) {
        assert_eq!(Hello::decode(&hello.encode()), Ok(hello));
    }
    if let Ok(welcome) = Welcome::decode(bytes)
        && welcome.reason.len() <= crate::format::REASON_BYTES_MAX
    {
        assert_eq!(Welcome::decode(&welcome.encode()), Ok(welcome));
    }
}
