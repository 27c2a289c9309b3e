//! Openings of a store without history, of which the log has more changes than may wait for the
//! entries of the checkpoint.

use crate::checkpoint::files;
use crate::{Applier, Batch, Change, Engine, KeyChange, LogOptions, Options, Replayed};
use crate::{Revision, Worker};
use bytes::Bytes;
use environment::randomness::Random;
use environment::simulated::{Restart, SimulatedDisk};
use environment::{Disk, OpenMode};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

struct Opened {
    engine: Engine,
    applier: Applier,
    /// Revision of each key that exists.
    keys: BTreeMap<Bytes, i64>,
    /// The batches that were shown.
    shown: u64,
    damaged_checkpoint: Option<String>,
}

fn open(disk: &SimulatedDisk, worker: Worker) -> Opened {
    let options = Options {
        log: LogOptions {
            segment_bytes: 256 << 10,
            reserve_bytes: 0,
            worker,
            ..LogOptions::default()
        },
        keeps_history: false,
        state_hash: false,
        ..Options::default()
    };
    let mut shown = 0;
    let mut count = |replayed: Replayed<'_>| {
        shown += u64::from(matches!(replayed, Replayed::Batch(_)));
        Ok(())
    };
    let disk = Arc::new(disk.clone());
    let opened = Engine::open(disk, Path::new("/data"), options, &mut count);
    let (engine, applier, recovered) = opened.unwrap();
    let snapshot = engine.snapshot();
    let versions = snapshot.range(&[], None, i64::MAX);
    let keys = versions.map(|version| (engine.read(&version).unwrap().key, version.main));
    Opened {
        keys: keys.collect(),
        engine,
        applier,
        shown,
        damaged_checkpoint: recovered.damaged_checkpoint,
    }
}

fn change(main: i64, key: &[u8], tombstone: bool) -> Change {
    let key = Bytes::copy_from_slice(key);
    Change::Key(KeyChange {
        revision: Revision { main, sub: 0 },
        tombstone,
        key: key.clone(),
        kv: key,
        created: if tombstone { 0 } else { main },
        version: i64::from(!tombstone),
        lease: 0,
    })
}

/// Keys of all lengths, of which some begin alike.
fn key(number: u64) -> Vec<u8> {
    let mut key = format!("a key that is longer than its head {number:03}").into_bytes();
    if number % 2 == 1 {
        key.truncate(number as usize % 48);
        key.reverse();
    }
    key
}

impl Opened {
    /// Writes batches, each a change of one of 400 keys, and notes what they do.
    fn write(&mut self, random: &mut Random, batches: i64) {
        for _ in 0..batches {
            let status = self.engine.status();
            let main = status.revision + 1;
            let key = key(random.below(400));
            let tombstone = self.keys.contains_key(&key[..]) && random.chance(1, 3);
            let changes = vec![change(main, &key, tombstone)];
            self.apply(&Batch {
                term: 1,
                index: status.applied_index + 1,
                changes,
            });
            match tombstone {
                true => drop(self.keys.remove(&key[..])),
                false => drop(self.keys.insert(Bytes::from(key), main)),
            }
        }
    }

    /// Keys that fill more than a block of a checkpoint.
    fn write_long_keys(&mut self) {
        let keys = (b'a'..=b'z').map(|letter| Bytes::from(vec![letter; 4_000]));
        let keys: Vec<Bytes> = keys.collect();
        let changes = (2..).zip(&keys).map(|(main, key)| change(main, key, false));
        let batch = Batch {
            term: 1,
            index: 1,
            changes: changes.collect(),
        };
        self.apply(&batch);
        self.keys.extend(keys.into_iter().zip(2..));
    }

    /// Live bytes of each segment that has some.
    fn live(&self) -> Vec<(u32, u64)> {
        let live = self.engine.0.records.log_view.accounting.live.lock();
        let segments = live.iter().map(|(id, life)| (id, life.live_bytes));
        segments.filter(|(_, bytes)| *bytes > 0).collect()
    }

    fn apply(&mut self, batch: &Batch) {
        let appended = self.engine.append(batch).unwrap();
        self.engine.wait_durable(appended.sequence).unwrap();
        self.applier.apply_and_compact(batch, &appended);
    }
}

