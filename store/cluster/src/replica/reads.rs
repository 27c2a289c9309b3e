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
//! (`leader_lease.rs`), and under a load of writes an append serves as the question
//! (`append_round.rs`). A round without an answer is repeated.

use std::time::Duration;

use environment::Instant;

use super::answer::ReplySender;

/// Time after which a round without an answer counts as lost.
pub(super) const ROUND_PATIENCE: Duration = Duration::from_millis(500);

/// The receiver of the permission to read.
#[derive(Debug)]
pub(super) enum ReadRequester {
    /// A request task of this node.
    Local(ReplySender<()>),
    /// A follower, for a round of its own.
    Member {
        member: u64,
        /// The follower's number for the round.
        round: u64,
    },
    /// A question about a lease, by its number here.
    Lease(u64),
    /// Answers of commands that were evaluated and change nothing, by the
    /// number of their read.
    Unchanged(u64),
}

#[derive(Debug)]
pub(super) struct WaitingRead {
    pub requester: ReadRequester,
    deadline: Instant,
}

#[derive(Debug)]
struct Round {
    number: u64,
    started: Instant,
    requesters: Vec<WaitingRead>,
}

/// A read that may be served once the entry `index` is applied.
#[derive(Debug)]
pub(super) struct Confirmed {
    pub index: u64,
    pub waiting: WaitingRead,
}

/// The waiting reads of one member.
#[derive(Debug, Default)]
pub(super) struct Reads {
    waiting: Vec<WaitingRead>,
    under_way: Option<Round>,
    confirmed: Vec<Confirmed>,
    last_round: u64,
    last_unchanged: u64,
    /// Rounds that were repeated because no answer arrived, since the start.
    pub lost_rounds: u64,
    /// Local reads that ended with a timeout, since the start.
    pub given_up: u64,
}

impl Reads {
    /// Numbers the rounds of this incarnation above `first_number`. No earlier one used these
    /// numbers, so late answers to its rounds are ignored.
    pub fn new(first_number: u64) -> Reads {
        Reads {
            last_round: first_number,
            ..Reads::default()
        }
    }

    /// Adds a read, which is given up at `deadline`.
    pub fn add(&mut self, requester: ReadRequester, deadline: Instant) {
        self.waiting.push(WaitingRead {
            requester,
            deadline,
        });
    }

    /// Adds a read that confirms answers of commands that change nothing. Returns its number,
    /// which no other read has.
    pub fn add_unchanged(&mut self, deadline: Instant) -> u64 {
        self.last_unchanged += 1;
        self.add(ReadRequester::Unchanged(self.last_unchanged), deadline);
        self.last_unchanged
    }

