//! Restarts of directories in which a byte is damaged.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use environment::simulated::{SimulatedClock, SimulatedDisk};
use environment::{Clock, Disk, OpenMode};
use revisions::{Machine, Options, Reader, plan_repair};

use crate::store::{Store, small};

const DIRECTORY: &str = "/data";
const LOG: &str = "/data/00000001.log";
/// Bytes before the first frame.
const FRAMES_START: u64 = 4096;

/// A small directory, and what it held at each revision.
struct Small {
    disk: SimulatedDisk,
    at: BTreeMap<i64, BTreeMap<String, String>>,
}

fn contents(reader: &Reader) -> BTreeMap<String, Result<String, String>> {
    let snapshot = reader.engine().snapshot();
    let versions: Vec<_> = snapshot.range(b"", None, snapshot.revision()).collect();
    drop(snapshot);
    let value = |version: &engine::Version| {
        let got = reader.get(&version.key, 0);
        let got = got.map_err(|error| error.to_string())?;
        let value = got.ok_or("it is gone")?.value().to_vec();
        String::from_utf8(value).map_err(|error| error.to_string())
    };
    let key = |version: &engine::Version| String::from_utf8(version.key.to_vec()).unwrap();
    versions.iter().map(|it| (key(it), value(it))).collect()
}

/// Closed in front of its checkpoint's tail, as a kill leaves it.
fn directory(checkpoint: bool) -> Small {
    let mut store = Store::with(small());
    let mut at = BTreeMap::new();
    store.grant(7, 1000).unwrap();
    let note = |store: &Store, at: &mut BTreeMap<i64, BTreeMap<String, String>>| {
        let now = contents(&store.reader);
        let now = now.into_iter().map(|(key, value)| (key, value.unwrap()));
        at.insert(store.reader.revision(), now.collect());
    };
    // In front of the checkpoint, where there is one, and not replaced later.
    store.put("old", "an old value");
    note(&store, &mut at);
    for number in 0..10 {
        let key = format!("key{}", number % 4);
        store.put(&key, &format!("value {number} of this key"));
        note(&store, &mut at);
        if number == 6 {
            store.delete("key1", "");
            note(&store, &mut at);
        }
        if checkpoint && number == 4 {
            store.machine.checkpoint().unwrap();
        }
    }
    let disk = store.disk.fork();
    Small { disk, at }
}

fn open(disk: &SimulatedDisk, options: &Options) -> Result<(Machine, Reader), revisions::Error> {
    let clock = Arc::new(SimulatedClock::stepped());
    let disk = Arc::new(disk.clone());
    let opened = Machine::open(disk, Path::new(DIRECTORY), options.clone(), clock);
    opened.map(|(machine, reader, _)| (machine, reader))
}

/// Where a file's last byte is that is not zero.
fn used(disk: &SimulatedDisk, path: &Path) -> u64 {
    let file = disk.open(path, OpenMode::Read).unwrap();
    let mut content = vec![0; file.size().unwrap() as usize];
    file.read_at(&mut content, 0).unwrap();
    content.iter().rposition(|&byte| byte != 0).unwrap() as u64 + 1
}

impl Small {
    /// The state is one that was, at `revision`; values may be refused by name.
    fn check(&self, reader: &Reader, what: &str) {
        let revision = reader.revision();
        // Before the first put only a lease was granted.
        let expected = self.at.range(..=revision).next_back();
        let expected = expected.map(|(_, map)| map.clone()).unwrap_or_default();
        let found = contents(reader);
        assert!(found.keys().eq(expected.keys()), "{what}: {found:?}");
        for (key, value) in found {
            match value {
                Ok(value) => assert_eq!(value, expected[&key], "{what}: {key}"),
                Err(error) => assert!(error.contains(&key), "{what}: {error}"),
            }
        }
    }

    fn last(&self) -> i64 {
        *self.at.keys().next_back().unwrap()
    }
}

/// Flips each byte of a file once: the start serves the right data or refuses; then a
/// repair gives up what it named, and the start serves the rest. Returns how many starts
/// were refused, and how many values were missing.
fn flip_each(small_directory: &Small, path: &Path, from: u64) -> (usize, usize) {
    let options = small();
    let clock: Arc<dyn Clock> = Arc::new(SimulatedClock::stepped());
    let (mut refused, mut missing) = (0, 0);
    for offset in from..used(&small_directory.disk, path) {
        let disk = small_directory.disk.fork();
        disk.flip_bit(path, offset, (offset % 8) as u8);
        let what = format!("byte {offset} of {}", path.display());
        match open(&disk, &options) {
            Ok((_machine, reader)) => {
                // The end of the log may be torn: nothing promised it.
                assert!(reader.revision() >= small_directory.last() - 1, "{what}");
                small_directory.check(&reader, &what);
                let values = contents(&reader).into_values();
                missing += values.filter(Result::is_err).count();
                continue;
            }
            Err(error) => assert!(!error.to_string().is_empty(), "{what}"),
        }
        refused += 1;
        let plan = plan_repair(&disk, Path::new(DIRECTORY), &options, &clock);
        let (plan, _) = match plan {
            Ok(Some(plan)) => plan,
            Ok(None) => panic!("{what}: refused, and nothing to repair"),
            // Nothing of the log is left, or its segment is no segment any more.
            Err(error) => {
                assert!(offset < FRAMES_START + 200, "{what}: {error}");
                continue;
            }
        };
        plan.carry_out(&disk, Path::new(DIRECTORY)).unwrap();
        let (_machine, reader) =
            open(&disk, &options).unwrap_or_else(|error| panic!("{what}: after {plan:?}: {error}"));
        assert_eq!(reader.revision(), plan.revision, "{what}");
        small_directory.check(&reader, &what);
        let named = plan.lost.iter().flat_map(|lost| &lost.keys);
        let named: Vec<i64> = named.map(|(_, main)| *main).collect();
        let damaged = plan
            .lost
            .iter()
            .filter(|lost| lost.sequence.is_none())
            .count();
        for lost in plan.revision + 1..=small_directory.last() {
            assert!(
                named.contains(&lost) || damaged > 0,
                "{what}: {lost} is not named"
            );
        }
    }
    (refused, missing)
}

#[test]
fn each_byte_of_a_log_flipped_serves_the_right_data_or_is_repaired() {
    let directory = directory(false);
    let (refused, missing) = flip_each(&directory, Path::new(LOG), 0);
    assert!(refused > 100, "{refused}");
    assert_eq!(missing, 0);
}

#[test]
fn each_byte_of_a_log_with_a_checkpoint_flipped_serves_the_right_data_or_is_repaired() {
    let directory = directory(true);
    let (refused, missing) = flip_each(&directory, Path::new(LOG), FRAMES_START);
    assert!(refused > 100 && missing > 0, "{refused} {missing}");
}

#[test]
fn each_byte_of_each_checkpoint_flipped_serves_the_right_data() {
    let directory = directory(true);
    let names = directory.disk.list(Path::new(DIRECTORY)).unwrap();
    let names = names
        .into_iter()
        .filter(|name| name.ends_with(".checkpoint"));
    for name in names {
        let path: PathBuf = Path::new(DIRECTORY).join(name);
        let (refused, missing) = flip_each(&directory, &path, 0);
        assert_eq!((refused, missing), (0, 0), "{}", path.display());
    }
}
