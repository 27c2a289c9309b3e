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

/// The newest revision that was known at each moment.
#[derive(Debug)]
pub(super) struct Completed {
    /// By moment; revisions rise.
    rising: Vec<(Moment, i64, Witness)>,
}

impl Completed {
    /// From every answer that names a revision which has happened, and from
    /// every change that was delivered.
    pub fn of(history: &History) -> Completed {
        let mut all = Vec::new();
        for (index, operation) in history.operations.iter().enumerate() {
            // The header of a renewal need not name a revision that has happened.
            let is_reliable = !matches!(operation.request, Request::Renew { .. });
            if let Some(answer) = operation.answer().filter(|_| is_reliable) {
                all.push((
                    operation.returned,
                    answer.revision,
                    Witness::Operation(index),
                ));
            }
        }
        for (index, watch) in history.watches.iter().enumerate() {
            for delivery in &watch.deliveries {
                if let Some(last) = delivery.changes.last() {
                    all.push((delivery.at, last.modified(), Witness::Watch(index)));
                }
            }
        }
        all.sort_unstable();
        let mut newest = i64::MIN;
        all.retain(|(_, revision, _)| {
            let rises = *revision > newest;
            newest = newest.max(*revision);
            rises
        });
        Completed { rising: all }
    }

    /// The newest revision that was known before a moment, and its witness.
    pub fn before(&self, moment: Moment) -> Option<(i64, Witness)> {
        let earlier = self.rising.partition_point(|(at, ..)| *at < moment);
        let (_, revision, witness) = self.rising[..earlier].last()?;
        Some((*revision, *witness))
    }

    /// The moment from which on it was known that a revision had happened, and the witness.
    pub fn known_from(&self, revision: i64) -> Option<(Moment, Witness)> {
        let first = self
            .rising
            .partition_point(|(_, known, _)| *known < revision);
        let (moment, _, witness) = self.rising.get(first)?;
        Some((*moment, *witness))
    }
}
