//! A restore and a check beside a process that merges: what they have listed is deleted before they read it.

use crate::support;

use std::sync::Arc;

use backup::{BackupHistory, BackupPlace, BackupSession, BaseFile, Catalog, restore, verify};
use object_store::memory::InMemory;
use object_store::path::Path;
use support::Cluster;

/// Objects that become one.
const MERGED_COUNT: usize = 60;

struct Backup {
    place: BackupPlace,
    session: BackupSession,
    cluster: Cluster,
}

impl Backup {
    async fn new(changes: usize) -> Backup {
        let place = BackupPlace::new(Arc::new(InMemory::new()), Path::default());
        let session = BackupSession::begin(place.clone(), 1, 2, 3);
        let mut cluster = Cluster::new(1);
        cluster.change();
        let file = BaseFile::inspect(&cluster.snapshot()).unwrap();
        session.store_base(&file, 1, 1, &|_| ()).await.unwrap();
        for _ in 0..changes {
            let last = cluster.revision;
            cluster.change();
            let batches = [cluster.batch(last, 2)];
            session.store_changes(&batches, &|_| ()).await.unwrap();
        }
        Backup {
            place,
            session,
            cluster,
        }
    }

    async fn listed(&self) -> BackupHistory {
        let catalog = Catalog::read(&self.place).await.unwrap();
        catalog.histories[0].clone()
    }

    async fn merge(&self) {
        assert!(self.session.merge_once().await.unwrap());
    }

    async fn assert_restored(&self, history: &BackupHistory) {
        let (revision, target) = (self.cluster.revision, self.cluster.path("restored"));
        let restored = restore(&self.place, history, revision, &target).await;
        let restored = restored.unwrap();
        assert!(restored.replaced.is_empty(), "{restored:?}");
        let file = etcd_snapshot::open(&target, false, |_, _| ()).unwrap();
        let found = etcd_snapshot::hash(&file, revision, |_| ()).unwrap();
        assert_eq!(found.hash, self.cluster.hash(revision).hash);
    }
}

#[tokio::test(start_paused = true)]
async fn a_restore_finds_objects_that_were_merged_after_it_began() {
    let backup = Backup::new(MERGED_COUNT + 3).await;
    let listed = backup.listed().await;
    backup.merge().await;
    backup.assert_restored(&listed).await;
}

#[tokio::test(start_paused = true)]
async fn a_restore_goes_on_where_it_was_when_objects_are_merged() {
    let backup = Backup::new(2 * MERGED_COUNT + 3).await;
    backup.merge().await;
    let listed = backup.listed().await;
    backup.merge().await;
    backup.assert_restored(&listed).await;
}

#[tokio::test(start_paused = true)]
async fn a_check_reads_the_merged_object_in_place_of_those_that_it_contains() {
    let backup = Backup::new(MERGED_COUNT + 3).await;
    let listed = backup.listed().await;
    backup.merge().await;
    let faults = verify(&backup.place, &listed, |_| ()).await.unwrap();
    assert!(faults.is_empty(), "{faults:?}");
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_deleted_for_no_reason_is_a_fault() {
    let backup = Backup::new(10).await;
    let listed = backup.listed().await;
    let lost = listed.changes[4].name;
    backup.place.delete(&lost).await.unwrap();
    let faults = verify(&backup.place, &listed, |_| ()).await.unwrap();
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert_eq!(faults[0].0, lost);
    let target = backup.cluster.path("restored");
    let revision = backup.cluster.revision;
    let refused = restore(&backup.place, &listed, revision, &target).await;
    assert!(refused.unwrap_err().to_string().contains(&lost.path()));
}
