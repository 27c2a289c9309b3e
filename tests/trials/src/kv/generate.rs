//! Random operations over few keys and leases, so that they affect each other.

use bytes::Bytes;
use environment::randomness::Random;
use etcd_api::etcdserverpb::compare::{CompareTarget, TargetUnion};
use etcd_api::etcdserverpb::range_request::SortTarget;
use etcd_api::etcdserverpb::{
    CompactionRequest, Compare, DeleteRangeRequest, HashKvRequest, LeaseGrantRequest,
    LeaseRevokeRequest, LeaseTimeToLiveRequest, PutRequest, RangeRequest, RequestOp, TxnRequest,
    request_op::Request,
};

use super::crooked;
use super::operation::{Answer, Operation};
use crate::requests;

/// Number of keys to choose from.
const KEYS: u64 = 60;
const LEASES: u64 = 6;
/// Far longer than the test: a lease that expires by itself would be a race.
const LEASE_SECONDS: i64 = 100_000;

/// Number of the last compactions at which hashes are compared; servers remember ten.
const COMPACTIONS_HASHED: usize = 12;

/// Makes operations; reads the current revision from the answers.
pub struct Generator {
    random: Random,
    revision: i64,
    /// Compacted revisions, ascending.
    compactions: Vec<i64>,
    /// A transaction that deletes a key and then puts it with `ignore_value`
    /// or `ignore_lease` ends the process of etcd 3.7.3; a transaction here
    /// has either deletes or such puts.
    ignoring: bool,
}

impl Generator {
    pub fn new(random: Random) -> Generator {
        Generator {
            random,
            revision: 1,
            compactions: Vec::new(),
            ignoring: true,
        }
    }

    /// Takes the current revision from an answer.
    pub fn learn(&mut self, answer: &Answer) {
        if let Some(revision) = answer.revision {
            self.revision = self.revision.max(revision);
        }
    }

    /// Hashes at three revisions: the newest, one above the compacted revision, which may be in the
    /// future, and a compacted one. A server may still remember the hash of that one.
    pub fn hashes(&mut self) -> Vec<Operation> {
        let room = self.revision - self.compacted() + 1;
        let above = self.compacted() + 1 + self.random.below(room as u64) as i64;
        let newest_first = self.compactions.iter().rev();
        let candidates: Vec<i64> = newest_first.take(COMPACTIONS_HASHED).copied().collect();
        let compacted = self.random.below(COMPACTIONS_HASHED as u64) as usize;
        let compacted = candidates.get(compacted).copied();
        let revisions = [0, above].into_iter().chain(compacted);
        let hash = |revision| Operation::HashKv(HashKvRequest { revision });
        revisions.map(hash).collect()
    }

    fn compacted(&self) -> i64 {
        self.compactions.last().copied().unwrap_or(0)
    }

    /// The next operation; one in forty is invalid.
    pub fn operation(&mut self) -> Operation {
        let mut operation = self.sound_operation();
        if self.random.chance(1, 40) {
            crooked::spoil(&mut operation, &mut self.random);
        }
        operation
    }

    /// A valid operation.
    pub fn sound_operation(&mut self) -> Operation {
        let (id, ttl, keys) = (self.lease_id(), LEASE_SECONDS, true);
        match self.random.below(100) {
            0..34 => Operation::Put(self.put()),
            34..46 => Operation::DeleteRange(self.delete()),
            46..62 => Operation::Range(self.range()),
            62..88 => {
                self.ignoring = self.random.chance(1, 3);
                let txn = self.txn(2);
                self.ignoring = true;
                Operation::Txn(txn)
            }
            88..90 => self.compact(),
            90..93 => Operation::LeaseGrant(LeaseGrantRequest { id, ttl }),
            93..95 => Operation::LeaseRevoke(LeaseRevokeRequest { id }),
            95..98 => Operation::LeaseTimeToLive(LeaseTimeToLiveRequest { id, keys }),
            _ => Operation::LeaseLeases,
        }
    }

    fn compact(&mut self) -> Operation {
        // etcd takes a compaction to revision 0, and from then on answers
        // HashKV of "now" with a hash of nothing.
        let room = (self.revision - self.compacted()).max(1);
        let revision = match self.random.chance(1, 4) {
            true => self.some_revision().max(1),
            false => self.compacted() + 1 + self.random.below(room as u64) as i64,
        };
        if revision <= self.revision && revision > self.compacted() {
            self.compactions.push(revision);
        }
        Operation::Compact(CompactionRequest {
            revision,
            physical: true,
        })
    }

    /// A revision: mostly valid, sometimes compacted or in the future.
    fn some_revision(&mut self) -> i64 {
        let low = (self.compacted() - 3).max(0);
        low + self.random.below((self.revision - low + 3) as u64) as i64
    }

    fn lease_id(&mut self) -> i64 {
        1000 + self.random.below(LEASES) as i64
    }

