//! The revisions that clients knew to have happened, and from when on.

use crate::{History, Moment, Request};

/// The part of a history that shows that a revision has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Witness {
    /// Its index in the history.
    Operation(usize),
    /// Its index in the history.
    Watch(usize),
}

/// A revision that was known to have happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Known {
    pub at: Moment,
    pub revision: i64,
    pub witness: Witness,
}

/// The newest revision that was known at each moment.
#[derive(Debug)]
pub(super) struct Completed {
    /// By moment; revisions rise.
    rising: Vec<Known>,
}

impl Completed {
    /// From every answer that names a revision which has happened, and from
    /// every change that was delivered.
    pub fn of(history: &History) -> Completed {
        let operations = history.operations.iter().enumerate();
        let answers = operations.filter_map(|(index, operation)| {
            // The header of a renewal need not name a revision that has happened.
            let is_reliable = !matches!(operation.request, Request::Renew { .. });
            let answer = operation.answer().filter(|_| is_reliable)?;
            Some(Known {
                at: operation.returned,
                revision: answer.revision,
                witness: Witness::Operation(index),
            })
        });
        let watches = history.watches.iter().enumerate();
        let deliveries = watches.flat_map(|(index, watch)| {
            let deliveries = watch.deliveries.iter();
            deliveries.filter_map(move |delivery| {
                Some(Known {
                    at: delivery.at,
                    revision: delivery.changes.last()?.modified(),
                    witness: Witness::Watch(index),
                })
            })
        });
        let mut rising: Vec<Known> = answers.chain(deliveries).collect();
        rising.sort_unstable();
        let mut newest = i64::MIN;
        rising.retain(|known| {
            let rises = known.revision > newest;
            newest = newest.max(known.revision);
            rises
        });
        Completed { rising }
    }

    /// The newest revision that was known before a moment.
    pub fn before(&self, moment: Moment) -> Option<Known> {
        let earlier = self.rising.partition_point(|it| it.at < moment);
        self.rising[..earlier].last().copied()
    }

    /// How a revision was known for the first time.
    pub fn first_known(&self, revision: i64) -> Option<Known> {
        let first = self.rising.partition_point(|it| it.revision < revision);
        self.rising.get(first).copied()
    }
}
