//! An engine driven by one thread, next to a model that is plainly right.
//!
//! The model is a list of all versions ever written; etcd's rules are asked
//! of it the way `key_index.go` and `hash.go` state them, generation by
//! generation.

pub mod crashes;
pub mod model;
pub mod snapshots;

use bytes::Bytes;
use engine::{
    Appended, Applier, Batch, Change, Changes, End, Engine, Error, Headers, KeyChange, KeyWalk,
    Looks, Options, Recovered, Replayed, Revision,
};
use environment::Disk;
use environment::simulated::SimulatedDisk;
use model::Model;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

/// The kvs of a page of looks.
pub fn seen(looks: &mut Looks<'_>) -> Result<Vec<Bytes>, Error> {
    let mut kvs = Vec::new();
    let end = looks.at_page(|looked| {
        kvs.push(Bytes::copy_from_slice(looked.kv));
        ControlFlow::<()>::Continue(())
    });
    end.map(|_| kvs)
}

pub const DIRECTORY: &str = "/data";
/// Where a segment's first frame starts.
pub const SEGMENT_HEADER_BYTES: u64 = 4096;
/// The caller's kind of the state records in these tests: a compaction.
pub const COMPACTION: u8 = 7;

/// Small segments, so that small tests cross many.
pub fn options() -> Options {
    Options {
        log: engine::LogOptions {
            segment_bytes: 64 << 10,
            spare_segments: 1,
            reserve_bytes: 0,
            ..engine::LogOptions::default()
        },
        batch_bytes_max: 32 << 10,
        checkpoint_bytes: 256 << 10,
        background_bytes_per_second: u64::MAX,
        ..Options::default()
    }
}

pub struct Store {
    pub engine: Engine,
    pub applier: Applier,
    pub recovered: Recovered,
    pub index: u64,
    /// What the caller remembers by its state: the compacted revision.
    pub compacted: i64,
    pub model: Model,
}

