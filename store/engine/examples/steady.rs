//! What checkpoints and a compaction cost the puts beside them: `cargo run --release -p engine
//! --example steady -- DIRECTORY KEYS BATCHES`. Overwrites keys in durable
//! batches and prints the times of those beside a checkpoint and of the others apart.

use bytes::Bytes;
use engine::{Applier, Batch, Change, Engine, Error, KeyChange, Options, Revision};
use environment::Clock;
use environment::real::{RealClock, RealDisk};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const BATCH: u64 = 100;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, directory, keys, batches] = &arguments[..] else {
        return Err("DIRECTORY KEYS BATCHES".into());
    };
    let (keys, batches) = (keys.parse::<u64>()?, batches.parse::<u64>()?);
    let mut store = Store::open(Path::new(directory), keys)?;
    for _ in 0..keys / BATCH {
        store.batch(false)?;
    }
    let (mut beside, mut alone) = (Vec::new(), Vec::new());
    for _ in 0..batches {
        let busy = store.applier.is_maintaining();
        let taken = store.batch(true)?;
        if busy { &mut beside } else { &mut alone }.push(taken);
    }
    print_times("beside a checkpoint", beside);
    print_times("alone", alone);
    let history = store.engine.status().versions - store.engine.status().keys;
    let (mut sweeping, mut longest) = (Vec::new(), Duration::ZERO);
    let start = RealClock.now();
    store.applier.compact(store.main);
    let taken = RealClock.now().saturating_since(start);
    while store.applier.is_sweeping() {
        sweeping.push(store.batch(false)?);
        let start = RealClock.now();
        store.applier.maintain(&mut Vec::new)?;
        longest = longest.max(RealClock.now().saturating_since(start));
    }
    println!("compaction of {history} versions: {taken:.1?}, longest slice {longest:.1?}");
    print_times("beside its sweep", sweeping);
    println!("{:#?}", store.engine.status());
    Ok(())
}

fn print_times(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let Some(last) = times.last() else {
        return println!("{what}: none");
    };
    let at = |share: usize| times[(times.len() - 1) * share / 1000];
    let mean = times.iter().sum::<Duration>() / times.len() as u32;
    println!(
        "{what}: {} batches, mean {mean:.1?}, median {:.1?}, 99 % {:.1?}, 99.9 % {:.1?}, longest {last:.1?}",
        times.len(),
        at(500),
        at(990),
        at(999),
    );
}

struct Store {
    engine: Engine,
    applier: Applier,
    index: u64,
    main: i64,
    keys: u64,
}

impl Store {
    fn open(directory: &Path, keys: u64) -> Result<Store, Error> {
        let options = Options::default();
        let (engine, applier, recovered) =
            Engine::open(Arc::new(RealDisk), directory, options, &mut |_| Ok(()))?;
        Ok(Store {
            engine,
            applier,
            index: recovered.applied_index,
            main: recovered.revision,
            keys,
        })
    }

    /// One durable batch; how long it took.
    fn batch(&mut self, maintain: bool) -> Result<Duration, Error> {
        let start = RealClock.now();
        self.index += 1;
        let changes = (0..BATCH).map(|_| self.change()).collect();
        let batch = Batch {
            term: 1,
            index: self.index,
            changes,
        };
        let appended = self.engine.append(&batch)?;
        self.engine.wait_durable(appended.sequence)?;
        self.applier.apply(&batch, &appended);
        if maintain {
            self.applier.maintain(&mut Vec::new)?;
        }
        Ok(RealClock.now().saturating_since(start))
    }

    fn change(&mut self) -> Change {
        self.main += 1;
        let number = (self.main as u64).wrapping_mul(7_777_777_777) % self.keys;
        let key = format!("/registry/pods/default/{number:012}");
        let mut kv = vec![0x0a, key.len() as u8];
        kv.extend(key.as_bytes());
        kv.extend([0x2a, 0x80, 0x02]);
        kv.resize(kv.len() + 256, 7);
        Change::Key(KeyChange {
            revision: Revision {
                main: self.main,
                sub: 0,
            },
            tombstone: false,
            key: key.into(),
            kv: Bytes::from(kv),
            created: self.main,
            version: 1,
            lease: 0,
        })
    }
}
