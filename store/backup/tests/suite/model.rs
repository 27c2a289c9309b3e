//! Merging and retention by two processes: every revision of the kept time stays.

use crate::support;

use std::collections::BTreeMap;
use std::sync::Arc;

use backup::{
    BackupPlace, BackupSession, BaseFile, Catalog, ChangeBatch, ClusterHash, Retention,
    SessionStart, restore,
};
use environment::randomness::Random;
use etcd_snapshot::{FileState, LeaseRecord};
use object_store::memory::InMemory;
use object_store::path::Path;
use support::Cluster;

const CLUSTER: u64 = 9;
const KEEP_MS: u64 = 30_000;

struct Model {
    random: Random,
    cluster: Cluster,
    place: BackupPlace,
    /// Processes with the last revision that each has stored.
    sessions: Vec<(BackupSession, i64)>,
    now_ms: u64,
    /// When each revision was stored first.
    times: BTreeMap<i64, u64>,
    /// The first base.
    begun: i64,
}

impl Model {
    async fn new(seed: u64, processes: u64) -> Model {
        let place = BackupPlace::new(Arc::new(InMemory::new()), Path::from("a/b"));
        let (cluster, now_ms) = (Cluster::new(seed), 1_000_000);
        let mut model = Model {
            random: Random::from_seed(seed),
            sessions: vec![(BackupSession::begin(place.clone(), CLUSTER, 1, now_ms), 1)],
            place,
            begun: 2,
            times: BTreeMap::new(),
            now_ms,
            cluster,
        };
        model.cluster.change();
        model.store(0).await;
        model.base(0).await;
        for nonce in 2..=processes {
            let opened = BackupSession::open(model.place.clone(), CLUSTER, nonce, now_ms).await;
            let (session, begun) = opened.unwrap();
            assert!(matches!(begun, SessionStart::Continued(_)), "{begun:?}");
            model.sessions.push((session, 2));
        }
        model
    }

    async fn store(&mut self, process: usize) {
        let (session, stored) = &mut self.sessions[process];
        let mut batch = self.cluster.batch(*stored, self.now_ms);
        if batch.last > self.cluster.compacted {
            batch.hashes.push(self.cluster.hash(batch.last));
        }
        session.store_changes(&[batch], &|_| ()).await.unwrap();
        for revision in *stored + 1..=self.cluster.revision {
            self.times.entry(revision).or_insert(self.now_ms);
        }
        *stored = self.cluster.revision;
    }

    async fn base(&mut self, process: usize) {
        let file = BaseFile::inspect(&self.cluster.snapshot()).unwrap();
        let (now, session) = (self.now_ms, &self.sessions[process].0);
        session.store_base(&file, now, now, &|_| ()).await.unwrap();
        let bases_min = 1;
        let retention = Retention {
            keep_ms: KEEP_MS,
            bases_min,
        };
        session.expire(retention, now).await.unwrap();
    }

    async fn step(&mut self) {
        let process = self.random.below(self.sessions.len() as u64) as usize;
        self.now_ms += self.random.below(300);
        match self.random.below(100) {
            0..3 => self.base(process).await,
            3..6 => self.cluster.compact(),
            6..20 => while self.sessions[process].0.merge_once().await.unwrap_or(false) {},
            _ => {
                for _ in 0..self.random.below(3) {
                    self.cluster.change();
                }
                self.store(process).await;
            }
        }
    }

    /// Every revision that was stored by all and was the newest within the kept time has a plan.
    async fn check(&self) {
        let catalog = Catalog::read(&self.place).await.unwrap();
        assert_eq!(catalog.histories.len(), 1);
        let (history, limit) = (&catalog.histories[0], self.now_ms.saturating_sub(KEEP_MS));
        let last = self.sessions.iter().map(|session| session.1).max();
        for revision in self.begun..=last.unwrap() {
            let next = self.times.get(&(revision + 1));
            if next.is_none_or(|next| *next >= limit) {
                assert!(history.plan(revision).is_ok(), "{revision} of {last:?}");
            }
        }
    }