#[test]
fn changes_that_are_too_many_to_wait_are_applied_behind_the_checkpoint() {
    for seed in 0..8 {
        let disk = SimulatedDisk::new(seed);
        let mut random = Random::from_seed(seed);
        let mut opened = open(&disk, Worker::Caller);
        opened.write(&mut random, 1_000);
        opened.applier.checkpoint(b"").unwrap();
        // 128 of 32 bytes are too many, and 1,024 are applied together.
        for batches in [1, 127, 128, 129, 1_500, 3_000] {
            opened.write(&mut random, batches);
            let crashed = disk.fork().restart(Restart::ProcessCrash);
            for worker in [Worker::Caller, Worker::Threads] {
                let found = open(&crashed.fork(), worker);
                assert_eq!(found.keys, opened.keys, "{batches} batches more");
                assert_eq!(found.live(), opened.live());
                let (status, expected) = (found.engine.status(), opened.engine.status());
                assert_eq!(status.revision, expected.revision);
                assert_eq!(found.shown, 1, "of batches with keys the first is shown");
            }
        }
    }
}

#[test]
fn a_log_that_is_too_short_for_a_damaged_checkpoint_is_read_behind_an_older_one() {
    // Behind the second number, changes are too many to wait.
    for batches in [20, 4_000] {
        let disk = SimulatedDisk::new(1);
        let mut random = Random::from_seed(1);
        let mut opened = open(&disk, Worker::Caller);
        opened.write_long_keys();
        opened.write(&mut random, 20);
        opened.applier.checkpoint(b"").unwrap();
        opened.write(&mut random, batches);
        let older = (disk.fork(), opened.keys.clone());
        opened.write(&mut random, 20);
        opened.applier.checkpoint(b"").unwrap();
        drop(opened);
        // A disk that has lost the end of the log, and a bit of the checkpoint.
        let (disk_then, keys) = older;
        copy_damaged_checkpoint(&disk, &disk_then);
        for worker in [Worker::Caller, Worker::Threads] {
            let crashed = disk_then.fork().restart(Restart::ProcessCrash);
            let found = open(&crashed, worker);
            let damaged = found.damaged_checkpoint.unwrap();
            assert!(damaged.contains("checksum"), "{damaged}");
            assert_eq!(found.keys, keys, "{batches} batches, {worker:?}");
        }
    }
}

#[test]
fn behind_entries_that_are_damaged_many_changes_wait_for_an_older_checkpoint() {
    let disk = SimulatedDisk::new(1);
    let mut random = Random::from_seed(1);
    let mut opened = open(&disk, Worker::Caller);
    opened.write_long_keys();
    opened.applier.checkpoint(b"").unwrap();
    opened.write(&mut random, 20);
    opened.applier.checkpoint(b"").unwrap();
    let then = disk.fork();
    opened.write(&mut random, 4_000);
    let newest = newest_checkpoint(&then);
    let file = disk.open(&newest, OpenMode::ReadWrite).unwrap();
    let mut byte = [0];
    let middle = file.size().unwrap() - 200;
    file.read_at(&mut byte, middle).unwrap();
    file.write_durable_at(&[&[byte[0] ^ 1]], middle).unwrap();
    let crashed = disk.fork().restart(Restart::ProcessCrash);
    for worker in [Worker::Caller, Worker::Threads] {
        let found = open(&crashed.fork(), worker);
        assert!(found.damaged_checkpoint.is_some());
        assert_eq!(found.keys, opened.keys, "{worker:?}");
        assert_eq!(found.live(), opened.live());
    }
}

fn newest_checkpoint(disk: &SimulatedDisk) -> std::path::PathBuf {
    let directory = Path::new("/data");
    let numbers = files::numbers(&disk.list(directory).unwrap());
    files::path(directory, numbers[0])
}

/// Copies the newest checkpoint of a disk to another, with one bit turned over among its entries.
fn copy_damaged_checkpoint(disk: &SimulatedDisk, to: &SimulatedDisk) {
    let newest = newest_checkpoint(disk);
    let from = disk.open(&newest, OpenMode::Read).unwrap();
    let mut bytes = vec![0; from.size().unwrap() as usize];
    from.read_at(&mut bytes, 0).unwrap();
    let middle = bytes.len() - 200;
    bytes[middle] ^= 1;
    let to = to.open(&newest, OpenMode::CreateNew).unwrap();
    to.write_durable_at(&[&bytes], 0).unwrap();
}
