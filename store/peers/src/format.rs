//! The bytes between members, which `docs/formats/peers.md` describes in prose.
//!
//! ```text
//!   dialer                                   listener
//!     │ hello ────────────────────────────────► │  own id, expected id, lane
//!     │ ◄──────────────────────────── welcome   │  accepted, or the reason of a refusal
//!     │ frame frame frame ... ────────────────► │
//!     │ ◄─────────────── frame frame frame ...  │  lanes Snapshot and Inquiry only
//!
//!   frame: ┌─────┬────────┬──────┬──────┬─────┬─────────┐
//!          │ CRC │ length │ kind │ role │ 0 0 │ payload │
//!          └─────┴────────┴──────┴──────┴─────┴─────────┘
//! ```
//!
//! All numbers are little-endian. CRC means CRC-32C (CRC-32/ISCSI).

use bytes::{Buf, BufMut, Bytes};
use crc_fast::{CrcAlgorithm, Digest};

use crate::{Lane, Refusal};

/// Version of everything below the first twelve bytes of a hello or welcome.
pub(crate) const VERSION: u16 = 1;
/// First bytes of a hello and of a welcome, in every version.
pub(crate) const MAGIC: [u8; 8] = *b"INKPEERS";
/// Size of a hello or a welcome before its texts.
pub(crate) const GREETING_BYTES: usize = 40;
/// Where the ids of a hello or a welcome begin.
const IDS_AT: usize = 16;
/// The CRC that ends a hello or a welcome.
pub(crate) const CRC_BYTES: usize = 4;
/// Size of a frame's header.
pub(crate) const FRAME_HEADER_BYTES: usize = 12;
/// Longest release text: its length is one byte.
pub(crate) const RELEASE_BYTES_MAX: usize = 255;
/// Longest refusal text, and longest agreement.
pub(crate) const REASON_BYTES_MAX: usize = 1024;
/// Longest list of a sender's addresses in a hello.
pub(crate) const ADDRESSES_BYTES_MAX: usize = 1024;
/// Longest greeting, including its texts and CRC. It bounds the memory that an outsider can
/// take.
pub(crate) const GREETING_BYTES_MAX: usize =
    GREETING_BYTES + RELEASE_BYTES_MAX + REASON_BYTES_MAX + ADDRESSES_BYTES_MAX + CRC_BYTES;

/// Roles of frames on their lanes.
pub(crate) mod role {
    /// A message, a question, or a part of a stream.
    pub(crate) const PLAIN: u8 = 0;
    /// Inquiry lane: the handler's answer.
    pub(crate) const ANSWER: u8 = 1;
    /// Inquiry lane: the handler's refusal.
    pub(crate) const REFUSAL: u8 = 2;
    /// Snapshot lane: the sender's last frame; its payload is empty.
    pub(crate) const END: u8 = 6;
}

/// First bytes that the dialer sends.
///
/// ```text
///   0  8  magic "INKPEERS"
///   8  2  version
///  10  1  lane
///  11  1  bytes of the release text
///  12  2  bytes of the agreement
///  14  2  bytes of the addresses
///  16  8  cluster id
///  24  8  id of the sender
///  32  8  id of the member that the sender expects here
///  40     release text, agreement, addresses with a space between two, UTF-8
///      4  CRC of everything before
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    pub lane: Lane,
    pub cluster: u64,
    pub sender: u64,
    pub receiver: u64,
    pub release: String,
    /// See [`crate::PeersOptions::agreement`].
    pub agreement: String,
    /// See [`crate::PeersOptions::addresses`].
    pub addresses: Vec<String>,
}

/// The listener's answer.
///
/// ```text
///   0  8  magic "INKPEERS"
///   8  2  version
///  10  1  verdict: 0 accepted, or the number of a refusal
///  11  1  bytes of the release text
///  12  2  bytes of the reason
///  14  2  zero
///  16  8  cluster id
///  24  8  id of this member
///  32  8  zero
///  40     release text, then reason, UTF-8
///      4  CRC of everything before
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Welcome {
    pub verdict: Result<(), Refusal>,
    pub cluster: u64,
    pub member: u64,
    pub release: String,
    /// Text for people; empty when accepted.
    pub reason: String,
}

/// Error of decoding a greeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// The magic is right, the version is another one.
    Version(u16),
    /// The checksum differs, or the contents are invalid.
    Damaged,
    /// The hello names a lane that this version does not know.
    Lane(u8),
}

/// Bytes of the greeting that starts with `head`, its texts and CRC included.
pub(crate) fn greeting_bytes(head: &[u8; GREETING_BYTES]) -> usize {
    let lengths = text_bytes(head);
    GREETING_BYTES + lengths.iter().sum::<usize>() + CRC_BYTES
}

/// Lengths of the three texts of a greeting. The third one of a welcome is empty.
fn text_bytes(head: &[u8; GREETING_BYTES]) -> [usize; 3] {
    let [second, third] = [12, 14].map(|at| usize::from(get_u16(head, at)));
    [usize::from(head[11]), second, third]
}

impl Hello {
    pub fn encode(&self) -> Vec<u8> {
        let addresses = self.addresses.join(" ");
        let texts = [&*self.release, &*self.agreement, &*addresses];
        let mut bytes = head(self.lane as u8, texts);
        for id in [self.cluster, self.sender, self.receiver] {
            bytes.put_u64_le(id);
        }
        close(bytes, texts)
    }

