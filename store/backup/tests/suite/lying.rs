//! A store that fails, delays and lies: a restore gives what the cluster had, or refuses.

use crate::support;

use std::collections::BTreeMap;
use std::sync::Arc;

use backup::{
    Anchor, BackupPlace, BackupSession, BaseFile, Catalog, ClusterHash, Error, Moment, Retention,
    Selection, SessionStart, restore, seal,
};
use environment::randomness::Random;
use support::Cluster;
use support::liar::{Faults, Liar};

const CLUSTER: u64 = 0xabc;
/// Rounds of one run; the variable INKSTONE_BACKUP_ROUNDS sets another number.
const ROUNDS: u64 = 250;
const SEEDS: u64 = 12;

/// A backup that is being made, with what the cluster said about each revision.
struct Run {
    random: Random,
    cluster: Cluster,
    liar: Arc<Liar>,
    session: BackupSession,
    retention: Retention,
    stored: i64,
    now_ms: u64,
    said: BTreeMap<i64, ClusterHash>,
}

fn place(liar: &Arc<Liar>) -> BackupPlace {
    BackupPlace::new(Arc::clone(liar) as _, "backups/here".into())
}

impl Run {
    async fn new(seed: u64) -> Run {
        let liar = Arc::new(Liar::new(seed));
        let now_ms = 1_764_000_000_000;
        let mut run = Run {
            random: Random::from_seed(seed),
            cluster: Cluster::new(seed),
            session: BackupSession::begin(place(&liar), CLUSTER, seed, now_ms),
            liar,
            retention: Retention {
                keep_ms: 60_000,
                bases_min: 2,
            },
            stored: 1,
            now_ms,
            said: BTreeMap::new(),
        };
        run.base().await;
        run
    }

    async fn base(&mut self) {
        let path = self.cluster.snapshot();
        let file = BaseFile::inspect(&path).unwrap();
        let now = self.now_ms;
        let stored = self.session.store_base(&file, now, now, &|_| ()).await;
        stored.unwrap();
        if !self.said.contains_key(&self.cluster.revision) && self.cluster.revision > 1 {
            let hash = self.cluster.hash(self.cluster.revision);
            self.said.insert(hash.revision, hash);
        }
    }

    async fn store(&mut self) {
        let mut batch = self.cluster.batch(self.stored, self.now_ms);
        if self.random.chance(1, 4) && batch.last > self.cluster.compacted {
            batch.hashes.push(self.cluster.hash(batch.last));
        }
        for revision in batch.first..=batch.last {
            if revision >= self.cluster.compacted {
                self.said.insert(revision, self.cluster.hash(revision));
            }
        }
        self.session.store_changes(&[batch], &|_| ()).await.unwrap();
        self.stored = self.cluster.revision;
    }

    /// Another process goes on from what the store has.
    async fn restart(&mut self) {
        let nonce = self.random.next_u64();
        let opened = BackupSession::open(place(&self.liar), CLUSTER, nonce, self.now_ms).await;
        let Ok((session, begun)) = opened else {
            return;
        };
        self.session = session;
        let continues = |anchor: &Anchor| anchor.mark.has_rows();
        match begun {
            SessionStart::Continued(anchor) if continues(&anchor) => self.stored = anchor.revision,
            _ => {
                self.now_ms += 1;
                self.session = self.session.begin_another(self.now_ms);
                self.stored = self.cluster.revision;
                self.base().await;
            }
        }
    }

    async fn step(&mut self) {
        self.now_ms += self.random.below(2_000);
        match self.random.below(100) {
            0..4 => self.cluster.compact(),
            4..8 => self.base().await,
            8..12 => self.restart().await,
            12..14 => {
                let _ = self.session.expire(self.retention, self.now_ms).await;
            }
            14..50 => while let Ok(true) = self.session.merge_once().await {},
            _ => {
                for _ in 0..self.random.below(4) {
                    self.cluster.change();
                }
                self.store().await;
            }
        }
    }

    /// The outcome of restoring a revision: whether it was restored.
    async fn try_restore(&self, moment: Moment) -> Result<i64, Error> {
        let place = place(&self.liar);
        let catalog = Catalog::read(&place).await?;
        let found = catalog.find(&place, Selection::default(), moment).await;
        // The newest of several histories is what an operator would name.
        let newest = catalog.histories.last().map(|history| history.id);
        let selection = Selection {
            history: newest,
            ..Selection::default()
        };
        let (history, revision) = match found {
            Err(_) => catalog.find(&place, selection, moment).await?,
            found => found?,
        };
        let target = self.cluster.path("restored");
        let restored = restore(&place, history, revision, &target).await?;
        assert_eq!(restored.revision, revision);
        let file = etcd_snapshot::open(&target, false, |_, _| ()).unwrap();
        let newest = etcd_snapshot::hash(&file, 0, |_| ()).unwrap();
        assert_eq!(newest.hash_revision, revision);
        let Some(said) = self.said.get(&revision) else {
            return Ok(revision);
        };
        if said.compacted >= newest.compact_revision {
            let hash =
                etcd_snapshot::hash_as_compacted(&file, revision, said.compacted, |_| ()).unwrap();
            assert!(hash.is_none_or(|hash| hash == said.hash), "at {revision}");
        }
        Ok(revision)
    }
}

