//! Linearizable reads. One confirmation of leadership serves all reads that wait for it.
//!
//! ```text
//!   waiting ──a round starts──► under way ──confirmed at index i──► until applied ≥ i ──► answered
//!      ▲ new ones                 (one round at most)
//! ```
//!
//! A read may be served once this member has applied everything that was committed when the
//! read arrived. The leader asks a majority whether it still leads (Raft's ReadIndex,
//! Ongaro's thesis 6.4); a follower asks the leader. All reads that arrive before a round
//! starts share it, as in etcd. A leader with a lease asks no other member
//! (`read_lease.rs`), and under a load of writes an append serves as the question
//! (`replica/append_round.rs`). A round without an answer is repeated.

use std::time::Duration;

use environment::Instant;
use tokio::sync::oneshot;

use crate::Error;

/// Time after which a round without an answer counts as lost.
pub(crate) const ROUND_PATIENCE: Duration = Duration::from_millis(500);

/// The receiver of the permission to read.
#[derive(Debug)]
pub enum ReadAsker {
    /// A request task of this node.
    Local(oneshot::Sender<Result<(), Error>>),
    /// A follower, for a round of its own.
    Member {
        member: u64,
        /// The follower's number for the round.
        round: u64,
    },
    /// A question about a lease, by its number here.
    Lease(u64),
    /// Answers of commands that were evaluated and change nothing, by their number here.
    Unchanged(u64),
}

#[derive(Debug)]
struct Waiting {
    asker: ReadAsker,
    deadline: Instant,
}

#[derive(Debug)]
struct Round {
    number: u64,
    started: Instant,
    askers: Vec<Waiting>,
}

/// The waiting reads of one member.
#[derive(Debug, Default)]
pub(crate) struct Reads {
    waiting: Vec<Waiting>,
    under_way: Option<Round>,
    /// Confirmed reads, each with the index that must be applied first.
    confirmed: Vec<(u64, Waiting)>,
    last_round: u64,
    /// Rounds that were repeated because no answer arrived, since the start.
    lost_rounds: u64,
    /// Local reads that ended with a timeout, since the start.
    given_up: u64,
}

impl Reads {
    /// Numbers the rounds of this life above `first_number`. No earlier life used these
    /// numbers, so late answers to its rounds are ignored.
    pub fn new(first_number: u64) -> Reads {
        Reads {
            last_round: first_number,
            ..Reads::default()
        }
    }

    /// Adds a read, which is given up at `deadline`.
    pub fn add(&mut self, asker: ReadAsker, deadline: Instant) {
        self.waiting.push(Waiting { asker, deadline });
    }

