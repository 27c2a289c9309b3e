//! Some figures of this machine: `cargo run --release -p engine --example
//! figures -- DIRECTORY KEYS VALUE_BYTES [random]`. The directory must be new. Keys are
//! names of 35 bytes, put in a scattered order as names in the world are, or random
//! ones of 8 bytes. With an old DIRECTORY alone: the time to open it. Behind each time
//! stands the anonymous memory of the process.

use bytes::Bytes;
use engine::{Applier, Batch, Change, Durability, Engine, Error, KeyChange, Options, Revision};
use environment::Clock;
use environment::randomness::Random;
use environment::real::{RealClock, RealDisk};
use std::path::Path;
use std::sync::Arc;

const BATCH: u64 = 100;
const READS_MAX: u64 = 1_000_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, directory] = &arguments[..] {
        let (engine, _applier) = timed("open", 1, || open(Path::new(directory)))?;
        println!("{:#?}", engine.status());
        return Ok(());
    }
    let (directory, keys, value_bytes, key) = match &arguments[..] {
        [_, directory, keys, value_bytes] => (directory, keys, value_bytes, name as KeyOf),
        [_, directory, keys, value_bytes, kind] if kind == "random" => {
            (directory, keys, value_bytes, random_key as KeyOf)
        }
        _ => return Err("DIRECTORY KEYS VALUE_BYTES [random]".into()),
    };
    let (directory, keys) = (Path::new(directory), keys.parse::<u64>()?);
    let value_bytes = value_bytes.parse()?;
    let (engine, mut applier) = timed("open, empty", 1, || open(directory))?;
    let some = |count| (0..count).map(move |number| key(scattered(number, keys)));
    timed("put", keys, || {
        put(&engine, &mut applier, some(keys), value_bytes)
    })?;
    drop((engine, applier));
    let (engine, mut applier) = timed("open, replaying all", keys, || open(directory))?;
    assert_eq!(engine.status().keys, keys, "all keys are back");
    let reads = keys.min(READS_MAX);
    timed("point read", reads, || read(&engine, some(reads)))?;
    timed("count, half of all keys", 1, || {
        let snapshot = engine.snapshot();
        Ok(engine.count(
            &snapshot,
            &key(0),
            Some(&key(keys / 2)),
            snapshot.revision(),
        ))
    })?;
    timed("start a watch in the middle", 1, || {
        engine
            .history(engine.status().revision / 2)?
            .next()
            .transpose()
    })?;
    timed("range of all keys, index only", keys, || {
        Ok(engine.snapshot().range(&[], None, i64::MAX).count())
    })?;
    timed("checkpoint", keys, || applier.checkpoint(&[]))?;
    println!("{:#?}", engine.status());
    drop((engine, applier));
    let (engine, mut applier) = timed("open, from the checkpoint", keys, || open(directory))?;
    assert_eq!(engine.status().keys, keys, "all keys are back");
    timed("put again, half of all keys", keys / 2, || {
        put(&engine, &mut applier, some(keys / 2), value_bytes)
    })?;
    let revision = engine.status().revision;
    drop((engine, applier));
    let (engine, _applier) = timed("open, and replay these", keys / 2, || open(directory))?;
    assert_eq!(engine.status().revision, revision, "all puts are back");
    Ok(())
}

fn open(directory: &Path) -> Result<(Engine, Applier), Error> {
    let options = Options {
        log: engine::LogOptions {
            durability: Durability::Os,
            ..engine::LogOptions::default()
        },
        ..Options::default()
    };
    let opened = Engine::open(Arc::new(RealDisk), directory, options, &mut |_| Ok(()))?;
    Ok((opened.0, opened.1))
}

type KeyOf = fn(u64) -> Vec<u8>;

fn random_key(number: u64) -> Vec<u8> {
    Random::from_seed(number).next_u64().to_be_bytes().to_vec()
}

fn name(number: u64) -> Vec<u8> {
    format!("/registry/pods/default/{number:012}").into_bytes()
}

fn change(key: Vec<u8>, main: i64, value_bytes: usize) -> Change {
    let mut kv = vec![0x0a, key.len() as u8];
    kv.extend(&key);
    kv.extend([0x2a, value_bytes as u8 | 0x80, (value_bytes >> 7) as u8]);
    kv.resize(kv.len() + value_bytes, 7);
    Change::Key(KeyChange {
        revision: Revision { main, sub: 0 },
        tombstone: false,
        key: key.into(),
        kv: Bytes::from(kv),
        created: main,
        version: 1,
        lease: 0,
    })
}

/// A permutation of the numbers below `keys` (when 7 and 11 do not divide it).
fn scattered(number: u64, keys: u64) -> u64 {
    number * 7_777_777_777 % keys
}

fn put(
    engine: &Engine,
    applier: &mut Applier,
    mut keys: impl Iterator<Item = Vec<u8>>,
    value_bytes: usize,
) -> Result<(), Error> {
    let (mut index, mut main) = (engine.status().applied_index, engine.status().revision);
    loop {
        let change = |key| {
            main += 1;
            change(key, main, value_bytes)
        };
        let changes: Vec<_> = keys.by_ref().take(BATCH as usize).map(change).collect();
        if changes.is_empty() {
            return Ok(());
        }
        index += 1;
        let batch = Batch {
            term: 1,
            index,
            changes,
        };
        let appended = engine.append(&batch)?;
        engine.wait_durable(appended.sequence)?;
        applier.apply(&batch, &appended);
    }
}

fn read(engine: &Engine, mut keys: impl Iterator<Item = Vec<u8>>) -> Result<(), Error> {
    keys.try_for_each(|key| {
        let version = engine.snapshot().get(&key, i64::MAX);
        engine.read(&version.expect("it was put"))?;
        Ok(())
    })
}

/// Of this process, as the system counts it; empty where it does not say.
fn anonymous_memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let of_line = |line: &str| {
        line.strip_prefix("RssAnon:")?
            .trim()
            .strip_suffix(" kB")?
            .parse()
            .ok()
    };
    let kibibytes: Option<u64> = status.lines().find_map(of_line);
    kibibytes.map_or_else(String::new, |bytes| format!(", {} MiB", bytes >> 10))
}

fn timed<T>(
    what: &str,
    units: u64,
    work: impl FnOnce() -> Result<T, Error>,
) -> Result<T, Box<dyn std::error::Error>> {
    let clock = RealClock;
    let start = clock.now();
    let result = work()?;
    let taken = clock.now().saturating_since(start);
    let each = taken.as_secs_f64() * 1e9 / units as f64;
    let memory = anonymous_memory();
    println!("{what}: {taken:.3?}, {each:.0} ns each{memory}");
    Ok(result)
}
