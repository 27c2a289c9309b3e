//! Hellos and frames between members, with faults.

use std::time::Duration;

use environment::randomness::Random;

use super::Ids;
use crate::attack::{Script, Step, bytes_of};
use crate::peer_wire::{self, frame};

const LANES: u64 = 5;
/// Kinds of frames that members use are below this.
const KINDS_KNOWN: u64 = 20;
const ROLES: u64 = 8;
/// Just above the largest length that a member accepts.
const LENGTH_REFUSED: u32 = (65 << 20) + 9;

/// Adds frames to a hello, or alters the hello.
type Attack = fn(&mut Random, &mut Vec<u8>);

const ATTACKS: [(&str, Attack); 9] = [
    ("noise", |random, bytes| *bytes = bytes_of(random, 4_000)),
    ("mutated hellos", mutated_hellos),
    ("random payloads", random_payloads),
    ("random payloads", random_payloads),
    ("numbers as payloads", shaped_payloads),
    ("numbers as payloads", shaped_payloads),
    ("mutated frames", mutated_frames),
    ("cut off frames", cut_off_frames),
    ("frames longer than what comes", long_frames),
];

/// A connection to the member with this index, with a random attack.
pub fn one(random: &mut Random, ids: &Ids, to: usize) -> Script {
    let (name, attack) = random.pick(&ATTACKS);
    let mut bytes = hello(random, ids, to);
    attack(random, &mut bytes);
    let steps = match random.below(6) {
        0 if bytes.len() < 2_000 => vec![Step::Drip(bytes, Duration::from_millis(1))],
        1 => {
            // The member answers the hello before the frames are sent.
            let rest = bytes.split_off(bytes.len().min(44));
            let pause = Step::Pause(Duration::from_millis(20));
            vec![Step::Send(bytes), pause, Step::Send(rest)]
        }
        _ => vec![Step::Send(bytes)],
    };
    Script::new(name, steps, random)
}

fn mutated_hellos(random: &mut Random, bytes: &mut Vec<u8>) {
    for _ in 0..1 + random.below(3) {
        let at = random.below(bytes.len() as u64) as usize;
        bytes[at] = random.next_u64() as u8;
    }
    if random.chance(1, 2) {
        peer_wire::seal(bytes);
    }
    bytes.extend(bytes_of(random, 100));
}

/// Frames with the right checksum around random bytes.
fn random_payloads(random: &mut Random, bytes: &mut Vec<u8>) {
    for _ in 0..random.below(50) {
        let payload = bytes_of(random, 300);
        bytes.extend(frame_around(random, &payload));
    }
}

/// Payloads of numbers and lengths, like the beginning of members' messages.
fn shaped_payloads(random: &mut Random, bytes: &mut Vec<u8>) {
    for _ in 0..random.below(50) {
        bytes.extend(shaped_frame(random));
    }
}

fn shaped_frame(random: &mut Random) -> Vec<u8> {
    let mut payload = Vec::new();
    for _ in 0..random.below(12) {
        match random.below(4) {
            0 => payload.push(random.below(20) as u8),
            1 => payload.extend((random.below(300) as u32).to_le_bytes()),
            2 => payload.extend(random.below(300).to_le_bytes()),
            _ => payload.extend(bytes_of(random, 30)),
        }
    }
    frame_around(random, &payload)
}

fn mutated_frames(random: &mut Random, bytes: &mut Vec<u8>) {
    for _ in 0..1 + random.below(10) {
        let mut next = shaped_frame(random);
        let at = random.below(next.len() as u64) as usize;
        next[at] ^= 1 << random.below(8);
        bytes.extend(next);
    }
}

fn cut_off_frames(random: &mut Random, bytes: &mut Vec<u8>) {
    let payload = bytes_of(random, 3_000);
    let mut cut = frame_around(random, &payload);
    cut.truncate(random.below(cut.len() as u64) as usize);
    bytes.extend(cut);
}

/// Frames that announce many bytes and send a part of them.
fn long_frames(random: &mut Random, bytes: &mut Vec<u8>) {
    let announced = *random.pick(&[1 << 20, 64 << 20, LENGTH_REFUSED, u32::MAX]);
    let mut header = frame_around(random, &[]);
    header[4..8].copy_from_slice(&announced.to_le_bytes());
    bytes.extend(header);
    bytes.extend(vec![0; random.below(200_000) as usize]);
}

/// A frame of a random kind, which members may not know.
fn frame_around(random: &mut Random, payload: &[u8]) -> Vec<u8> {
    let kind = match random.below(8) {
        0 => random.next_u64() as u8,
        _ => random.below(KINDS_KNOWN) as u8,
    };
    let role = match random.below(3) {
        0 => random.below(ROLES) as u8,
        _ => 0,
    };
    frame(kind, role, payload)
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