    /// Whether no read waits for a round to start or to end.
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.under_way.is_none()
    }

    /// Starts a round, if reads wait and none is under way, and returns its number. A lost
    /// round is repeated, together with the reads that arrived after it.
    pub fn start_round(&mut self, now: Instant) -> Option<u64> {
        if let Some(lost) = self
            .under_way
            .take_if(|round| now >= round.started + ROUND_PATIENCE)
        {
            self.lost_rounds += 1;
            self.waiting.extend(lost.askers);
        }
        if self.under_way.is_some() || self.waiting.is_empty() {
            return None;
        }
        self.last_round += 1;
        self.under_way = Some(Round {
            number: self.last_round,
            started: now,
            askers: std::mem::take(&mut self.waiting),
        });
        Some(self.last_round)
    }

    /// Lets the reads of the round under way wait for another one, after a change of leader.
    pub fn restart(&mut self) {
        let askers = self.under_way.take().map(|round| round.askers);
        self.waiting.extend(askers.into_iter().flatten());
    }

    /// Confirms the reads of this round at `index`. Late and doubled answers are ignored.
    pub fn confirm(&mut self, round: u64, index: u64) {
        if let Some(round) = self
            .under_way
            .take_if(|under_way| under_way.number == round)
        {
            let askers = round.askers.into_iter().map(|waiting| (index, waiting));
            self.confirmed.extend(askers);
        }
    }

    /// Takes the reads that may be served now that `applied` is applied. Reads of other members
    /// do not wait for that: the members get the index and wait themselves.
    pub fn take_ready(&mut self, applied: u64) -> Vec<(u64, ReadAsker)> {
        if self.confirmed.is_empty() {
            return Vec::new();
        }
        let ready = |(index, waiting): &mut (u64, Waiting)| {
            *index <= applied || matches!(waiting.asker, ReadAsker::Member { .. })
        };
        let ready = self.confirmed.extract_if(.., ready);
        ready
            .map(|(index, waiting)| (index, waiting.asker))
            .collect()
    }

    /// Takes the reads that are past their deadline.
    pub fn take_late(&mut self, now: Instant) -> Vec<ReadAsker> {
        let late = |waiting: &mut Waiting| now >= waiting.deadline;
        let mut askers: Vec<Waiting> = self.waiting.extract_if(.., late).collect();
        if let Some(round) = &mut self.under_way {
            askers.extend(round.askers.extract_if(.., late));
        }
        let confirmed = self
            .confirmed
            .extract_if(.., |(_, waiting)| now >= waiting.deadline);
        askers.extend(confirmed.map(|(_, waiting)| waiting));
        // Other members count their own reads.
        let own = |waiting: &&Waiting| !matches!(waiting.asker, ReadAsker::Member { .. });
        self.given_up += askers.iter().filter(own).count() as u64;
        askers.into_iter().map(|waiting| waiting.asker).collect()
    }

    /// Rounds that were repeated because no answer arrived, since the start.
    pub fn lost_rounds(&self) -> u64 {
        self.lost_rounds
    }

    /// Local reads that ended with a timeout, since the start.
    pub fn given_up(&self) -> u64 {
        self.given_up
    }

    /// Takes all reads, when this member ends.
    pub fn take_all(&mut self) -> Vec<ReadAsker> {
        self.restart();
        let confirmed = self.confirmed.drain(..).map(|(_, waiting)| waiting);
        let all = self.waiting.drain(..).chain(confirmed);
        all.map(|waiting| waiting.asker).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_origin(Duration::from_millis(millis))
    }

    fn member(round: u64) -> ReadAsker {
        ReadAsker::Member { member: 9, round }
    }

    fn local() -> ReadAsker {
        ReadAsker::Local(oneshot::channel().0)
    }

    fn rounds(ready: Vec<(u64, ReadAsker)>) -> Vec<(u64, Option<u64>)> {
        let number = |asker| match asker {
            ReadAsker::Member { round, .. } => Some(round),
            ReadAsker::Local(_) | ReadAsker::Lease(_) | ReadAsker::Unchanged(_) => None,
        };
        ready
            .into_iter()
            .map(|(index, asker)| (index, number(asker)))
            .collect()
    }

    #[test]
    fn reads_that_arrive_during_a_round_wait_for_the_next_one() {
        let mut reads = Reads::default();
        assert_eq!(reads.start_round(at(0)), None, "no read waits");
        reads.add(member(1), at(9000));
        reads.add(member(2), at(9000));
        assert_eq!(reads.start_round(at(0)), Some(1));
        reads.add(member(3), at(9000));
        assert_eq!(reads.start_round(at(1)), None, "one at a time");
        reads.confirm(1, 40);
        assert_eq!(rounds(reads.take_ready(0)), [(40, Some(1)), (40, Some(2))]);
        assert_eq!(reads.start_round(at(2)), Some(2));
        reads.confirm(1, 41);
        assert!(
            reads.take_ready(99).is_empty(),
            "an answer to the former round"
        );
        reads.confirm(2, 41);
        assert_eq!(rounds(reads.take_ready(0)), [(41, Some(3))]);
        assert!(reads.take_all().is_empty());
    }

    #[test]
    fn a_local_read_waits_until_its_index_is_applied() {
        let mut reads = Reads::default();
        reads.add(local(), at(9000));
        let round = reads.start_round(at(0)).unwrap();
        reads.confirm(round, 7);
        assert!(reads.take_ready(6).is_empty());
        assert_eq!(rounds(reads.take_ready(7)), [(7, None)]);
    }

    #[test]
    fn a_lost_round_is_repeated_until_its_reads_reach_their_deadline() {
        let mut reads = Reads::default();
        reads.add(member(1), at(1200));
        assert_eq!(reads.start_round(at(0)), Some(1));
        assert_eq!(reads.start_round(at(499)), None);
        assert_eq!(reads.start_round(at(500)), Some(2));
        reads.restart();
        assert_eq!(reads.start_round(at(501)), Some(3));
        assert_eq!(reads.lost_rounds(), 1, "a change of leader loses no round");
        assert!(reads.take_late(at(1199)).is_empty());
        assert_eq!(reads.take_late(at(1200)).len(), 1);
        reads.confirm(3, 5);
        assert!(reads.take_ready(9).is_empty());
        assert_eq!(reads.given_up(), 0, "that was another member's");
        reads.add(local(), at(1300));
        assert_eq!(reads.take_late(at(1300)).len(), 1);
        assert_eq!(reads.given_up(), 1);
    }
}
