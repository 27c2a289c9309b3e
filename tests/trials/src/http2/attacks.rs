//! Attacks on the client port, one connection each.

use std::time::Duration;

use environment::randomness::Random;

use super::messages;
use crate::attack::{End, Script, Step};
use crate::wire::{self, CONNECTION, flag, frame, frame_header, kind};

const PUT: &str = "/etcdserverpb.KV/Put";
const WATCH: &str = "/etcdserverpb.Watch/Watch";
/// Number of frames in a flood.
const FLOOD: u64 = 4_000;

type Attack = fn(&mut Random) -> (&'static str, Vec<Step>);

const ATTACKS: [Attack; 20] = [
    noise,
    noise_after_greeting,
    random_frames,
    mutated_calls,
    mutated_calls,
    garbage_messages,
    garbage_messages,
    mutated_messages,
    mutated_messages,
    wrong_prefixes,
    continuation_flood,
    rapid_resets,
    settings_flood,
    ping_flood,
    window_overflow,
    large_header_lists,
    empty_data_flood,
    half_frames,
    slow_bytes,
    streams_without_end,
];

/// A connection with a random attack.
pub fn one(random: &mut Random) -> Script {
    let (name, steps) = random.pick(&ATTACKS)(random);
    let end = match random.below(4) {
        0 => End::Polite,
        1 => End::Linger(Duration::from_millis(random.below(1_500))),
        _ => End::Abrupt,
    };
    Script {
        name,
        steps,
        reads: random.chance(2, 3),
        end,
    }
}

fn bytes_of(random: &mut Random, below: u64) -> Vec<u8> {
    let mut bytes = vec![0; random.below(below) as usize];
    random.fill(&mut bytes);
    bytes
}

/// A stream id. Ids of clients are odd; one in eight here is even, or that of the connection.
fn stream_of(random: &mut Random) -> u32 {
    match random.below(16) {
        0 => CONNECTION,
        1 => random.next_u64() as u32,
        _ => 1 + 2 * random.below(8) as u32,
    }
}

fn noise(random: &mut Random) -> (&'static str, Vec<Step>) {
    ("noise", vec![Step::Send(bytes_of(random, 4_000))])
}

fn noise_after_greeting(random: &mut Random) -> (&'static str, Vec<Step>) {
    let mut bytes = wire::greeting();
    bytes.extend(bytes_of(random, 4_000));
    ("noise after the greeting", vec![Step::Send(bytes)])
}

/// Frames of any type, with flags, streams and lengths that may be wrong.
fn random_frames(random: &mut Random) -> (&'static str, Vec<Step>) {
    let mut bytes = wire::greeting();
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
        if random.chance(1, 10) {
            bytes.extend(frame_header(
                random.below(1 << 24) as u32,
                kind,
                flags,
                stream,
            ));
        } else {
            bytes.extend(frame(kind, flags, stream, &payload));
        }
    }
    ("random frames", vec![Step::Send(bytes)])
}

/// Valid calls with some bytes flipped, removed, doubled or cut off.
fn mutated_calls(random: &mut Random) -> (&'static str, Vec<Step>) {
    let mut bytes = wire::greeting();
    let whole = bytes.len();
    for number in 0..1 + random.below(5) as u32 {
        let (path, message) = messages::sound(random);
        bytes.extend(wire::call(1 + 2 * number, path, &message));
    }
    let begin = if random.chance(1, 8) { 0 } else { whole };
    let mut tail = bytes.split_off(begin);
    messages::mutate(&mut tail, random);
    bytes.extend(tail);
    ("mutated calls", vec![Step::Send(bytes)])
}

/// Calls with valid framing around random bytes.
fn garbage_messages(random: &mut Random) -> (&'static str, Vec<Step>) {
    let mut bytes = wire::greeting();
    for number in 0..1 + random.below(20) as u32 {
        let message = bytes_of(random, 300);
        bytes.extend(wire::call(1 + 2 * number, messages::path(random), &message));
    }
    ("garbage in messages", vec![Step::Send(bytes), rest(random)])
}

