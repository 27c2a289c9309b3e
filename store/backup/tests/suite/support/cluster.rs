//! A cluster as a backup sees it: rows of each revision, snapshots, compactions and hashes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use backup::{ChangeBatch, ChangedRow, ClusterHash};
use bytes::Bytes;
use environment::randomness::Random;
use etcd_api::mvccpb::KeyValue;
use etcd_snapshot::{FileState, LeaseRecord, RowKey, SnapshotPlan};
use prost::Message;

/// Keys that exist, with creation and version of each.
type Existing = BTreeMap<u8, (i64, i64)>;

pub struct Cluster {
    random: Random,
    folder: tempfile::TempDir,
    /// All rows that ever were.
    pub rows: Vec<ChangedRow>,
    pub revision: i64,
    pub compacted: i64,
    existing: Existing,
    pub leases: Vec<LeaseRecord>,
}

impl Cluster {
    pub fn new(seed: u64) -> Cluster {
        Cluster {
            random: Random::from_seed(seed),
            folder: tempfile::tempdir().unwrap(),
            rows: Vec::new(),
            revision: 1,
            compacted: -1,
            existing: Existing::new(),
            leases: Vec::new(),
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A transaction of one to four changes.
    pub fn change(&mut self) {
        self.revision += 1;
        for sub in 0..1 + self.random.below(4) as i64 {
            let key = self.random.below(20) as u8;
            let existed = self.existing.remove(&key);
            let deletes = existed.is_some() && self.random.chance(1, 3);
            let (main, is_deletion) = (self.revision, deletes);
            let mut pair = KeyValue {
                key: vec![b'k', key].into(),
                ..KeyValue::default()
            };
            if !deletes {
                let (created, version) = existed.unwrap_or((main, 0));
                self.existing.insert(key, (created, version + 1));
                (pair.create_revision, pair.mod_revision) = (created, main);
                pair.version = version + 1;
                pair.value = vec![b'v'; self.random.below(60) as usize].into();
            }
            let key = RowKey {
                main,
                sub,
                is_deletion,
            };
            let value = Bytes::from(pair.encode_to_vec());
            self.rows.push(ChangedRow { key, value });
        }
    }

    pub fn compact(&mut self) {
        let back = self.random.below(20) as i64;
        self.compacted = self.compacted.max((self.revision - back).max(1));
    }

    /// The batch of the revisions behind `last`.
    pub fn batch(&self, last: i64, time_ms: u64) -> ChangeBatch {
        let rows = self.rows.iter().filter(|row| row.key.main > last);
        ChangeBatch {
            time_ms,
            first: last + 1,
            last: self.revision,
            lists_leases: true,
            granted: self.leases.clone(),
            rows: rows.cloned().collect(),
            ..ChangeBatch::default()
        }
    }

    /// HashKV of a revision, as the cluster answers now.
    pub fn hash(&self, revision: i64) -> ClusterHash {
        let path = self.path("hashed");
        self.write(&path, &self.rows);
        let file = etcd_snapshot::open(&path, false, |_, _| ()).unwrap();
        let hash = etcd_snapshot::hash(&file, revision, |_| ()).unwrap();
        ClusterHash {
            revision,
            compacted: self.compacted,
            hash: hash.hash,
        }
    }

    /// A snapshot, from which the compaction has removed what it may.
    pub fn snapshot(&self) -> PathBuf {
        let path = self.path("snapshot");
        let mut newest = BTreeMap::new();
        for row in self.rows.iter().filter(|it| it.key.main <= self.compacted) {
            let key = KeyValue::decode(row.value.clone()).unwrap().key;
            newest.insert(key, row.key);
        }
        let mut rows = self.rows.clone();
        rows.retain(|row| {
            let stays = newest
                .values()
                .any(|key| *key == row.key && !key.is_deletion);
            row.key.main > self.compacted || stays
        });
        self.write(&path, &rows);
        path
    }

    #[expect(clippy::disallowed_methods, reason = "a file of the test's own")]
    fn write(&self, path: &Path, rows: &[ChangedRow]) {
        let state = FileState {
            compacted: self.compacted,
            leases: self.leases.clone(),
            ..FileState::default()
        };
        let lengths = rows.iter().map(|row| Ok((row.key, row.value.len())));
        let plan = SnapshotPlan::new::<()>(&state, lengths).unwrap();
        let (mut bytes, rows) = (Vec::new(), rows.iter());
        let mut output = |piece: &[u8]| {
            bytes.extend_from_slice(piece);
            Ok::<(), ()>(())
        };
        let rows = rows.map(|row| Ok((row.key, row.value.clone())));
        assert!(plan.write(rows, &mut output).unwrap());
        std::fs::write(path, bytes).unwrap();
    }
}
