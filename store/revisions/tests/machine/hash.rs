//! HashKV against numbers that etcd 3.7.3 gave for the same operations.
//!
//! The numbers were taken from a fresh single-member etcd driven through its
//! JSON gateway; the operations come from a generator so small that any
//! language can repeat it.

use etcd_api::Error as Refusal;
use etcd_api::etcdserverpb::request_op::Request as Operation;
use etcd_api::etcdserverpb::{DeleteRangeRequest, PutRequest, RequestOp, TxnRequest};
use revisions::{Error, KeyValueHash};

use crate::store::{Store, bytes, put};

/// Knuth's MMIX generator, upper bits.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn key(&mut self) -> String {
        format!("k{:02}", self.below(20))
    }

    fn value(&mut self) -> String {
        "v".repeat(self.below(40) as usize)
    }
}

fn op(request: Operation) -> RequestOp {
    RequestOp {
        request: Some(request),
    }
}

fn put_op(key: &str, value: &str) -> RequestOp {
    op(Operation::RequestPut(put(key, value)))
}

fn delete_op(key: &str, end: &str) -> RequestOp {
    let (key, range_end) = (bytes(key), bytes(end));
    op(Operation::RequestDeleteRange(DeleteRangeRequest {
        key,
        range_end,
        prev_kv: false,
    }))
}

fn nested(operation: RequestOp) -> RequestOp {
    op(Operation::RequestTxn(TxnRequest {
        success: vec![operation],
        ..TxnRequest::default()
    }))
}

fn all_of(success: Vec<RequestOp>) -> TxnRequest {
    TxnRequest {
        success,
        ..TxnRequest::default()
    }
}

/// Runs the generated operations; every hundred of them the hash now and two
/// revisions ago.
fn run(seed: u64, operations: i64) -> Vec<(KeyValueHash, KeyValueHash)> {
    let mut numbers = Numbers(seed);
    let mut store = Store::new();
    let mut leases: Vec<i64> = Vec::new();
    let mut compacted = 0;
    let mut hashes = Vec::new();
    for step in 0..operations {
        match numbers.below(20) {
            0..9 => {
                let (key, value) = (numbers.key(), numbers.value());
                store.put(&key, &value);
            }
            9..11 => drop(store.delete(&numbers.key(), "")),
            11 => {
                let key = numbers.key();
                store.delete(&key, &format!("{key}~"));
            }
            12..15 => {
                let (a, c) = (numbers.below(10), 10 + numbers.below(10));
                let value = numbers.value();
                let operations = vec![
                    put_op(&format!("k{a:02}"), &value),
                    delete_op(&format!("k{c:02}"), ""),
                    put_op(&format!("n{a:02}"), &value),
                ];
                store.txn(all_of(operations)).unwrap();
            }
            15..17 => {
                let lease = 100_000 + step;
                store.grant(lease, 1000).unwrap();
                leases.push(lease);
                let (key, value) = (numbers.key(), numbers.value());
                store
                    .try_put(PutRequest {
                        lease,
                        ..put(&key, &value)
                    })
                    .unwrap();
            }
            17 if leases.is_empty() => {}
            17 => {
                let place = numbers.below(leases.len() as u64) as usize;
                store.revoke(leases.remove(place)).unwrap();
            }
            18 => {
                // Refused where there is no such key, as in etcd.
                let request = PutRequest {
                    ignore_value: true,
                    ..put(&numbers.key(), "")
                };
                let _ = store.try_put(request);
            }
            _ => {
                let newest = store.reader.revision();
                if newest - 5 > compacted && newest > 10 {
                    compacted = newest - 5;
                    store.compact(compacted).unwrap();
                }
            }
        }
        if (step + 1) % 100 == 0 {
            let newest = store.reader.revision();
            let hash = |revision| store.reader.hash_kv(revision).unwrap();
            hashes.push((hash(0), hash(newest - 2)));
        }
    }
    hashes
}

/// Hash now, hash two revisions ago, newest compaction, newest revision.
type Golden = [(u32, u32, i64, i64); 6];

fn check(seed: u64, golden: Golden) {
    let hashes = run(seed, 100 * golden.len() as i64);
    for ((now, before), (hash, earlier, compact_revision, revision)) in
        hashes.into_iter().zip(golden)
    {
        let newest = KeyValueHash {
            hash,
            compact_revision,
            hash_revision: revision,
            revision,
        };
        assert_eq!(now, newest);
        assert_eq!(
            before,
            KeyValueHash {
                hash: earlier,
                hash_revision: revision - 2,
                ..newest
            }
        );
    }
}

#[test]
fn puts_deletions_transactions_leases_and_compactions_hash_as_in_etcd() {
    check(
        1,
        [
            (2_529_830_814, 1_400_838_831, 14, 85),
            (3_770_003_446, 1_108_840_483, 161, 174),
            (4_087_604_283, 3_163_384_224, 245, 254),
            (1_074_957_296, 683_315_476, 298, 337),
            (1_644_468_378, 2_399_334_335, 415, 425),
            (3_975_180_532, 1_213_541_564, 496, 507),
        ],
    );
}