/// Calls with valid framing around mutated messages.
fn mutated_messages(random: &mut Random) -> (&'static str, Vec<Step>) {
    let mut bytes = wire::greeting();
    for number in 0..1 + random.below(20) as u32 {
        let (path, mut message) = messages::sound(random);
        messages::mutate(&mut message, random);
        bytes.extend(wire::call(1 + 2 * number, path, &message));
    }
    ("mutated messages", vec![Step::Send(bytes), rest(random)])
}

/// gRPC's prefix announces bytes that do not follow, or a compressed message.
fn wrong_prefixes(random: &mut Random) -> (&'static str, Vec<Step>) {
    let mut bytes = wire::greeting();
    for number in 0..1 + random.below(10) as u32 {
        let stream = 1 + 2 * number;
        let headers = wire::call_headers(messages::path(random));
        bytes.extend(frame(kind::HEADERS, flag::END_HEADERS, stream, &headers));
        let mut body = wire::grpc(&messages::put(random)).to_vec();
        body[0] = *random.pick(&[0, 0, 1, 2, 255]);
        let announced = *random.pick(&[0, 1, 1 << 20, 64 << 20, u32::MAX]);
        body[1..5].copy_from_slice(&announced.to_be_bytes());
        let flags = if random.chance(1, 2) {
            flag::END_STREAM
        } else {
            0
        };
        bytes.extend(frame(kind::DATA, flags, stream, &body));
    }
    (
        "wrong lengths of messages",
        vec![Step::Send(bytes), rest(random)],
    )
}

/// Headers that never end (CVE-2024-27316 and its kin).
fn continuation_flood(random: &mut Random) -> (&'static str, Vec<Step>) {
    let mut bytes = wire::greeting();
    bytes.extend(frame(kind::HEADERS, 0, 1, &wire::call_headers(PUT)));
    let piece = match random.below(3) {
        0 => Vec::new(),
        1 => wire::header(b"x", b"y"),
        _ => wire::header(b"name", &vec![b'v'; 8_000]),
    };
    for _ in 0..random.below(FLOOD) {
        bytes.extend(frame(kind::CONTINUATION, 0, 1, &piece));
    }
    ("headers without end", vec![Step::Send(bytes)])
}

/// Calls that are reset at once (CVE-2023-44487).
fn rapid_resets(random: &mut Random) -> (&'static str, Vec<Step>) {
    let mut bytes = wire::greeting();
    for number in 0..random.below(FLOOD) as u32 {
        let stream = 1 + 2 * number;
        match random.below(3) {
            0 => bytes.extend(wire::call(stream, PUT, &messages::put(random))),
            _ => {
                let headers = wire::call_headers(WATCH);
                bytes.extend(frame(kind::HEADERS, flag::END_HEADERS, stream, &headers));
            }
        }
        let reason = 8_u32.to_be_bytes();
        bytes.extend(frame(kind::RST_STREAM, 0, stream, &reason));
    }
    ("calls taken back at once", vec![Step::Send(bytes)])
}

fn settings_flood(random: &mut Random) -> (&'static str, Vec<Step>) {
    let mut bytes = wire::greeting();
    for _ in 0..random.below(FLOOD) {
        let name = random.below(8) as u16;
        let value = *random.pick(&[0, 1, 65_535, 1 << 24, 0x7fff_ffff, u32::MAX]);
        let payload = wire::setting(name, value);
        let payload = match random.below(3) {
            0 => &[],
            _ => &payload[..],
        };
        bytes.extend(frame(kind::SETTINGS, 0, CONNECTION, payload));
    }
    ("flood of settings", vec![Step::Send(bytes)])
}

fn ping_flood(random: &mut Random) -> (&'static str, Vec<Step>) {
    let mut bytes = wire::greeting();
    for _ in 0..4 * random.below(FLOOD) {
        bytes.extend(frame(kind::PING, 0, CONNECTION, &[7; 8]));
    }
    ("flood of pings", vec![Step::Send(bytes)])
}

