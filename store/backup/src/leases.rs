//! The leases of a restored store: those of the base, and what changes say about them.

use std::collections::{BTreeMap, BTreeSet};

use etcd_api::EncodedKeyValue;
use etcd_snapshot::{LeaseRecord, RowKey};

use crate::batch::ChangeBatch;

/// Seconds of a lease that had ended before the cluster was asked how long it lasts. Its keys must not
/// stay for ever.
const UNKNOWN_SECONDS: i64 = 60;

/// The statements of a batch about leases.
#[derive(Debug)]
struct LeaseNews {
    /// First and last revision, and time: the order of batches.
    order: (i64, i64, u64),
    lists_leases: bool,
    granted: Vec<LeaseRecord>,
    ended: Vec<i64>,
}

/// Leases while rows and batches are read.
#[derive(Debug, Default)]
pub(crate) struct LeasesAt {
    news: Vec<LeaseNews>,
    /// Keys that have a lease, with it.
    leased: BTreeMap<Vec<u8>, i64>,
}

impl LeasesAt {
    /// Takes the statements of a batch. A lease that ended within its revisions may still be needed at `revision`, if
    /// the batch has later ones.
    pub fn note(&mut self, batch: &ChangeBatch, revision: i64) {
        let ended = match batch.last <= revision {
            true => batch.ended.clone(),
            false => Vec::new(),
        };
        self.news.push(LeaseNews {
            order: (batch.first, batch.last, batch.time_ms),
            lists_leases: batch.lists_leases,
            granted: batch.granted.clone(),
            ended,
        });
    }

    /// The next row of the restored store.
    pub fn see(&mut self, row: RowKey, value: &bytes::Bytes) {
        let encoded = EncodedKeyValue(value.clone());
        let fields = encoded.fields();
        match fields.lease {
            lease if lease != 0 && !row.is_deletion => {
                self.leased.insert(fields.key.to_vec(), lease);
            }
            _ => drop(self.leased.remove(fields.key)),
        }
    }

    /// The leases behind the last batch, ascending. Each key's lease is among them.
    pub fn finish(mut self, base: &[LeaseRecord]) -> Vec<LeaseRecord> {
        let mut leases: BTreeMap<i64, i64> =
            base.iter().map(|it| (it.id, it.ttl_seconds)).collect();
        let mut seconds = leases.clone();
        self.news.sort_by_key(|news| news.order);
        for news in &self.news {
            if news.lists_leases {
                leases.clear();
            }
            let granted = news.granted.iter().map(|it| (it.id, it.ttl_seconds));
            leases.extend(granted.clone());
            seconds.extend(granted);
            for id in &news.ended {
                leases.remove(id);
            }
        }
        let needed: BTreeSet<i64> = self.leased.into_values().collect();
        for id in needed {
            let known = seconds.get(&id).copied().unwrap_or(UNKNOWN_SECONDS);
            leases.entry(id).or_insert(known);
        }
        let record = |(id, ttl_seconds)| LeaseRecord { id, ttl_seconds };
        leases.into_iter().map(record).collect()
    }
}
