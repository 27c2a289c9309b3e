//! Openings of a store without history, of which the log has more changes than may wait for the
//! entries of the checkpoint.

use crate::{Applier, Batch, Change, Engine, KeyChange, LogOptions, Options, Replayed};
use crate::{Revision, Worker};
use bytes::Bytes;
use environment::randomness::Random;
use environment::simulated::{Restart, SimulatedDisk};
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
}

fn open(disk: &SimulatedDisk) -> Opened {
    let options = Options {
        log: LogOptions {
            segment_bytes: 64 << 10,
            reserve_bytes: 0,
            worker: Worker::Caller,
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
    let (engine, applier, _) = opened.unwrap();
    let snapshot = engine.snapshot();
    let versions = snapshot.range(&[], None, i64::MAX);
    let keys = versions.map(|version| (engine.read(&version).unwrap().key, version.main));
    Opened {
        keys: keys.collect(),
        engine,
        applier,
        shown,
    }
}

fn change(main: i64, key: &[u8], tombstone: bool) -> Change {
    let kv = Bytes::from([&[0x0a, key.len() as u8], key].concat());
    Change::Key(KeyChange {
        revision: Revision { main, sub: 0 },
        tombstone,
        key: kv.slice(2..),
        kv,
        created: if tombstone { 0 } else { main },
        version: i64::from(!tombstone),
        lease: 0,
    })
}

impl Opened {
    /// Writes batches, each a change of one of 400 keys, and notes what they do.
    fn write(&mut self, random: &mut Random, batches: i64) {
        for _ in 0..batches {
            let status = self.engine.status();
            let main = status.revision + 1;
            let key = format!("key{:03}", random.below(400)).into_bytes();
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
        let mut opened = open(&disk);
        opened.write(&mut random, 1_000);
        opened.applier.checkpoint(b"").unwrap();
        // 128 of 32 bytes are too many, and 1,024 are applied together.
        for batches in [1, 127, 128, 129, 1_500, 3_000] {
            opened.write(&mut random, batches);
            let crashed = disk.fork().restart(Restart::ProcessCrash);
            let found = open(&crashed);
            assert_eq!(found.keys, opened.keys, "{batches} batches more");
            let (status, expected) = (found.engine.status(), opened.engine.status());
            assert_eq!(status.live_bytes, expected.live_bytes);
            assert_eq!(status.revision, expected.revision);
            assert_eq!(
                found.shown, 1,
                "of batches of keys alone the first is shown"
            );
        }
    }
}