#[test]
fn another_sequence_hashes_as_in_etcd() {
    check(
        2,
        [
            (2_223_432_225, 3_095_223_537, 71, 84),
            (1_937_881_233, 188_460_725, 143, 170),
            (3_826_994_295, 1_424_466_776, 236, 253),
            (1_941_175_134, 3_884_047_617, 313, 341),
            (1_940_880_434, 2_660_677_392, 380, 427),
            (774_589_247, 3_681_677_338, 463, 515),
        ],
    );
}

#[test]
fn an_empty_store_hashes_as_in_etcd() {
    let store = Store::new();
    let hash = KeyValueHash {
        hash: 1_084_519_789,
        compact_revision: -1,
        hash_revision: 1,
        revision: 1,
    };
    assert_eq!(store.reader.hash_kv(0).unwrap(), hash);
    assert!(matches!(
        store.reader.hash_kv(2),
        Err(Error::Etcd(Refusal::FutureRevision))
    ));
}

/// etcd takes any revision below zero and hashes the bucket's name alone.
#[test]
fn below_revision_zero_there_is_nothing_to_hash() {
    let mut store = Store::new();
    store.put("a", "1");
    store.put("a", "2");
    store.compact(3).unwrap();
    for revision in [-1, i64::MIN] {
        let hash = KeyValueHash {
            hash: 1_084_519_789,
            compact_revision: 3,
            hash_revision: revision,
            revision: 3,
        };
        assert_eq!(store.reader.hash_kv(revision).unwrap(), hash);
    }
}

/// A version that its own transaction overwrote (the static check has blind spots) can never be
/// read, but it is hashed.
#[test]
fn a_version_that_its_own_transaction_overwrote_hashes_as_in_etcd() {
    let mut store = Store::new();
    store.put("a", "1");
    store.grant(5, 1000).unwrap();
    store
        .try_put(PutRequest {
            lease: 5,
            ..put("e", "1")
        })
        .unwrap();
    store
        .txn(all_of(vec![
            nested(put_op("t", "1")),
            nested(delete_op("t", "")),
        ]))
        .unwrap();
    assert!(store.get("t", "", 0).unwrap().kvs.is_empty());
    assert_eq!(store.reader.hash_kv(0).unwrap().hash, 1_424_215_668);
    let store = store.reopen();
    assert_eq!(store.reader.hash_kv(0).unwrap().hash, 1_424_215_668);
}

#[test]
fn the_hash_survives_a_restart() {
    let mut store = Store::new();
    for key in ["a", "b", "a", "c"] {
        store.put(key, "1");
    }
    store.delete("b", "");
    store.compact(4).unwrap();
    let before = (
        store.reader.hash_kv(0).unwrap(),
        store.reader.hash().unwrap(),
    );
    let store = store.reopen();
    assert_eq!(
        (
            store.reader.hash_kv(0).unwrap(),
            store.reader.hash().unwrap()
        ),
        before
    );
    assert!(matches!(
        store.reader.hash_kv(3),
        Err(Error::Etcd(Refusal::Compacted))
    ));
}

/// A physical compaction, for which a client waits, leaves the hash of its revision unchanged
/// until the machine is closed.
#[test]
fn a_physically_compacted_revision_keeps_its_hash_until_a_restart() {
    let mut store = Store::new();
    for round in 0..12 {
        store.put("a", &round.to_string());
        store.put("b", &round.to_string());
        store.delete("a", "");
    }
    // The hashes of the last ten of twelve compactions are kept.
    let mut before = Vec::new();
    for number in 0..12 {
        let revision = 4 + 3 * number;
        let hash = store.reader.hash_kv(revision).unwrap();
        store.compact_physically(revision).unwrap();
        before.push(hash);
        let at_once = store.reader.hash_kv(revision).unwrap();
        assert_eq!(at_once, hash, "before the sweep");
        store.sweep();
        assert_eq!(store.machine.swept(), revision);
        let swept = store.reader.hash_kv(revision).unwrap();
        assert_eq!(swept, hash, "after the sweep");
    }
    for (number, hash) in before.iter().enumerate() {
        let found = store.reader.hash_kv(hash.hash_revision);
        if number < 2 {
            assert!(matches!(found, Err(Error::Etcd(Refusal::Compacted))));
        } else {
            assert_eq!(found.unwrap(), *hash);
        }
    }
    let newest = *before.last().unwrap();
    // For revision 0 the remaining versions of the newest revision are hashed.
    let left = store.reader.hash_kv(0).unwrap();
    assert_eq!(left.hash_revision, newest.hash_revision);
    assert_ne!(left.hash, newest.hash);
    let store = store.reopen();
    let restarted = store.reader.hash_kv(newest.hash_revision).unwrap();
    assert_eq!(restarted.hash, left.hash);
    assert_ne!(restarted.hash, newest.hash);
    assert_eq!(restarted.compact_revision, newest.hash_revision);
}

/// No client waits for a compaction that is not physical: its hash is the one of the remaining
/// versions.
#[test]
fn a_logical_compaction_does_not_keep_the_earlier_hash() {
    let mut store = Store::new();
    for value in ["1", "2", "3"] {
        store.put("a", value);
    }
    let before = store.reader.hash_kv(4).unwrap();
    store.compact(4).unwrap();
    let after = store.reader.hash_kv(4).unwrap();
    assert_ne!(after.hash, before.hash);
    store.sweep();
    assert_eq!(store.reader.hash_kv(4).unwrap(), after);
}
