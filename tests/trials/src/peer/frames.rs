//! Hellos and frames between members, with faults.

use std::time::Duration;

use environment::randomness::Random;

use super::Ids;
use crate::attack::{End, Script, Step};
use crate::peer_wire::{self, frame};

const LANES: u64 = 5;
/// Kinds of frames that members use are below this.
const KINDS_KNOWN: u64 = 20;
const ROLES: u64 = 8;
/// Just above the largest length that a member accepts.
const LENGTH_REFUSED: u32 = (65 << 20) + 9;

type Attack = fn(&mut Random, &Ids, usize) -> (&'static str, Vec<u8>);

const ATTACKS: [Attack; 9] = [
    noise,
    mutated_hellos,
    random_payloads,
    random_payloads,
    shaped_payloads,
    shaped_payloads,
    mutated_frames,
    cut_off_frames,
    long_frames,
];

/// A connection to the member with this index, with a random attack.
pub fn one(random: &mut Random, ids: &Ids, to: usize) -> Script {
    let (name, bytes) = random.pick(&ATTACKS)(random, ids, to);
    let mut steps = Vec::new();
    match random.below(6) {
        0 if bytes.len() < 2_000 => steps.push(Step::Drip(bytes, Duration::from_millis(1))),
        1 => {
            // The member answers the hello before the frames are sent.
            let (hello, rest) = bytes.split_at(bytes.len().min(44));
            steps.push(Step::Send(hello.to_vec()));
            steps.push(Step::Pause(Duration::from_millis(20)));
            steps.push(Step::Send(rest.to_vec()));
        }
        _ => steps.push(Step::Send(bytes)),
    }
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

fn noise(random: &mut Random, _: &Ids, _: usize) -> (&'static str, Vec<u8>) {
    ("noise", bytes_of(random, 4_000))
}

fn mutated_hellos(random: &mut Random, ids: &Ids, to: usize) -> (&'static str, Vec<u8>) {
    let mut bytes = hello(random, ids, to);
    for _ in 0..1 + random.below(3) {
        let at = random.below(bytes.len() as u64) as usize;
        bytes[at] = random.next_u64() as u8;
    }
    if random.chance(1, 2) {
        peer_wire::seal(&mut bytes);
    }
    bytes.extend(bytes_of(random, 100));
    ("mutated hellos", bytes)
}

/// Frames with the right checksum around random bytes.
fn random_payloads(random: &mut Random, ids: &Ids, to: usize) -> (&'static str, Vec<u8>) {
    let mut bytes = hello(random, ids, to);
    for _ in 0..random.below(50) {
        let payload = bytes_of(random, 300);
        bytes.extend(frame(kind(random), role(random), &payload));
    }
    ("random payloads", bytes)
}

/// Payloads of numbers and lengths, like the beginning of members' messages.
fn shaped_payloads(random: &mut Random, ids: &Ids, to: usize) -> (&'static str, Vec<u8>) {
    let mut bytes = hello(random, ids, to);
    for _ in 0..random.below(50) {
        let payload = shaped(random);
        bytes.extend(frame(kind(random), role(random), &payload));
    }
    ("numbers as payloads", bytes)
}

fn shaped(random: &mut Random) -> Vec<u8> {
    let mut payload = Vec::new();
    for _ in 0..random.below(12) {
        match random.below(4) {
            0 => payload.push(random.below(20) as u8),
            1 => payload.extend((random.below(300) as u32).to_le_bytes()),
            2 => payload.extend(random.below(300).to_le_bytes()),
            _ => payload.extend(bytes_of(random, 30)),
        }
    }
    payload
}

fn mutated_frames(random: &mut Random, ids: &Ids, to: usize) -> (&'static str, Vec<u8>) {
    let mut bytes = hello(random, ids, to);
    for _ in 0..1 + random.below(10) {
        let payload = shaped(random);
        let mut next = frame(kind(random), role(random), &payload);
        let at = random.below(next.len() as u64) as usize;
        next[at] ^= 1 << random.below(8);
        bytes.extend(next);
    }
    ("mutated frames", bytes)
}

fn cut_off_frames(random: &mut Random, ids: &Ids, to: usize) -> (&'static str, Vec<u8>) {
    let mut bytes = hello(random, ids, to);
    let begin = bytes.len();
    let payload = bytes_of(random, 3_000);
    bytes.extend(frame(kind(random), role(random), &payload));
    let length = begin + random.below((bytes.len() - begin) as u64) as usize;
    bytes.truncate(length);
    ("cut off frames", bytes)
}

/// Frames that announce many bytes and send a part of them.
fn long_frames(random: &mut Random, ids: &Ids, to: usize) -> (&'static str, Vec<u8>) {
    let mut bytes = hello(random, ids, to);
    let announced = *random.pick(&[1 << 20, 64 << 20, LENGTH_REFUSED, u32::MAX]);
    let mut header = frame(kind(random), role(random), &[]);
    header[4..8].copy_from_slice(&announced.to_le_bytes());
    bytes.extend(header);
    bytes.extend(vec![0; random.below(200_000) as usize]);
    ("frames longer than what comes", bytes)
}

fn kind(random: &mut Random) -> u8 {
    match random.below(8) {
        0 => random.next_u64() as u8,
        _ => random.below(KINDS_KNOWN) as u8,
    }
}

fn role(random: &mut Random) -> u8 {
    match random.below(3) {
        0 => random.below(ROLES) as u8,
        _ => 0,
    }
}

/// A hello, mostly of a member of this cluster, sometimes of another.
fn hello(random: &mut Random, ids: &Ids, to: usize) -> Vec<u8> {
    let lane = 1 + random.below(LANES) as u8;
    let sender = match random.below(4) {
        0 => random.next_u64(),
        _ => *random.pick(&ids.members),
    };
    let ids = peer_wire::Ids {
        cluster: ids.cluster,
        sender,
        receiver: ids.members[to],
    };
    peer_wire::greeting(lane, ids, "3.7.3", "")
}
