//! Attacks on the client port, one connection each.

use std::time::Duration;

use environment::randomness::Random;

use super::messages;
use crate::attack::{Script, Step, bytes_of, mutate};
use crate::wire::{self, CONNECTION, flag, frame, frame_header, kind};

const PUT: &str = "/etcdserverpb.KV/Put";
const WATCH: &str = "/etcdserverpb.Watch/Watch";
/// Number of frames in a flood.
const FLOOD: u64 = 4_000;

/// Adds bytes to a greeting, or alters it.
type Attack = fn(&mut Random, &mut Vec<u8>);

/// How the bytes are sent.
#[derive(Clone, Copy)]
enum Pace {
    AtOnce,
    /// With time for answers afterwards, less than this many milliseconds.
    ThenRest(u64),
    ByteAfterByte,
}
use Pace::{AtOnce, ByteAfterByte, ThenRest};

const ATTACKS: [(&str, Attack, Pace); 20] = [
    (
        "noise",
        |random, bytes| *bytes = bytes_of(random, 4_000),
        AtOnce,
    ),
    (
        "noise after the greeting",
        |random, bytes| bytes.extend(bytes_of(random, 4_000)),
        AtOnce,
    ),
    ("random frames", random_frames, AtOnce),
    ("mutated calls", mutated_calls, AtOnce),
    ("mutated calls", mutated_calls, AtOnce),
    ("garbage in messages", garbage_messages, ThenRest(300)),
    ("garbage in messages", garbage_messages, ThenRest(300)),
    ("mutated messages", mutated_messages, ThenRest(300)),
    ("mutated messages", mutated_messages, ThenRest(300)),
    ("wrong lengths of messages", wrong_prefixes, ThenRest(300)),
    ("headers without end", continuation_flood, AtOnce),
    ("calls taken back at once", rapid_resets, AtOnce),
    ("flood of settings", settings_flood, AtOnce),
    ("flood of pings", ping_flood, AtOnce),
    ("windows beyond their bound", window_overflow, AtOnce),
    ("large lists of headers", large_header_lists, AtOnce),
    ("flood of empty data", empty_data_flood, AtOnce),
    ("half a frame", half_frames, ThenRest(2_000)),
    ("byte after byte", put_call, ByteAfterByte),
    ("calls without end", streams_without_end, ThenRest(300)),
];

/// A connection with a random attack.
pub fn one(random: &mut Random) -> Script {
    let (name, attack, pace) = random.pick(&ATTACKS);
    let mut bytes = wire::greeting();
    attack(random, &mut bytes);
    let mut below = |bound| Duration::from_millis(random.below(bound));
    let steps = match pace {
        AtOnce => vec![Step::Send(bytes)],
        ThenRest(bound) => vec![Step::Send(bytes), Step::Pause(below(*bound))],
        ByteAfterByte => vec![Step::Drip(bytes, Duration::from_millis(1) + below(10))],
    };
    Script::new(name, steps, random)
}

/// A stream id. Ids of clients are odd; one in eight here is even, or that of the connection.
fn stream_of(random: &mut Random) -> u32 {
    match random.below(16) {
        0 => CONNECTION,
        1 => random.next_u64() as u32,
        _ => 1 + 2 * random.below(8) as u32,
    }
}

/// Frames of any type, with flags, streams and lengths that may be wrong.
fn random_frames(random: &mut Random, bytes: &mut Vec<u8>) {
    if random.chance(1, 2) {
        bytes.extend(wire::call(1, PUT, &messages::put(random)));
    }
    for _ in 0..1 + random.below(60) {
        let kind = random.below(12) as u8;
        let flags = random.next_u64() as u8 & random.next_u64() as u8;
        let stream = stream_of(random);
        let payload = match kind {
            kind::HEADERS if random.chance(3, 4) => wire::call_headers(messages::path(random)),
            kind::WINDOW_UPDATE | kind::RST_STREAM => bytes_of(random, 6),
            kind::PING => bytes_of(random, 10),
            _ => bytes_of(random, 200),
        };
        bytes.extend(match random.chance(1, 10) {
            true => frame_header(random.below(1 << 24) as u32, kind, flags, stream),
            false => frame(kind, flags, stream, &payload),
        });
    }
}

/// Valid calls with some bytes flipped, removed, doubled or cut off.
fn mutated_calls(random: &mut Random, bytes: &mut Vec<u8>) {
    let whole = bytes.len();
    for number in 0..1 + random.below(5) as u32 {
        let (path, message) = messages::sound(random);
        bytes.extend(wire::call(1 + 2 * number, &path, &message));
    }
    let begin = if random.chance(1, 8) { 0 } else { whole };
    let mut tail = bytes.split_off(begin);
    mutate(&mut tail, random);
    bytes.extend(tail);
}

/// Calls with valid framing around random bytes.
fn garbage_messages(random: &mut Random, bytes: &mut Vec<u8>) {
    for number in 0..1 + random.below(20) as u32 {
        let message = bytes_of(random, 300);
        bytes.extend(wire::call(1 + 2 * number, messages::path(random), &message));
    }
}

/// Calls with valid framing around mutated messages.
fn mutated_messages(random: &mut Random, bytes: &mut Vec<u8>) {
    for number in 0..1 + random.below(20) as u32 {
        let (path, mut message) = messages::sound(random);
        mutate(&mut message, random);
        bytes.extend(wire::call(1 + 2 * number, &path, &message));
    }
}