/// Windows beyond 2^31 - 1, of a stream and of the connection.
fn window_overflow(random: &mut Random) -> (&'static str, Vec<Step>) {
    let mut bytes = wire::greeting();
    let headers = wire::call_headers(WATCH);
    bytes.extend(frame(kind::HEADERS, flag::END_HEADERS, 1, &headers));
    for _ in 0..1 + random.below(5) {
        let stream = random.below(2) as u32;
        let increment = *random.pick(&[0_u32, 1, 0x7fff_ffff, u32::MAX]);
        let payload = increment.to_be_bytes();
        bytes.extend(frame(kind::WINDOW_UPDATE, 0, stream, &payload));
    }
    ("windows beyond their bound", vec![Step::Send(bytes)])
}

fn large_header_lists(random: &mut Random) -> (&'static str, Vec<Step>) {
    let mut list = wire::call_headers(PUT);
    for number in 0..random.below(200) {
        let name = format!("name-{number}");
        list.extend(wire::header(name.as_bytes(), &vec![b'v'; 8_000]));
    }
    let mut bytes = wire::greeting();
    let pieces: Vec<&[u8]> = list.chunks(16_000).collect();
    for (index, piece) in pieces.iter().enumerate() {
        let kind = if index == 0 {
            kind::HEADERS
        } else {
            kind::CONTINUATION
        };
        let last = index + 1 == pieces.len();
        let flags = if last { flag::END_HEADERS } else { 0 };
        bytes.extend(frame(kind, flags, 1, piece));
    }
    ("large lists of headers", vec![Step::Send(bytes)])
}

fn empty_data_flood(random: &mut Random) -> (&'static str, Vec<Step>) {
    let mut bytes = wire::greeting();
    let headers = wire::call_headers(WATCH);
    bytes.extend(frame(kind::HEADERS, flag::END_HEADERS, 1, &headers));
    for _ in 0..4 * random.below(FLOOD) {
        bytes.extend(frame(kind::DATA, 0, 1, &[]));
    }
    ("flood of empty data", vec![Step::Send(bytes)])
}

/// Frames of which only the beginning is sent.
fn half_frames(random: &mut Random) -> (&'static str, Vec<Step>) {
    let mut bytes = wire::greeting();
    if random.chance(1, 2) {
        bytes.extend(wire::call(1, PUT, &messages::put(random)));
    }
    let next = wire::call(3, PUT, &messages::put(random));
    let come = random.below(next.len() as u64) as usize;
    bytes.extend(&next[..come]);
    let pause = Duration::from_millis(random.below(2_000));
    ("half a frame", vec![Step::Send(bytes), Step::Pause(pause)])
}

fn slow_bytes(random: &mut Random) -> (&'static str, Vec<Step>) {
    let mut bytes = wire::greeting();
    bytes.extend(wire::call(1, PUT, &messages::put(random)));
    let pause = Duration::from_millis(1 + random.below(10));
    ("byte after byte", vec![Step::Drip(bytes, pause)])
}

/// Very many open calls at once, each with some data.
fn streams_without_end(random: &mut Random) -> (&'static str, Vec<Step>) {
    let mut bytes = wire::greeting();
    for number in 0..random.below(1_000) as u32 {
        let stream = 1 + 2 * number;
        let headers = wire::call_headers(messages::path(random));
        bytes.extend(frame(kind::HEADERS, flag::END_HEADERS, stream, &headers));
        bytes.extend(frame(kind::DATA, 0, stream, &bytes_of(random, 40)));
    }
    if random.chance(1, 4) {
        bytes.extend(frame(kind::GO_AWAY, 0, CONNECTION, &[0; 8]));
    }
    ("calls without end", vec![Step::Send(bytes), rest(random)])
}

/// Time for the server to answer.
fn rest(random: &mut Random) -> Step {
    Step::Pause(Duration::from_millis(random.below(300)))
}
