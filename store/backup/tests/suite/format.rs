//! Objects that are cut, changed or exchanged are refused, and never a panic.

use crate::support;

use std::sync::Arc;

use backup::{
    BackupPlace, BackupSession, Catalog, ChangeBatch, ClusterHash, Origin, open, seal, verify,
};
use bytes::Bytes;
use environment::randomness::Random;
use etcd_snapshot::LeaseRecord;
use object_store::ObjectStoreExt;
use object_store::memory::InMemory;
use object_store::path::Path;
use sha2::{Digest, Sha256};
use support::Cluster;

const ORIGIN: Origin = Origin {
    cluster: 0xcdf8_181e_3277_9a1f,
    history: 77,
    nonce: 5,
};

fn batches() -> Vec<ChangeBatch> {
    let mut cluster = Cluster::new(1);
    let mut batches = Vec::new();
    for number in 0..6 {
        let last = cluster.revision;
        for _ in 0..number {
            cluster.change();
        }
        let mut batch = cluster.batch(last, 1_000 + number);
        batch.lists_leases = number == 0;
        batch.granted.push(LeaseRecord {
            id: -5,
            ttl_seconds: 60,
        });
        batch.ended.push(i64::MAX);
        batch.hashes.push(ClusterHash {
            revision: batch.last,
            compacted: -1,
            hash: 7,
        });
        batches.push(batch);
    }
    batches
}

#[test]
fn changes_are_read_as_they_were_written() {
    let batches = batches();
    let object = seal(ORIGIN, 3, &batches);
    assert_eq!(open(&object.name, &object.bytes).unwrap().batches, batches);
}

#[test]
fn cut_or_changed_bytes_are_refused() {
    let object = seal(ORIGIN, 0, &batches());
    for length in 0..object.bytes.len() {
        assert!(open(&object.name, &object.bytes.slice(..length)).is_err());
    }
    let mut random = Random::from_seed(1);
    for _ in 0..2_000 {
        let damaged = Bytes::from(random.damaged(&object.bytes));
        if damaged != object.bytes {
            assert!(open(&object.name, &damaged).is_err());
        }
    }
}

#[test]
fn changed_bytes_with_a_right_checksum_are_no_panic() {
    let object = seal(ORIGIN, 0, &batches());
    let body = &object.bytes[..object.bytes.len() - 32];
    let mut random = Random::from_seed(2);
    for _ in 0..2_000 {
        let mut damaged = random.damaged(body);
        let sum = Sha256::digest(&damaged);
        damaged.extend_from_slice(&sum);
        let _ = open(&object.name, &damaged.into());
    }
}

#[test]
fn rows_that_are_missing_are_refused() {
    let whole = batches();
    let last = whole.len() - 1;
    for row in 0..whole[last].rows.len() {
        let mut batches = whole.clone();
        batches[last].rows.remove(row);
        let object = seal(ORIGIN, 0, &batches);
        let is_last_of_its_revision = batches[last].rows.get(row).is_none_or(|it| it.key.sub == 0);
        let has_others = row > 0 && whole[last].rows[row].key.sub > 0;
        // The last change of a transaction is missed by no other.
        let is_unnoticed = is_last_of_its_revision && has_others;
        let opened = open(&object.name, &object.bytes);
        assert_eq!(opened.is_ok(), is_unnoticed, "{row}");
    }
    let mut batches = whole;
    batches.remove(2);
    let object = seal(ORIGIN, 0, &batches);
    assert!(open(&object.name, &object.bytes).is_err());
}

#[tokio::test(start_paused = true)]
async fn a_changed_base_is_refused() {
    let store = Arc::new(InMemory::new());
    let place = BackupPlace::new(Arc::clone(&store) as _, Path::default());
    let mut cluster = Cluster::new(3);
    for _ in 0..50 {
        cluster.change();
    }
    let session = BackupSession::begin(place.clone(), 1, 2, 3);
    let file = backup::BaseFile::inspect(&cluster.snapshot()).unwrap();
    session.store_base(&file, 3, 4, &|_| ()).await.unwrap();
    let catalog = Catalog::read(&place).await.unwrap();
    let history = &catalog.histories[0];
    let path = Path::from(history.bases[0].name.path());
    let whole = store.get(&path).await.unwrap().bytes().await.unwrap();
    assert!(verify(&place, history, |_| ()).await.unwrap().is_empty());
    let mut random = Random::from_seed(4);
    for round in 0..300 {
        let damaged = match round {
            0..100 => whole.slice(..random.below(whole.len() as u64) as usize),
            _ => random.damaged(&whole).into(),
        };
        if damaged == whole {
            continue;
        }
        store.put(&path, damaged.into()).await.unwrap();
        let faults = verify(&place, history, |_| ()).await;
        match faults {
            Ok(faults) => assert_eq!(faults.len(), 1, "{round}"),
            Err(error) => panic!("{round}: {error}"),
        }
    }
}
