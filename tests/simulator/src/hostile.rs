//! A hostile peer that the members have accepted.
//!
//! It sees the messages of the members and sends to all of them: random bytes, messages of
//! others as its own, the same with a few bytes altered, messages in the names of others, and
//! messages of its own with absurd numbers. It does not send lies that an honest member could
//! send as truth, because no member can detect those.
//!
//! Bits of honest members' frames are flipped on the way, too. A single flipped bit never
//! passes the frame's CRC-32C: the connection ends, and the messages under way on it are lost.
//! Bits that flip before the checksum is made are the subject of `bad_memory.rs`.

use std::collections::VecDeque;

use bytes::Bytes;
use cluster::PeerMessage;
use environment::randomness::Random;

/// Id of the hostile peer; no member has it.
const ID: u64 = 0xbad;
/// Most messages of others that it remembers.
const SEEN_MAX: usize = 200;
/// Kinds of messages that members execute from any honest member: commands, and a leader's
/// answer to a member that rejoins.
pub(crate) const BELIEVED: [u8; 2] = [4, 15];
/// The kind of Raft's own messages.
const RAFT: u8 = 1;

/// The hostile peer: its knowledge, and counts of its frames.
#[derive(Debug, Default)]
pub(crate) struct Hostile {
    seen: VecDeque<(u8, Bytes)>,
    /// Frames that it sent.
    pub sent: u64,
    /// Frames that reached a replica.
    pub delivered: u64,
}

impl Hostile {
    /// Records a message of a member.
    pub fn see(&mut self, kind: u8, bytes: &Bytes) {
        if !BELIEVED.contains(&kind) {
            self.seen.push_back((kind, bytes.clone()));
        }
        if self.seen.len() > SEEN_MAX {
            self.seen.pop_front();
        }
    }

    /// Sends a frame to member `to`. Returns sender and message if the frame reaches the
    /// replica.
    pub fn send(&mut self, to: u64, random: &mut Random) -> Option<(u64, PeerMessage)> {
        self.sent += 1;
        let (kind, bytes) = self.frame(to, random);
        let message = PeerMessage::decode(kind, bytes).ok()?;
        if !message.is_in_the_name_of(ID, to) {
            return None;
        }
        self.delivered += 1;
        Some((ID, message))
    }

    fn frame(&self, to: u64, random: &mut Random) -> (u8, Bytes) {
        let seen = (!self.seen.is_empty())
            .then(|| &self.seen[random.below(self.seen.len() as u64) as usize]);
        match (random.below(4), seen) {
            (0, Some((kind, bytes))) => (*kind, bytes.clone()),
            (1, Some((kind, bytes))) => (*kind, altered(bytes, random)),
            (2, _) => random_frame(random),
            _ => absurd(to, random),
        }
    }
}

fn random_frame(random: &mut Random) -> (u8, Bytes) {
    let kind = loop {
        let kind = random.below(20) as u8;
        if !BELIEVED.contains(&kind) {
            break kind;
        }
    };
    let mut bytes = vec![0; random.below(200) as usize];
    random.fill(&mut bytes);
    (kind, bytes.into())
}

fn altered(bytes: &Bytes, random: &mut Random) -> Bytes {
    let mut bytes = bytes.to_vec();
    for _ in 0..=random.below(4) {
        if bytes.is_empty() {
            break;
        }
        let at = random.below(bytes.len() as u64) as usize;
        match random.below(3) {
            0 => bytes.truncate(at),
            1 => bytes[at] = random.next_u64() as u8,
            _ => bytes[at] ^= 1 << random.below(8),
        }
    }
    bytes.into()
}

/// A Raft message that no honest member sends.
fn absurd(to: u64, random: &mut Random) -> (u8, Bytes) {
    // The layout is that of cluster/src/raft/wire.rs.
    const HEADER_BYTES: usize = 88;
    let from = if random.chance(1, 4) {
        1 + random.below(5)
    } else {
        ID
    };
    let term = *random.pick(&[0, 1 << 45, 1 << 62, u64::MAX - 1, u64::MAX]);
    let mut any = || random.next_u64() >> random.below(64);
    // Log term, index, commit index, commit term, requested snapshot, hint.
    let rest = [(); 6].map(|()| any());
    let mut bytes = vec![0; HEADER_BYTES];
    bytes[0] = random.below(20) as u8;
    bytes[1] = random.below(2) as u8;
    let words = [to, from, term].into_iter().chain(rest);
    for (place, word) in bytes[8..].chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    (RAFT, bytes.into())
}