fn rounds() -> u64 {
    let rounds = std::env::var("INKSTONE_BACKUP_ROUNDS");
    rounds.map_or(ROUNDS, |text| text.parse().unwrap())
}

async fn run(seed: u64, writing: Faults, reading: Faults) -> (u64, u64) {
    let mut run = Run::new(seed).await;
    run.liar.set(writing);
    for _ in 0..rounds() {
        run.step().await;
    }
    run.store().await;
    run.liar.set(reading);
    let (mut restored, mut refused) = (0, 0);
    for _ in 0..20 {
        let moment = match run.random.below(4) {
            0 => Moment::Newest,
            1 => Moment::Time(run.now_ms - run.random.below(100_000)),
            _ => Moment::Revision(1 + run.random.below(run.stored as u64) as i64),
        };
        match run.try_restore(moment).await {
            Ok(_) => restored += 1,
            Err(_) => refused += 1,
        }
    }
    (restored, refused)
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_and_delays_loses_nothing() {
    let faults = Faults {
        fails: 150,
        fails_late: 50,
        delays: 50,
        ..Faults::default()
    };
    for seed in 0..SEEDS {
        let mut run = Run::new(seed).await;
        run.liar.set(faults);
        for _ in 0..rounds() {
            run.step().await;
        }
        run.store().await;
        run.liar.set(Faults::default());
        let restored = run.try_restore(Moment::Newest).await;
        assert_eq!(restored.unwrap(), run.cluster.revision, "seed {seed}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_restore_from_a_store_that_lies_is_right_or_refused() {
    let writing = Faults {
        fails: 50,
        fails_late: 30,
        truncates: 5,
        loses: 5,
        forgets: 20,
        ..Faults::default()
    };
    let reading = Faults {
        fails: 50,
        forgets: 5,
        alters: 100,
        ..Faults::default()
    };
    let (mut restored, mut refused) = (0, 0);
    for seed in 0..SEEDS {
        let outcome = run(seed, writing, reading).await;
        restored += outcome.0;
        refused += outcome.1;
    }
    println!("{restored} restored, {refused} refused");
    assert!(restored > 0 && refused > 0, "{restored} {refused}");
}

#[tokio::test(start_paused = true)]
async fn every_revision_is_restored_when_merged_objects_alone_are_damaged() {
    let faults = Faults {
        fails: 30,
        truncates_merged: 500,
        ..Faults::default()
    };
    for seed in 0..SEEDS {
        let mut run = Run::new(seed).await;
        run.cluster.change();
        run.base().await;
        run.stored = run.cluster.revision;
        let begun = run.stored;
        run.retention.keep_ms = u64::MAX;
        run.liar.set(faults);
        for _ in 0..rounds() {
            run.step().await;
        }
        run.store().await;
        run.liar.set(Faults::default());
        let _ = run.session.expire(run.retention, run.now_ms).await.unwrap();
        for revision in begun..=run.stored {
            let restored = run.try_restore(Moment::Revision(revision)).await;
            restored.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        }
    }
}

/// A place with `count` objects of one revision each behind a base, a session that has only listed them, and
/// a merged object of all of them that was cut when it was stored.
async fn with_damaged_merged(count: usize) -> (BackupPlace, BackupSession, Cluster) {
    let liar = Arc::new(Liar::new(1));
    let place = place(&liar);
    let session = BackupSession::begin(place.clone(), CLUSTER, 1, 1);
    let mut cluster = Cluster::new(1);
    cluster.change();
    let file = BaseFile::inspect(&cluster.snapshot()).unwrap();
    session.store_base(&file, 1, 1, &|_| ()).await.unwrap();
    let mut batches = Vec::new();
    for _ in 0..count {
        let last = cluster.revision;
        cluster.change();
        batches.push(cluster.batch(last, 2));
        session
            .store_changes(&batches[batches.len() - 1..], &|_| ())
            .await
            .unwrap();
    }
    liar.set(Faults {
        truncates_merged: 1_000,
        ..Faults::default()
    });
    // Another process has stopped between a put and its read-back.
    let merged = seal(session.origin(), 1, &batches);
    place.put_once(&merged).await.unwrap();
    liar.set(Faults::default());
    (place, session, cluster)
}

#[tokio::test(start_paused = true)]
async fn objects_stay_when_the_one_that_contains_them_is_damaged() {
    let (place, session, cluster) = with_damaged_merged(20).await;
    let retention = Retention {
        keep_ms: u64::MAX,
        bases_min: 1,
    };
    assert_eq!(session.expire(retention, 5).await.unwrap(), 0);
    let catalog = Catalog::read(&place).await.unwrap();
    for revision in 2..=cluster.revision {
        let target = cluster.path("restored");
        let restored = restore(&place, &catalog.histories[0], revision, &target).await;
        assert_eq!(restored.unwrap().revision, revision);
    }
}