/// A change within a transaction.
#[derive(Clone, Debug)]
pub enum Write {
    Put(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
}

/// A seed that the environment may move on.
pub fn seed(number: u64) -> u64 {
    let moved = std::env::var("INKSTONE_TEST_SEED").map_or(0, |text| {
        text.parse().expect("INKSTONE_TEST_SEED is a number")
    });
    number.wrapping_add(moved)
}

pub fn put(key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Write {
    Write::Put(key.as_ref().to_vec(), value.as_ref().to_vec())
}

pub fn delete(key: impl AsRef<[u8]>) -> Write {
    Write::Delete(key.as_ref().to_vec())
}

/// The bytes of `mvccpb.KeyValue { key, value }`.
pub fn encode(key: &[u8], value: &[u8]) -> Bytes {
    let mut bytes = Vec::new();
    for (tag, field) in [(0x0a, key), (0x2a, value)] {
        bytes.push(tag);
        let mut length = field.len();
        while length >= 0x80 {
            bytes.push(length as u8 | 0x80);
            length >>= 7;
        }
        bytes.push(length as u8);
        bytes.extend_from_slice(field);
    }
    bytes.into()
}

impl Store {
    pub fn open(disk: &SimulatedDisk, options: Options, model: Model) -> Result<Store, Error> {
        Store::open_on(Arc::new(disk.clone()), Path::new(DIRECTORY), options, model)
    }

    pub fn open_on(
        disk: Arc<dyn Disk>,
        directory: &Path,
        options: Options,
        model: Model,
    ) -> Result<Store, Error> {
        let mut compacted = -1;
        let (engine, mut applier, recovered) =
            Engine::open(disk, directory, options, &mut |replayed| {
                match replayed {
                    Replayed::Checkpoint(state) => {
                        compacted = i64::from_le_bytes(
                            state
                                .try_into()
                                .map_err(|_| Error::Replay("state".into()))?,
                        );
                    }
                    Replayed::Batch(batch) => compacted = compaction_in(batch).unwrap_or(compacted),
                }
                Ok(())
            })?;
        if compacted > 0 {
            applier.compact(compacted);
        }
        let index = recovered.applied_index;
        Ok(Store {
            engine,
            applier,
            recovered,
            index,
            compacted,
            model,
        })
    }

    pub fn new(disk: &SimulatedDisk) -> Store {
        Store::open(disk, options(), Model::default()).unwrap()
    }

    /// Closes and opens again.
    pub fn reopen(self, disk: &SimulatedDisk) -> Store {
        let model = self.model.clone();
        drop(self);
        Store::open(disk, options(), model).unwrap()
    }

    pub fn state(&self) -> Vec<u8> {
        self.compacted.to_le_bytes().to_vec()
    }

    pub fn batch(&self, writes: &[Write]) -> Batch {
        let main = self.model.revision + 1;
        let changes = writes.iter().enumerate().map(|(sub, write)| {
            let revision = Revision {
                main,
                sub: sub as i64,
            };
            Change::Key(self.model.change(revision, write))
        });
        Batch {
            term: 1,
            index: self.index + 1,
            changes: changes.collect(),
        }
    }

    /// Appends, waits, applies: one transaction.
    pub fn write(&mut self, writes: &[Write]) -> Result<(), Error> {
        let batch = self.batch(writes);
        self.commit(batch)
    }

    /// With short headers for each second transaction, so that logs are mixed.
    pub fn append(&self, batch: &Batch) -> Result<Appended, Error> {
        let (main, _) = batch.mains().unwrap_or_default();
        self.engine.append_with(batch, headers_at(main))
    }

    pub fn commit(&mut self, batch: Batch) -> Result<(), Error> {
        let appended = self.append(&batch)?;
        self.index = batch.index;
        self.engine.wait_durable(appended.sequence)?;
        self.applier.apply(&batch, &appended);
        self.model.apply(&batch);
        Ok(())
    }

    /// Compacts, and sweeps at once.
    pub fn compact(&mut self, revision: i64) -> Result<(), Error> {
        self.begin_compaction(revision)?;
        self.applier.finish_compaction();
        Ok(())
    }

    /// Compacts, and leaves the sweep to `maintain`.
    pub fn begin_compaction(&mut self, revision: i64) -> Result<(), Error> {
        let payload = Bytes::copy_from_slice(&revision.to_le_bytes());
        let changes = vec![Change::State {
            kind: COMPACTION,
            payload,
        }];
        self.commit(Batch {
            term: 1,
            index: self.index + 1,
            changes,
        })?;
        self.compacted = revision;
        self.applier.compact(revision);
        self.model.compact(revision);
        Ok(())
    }

    pub fn checkpoint(&mut self) -> Result<(), Error> {
        let state = self.state();
        self.applier.checkpoint(&state)
    }

    pub fn defragment(&mut self) -> Result<(), Error> {
        let state = self.state();
        self.applier.defragment(&state)
    }

    pub fn maintain(&mut self) -> Result<(), Error> {
        let state = self.state();
        self.applier.maintain(&mut || state.clone())
    }

    /// Maintains until nothing is under way or due.
    pub fn finish_maintenance(&mut self) {
        self.maintain().unwrap();
        while self.applier.is_maintaining() {
            std::thread::yield_now();
            self.maintain().unwrap();
        }
    }

    pub fn get(&self, key: &[u8], at: i64) -> Option<KeyChange> {
        let snapshot = self.engine.snapshot();
        let version = snapshot.get(key, at);
        let lineage = self.engine.lineage(&snapshot, key, at).unwrap();
        let fetched = self.engine.fetch(snapshot, key, at).unwrap();
        let read = version.map(|version| self.engine.read(&version).unwrap());
        assert_eq!(fetched, read, "one call and two at {at}");
        let whole = read.clone().map(|stored| stored.lineage());
        assert_eq!(lineage, whole, "without its value at {at}");
        read
    }

    /// Keys and bytes of a range, read forwards: each alone, and all together.
    pub fn range(&self, start: &[u8], end: Option<&[u8]>, at: i64) -> Vec<Bytes> {
        let versions: Vec<_> = self.engine.snapshot().range(start, end, at).collect();
        let read = versions.iter().map(|it| self.engine.read(it).unwrap());
        let read: Vec<KeyChange> = read.collect();
        let together = |versions: Vec<_>| self.engine.read_all(&versions).unwrap();
        assert_eq!(together(versions.iter().collect()), read, "at {at}");
        let backwards = together(versions.iter().rev().collect());
        assert!(backwards.iter().eq(read.iter().rev()), "at {at}");
        let kvs: Vec<Bytes> = read.into_iter().map(|stored| stored.kv).collect();
        let mut looks = self.engine.looks();
        for from in [End::Front, End::Back] {
            let snapshot = self.engine.snapshot();
            let range = snapshot.range(start, end, at);
            looks.list(range, from, usize::MAX, u64::MAX);
            drop(snapshot);
            let (mut seen, mut last) = (seen(&mut looks).unwrap(), versions.last());
            if from == End::Back {
                seen.reverse();
                last = versions.first();
            }
            assert_eq!(seen, kvs, "at {at} from the {from:?}");
            assert_eq!(looks.last_key(), last.map(|it| &it.key[..]));
        }
        kvs
    }

    /// Everything that can be asked, compared with the model.
    pub fn check_all(&mut self) {
        self.check_reads();
        self.applier.finish_compaction();
        self.check_reads();
        self.check_kept();
    }

    /// What can be asked whether or not a sweep is through.
    pub fn check_reads(&self) {
        let snapshot = self.engine.snapshot();
        assert_eq!(snapshot.revision(), self.model.revision, "revision");
        assert_eq!(snapshot.compacted(), self.model.compacted, "compacted");
        drop(snapshot);
        let walk = self.engine.check_keys(&mut || true);
        assert_eq!(walk, Some(KeyWalk::Sound), "sum of keys");
        for at in self.model.compacted.max(1)..=self.model.revision {
            assert_eq!(
                self.range(&[], None, at),
                self.model.range(&[], None, at),
                "range at {at}"
            );
        }
        self.check_history(self.model.compacted.max(1));
    }

    pub fn check_history(&self, from: i64) {
        let changes: Vec<(i64, Vec<Bytes>)> = self
            .engine
            .history(from)
            .unwrap()
            .map(|changes| changes.unwrap())
            .map(|changes| (changes.main, self.comparable(changes)))
            .collect();
        assert_eq!(changes, self.model.history(from), "history from {from}");
    }

    /// At the compacted revision itself etcd has forgotten what a transaction
    /// replaced itself; here the log may show it still.
    fn comparable(&self, changes: Changes) -> Vec<Bytes> {
        let versions = &changes.versions;
        let last = |number: usize| {
            let key = &versions[number].key;
            versions[number + 1..].iter().all(|later| later.key != key)
        };
        let kept = (0..versions.len())
            .filter(|&number| changes.main > self.model.compacted || last(number));
        kept.map(|number| versions[number].kv.clone()).collect()
    }

    /// Versions kept and their live bytes are exactly the model's, when the
    /// sweep is through.
    pub fn check_kept(&self) {
        let status = self.engine.status();
        let kept = self.model.kept();
        assert_eq!(status.versions, kept.len() as u64, "versions kept");
        let record_bytes = |change: &KeyChange| match change.revision.main <= self.model.imported {
            true => record_bytes(change, Headers::Long),
            false => record_bytes(change, headers_at(change.revision.main)),
        };
        let live: u64 = kept.iter().map(record_bytes).sum();
        let headers = status.segments as u64 * SEGMENT_HEADER_BYTES;
        let needed = (live + headers).min(status.log_bytes);
        assert_eq!(status.live_bytes, needed, "live bytes");
        assert!(status.log_bytes >= live, "{status:?}");
    }

    pub fn check_hash(&self, at: i64) {
        let versions = self.engine.versions_in_revision_order(at).unwrap();
        let ours: Vec<(Revision, Bytes)> = versions
            .map(|stored| stored.unwrap())
            .map(|stored| (stored.revision, stored.kv))
            .collect();
        assert_eq!(ours, self.model.hashed(at), "what HashKV({at}) hashes");
    }
}

/// The headers that the tests ask for in a transaction.
fn headers_at(main: i64) -> Headers {
    match main % 2 {
        0 => Headers::Long,
        _ => Headers::Short,
    }
}

/// Bytes of a small version in the log: as docs/formats/engine.md says, and not as the engine
/// counts.
fn record_bytes(change: &KeyChange, headers: Headers) -> u64 {
    let first_or_deletion = match change.tombstone {
        true => (change.created, change.version) == (0, 0),
        false => (change.created, change.version) == (change.revision.main, 1),
    };
    let is_short = headers == Headers::Short
        && first_or_deletion
        && change.lease == 0
        && change.kv.starts_with(&[0x0a]);
    let header_bytes = if is_short { 7 } else { 48 };
    value_log::Log::record_bytes(header_bytes + change.kv.len()) as u64
}

pub fn compaction_in(batch: &Batch) -> Option<i64> {
    batch.changes.iter().rev().find_map(|change| match change {
        Change::State {
            kind: COMPACTION,
            payload,
        } => Some(i64::from_le_bytes(payload[..].try_into().ok()?)),
        _ => None,
    })
}