    async fn check_contents(&mut self) {
        let catalog = Catalog::read(&self.place).await.unwrap();
        let history = &catalog.histories[0];
        let (first, last) = history.ranges()[0];
        let revision = first + self.random.below((last - first + 1) as u64) as i64;
        let target = self.cluster.path("restored");
        restore(&self.place, history, revision, &target)
            .await
            .unwrap();
        let file = etcd_snapshot::open(&target, false, |_, _| ()).unwrap();
        let expected: ClusterHash = match revision >= self.cluster.compacted {
            true => self.cluster.hash(revision),
            false => return,
        };
        let compacted = expected.compacted;
        let hash = etcd_snapshot::hash_as_compacted(&file, revision, compacted, |_| ()).unwrap();
        assert!(hash.is_none_or(|hash| hash == expected.hash), "{revision}");
    }
}

async fn run(seed: u64, processes: u64) {
    let mut model = Model::new(seed, processes).await;
    for round in 0..600 {
        model.step().await;
        model.check().await;
        if round % 50 == 0 {
            model.check_contents().await;
        }
    }
    let catalog = Catalog::read(&model.place).await.unwrap();
    // Merging keeps their number small.
    let objects = catalog.histories[0].changes.len();
    println!("{objects} objects for {} revisions", model.cluster.revision);
    assert!(objects < 130 * processes as usize, "{objects}");
}

#[tokio::test(start_paused = true)]
async fn a_process_that_merges_and_deletes_keeps_what_is_needed() {
    for seed in 0..6 {
        run(seed, 1).await;
    }
}

#[tokio::test(start_paused = true)]
async fn two_processes_that_merge_and_delete_keep_what_is_needed() {
    for seed in 0..6 {
        run(seed, 2).await;
    }
}

fn lease(id: i64, ttl_seconds: i64) -> LeaseRecord {
    LeaseRecord { id, ttl_seconds }
}

#[tokio::test(start_paused = true)]
async fn leases_are_those_of_the_revision() {
    let place = BackupPlace::new(Arc::new(InMemory::new()), Path::default());
    let mut cluster = Cluster::new(1);
    cluster.change();
    cluster.leases = vec![lease(1, 10), lease(2, 20)];
    let session = BackupSession::begin(place.clone(), CLUSTER, 1, 1);
    let file = BaseFile::inspect(&cluster.snapshot()).unwrap();
    session.store_base(&file, 1, 1, &|_| ()).await.unwrap();
    let mut store = async |change: ChangeBatch| {
        let last = cluster.revision;
        cluster.change();
        let batch = ChangeBatch {
            lists_leases: change.lists_leases,
            granted: change.granted,
            ended: change.ended,
            ..cluster.batch(last, 5)
        };
        session.store_changes(&[batch], &|_| ()).await.unwrap();
        cluster.revision
    };
    let granted = store(ChangeBatch {
        granted: vec![lease(3, 30)],
        ended: vec![1],
        ..ChangeBatch::default()
    });
    let granted = granted.await;
    let listed = store(ChangeBatch {
        lists_leases: true,
        granted: vec![lease(3, 30)],
        ..ChangeBatch::default()
    });
    let listed = listed.await;
    let catalog = Catalog::read(&place).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    for (revision, expected) in [
        (granted - 1, vec![lease(1, 10), lease(2, 20)]),
        (granted, vec![lease(2, 20), lease(3, 30)]),
        (listed, vec![lease(3, 30)]),
    ] {
        let target = folder.path().join("restored");
        let history = &catalog.histories[0];
        restore(&place, history, revision, &target).await.unwrap();
        let file = etcd_snapshot::open(&target, false, |_, _| ()).unwrap();
        assert_eq!(
            FileState::read(&file).unwrap().leases,
            expected,
            "{revision}"
        );
    }
}
