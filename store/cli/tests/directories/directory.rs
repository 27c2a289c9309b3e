//! A data directory made by the engine, and ways to damage it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use engine::{Applier, Batch, Change, Engine, KeyChange, Options, Revision};
use environment::real::RealDisk;
use etcd_api::EncodedKeyValue;
use etcd_api::mvccpb::KeyValue;
use tempfile::TempDir;
use value_log::inspect::{Directory as Files, Link};

/// etcd counts from 1, so the first batch is revision 2.
pub const LAST_REVISION: i64 = 1 + BATCHES;
const BATCHES: i64 = 240;
const CHECKPOINT_AFTER: i64 = 150;
const KEYS: i64 = 20;
/// Number of times that a word is repeated in a value.
const REPEATED: usize = 180;

pub struct Directory {
    place: TempDir,
    /// The files as they were made.
    original: BTreeMap<PathBuf, Vec<u8>>,
}

impl Directory {
    /// Several segments, a checkpoint in the middle, closed.
    pub fn new() -> Directory {
        Directory::with_values(b"value")
    }

    pub fn with_values(value: &[u8]) -> Directory {
        let place = tempfile::tempdir().unwrap();
        let (engine, applier) = open(place.path());
        fill(&engine, applier, value);
        engine.close().unwrap();
        drop(engine);
        Directory::remember(place)
    }

    /// [`Directory::new`], copied while it was open: as `kill -9` leaves it.
    pub fn killed() -> Directory {
        let alive = tempfile::tempdir().unwrap();
        let (engine, applier) = open(alive.path());
        fill(&engine, applier, b"value");
        let place = tempfile::tempdir().unwrap();
        for entry in std::fs::read_dir(alive.path()).unwrap() {
            let entry = entry.unwrap();
            std::fs::copy(entry.path(), place.path().join(entry.file_name())).unwrap();
        }
        drop(engine);
        Directory::remember(place)
    }

    fn remember(place: TempDir) -> Directory {
        let mut made = Directory {
            place,
            original: BTreeMap::new(),
        };
        made.original = made.contents();
        made
    }

    pub fn path(&self) -> &Path {
        self.place.path()
    }

    pub fn open(&self) -> (Engine, Applier) {
        open(self.path())
    }

    /// The error with which the engine refuses to open the directory.
    pub fn refusal(&self) -> Option<String> {
        let opened = try_open(self.path());
        opened.err().map(|error| error.to_string())
    }

    /// Names of the checkpoints, newest first.
    pub fn checkpoints(&self) -> Vec<String> {
        let files = engine::inspect::checkpoints(&RealDisk, self.path()).unwrap();
        let names = files.iter().map(|file| file.path.file_name().unwrap());
        names
            .map(|name| name.to_str().unwrap().to_owned())
            .collect()
    }

    pub fn contents(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let entries = std::fs::read_dir(self.path()).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        paths
            .map(|path| (path.clone(), std::fs::read(path).unwrap()))
            .collect()
    }

    /// Undoes all damage to files that still exist.
    pub fn restore(&self) {
        for (path, bytes) in &self.original {
            std::fs::write(path, bytes).unwrap();
        }
    }

    /// Names of the log segments that hold groups, in order.
    pub fn segments(&self) -> Vec<String> {
        let mut names: Vec<String> = self.frames().into_iter().map(|(name, ..)| name).collect();
        names.dedup();
        names
    }

    /// File, start and end of every frame of the log, in order.
    pub fn frames(&self) -> Vec<(String, u64, u64)> {
        let files = Files::list(&RealDisk, self.path()).unwrap();
        let mut frames = Vec::new();
        let mut link: Option<Link> = None;
        for segment in files.segments {
            let mut walk = segment.read(&RealDisk).unwrap().walk(link);
            let name = segment
                .path
                .file_name()
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned();
            frames.extend(
                walk.by_ref()
                    .map(|frame| (name.clone(), frame.start, frame.end)),
            );
            link = walk.link();
        }
        frames
    }

    pub fn newest_checkpoint(&self) -> String {
        self.checkpoints().remove(0)
    }

    pub fn flip(&self, file: &str, offset: u64, bit: u8) {
        self.change(file, |bytes| bytes[offset as usize] ^= 1 << bit);
    }

    pub fn zero(&self, file: &str, start: u64, end: u64) {
        self.change(file, |bytes| bytes[start as usize..end as usize].fill(0));
    }

    pub fn truncate(&self, file: &str, length: u64) {
        self.change(file, |bytes| bytes.truncate(length as usize));
    }

    fn change(&self, file: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let path = self.path().join(file);
        let mut bytes = std::fs::read(&path).unwrap();
        change(&mut bytes);
        std::fs::write(&path, bytes).unwrap();
    }
}

fn open(directory: &Path) -> (Engine, Applier) {
    try_open(directory).unwrap()
}

fn try_open(directory: &Path) -> Result<(Engine, Applier), engine::Error> {
    let options = Options {
        log: engine::LogOptions {
            segment_bytes: 64 << 10,
            spare_segments: 1,
            reserve_bytes: 0,
            ..engine::LogOptions::default()
        },
        batch_bytes_max: 32 << 10,
        ..Options::default()
    };
    let disk = Arc::new(RealDisk);
    let (engine, applier, _) = Engine::open(disk, directory, options, &mut |_| Ok(()))?;
    Ok((engine, applier))
}

/// Puts in turn on a few keys, a deletion now and then, a checkpoint.
fn fill(engine: &Engine, mut applier: Applier, value: &[u8]) {
    for number in 1..=BATCHES {
        write(engine, &mut applier, number, value);
        if number == CHECKPOINT_AFTER {
            applier.checkpoint(b"state").unwrap();
        }
    }
}

/// Writes the batch with that number to stable storage and applies it.
pub fn write(engine: &Engine, applier: &mut Applier, number: i64, value: &[u8]) {
    let batch = batch(number, value);
    let appended = engine.append(&batch).unwrap();
    engine.wait_durable(appended.sequence).unwrap();
    applier.apply(&batch, &appended);
}

fn batch(number: i64, value: &[u8]) -> Batch {
    let main = number + 1;
    let key = Bytes::from(format!("key/{:02}", number % KEYS));
    let tombstone = number % 50 == 0;
    let stored = KeyValue {
        key: key.clone(),
        mod_revision: if tombstone { 0 } else { main },
        value: if tombstone {
            Bytes::new()
        } else {
            value.repeat(REPEATED).into()
        },
        ..KeyValue::default()
    };
    let change = KeyChange {
        revision: Revision { main, sub: 0 },
        tombstone,
        key,
        kv: EncodedKeyValue::from(stored).0,
        created: if tombstone { 0 } else { main },
        version: i64::from(!tombstone),
        lease: 0,
    };
    Batch {
        term: 1,
        index: number as u64,
        changes: vec![Change::Key(change)],
    }
}