/// gRPC's prefix announces bytes that do not follow, or a compressed message.
fn wrong_prefixes(random: &mut Random, bytes: &mut Vec<u8>) {
    for number in 0..1 + random.below(10) as u32 {
        let stream = 1 + 2 * number;
        bytes.extend(wire::open_call(stream, messages::path(random)));
        let mut body = wire::grpc(&messages::put(random)).to_vec();
        body[0] = *random.pick(&[0, 0, 1, 2, 255]);
        let announced = *random.pick(&[0, 1, 1 << 20, 64 << 20, u32::MAX]);
        body[1..5].copy_from_slice(&announced.to_be_bytes());
        let flags = *random.pick(&[0, flag::END_STREAM]);
        bytes.extend(frame(kind::DATA, flags, stream, &body));
    }
}

/// Headers that never end (CVE-2024-27316 and its kin).
fn continuation_flood(random: &mut Random, bytes: &mut Vec<u8>) {
    bytes.extend(frame(kind::HEADERS, 0, 1, &wire::call_headers(PUT)));
    let piece = match random.below(3) {
        0 => Vec::new(),
        1 => wire::header(b"x", b"y"),
        _ => wire::header(b"name", &vec![b'v'; 8_000]),
    };
    for _ in 0..random.below(FLOOD) {
        bytes.extend(frame(kind::CONTINUATION, 0, 1, &piece));
    }
}

/// Calls that are reset at once (CVE-2023-44487).
fn rapid_resets(random: &mut Random, bytes: &mut Vec<u8>) {
    for number in 0..random.below(FLOOD) as u32 {
        let stream = 1 + 2 * number;
        bytes.extend(match random.below(3) {
            0 => wire::call(stream, PUT, &messages::put(random)),
            _ => wire::open_call(stream, WATCH),
        });
        let reason = 8_u32.to_be_bytes();
        bytes.extend(frame(kind::RST_STREAM, 0, stream, &reason));
    }
}

fn settings_flood(random: &mut Random, bytes: &mut Vec<u8>) {
    for _ in 0..random.below(FLOOD) {
        let name = random.below(8) as u16;
        let value = *random.pick(&[0, 1, 65_535, 1 << 24, 0x7fff_ffff, u32::MAX]);
        let setting = wire::setting(name, value);
        let payload = *random.pick(&[&[], &setting[..], &setting]);
        bytes.extend(frame(kind::SETTINGS, 0, CONNECTION, payload));
    }
}

fn ping_flood(random: &mut Random, bytes: &mut Vec<u8>) {
    for _ in 0..4 * random.below(FLOOD) {
        bytes.extend(frame(kind::PING, 0, CONNECTION, &[7; 8]));
    }
}

/// Windows beyond 2^31 - 1, of a stream and of the connection.
fn window_overflow(random: &mut Random, bytes: &mut Vec<u8>) {
    bytes.extend(wire::open_call(1, WATCH));
    for _ in 0..1 + random.below(5) {
        let stream = random.below(2) as u32;
        let increment = *random.pick(&[0_u32, 1, 0x7fff_ffff, u32::MAX]);
        let payload = increment.to_be_bytes();
        bytes.extend(frame(kind::WINDOW_UPDATE, 0, stream, &payload));
    }
}

fn large_header_lists(random: &mut Random, bytes: &mut Vec<u8>) {
    let mut list = wire::call_headers(PUT);
    for number in 0..random.below(200) {
        let name = format!("name-{number}");
        list.extend(wire::header(name.as_bytes(), &vec![b'v'; 8_000]));
    }
    let pieces = list.chunks(16_000);
    let kinds = std::iter::once(kind::HEADERS).chain(std::iter::repeat(kind::CONTINUATION));
    let last = pieces.len() - 1;
    for (number, (piece, kind)) in pieces.zip(kinds).enumerate() {
        let flags = if number == last { flag::END_HEADERS } else { 0 };
        bytes.extend(frame(kind, flags, 1, piece));
    }
}

fn empty_data_flood(random: &mut Random, bytes: &mut Vec<u8>) {
    bytes.extend(wire::open_call(1, WATCH));
    for _ in 0..4 * random.below(FLOOD) {
        bytes.extend(frame(kind::DATA, 0, 1, &[]));
    }
}

/// Frames of which only the beginning is sent.
fn half_frames(random: &mut Random, bytes: &mut Vec<u8>) {
    if random.chance(1, 2) {
        bytes.extend(wire::call(1, PUT, &messages::put(random)));
    }
    let next = wire::call(3, PUT, &messages::put(random));
    let come = random.below(next.len() as u64) as usize;
    bytes.extend(&next[..come]);
}

fn put_call(random: &mut Random, bytes: &mut Vec<u8>) {
    bytes.extend(wire::call(1, PUT, &messages::put(random)));
}

/// Very many open calls at once, each with some data.
fn streams_without_end(random: &mut Random, bytes: &mut Vec<u8>) {
    for number in 0..random.below(1_000) as u32 {
        let stream = 1 + 2 * number;
        bytes.extend(wire::open_call(stream, messages::path(random)));
        bytes.extend(frame(kind::DATA, 0, stream, &bytes_of(random, 40)));
    }
    if random.chance(1, 4) {
        bytes.extend(frame(kind::GO_AWAY, 0, CONNECTION, &[0; 8]));
    }
}
