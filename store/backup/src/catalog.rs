//! The contents of a place: histories of clusters, and the revisions that each can restore.

use std::collections::BTreeMap;

use crate::name::ObjectName;
use crate::place::{BackupPlace, StoredObject};
use crate::{Error, plan};

/// Bits of a history's id behind the milliseconds of its beginning.
pub(crate) const ID_RANDOM_BITS: u32 = 16;

/// All histories of a place.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    /// Ascending by cluster, then by their beginning.
    pub histories: Vec<BackupHistory>,
}

/// Revisions of a cluster of which each is known to follow the one before.
#[derive(Clone, Debug)]
pub struct BackupHistory {
    /// Id of the cluster.
    pub cluster: u64,
    /// Id of the history: grows with the time of its beginning.
    pub id: u64,
    /// Ascending by revision.
    pub bases: Vec<StoredObject>,
    /// Ascending by first revision, then by last.
    pub changes: Vec<StoredObject>,
}

impl Catalog {
    /// Lists a place.
    pub async fn read(place: &BackupPlace) -> Result<Catalog, Error> {
        Ok(Catalog::of(place.list().await?))
    }

    /// The catalog of these objects.
    pub fn of(objects: Vec<StoredObject>) -> Catalog {
        let mut histories = BTreeMap::new();
        for object in objects {
            let (cluster, id) = (object.name.cluster, object.name.history);
            let history = histories
                .entry((cluster, id))
                .or_insert_with(|| BackupHistory::new(cluster, id));
            history.add(object);
        }
        let mut histories: Vec<BackupHistory> = histories.into_values().collect();
        histories.iter_mut().for_each(BackupHistory::sort);
        Catalog { histories }
    }

    /// Ids of the clusters, ascending.
    pub fn clusters(&self) -> Vec<u64> {
        let mut clusters: Vec<u64> = self.histories.iter().map(|it| it.cluster).collect();
        clusters.dedup();
        clusters
    }

    /// A history as it is now; without objects if it is gone.
    pub(crate) async fn read_history(
        place: &BackupPlace,
        before: &BackupHistory,
    ) -> Result<BackupHistory, Error> {
        let (cluster, id) = (before.cluster, before.id);
        let mut histories = Catalog::read(place).await?.histories.into_iter();
        let found = histories.find(|it| (it.cluster, it.id) == (cluster, id));
        Ok(found.unwrap_or_else(|| BackupHistory::new(cluster, id)))
    }

    /// Forgets an object.
    pub(crate) fn remove(&mut self, name: &ObjectName) {
        let histories = self.histories.iter_mut();
        histories.for_each(|history| history.remove(name));
    }

    /// The histories of a cluster, ascending by their beginning.
    pub fn of_cluster(&self, cluster: u64) -> impl DoubleEndedIterator<Item = &BackupHistory> {
        let histories = self.histories.iter();
        histories.filter(move |history| history.cluster == cluster)
    }
}

impl BackupHistory {
    /// A history without objects.
    pub fn new(cluster: u64, id: u64) -> BackupHistory {
        BackupHistory {
            cluster,
            id,
            bases: Vec::new(),
            changes: Vec::new(),
        }
    }

    /// Adds an object that was stored.
    pub fn insert(&mut self, object: StoredObject) {
        self.add(object);
        self.sort();
    }

    /// Forgets an object that was deleted.
    pub fn remove(&mut self, name: &ObjectName) {
        self.bases.retain(|object| object.name != *name);
        self.changes.retain(|object| object.name != *name);
    }

    fn add(&mut self, object: StoredObject) {
        match object.name.is_base() {
            true => self.bases.push(object),
            false => self.changes.push(object),
        }
    }

    fn sort(&mut self) {
        let order = |object: &StoredObject| {
            let name = object.name;
            (name.first, name.last, name.time_ms, name.nonce)
        };
        self.bases.sort_by_key(order);
        self.changes.sort_by_key(order);
    }

    /// All objects.
    pub fn objects(&self) -> impl Iterator<Item = &StoredObject> {
        self.bases.iter().chain(&self.changes)
    }

    /// Size of all objects.
    pub fn bytes(&self) -> u64 {
        self.objects().map(|object| object.bytes).sum()
    }

    /// When it was begun; Unix, in milliseconds.
    pub fn begun_ms(&self) -> u64 {
        self.id >> ID_RANDOM_BITS
    }

    /// When the last revision was received; Unix, in milliseconds.
    pub fn newest_time_ms(&self) -> u64 {
        let times = self.objects().map(|object| object.name.time_ms);
        times.max().unwrap_or(0)
    }

    /// The newest revision that any object has; 0 without objects.
    pub fn newest_revision(&self) -> i64 {
        let revisions = self.objects().map(|object| object.name.last);
        revisions.max().unwrap_or(0)
    }

    /// The object behind which a process goes on: the newest changes, which may end before the newest base.
    pub fn end(&self) -> Option<ObjectName> {
        let changes = self.changes.iter().map(|object| object.name);
        let with_rows = changes.filter(|name| !name.is_empty());
        let newest = with_rows.max_by_key(|name| name.last);
        newest.or(self.bases.last().map(|object| object.name))
    }

    /// Ranges of revisions that can be restored, ascending, without two that touch.
    pub fn ranges(&self) -> Vec<(i64, i64)> {
        let mut ranges: Vec<(i64, i64)> = Vec::new();
        for base in &self.bases {
            let from = base.name.last;
            if ranges.last().is_some_and(|&(_, end)| from <= end) {
                continue;
            }
            ranges.push((from, plan::reach(&self.changes, from)));
        }
        ranges
    }

    /// Ranges of revisions that lie between those that can be restored, and those behind them that are
    /// missing although later ones are there.
    pub fn gaps(&self) -> Vec<(i64, i64)> {
        let ranges = self.ranges();
        let pairs = ranges.windows(2);
        let between = pairs.map(|pair| (pair[0].1 + 1, pair[1].0 - 1));
        let behind = ranges.last().map(|range| self.holes_behind(range.1));
        let gaps = between.chain(behind.unwrap_or_default());
        gaps.filter(|(first, last)| first <= last).collect()
    }

    fn holes_behind(&self, revision: i64) -> Vec<(i64, i64)> {
        let (mut holes, mut reached) = (Vec::new(), revision);
        let names = self.changes.iter().map(|object| object.name);
        for name in names.filter(|name| !name.is_empty()) {
            if name.first > reached + 1 {
                holes.push((reached + 1, name.first - 1));
            }
            reached = reached.max(name.last);
        }
        holes
    }
}
