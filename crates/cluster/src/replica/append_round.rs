//! Reads that an append confirms: under a load of writes they cost no messages of
//! their own.
//!
//! A read that came before an entry was proposed is confirmed when that entry of
//! this member's own term is committed. Nobody else can have had anything
//! acknowledged before the read came that is not in front of the entry: another
//! leader of a later term would have an entry of its own in that place.
//!
//! An append waits for the followers' disks and a heartbeat does not. So reads wait
//! for one only where the last batch was quick.

use std::time::Duration;

use environment::Instant;

use super::Replica;

/// With batches that take longer, reads ask by heartbeats.
const QUICK_BATCH: Duration = Duration::from_millis(5);

/// Term and index of an entry.
type Place = (u64, u64);

/// The round of reads that waits for an entry, and what is known of batches.
#[derive(Debug, Default)]
pub(super) struct AppendRound {
    /// Proposed since reads were started last.
    fresh: Option<Place>,
    waiting: Option<(u64, Place)>,
    /// How long the last batch took from its proposal until it was applied.
    batch_took: Option<Duration>,
}

impl AppendRound {
    /// Entry of this member's own.
    pub fn proposed(&mut self, place: Place) {
        self.fresh = Some(place);
    }

    /// An entry that is worth waiting for, if one was proposed after all reads
    /// that wait had come.
    pub fn take_fresh(&mut self) -> Option<Place> {
        let quick = self.batch_took.is_some_and(|took| took <= QUICK_BATCH);
        self.fresh.take().filter(|_| quick)
    }

    /// The round is confirmed with this entry.
    pub fn start(&mut self, round: u64, place: Place) {
        self.waiting = Some((round, place));
    }
}

impl Replica {
    /// An entry that this member proposed at `proposed` is applied.
    pub(super) fn own_entry_applied(&mut self, place: Place, proposed: Instant) {
        let took = self.clock.now().saturating_since(proposed);
        self.append_round.batch_took = Some(took);
        if let Some((round, _)) = self.append_round.waiting.take_if(|it| it.1 == place) {
            self.reads.confirm(round, place.1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_confirms_only_reads_that_were_there_when_it_was_proposed() {
        let mut round = AppendRound {
            batch_took: Some(Duration::from_millis(1)),
            ..AppendRound::default()
        };
        assert_eq!(round.take_fresh(), None, "nothing was proposed");
        round.proposed((3, 40));
        assert_eq!(round.take_fresh(), Some((3, 40)));
        assert_eq!(round.take_fresh(), None, "reads that came later");
    }

    #[test]
    fn nobody_waits_for_slow_disks() {
        let mut round = AppendRound::default();
        round.proposed((3, 40));
        assert_eq!(round.take_fresh(), None, "nothing is known of batches");
        round.batch_took = Some(QUICK_BATCH + Duration::from_millis(1));
        round.proposed((3, 41));
        assert_eq!(round.take_fresh(), None);
    }
}
