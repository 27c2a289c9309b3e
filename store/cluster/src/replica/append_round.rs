//! Reads that an append confirms. Under a load of writes such reads cost no messages
//! of their own.
//!
//! A read that arrived before this leader proposed an entry is confirmed when that
//! entry is committed in this leader's own term. Everything that any member
//! acknowledged before the read arrived then lies in front of the entry: a leader of
//! a later term would have an entry of its own at that index.
//!
//! An append waits for the followers' disks, a heartbeat does not. So reads wait
//! for an append only if the last batch was quick.

use std::time::Duration;

use crate::EntryId;

/// If the last batch took longer than this, reads are confirmed by heartbeats.
const QUICK_BATCH: Duration = Duration::from_millis(5);

/// The round of reads that waits for an entry, and how long the last batch took.
#[derive(Debug, Default)]
pub(super) struct AppendRound {
    /// The last entry that was proposed since a round of reads was started.
    fresh: Option<EntryId>,
    /// The round that waits, and its entry.
    waiting: Option<(u64, EntryId)>,
    /// Time from the proposal of the last own batch until it was applied.
    batch_took: Option<Duration>,
}

impl AppendRound {
    /// Notes an entry that this member has proposed.
    pub fn proposed(&mut self, entry: EntryId) {
        self.fresh = Some(entry);
    }

    /// Takes the entry for which the waiting reads should wait: one that was proposed
    /// after all of them arrived, if batches are quick.
    pub fn take_fresh(&mut self) -> Option<EntryId> {
        let quick = self.batch_took.is_some_and(|took| took <= QUICK_BATCH);
        self.fresh.take().filter(|_| quick)
    }

    /// Makes the round wait for this entry.
    pub fn start(&mut self, round: u64, entry: EntryId) {
        self.waiting = Some((round, entry));
    }

    /// Notes that an entry is applied which this member proposed `took` ago. Returns the
    /// round that waited for it.
    pub fn applied(&mut self, entry: EntryId, took: Duration) -> Option<u64> {
        self.batch_took = Some(took);
        let confirmed = self.waiting.take_if(|(_, awaited)| *awaited == entry);
        confirmed.map(|(round, _)| round)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(index: u64) -> EntryId {
        EntryId { term: 3, index }
    }

    #[test]
    fn an_entry_confirms_only_reads_that_were_there_when_it_was_proposed() {
        let mut round = AppendRound {
            batch_took: Some(Duration::from_millis(1)),
            ..AppendRound::default()
        };
        assert_eq!(round.take_fresh(), None, "nothing was proposed");
        round.proposed(entry(40));
        assert_eq!(round.take_fresh(), Some(entry(40)));
        assert_eq!(round.take_fresh(), None, "the reads arrived later");
    }

    #[test]
    fn reads_do_not_wait_for_an_append_when_batches_are_slow() {
        let mut round = AppendRound::default();
        round.proposed(entry(40));
        assert_eq!(round.take_fresh(), None, "no batch was measured");
        round.batch_took = Some(QUICK_BATCH + Duration::from_millis(1));
        round.proposed(entry(41));
        assert_eq!(round.take_fresh(), None);
    }

    #[test]
    fn a_round_is_confirmed_by_its_own_entry_only() {
        let mut round = AppendRound::default();
        round.start(7, entry(40));
        let other_term = EntryId { term: 2, index: 40 };
        assert_eq!(round.applied(other_term, QUICK_BATCH), None);
        assert_eq!(round.applied(entry(40), QUICK_BATCH), Some(7));
        assert_eq!(round.applied(entry(40), QUICK_BATCH), None, "it has ended");
    }
}
