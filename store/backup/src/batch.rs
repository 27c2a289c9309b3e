//! Changes that were received together: rows of whole revisions, and what no row shows.

use bytes::{Buf, Bytes};
use etcd_snapshot::{LeaseRecord, RowKey};

use crate::format::{
    BATCH_BYTES, BATCH_LISTS_LEASES, CHECK_BYTES, ENDED_BYTES, GRANTED_BYTES, ROW_BYTES,
    ROW_DELETES,
};
use crate::mark::{Mark, Marker};

/// A row of etcd's bucket `key`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedRow {
    /// Its revision, and whether it deletes its key.
    pub key: RowKey,
    /// The encoded `mvccpb.KeyValue`.
    pub value: Bytes,
}

/// HashKV of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClusterHash {
    /// The revision that was hashed.
    pub revision: i64,
    /// The compaction of the member at that time; -1: none.
    pub compacted: i64,
    /// The hash.
    pub hash: u32,
}

/// Changes that were received together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangeBatch {
    /// When the last of them was received; Unix, in milliseconds.
    pub time_ms: u64,
    /// The first revision.
    pub first: i64,
    /// The last revision; one less than the first if there is none.
    pub last: i64,
    /// Whether `granted` has all leases that exist, not only those since the batch before.
    pub lists_leases: bool,
    /// Leases that exist since the batch before.
    pub granted: Vec<LeaseRecord>,
    /// Leases that do not exist any more.
    pub ended: Vec<i64>,
    /// Hashes of revisions up to the last one.
    pub hashes: Vec<ClusterHash>,
    /// All rows of the revisions, ascending.
    pub rows: Vec<ChangedRow>,
}

impl ChangeBatch {
    /// Whether it has no revision.
    pub fn is_empty(&self) -> bool {
        self.last < self.first
    }

    /// Leaves the revisions before `first` out.
    pub(crate) fn trim_before(&mut self, first: i64) {
        if self.first < first {
            self.first = first;
            self.rows.retain(|row| row.key.main >= first);
        }
    }

    /// The mark of the last revision.
    pub(crate) fn mark(&self) -> Mark {
        let mut marker = Marker::default();
        for row in &self.rows {
            marker.add(row.key, &row.value);
        }
        marker.finish()
    }

    /// Bytes that `ChangeBatch::encode` writes.
    pub fn encoded_bytes(&self) -> usize {
        let rows = self.rows.iter().map(|row| ROW_BYTES + row.value.len());
        BATCH_BYTES
            + self.granted.len() * GRANTED_BYTES
            + self.ended.len() * ENDED_BYTES
            + self.hashes.len() * CHECK_BYTES
            + rows.sum::<usize>()
    }

    pub(crate) fn encode(&self, target: &mut Vec<u8>) {
        let count = |length: usize| u32::try_from(length).expect("a batch has less than 2^32 rows");
        target.extend(self.time_ms.to_le_bytes());
        target.extend(self.first.to_le_bytes());
        target.extend(self.last.to_le_bytes());
        let flags = if self.lists_leases {
            BATCH_LISTS_LEASES
        } else {
            0
        };
        target.extend(flags.to_le_bytes());
        let (granted, ended) = (count(self.granted.len()), count(self.ended.len()));
        for number in [
            granted,
            ended,
            count(self.hashes.len()),
            count(self.rows.len()),
        ] {
            target.extend(number.to_le_bytes());
        }
        for lease in &self.granted {
            target.extend(lease.id.to_le_bytes());
            target.extend(lease.ttl_seconds.to_le_bytes());
        }
        for id in &self.ended {
            target.extend(id.to_le_bytes());
        }
        for hash in &self.hashes {
            target.extend(hash.revision.to_le_bytes());
            target.extend(hash.compacted.to_le_bytes());
            target.extend(hash.hash.to_le_bytes());
        }
        for row in &self.rows {
            target.extend(row.key.main.to_le_bytes());
            let sub = u32::try_from(row.key.sub).expect("a transaction has less than 2^32 changes");
            target.extend(sub.to_le_bytes());
            target.push(if row.key.is_deletion { ROW_DELETES } else { 0 });
            target.extend(count(row.value.len()).to_le_bytes());
            target.extend_from_slice(&row.value);
        }
    }

    /// Takes a batch from the beginning of `bytes`, or says what is wrong with it.
    pub(crate) fn decode(bytes: &mut Bytes) -> Result<ChangeBatch, &'static str> {
        const SHORT: &str = "a batch ends early";
        if bytes.len() < BATCH_BYTES {
            return Err(SHORT);
        }
        let (time_ms, first, last) = (bytes.get_u64_le(), bytes.get_i64_le(), bytes.get_i64_le());
        let lists_leases = bytes.get_u32_le() & BATCH_LISTS_LEASES != 0;
        let [granted, ended, hashes, rows] = [(); 4].map(|()| bytes.get_u32_le() as usize);
        let fixed = granted * GRANTED_BYTES + ended * ENDED_BYTES + hashes * CHECK_BYTES;
        if bytes.len() < fixed + rows * ROW_BYTES {
            return Err(SHORT);
        }
        let mut batch = ChangeBatch {
            time_ms,
            first,
            last,
            lists_leases,
            ..ChangeBatch::default()
        };
        batch.granted.extend((0..granted).map(|_| LeaseRecord {
            id: bytes.get_i64_le(),
            ttl_seconds: bytes.get_i64_le(),
        }));
        batch.ended.extend((0..ended).map(|_| bytes.get_i64_le()));
        batch.hashes.extend((0..hashes).map(|_| ClusterHash {
            revision: bytes.get_i64_le(),
            compacted: bytes.get_i64_le(),
            hash: bytes.get_u32_le(),
        }));
        for _ in 0..rows {
            batch.rows.push(row(bytes).ok_or(SHORT)?);
        }
        batch.check()?;
        Ok(batch)
    }

    /// Refuses rows that are not all those of the revisions, in their order.
    fn check(&self) -> Result<(), &'static str> {
        if self.first < 1 || self.first.checked_sub(1).is_none_or(|it| self.last < it) {
            return Err("the revisions of a batch are no range");
        }
        let mut next = (self.first, 0);
        for RowKey { main, sub, .. } in self.rows.iter().map(|row| row.key) {
            let begins = next.1 > 0 && (main, sub) == (next.0 + 1, 0);
            if (main, sub) != next && !begins {
                return Err("a row is missing, or not in order");
            }
            next = (main, sub + 1);
        }
        let reached = if self.rows.is_empty() {
            self.first - 1
        } else {
            next.0
        };
        match reached == self.last {
            true => Ok(()),
            false => Err("a revision is missing"),
        }
    }
}

fn row(bytes: &mut Bytes) -> Option<ChangedRow> {
    if bytes.len() < ROW_BYTES {
        return None;
    }
    let (main, sub) = (bytes.get_i64_le(), i64::from(bytes.get_u32_le()));
    let is_deletion = bytes.get_u8() == ROW_DELETES;
    let length = bytes.get_u32_le() as usize;
    if bytes.len() < length {
        return None;
    }
    let key = RowKey {
        main,
        sub,
        is_deletion,
    };
    let value = bytes.split_to(length);
    Some(ChangedRow { key, value })
}