    fn key(&mut self) -> Bytes {
        let number = self.random.below(KEYS);
        match number % 3 {
            0 => format!("k{number}"),
            1 => format!("dir/{number:03}"),
            _ => format!("dir/sub/{number}"),
        }
        .into()
    }

    /// A key, an interval (perhaps reversed), all keys from one on, or all keys.
    fn interval(&mut self) -> (Bytes, Bytes) {
        match self.random.below(10) {
            0..5 => (self.key(), Bytes::new()),
            5..8 => (self.key(), self.key()),
            8 => (self.key(), Bytes::from_static(b"\0")),
            _ => (Bytes::from_static(b"\0"), Bytes::from_static(b"\0")),
        }
    }

    /// An interval to delete: rarely all keys, so that the store is not empty.
    fn small_interval(&mut self) -> (Bytes, Bytes) {
        match self.random.below(30) {
            0 => self.interval(),
            1..6 => (self.key(), self.key()),
            _ => (self.key(), Bytes::new()),
        }
    }

    fn value(&mut self) -> Bytes {
        let length = match self.random.below(20) {
            0 => 0,
            1 => 5000,
            _ => self.random.below(40),
        };
        let letter = b'a' + self.random.below(5) as u8;
        Bytes::from(vec![letter; length as usize])
    }

    fn put(&mut self) -> PutRequest {
        let mut put = PutRequest {
            key: self.key(),
            value: self.value(),
            prev_kv: self.random.chance(1, 4),
            ..Default::default()
        };
        if self.random.chance(1, 4) {
            put.lease = self.lease_id();
        }
        if self.random.chance(1, 200) {
            put.key = Bytes::new();
        }
        if !self.ignoring {
            return put;
        }
        if self.random.chance(1, 12) {
            put.ignore_value = true;
            put.value = Bytes::new();
        } else if self.random.chance(1, 12) {
            put.ignore_lease = true;
            put.lease = 0;
        }
        put
    }

    fn delete(&mut self) -> DeleteRangeRequest {
        let (key, range_end) = self.small_interval();
        DeleteRangeRequest {
            key,
            range_end,
            prev_kv: self.random.chance(1, 3),
        }
    }

    fn range(&mut self) -> RangeRequest {
        let (key, range_end) = self.interval();
        let mut range = RangeRequest {
            key,
            range_end,
            limit: match self.random.chance(1, 3) {
                true => self.random.below(8) as i64,
                false => 0,
            },
            keys_only: self.random.chance(1, 6),
            count_only: self.random.chance(1, 8),
            serializable: self.random.chance(1, 2),
            ..Default::default()
        };
        if self.random.chance(1, 3) {
            range.revision = self.some_revision();
        }
        if self.random.chance(1, 4) {
            range.sort_order = self.random.below(3) as i32;
            // Any but the value.
            range.sort_target = self.random.below(SortTarget::Value as u64) as i32;
        }
        if self.random.chance(1, 5) {
            range.min_mod_revision = self.filter();
            range.max_mod_revision = self.filter();
            range.min_create_revision = self.filter();
            range.max_create_revision = self.filter();
        }
        // The order of pairs with equal sort keys is not defined.
        if range.sort_target != SortTarget::Key as i32 {
            range.limit = 0;
        }
        range
    }

    fn filter(&mut self) -> i64 {
        match self.random.chance(1, 2) {
            true => 0,
            false => self.some_revision(),
        }
    }

    fn txn(&mut self, depth: u64) -> TxnRequest {
        let compares = self.random.below(3);
        TxnRequest {
            compare: (0..compares).map(|_| self.compare()).collect(),
            success: self.operations(depth),
            failure: self.operations(depth),
        }
    }

    fn operations(&mut self, depth: u64) -> Vec<RequestOp> {
        let count = self.random.below(4);
        (0..count)
            .map(|_| requests::operation(self.request(depth)))
            .collect()
    }

    fn request(&mut self, depth: u64) -> Request {
        match self.random.below(if depth == 0 { 9 } else { 10 }) {
            0..5 => Request::RequestPut(self.put()),
            5..7 if !self.ignoring => Request::RequestDeleteRange(self.delete()),
            5..9 => Request::RequestRange(self.range()),
            _ => Request::RequestTxn(self.txn(depth - 1)),
        }
    }

    fn compare(&mut self) -> Compare {
        let (key, range_end) = match self.random.chance(1, 5) {
            true => self.interval(),
            false => (self.key(), Bytes::new()),
        };
        let target = self.random.below(5) as i32;
        let union = match CompareTarget::try_from(target) {
            Ok(CompareTarget::Version) => TargetUnion::Version(self.random.below(4) as i64),
            Ok(CompareTarget::Create) => TargetUnion::CreateRevision(self.filter()),
            Ok(CompareTarget::Mod) => TargetUnion::ModRevision(self.filter()),
            Ok(CompareTarget::Lease) => TargetUnion::Lease(self.lease_id()),
            _ => TargetUnion::Value(self.value()),
        };
        Compare {
            result: self.random.below(4) as i32,
            target,
            key,
            range_end,
            target_union: Some(union),
        }
    }
}
