//! A member that flips bits of its own messages.
//!
//! ```text
//!   message ──► encoded ──► one bit flips ──► sealed ──► another member: the checksum is right
//! ```
//!
//! The frame's checksum detects a bit that flips on the way, but not one that flips in the
//! sender's memory before the frame is sealed. A flipped message that still decodes and names
//! the right sender reaches the replica. The replica must drop messages that no honest member
//! could send; a message that it accepts may hinder the progress of its sender only.
//!
//! The member is a learner. Raft trusts its voters: a voter that confirms an entry which it
//! does not have, votes twice in a term, or leads and alters an entry makes histories diverge,
//! and no other member can detect it. The messages of a learner decide nothing: it is counted
//! in no majority, and it never leads. The operator does not promote this learner, because it
//! may seem to have caught up by a flipped index. Clients send it no requests, because a
//! flipped request number may bring it the answer to another request. Flipped messages that
//! become a command, or an answer to a rejoining member, are dropped, like the hostile peer's.
//!
//! Terms of 2^23 and more are dropped too. Members accept a term that is less than 2^24 ahead
//! of their own. If most of them leaped that far and elected a leader, a member that was away
//! would be shut out: no message of theirs would be near enough to its term (decision 0017).
//!
//! The judge checks all other members as in runs without such a member. Of this one it checks
//! that its history is a prefix of the common one. It may fall behind or fail, and need not
//! agree with the others at the end.

use bytes::Bytes;
use cluster::PeerMessage;
use environment::randomness::Random;

use crate::hostile::BELIEVED;

/// Messages with this term or a higher one are dropped; it is half of the greatest accepted
/// leap of a term.
const TERM_MAX: u64 = 1 << 23;

/// The member with bad memory, and counts of its messages.
#[derive(Debug, Default)]
pub(crate) struct BadMemory {
    /// Id of the member; `None` if there is none.
    pub member: Option<u64>,
    /// Messages in which a bit was flipped.
    pub flips: u64,
    /// Flipped messages that reached a replica.
    pub delivered: u64,
}

impl BadMemory {
    /// Flips a random bit of a message, in its kind or its bytes. Returns `None` if the
    /// receiver drops the result.
    pub fn flip(
        &mut self,
        (from, to): (u64, u64),
        (kind, bytes): (u8, &Bytes),
        random: &mut Random,
    ) -> Option<(u8, Bytes)> {
        self.flips += 1;
        let mut all = [&[kind], &bytes[..]].concat();
        let at = random.below(all.len() as u64) as usize;
        all[at] ^= 1 << random.below(8);
        let (kind, bytes) = (all[0], Bytes::from(all).slice(1..));
        if BELIEVED.contains(&kind) {
            return None;
        }
        let message = PeerMessage::decode(kind, bytes.clone()).ok()?;
        if !message.is_in_the_name_of(from, to) || leaps(&message) {
            return None;
        }
        self.delivered += 1;
        Some((kind, bytes))
    }
}

fn leaps(message: &PeerMessage) -> bool {
    matches!(message, PeerMessage::Raft(message) if message.term >= TERM_MAX)
}