    /// Whether no read waits for a round to start or to end.
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.under_way.is_none()
    }

    /// When the round that is under way counts as lost. Until it ends, reads that arrive wait.
    pub fn round_ends(&self) -> Option<Instant> {
        let under_way = self.under_way.as_ref()?;
        Some(under_way.started + ROUND_PATIENCE)
    }

    /// Starts a round, if reads wait and none is under way, and returns its number. A lost
    /// round is repeated, together with the reads that arrived after it.
    pub fn start_round(&mut self, now: Instant) -> Option<u64> {
        if let Some(lost) = self
            .under_way
            .take_if(|round| now >= round.started + ROUND_PATIENCE)
        {
            self.lost_rounds += 1;
            self.waiting.extend(lost.requesters);
        }
        if self.under_way.is_some() || self.waiting.is_empty() {
            return None;
        }
        self.last_round += 1;
        self.under_way = Some(Round {
            number: self.last_round,
            started: now,
            requesters: std::mem::take(&mut self.waiting),
        });
        Some(self.last_round)
    }

    /// Lets the reads of the round under way wait for another one, after a change of leader.
    pub fn restart(&mut self) {
        let requesters = self.under_way.take().map(|round| round.requesters);
        self.waiting.extend(requesters.into_iter().flatten());
    }

    /// Confirms the reads of this round at `index`. Late and doubled answers are ignored.
    pub fn confirm(&mut self, round: u64, index: u64) {
        if let Some(round) = self
            .under_way
            .take_if(|under_way| under_way.number == round)
        {
            let requesters = round.requesters.into_iter();
            let requesters = requesters.map(|waiting| Confirmed { index, waiting });
            self.confirmed.extend(requesters);
        }
    }

    /// Takes the reads that may be served now that `applied` is applied. Reads of other members
    /// do not wait for that: the members get the index and wait themselves.
    pub fn take_ready(&mut self, applied: u64) -> Vec<Confirmed> {
        if self.confirmed.is_empty() {
            return Vec::new();
        }
        let ready = |read: &mut Confirmed| {
            read.index <= applied || matches!(read.waiting.requester, ReadRequester::Member { .. })
        };
        self.confirmed.extract_if(.., ready).collect()
    }

    /// Takes the reads that are past their deadline.
    pub fn take_late(&mut self, now: Instant) -> Vec<ReadRequester> {
        let late = |waiting: &mut WaitingRead| now >= waiting.deadline;
        let mut requesters: Vec<WaitingRead> = self.waiting.extract_if(.., late).collect();
        if let Some(round) = &mut self.under_way {
            requesters.extend(round.requesters.extract_if(.., late));
        }
        let confirmed = self
            .confirmed
            .extract_if(.., |read| now >= read.waiting.deadline);
        requesters.extend(confirmed.map(|read| read.waiting));
        // Other members count their own reads.
        let own =
            |waiting: &&WaitingRead| !matches!(waiting.requester, ReadRequester::Member { .. });
        self.given_up += requesters.iter().filter(own).count() as u64;
        requesters
            .into_iter()
            .map(|waiting| waiting.requester)
            .collect()
    }

    /// Takes all reads, when this member ends.
    pub fn take_all(&mut self) -> Vec<ReadRequester> {
        self.restart();
        let confirmed = self.confirmed.drain(..).map(|read| read.waiting);
        let all = self.waiting.drain(..).chain(confirmed);
        all.map(|waiting| waiting.requester).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::oneshot;

    fn at(millis: u64) -> Instant {
        Instant::from_origin(Duration::from_millis(millis))
    }

    fn member(round: u64) -> ReadRequester {
        ReadRequester::Member { member: 9, round }
    }

    fn local() -> ReadRequester {
        ReadRequester::Local(oneshot::channel().0)
    }

    fn rounds(ready: Vec<Confirmed>) -> Vec<(u64, Option<u64>)> {
        let number = |requester| match requester {
            ReadRequester::Member { round, .. } => Some(round),
            ReadRequester::Local(_) | ReadRequester::Lease(_) | ReadRequester::Unchanged(_) => None,
        };
        ready
            .into_iter()
            .map(|read| (read.index, number(read.waiting.requester)))
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
        assert_eq!(reads.round_ends(), None);
        assert_eq!(reads.start_round(at(0)), Some(1));
        assert_eq!(reads.round_ends(), Some(at(500)));
        assert_eq!(reads.start_round(at(499)), None);
        assert_eq!(reads.start_round(at(500)), Some(2));
        reads.restart();
        assert_eq!(reads.round_ends(), None);
        assert_eq!(reads.start_round(at(501)), Some(3));
        assert_eq!(reads.lost_rounds, 1, "a change of leader loses no round");
        assert!(reads.take_late(at(1199)).is_empty());
        assert_eq!(reads.take_late(at(1200)).len(), 1);
        reads.confirm(3, 5);
        assert!(reads.take_ready(9).is_empty());
        assert_eq!(reads.given_up, 0, "that was another member's");
        reads.add(local(), at(1300));
        assert_eq!(reads.take_late(at(1300)).len(), 1);
        assert_eq!(reads.given_up, 1);
    }
}
