//! Some figures of this machine: `cargo run --release -p engine --example
//! figures -- DIRECTORY KEYS VALUE_BYTES`. The directory must be new. Keys are
//! put in a scattered order, as names in the world are. With an old DIRECTORY
//! alone: the time to open it.

use bytes::Bytes;
use engine::{Applier, Batch, Change, Durability, Engine, Error, KeyChange, Options, Revision};
use environment::Clock;
use environment::real::{RealClock, RealDisk};
use std::path::Path;
use std::sync::Arc;

const BATCH: u64 = 100;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, directory] = &arguments[..] {
        let (engine, _applier) = timed("open", 1, || open(Path::new(directory)))?;
        println!("{:#?}", engine.status());
        return Ok(());
    }
    let [_, directory, keys, value_bytes] = &arguments[..] else {
        return Err("DIRECTORY KEYS VALUE_BYTES".into());
    };
    let (directory, keys) = (Path::new(directory), keys.parse::<u64>()?);
    let value_bytes = value_bytes.parse()?;
    let (engine, mut applier) = timed("open, empty", 1, || open(directory))?;
    timed("put", keys, || {
        fill(&engine, &mut applier, keys, value_bytes)
    })?;
    drop((engine, applier));
    let (engine, mut applier) = timed("open, replaying all", keys, || open(directory))?;
    assert_eq!(engine.status().keys, keys, "all keys are back");
    timed("point read", keys, || read_all(&engine, keys))?;
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
    let (engine, _applier) = timed("open, from the checkpoint", keys, || open(directory))?;
    assert_eq!(engine.status().keys, keys, "all keys are back");
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

fn key(number: u64) -> Vec<u8> {
    format!("/registry/pods/default/{number:012}").into_bytes()
}

fn change(number: u64, main: i64, value_bytes: usize) -> Change {
    let key = key(number);
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

fn fill(
    engine: &Engine,
    applier: &mut Applier,
    keys: u64,
    value_bytes: usize,
) -> Result<(), Error> {
    for index in 0..keys / BATCH {
        let numbers = index * BATCH..(index + 1) * BATCH;
        let changes = numbers
            .map(|number| change(scattered(number, keys), number as i64 + 2, value_bytes))
            .collect();
        let batch = Batch {
            term: 1,
            index: index + 1,
            changes,
        };
        let appended = engine.append(&batch)?;
        engine.wait_durable(appended.sequence)?;
        applier.apply(&batch, &appended);
    }
    Ok(())
}

fn read_all(engine: &Engine, keys: u64) -> Result<(), Error> {
    for number in 0..keys {
        let version = engine
            .snapshot()
            .get(&key(scattered(number, keys)), i64::MAX);
        engine.read(&version.expect("it was put"))?;
    }
    Ok(())
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
    println!("{what}: {taken:.3?}, {each:.0} ns each");
    Ok(result)
}
