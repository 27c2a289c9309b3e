//! A member that flips bits of its own messages.
//!
//! ```text
//!   message ──► encoded ──► one bit flips ──► sealed ──► another member: the checksum is right
//! ```
//!
//! A bit that flips on the way is shown by the frame's checksum. One that flips in the sender's
//! memory, before the frame is sealed, is not: what still decodes, and is in the sender's own
//! name, reaches the replica, which has to drop what no honest member could say, and may stop
//! the progress of that sender only.
//!
//! The member is a learner. Raft trusts its voters: a voter that confirms an entry which it does
//! not have, votes twice in a term, or leads and alters an entry makes histories part, and no
//! other member can tell that from the truth. A learner's word decides nothing: it is counted in
//! no majority, and it never leads. No operator promotes this one: by a flipped index it may
//! seem to have caught up. Clients do not ask it, since a flipped number of a question may bring
//! it the answer to another one. And a message that becomes a command, or a word to a member
//! that returns, is left out, as the hostile peer's are.
//!
//! One more is left out: a term with a bit from the 2^23 on. Members believe a term that is less
//! than 2^24 ahead of their own. A leap of that length that most of them have made, and an
//! election after it, shut out a member that was away: no message of theirs is near enough
//! to its term (decision 0017).
//!
//! The judge holds all other members to what it holds them to without such a member, and this
//! one to the common history, up to wherever it gets. It may fall behind, or end: it need not
//! come to the same end as the others.

use bytes::Bytes;
use cluster::PeerMessage;
use environment::randomness::Random;

use crate::hostile::BELIEVED;

/// Terms from here on are left out; half of what a member's term may leap.
const TERM_MAX: u64 = 1 << 23;

/// Which member it is, and what has come of it.
#[derive(Debug, Default)]
pub(crate) struct BadMemory {
    /// `None`: all members' memories are good.
    pub member: Option<u64>,
    /// Messages in which a bit was flipped.
    pub flips: u64,
    /// Of these, those that a replica was given.
    pub delivered: u64,
}

impl BadMemory {
    /// Flips a bit of a message from one member to another, its kind included. `None`: the
    /// receiver's connection drops what became of it.
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