    /// Decodes a whole greeting; the caller has checked the magic.
    pub fn decode(bytes: &[u8]) -> Result<Hello, Unreadable> {
        let [release, agreement, addresses] = texts(bytes)?;
        if agreement.len() > REASON_BYTES_MAX || addresses.len() > ADDRESSES_BYTES_MAX {
            return Err(Unreadable::Damaged);
        }
        let addresses = addresses.split_ascii_whitespace().map(str::to_owned);
        let mut ids = &bytes[IDS_AT..];
        Ok(Hello {
            lane: Lane::of_number(bytes[10]).ok_or(Unreadable::Lane(bytes[10]))?,
            cluster: ids.get_u64_le(),
            sender: ids.get_u64_le(),
            receiver: ids.get_u64_le(),
            release,
            agreement,
            addresses: addresses.collect(),
        })
    }
}

impl Welcome {
    pub fn encode(&self) -> Vec<u8> {
        let reason = prefix(&self.reason, REASON_BYTES_MAX);
        let verdict = self.verdict.err().map_or(0, Refusal::number);
        let texts = [&*self.release, reason, ""];
        let mut bytes = head(verdict, texts);
        for id in [self.cluster, self.member, 0] {
            bytes.put_u64_le(id);
        }
        close(bytes, texts)
    }

    /// Decodes a whole greeting; the caller has checked the magic.
    pub fn decode(bytes: &[u8]) -> Result<Welcome, Unreadable> {
        let [release, reason, _] = texts(bytes)?;
        let verdict = match bytes[10] {
            0 => Ok(()),
            number => Err(Refusal::of_number(number)),
        };
        let mut ids = &bytes[IDS_AT..];
        Ok(Welcome {
            verdict,
            cluster: ids.get_u64_le(),
            member: ids.get_u64_le(),
            release,
            reason,
        })
    }
}

/// The bytes of a greeting before its ids.
fn head(what: u8, [release, reason, addresses]: [&str; 3]) -> Vec<u8> {
    assert!(release.len() <= RELEASE_BYTES_MAX, "checked at the start");
    assert!(reason.len() <= REASON_BYTES_MAX, "cut before");
    assert!(
        addresses.len() <= ADDRESSES_BYTES_MAX,
        "checked at the start"
    );
    let mut bytes = MAGIC.to_vec();
    bytes.put_u16_le(VERSION);
    bytes.put_u8(what);
    bytes.put_u8(release.len() as u8);
    bytes.put_u16_le(reason.len() as u16);
    bytes.put_u16_le(addresses.len() as u16);
    bytes
}

fn close(mut bytes: Vec<u8>, texts: [&str; 3]) -> Vec<u8> {
    for text in texts {
        bytes.extend_from_slice(text.as_bytes());
    }
    let crc = crc_fast::crc32_iscsi(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes
}

/// Checks the version and the checksum of a greeting, and returns its texts.
fn texts(bytes: &[u8]) -> Result<[String; 3], Unreadable> {
    let head: &[u8; GREETING_BYTES] = bytes.first_chunk().ok_or(Unreadable::Damaged)?;
    match get_u16(head, 8) {
        VERSION => {}
        other => return Err(Unreadable::Version(other)),
    }
    if bytes.len() != greeting_bytes(head) {
        return Err(Unreadable::Damaged);
    }
    let (body, crc) = bytes.split_at(bytes.len() - CRC_BYTES);
    if crc_fast::crc32_iscsi(body).to_le_bytes() != crc {
        return Err(Unreadable::Damaged);
    }
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).map_err(|_| Unreadable::Damaged);
    let [first, second, _] = text_bytes(head);
    let (release, rest) = body[GREETING_BYTES..].split_at(first);
    let (reason, addresses) = rest.split_at(second);
    Ok([text(release)?, text(reason)?, text(addresses)?])
}

/// The header before every payload.
///
/// ```text
///   0  4  CRC of bytes 4 to 11 and the payload
///   4  4  bytes of the payload
///   8  1  kind, which the caller chooses
///   9  1  role
///  10  2  zero
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameHeader {
    pub crc: u32,
    pub length: u32,
    pub kind: u8,
    pub role: u8,
    /// Zero in this version.
    pub spare: u16,
}

impl FrameHeader {
    /// The header of a payload made of `parts`.
    pub fn encode<'a>(
        kind: u8,
        role: u8,
        length: u32,
        parts: impl Iterator<Item = &'a [u8]>,
    ) -> [u8; FRAME_HEADER_BYTES] {
        let mut bytes = [0; FRAME_HEADER_BYTES];
        bytes[4..8].copy_from_slice(&length.to_le_bytes());
        bytes[8] = kind;
        bytes[9] = role;
        let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
        digest.update(&bytes[4..]);
        parts.for_each(|part| digest.update(part));
        bytes[..4].copy_from_slice(&(digest.finalize() as u32).to_le_bytes());
        bytes
    }

    pub fn decode(bytes: &[u8; FRAME_HEADER_BYTES]) -> FrameHeader {
        let mut bytes = &bytes[..];
        FrameHeader {
            crc: bytes.get_u32_le(),
            length: bytes.get_u32_le(),
            kind: bytes.get_u8(),
            role: bytes.get_u8(),
            spare: bytes.get_u16_le(),
        }
    }
}

/// CRC of a contiguous frame, without its CRC field.
pub(crate) fn frame_crc(frame: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(&frame[4..])
}

/// A decoded frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WireFrame {
    pub kind: u8,
    pub role: u8,
    pub payload: Bytes,
}

impl WireFrame {
    /// Bytes on the wire.
    pub fn wire_bytes(&self) -> usize {
        FRAME_HEADER_BYTES + self.payload.len()
    }
}

/// The start of `text`, cut between characters.
fn prefix(text: &str, bytes_max: usize) -> &str {
    let mut end = text.len().min(bytes_max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

fn get_u16(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}
