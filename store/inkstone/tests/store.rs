//! The embedded API.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;
use std::time::Duration;

use inkstone::{Durability, Options, Remedy, Store, WriteBatch};

fn keys(entries: Vec<inkstone::KeyValue>) -> Vec<String> {
    entries
        .into_iter()
        .map(|entry| String::from_utf8(entry.key.to_vec()).unwrap())
        .collect()
}

fn open(directory: &tempfile::TempDir) -> Store {
    Options::new(directory.path().join("data"))
        .segment_bytes(1 << 20)
        .open()
        .unwrap()
}

#[test]
fn writes_are_there_after_reopening() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    for number in 0..300 {
        store
            .put(format!("key/{number:03}"), format!("value {number}"))
            .unwrap();
    }
    store.delete("key/007").unwrap();
    let revision = store.revision();
    drop(store);
    let store = open(&directory);
    assert_eq!(store.revision(), revision);
    assert_eq!(store.prefix("key/").count().unwrap(), 299);
    assert_eq!(store.get("key/042").unwrap().unwrap().value, "value 42");
    assert_eq!(store.get("key/007").unwrap(), None);
}

#[test]
fn ranges_in_both_directions_read_all_pages_at_one_revision() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    let mut model = BTreeMap::new();
    let mut batch = WriteBatch::new();
    for number in 0..1500 {
        let key = format!("{number:05}");
        model.insert(key.clone(), number);
        batch = batch.put(key, number.to_string());
    }
    store.write_batch(batch).unwrap();
    let mut forward = store.range::<&str>(..).iter();
    let first = forward.next().unwrap().unwrap();
    // Later changes do not show in an iteration that has begun.
    store.delete_range("00100"..).unwrap();
    let mut seen = vec![first.key];
    seen.extend(forward.map(|entry| entry.unwrap().key));
    assert!(seen.iter().eq(model.keys().map(String::as_bytes)));
    let before = store.at(store.revision() - 1);
    let backward = keys(before.range("00010".."01490").reverse().collect().unwrap());
    assert!(
        backward.iter().eq(model
            .range("00010".to_owned().."01490".to_owned())
            .rev()
            .map(|(key, _)| key))
    );
    assert_eq!(
        keys(before.range("00010"..="00011").collect().unwrap()),
        ["00010", "00011"]
    );
    assert_eq!(
        keys(
            before
                .range::<&str>(..)
                .reverse()
                .limit(2)
                .collect()
                .unwrap()
        ),
        ["01499", "01498"]
    );
    assert_eq!(store.range::<&str>(..).count().unwrap(), 100);
}

#[test]
fn ranges_of_large_and_small_values_equal_single_reads() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    let value = |number: usize| vec![number as u8; [10, 70_000, 4096, 0][number % 4]];
    for number in 0..200 {
        // Neither in ascending nor in descending order of the keys.
        let number = number * 73 % 200;
        store.put(format!("{number:03}"), value(number)).unwrap();
    }
    store.delete("050").unwrap();
    for reverse in [false, true] {
        let query = match reverse {
            true => store.range::<&str>(..).reverse(),
            false => store.range::<&str>(..),
        };
        let mut entries = query.collect().unwrap();
        if reverse {
            entries.reverse();
        }
        let numbers = (0..200).filter(|&number| number != 50);
        assert_eq!(entries.len(), 199);
        for (entry, number) in entries.iter().zip(numbers) {
            assert_eq!(entry.value, value(number), "{number}");
            assert_eq!(store.get(&entry.key).unwrap().as_ref(), Some(entry));
        }
        assert_eq!(query.limit(61).collect().unwrap().len(), 61);
    }
}

#[test]
fn a_key_can_be_read_at_any_revision_that_is_not_compacted() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    let first = store.put("k", "1").unwrap();
    let second = store.put("k", "2").unwrap();
    store.delete("k").unwrap();
    let last = store.put("k", "3").unwrap();
    let value = |at| {
        let found = store.at(at).get("k").unwrap();
        found.map(|entry| String::from_utf8(entry.value.to_vec()).unwrap())
    };
    let values = [first - 1, first, second, second + 1, last].map(value);
    let expected = [None, Some("1"), Some("2"), None, Some("3")];
    assert_eq!(values.each_ref().map(Option::as_deref), expected);
    assert_eq!(store.get("absent").unwrap(), None);
    assert_eq!(store.get("").unwrap(), None);
    store.compact(last).unwrap();
    let refused = [store.at(second), store.at(last + 1)].map(|view| view.get("k").unwrap_err());
    let ranges = [store.at(second), store.at(last + 1)]
        .map(|view| view.range("k"..="k").collect().unwrap_err());
    for (get, range) in refused.iter().zip(&ranges) {
        assert_eq!(get.to_string(), range.to_string());
        assert_eq!(get.remedy(), range.remedy());
    }
    assert_eq!(value(last).as_deref(), Some("3"));
}

#[test]
fn a_batch_is_one_revision_and_is_refused_if_it_has_a_key_twice() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    store.put("a", "1").unwrap();
    let revision = store
        .write_batch(WriteBatch::new().put("b", "2").delete("a"))
        .unwrap();
    assert_eq!(store.get("b").unwrap().unwrap().mod_revision, revision);
    assert_eq!(store.get("a").unwrap(), None);
    let error = store
        .write_batch(WriteBatch::new().put("c", "3").put("c", "4"))
        .unwrap_err();
    assert_eq!(error.remedy(), Remedy::CorrectTheCall, "{error}");
    assert_eq!(store.get("c").unwrap(), None);
    assert_eq!(store.write_batch(WriteBatch::new()).unwrap(), revision);
}

#[test]
fn a_watch_returns_past_and_then_new_events_in_order() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    let first = store.put("w/a", "1").unwrap();
    store.put("other", "x").unwrap();
    store.delete("w/a").unwrap();
    let mut watch = store.watch_prefix("w/", first).unwrap();
    let writer = store.clone();
    let live = std::thread::Builder::new()
        .spawn(move || writer.put("w/b", "2").unwrap())
        .unwrap();
    let events: Vec<_> = (0..3).map(|_| watch.next().unwrap()).collect();
    let live = live.join().unwrap();
    let seen: Vec<_> = events
        .iter()
        .map(|event| (event.revision(), event.is_deletion()))
        .collect();
    assert_eq!(seen, [(first, false), (first + 2, true), (live, false)]);
}

#[test]
fn a_waiting_watch_fails_when_its_store_closes() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    let mut watch = store.watch_prefix("w/", 0).unwrap();
    let waiting = std::thread::Builder::new()
        .spawn(move || watch.next().unwrap_err())
        .unwrap();
    drop(store);
    assert_eq!(waiting.join().unwrap().remedy(), Remedy::Reopen);
}

#[test]
fn a_compacted_revision_is_refused_for_reads_and_watches() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    let old = store.put("k", "1").unwrap();
    let new = store.put("k", "2").unwrap();
    store.compact(new).unwrap();
    let error = store.at(old).get("k").unwrap_err();
    assert_eq!(error.remedy(), Remedy::CorrectTheCall, "{error}");
    let error = store.watch_prefix("k", old).unwrap().next().unwrap_err();
    assert!(error.to_string().contains("compacted"), "{error}");
    assert_eq!(store.get("k").unwrap().unwrap().value, "2");
}

#[test]
fn a_second_store_on_a_directory_is_refused_and_the_error_names_the_holder() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    let error = Store::open(directory.path().join("data")).unwrap_err();
    assert!(
        error.to_string().contains(&std::process::id().to_string()),
        "{error}"
    );
    drop(store);
    open(&directory);
}

#[test]
fn writers_on_many_threads_lose_no_put_and_share_flushes() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    let threads: Vec<_> = (0..16)
        .map(|writer| {
            let store = store.clone();
            std::thread::Builder::new()
                .spawn(move || {
                    for number in 0..50 {
                        store.put(format!("{writer:02}/{number:02}"), "v").unwrap();
                    }
                })
                .unwrap()
        })
        .collect();
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    assert_eq!(store.range::<&str>(..).count().unwrap(), 800);
    assert_eq!(store.revision(), 801);
    let status = store.node().reader().engine().status();
    assert!(
        status.log.flushes < 800,
        "{} flushes for 800 concurrent puts",
        status.log.flushes
    );
}

#[test]
fn at_the_memory_limit_deletions_and_disarm_permit_writes_again() {
    let directory = tempfile::tempdir().unwrap();
    let options = Options::new(directory.path().join("data")).segment_bytes(1 << 20);
    let store = options.memory_bytes_max(256 << 10).open().unwrap();
    let mut number = 0;
    let error = loop {
        match store.put(format!("{number:06}"), "v") {
            Ok(_) => number += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(error.remedy(), Remedy::MakeRoom, "{error}");
    let error = store.put("again", "v").unwrap_err();
    assert_eq!(error.remedy(), Remedy::MakeRoom, "{error}");
    store.delete_range("000001"..).unwrap();
    // The deletions of the compacted revision itself are kept for watches.
    store.delete("000000").unwrap();
    store.compact(store.revision()).unwrap();
    store.disarm().unwrap();
    store.put("again", "v").unwrap();
}

#[test]
fn a_store_and_a_map_refuse_each_others_directories() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("map");
    let map = ordered_map::Map::open(&path).unwrap();
    map.put("a", "1").unwrap();
    drop(map);
    for _ in 0..2 {
        let error = Options::new(&path).open().unwrap_err();
        assert!(error.to_string().contains("109"), "{error}");
    }
    let as_it_is = ordered_map::Compression::None;
    let map = ordered_map::Options::new(&path)
        .compression(as_it_is)
        .open();
    let map = map.unwrap();
    assert_eq!(map.get("a").unwrap().unwrap(), "1");

    for number in 0..9_u8 {
        map.put([number], vec![7; 1 << 20]).unwrap();
    }
    drop(map);
    let error = Options::new(&path).open().unwrap_err();
    assert!(
        error.to_string().contains("map of crate ordered-map"),
        "with a checkpoint: {error}"
    );

    let store = open(&directory);
    store.put("a", "2").unwrap();
    drop(store);
    for path in ["data", "data/member"] {
        let path = directory.path().join(path);
        if path.is_dir() {
            let error = ordered_map::Map::open(path).unwrap_err();
            assert!(
                error.to_string().contains("holds no ordered map"),
                "{error}"
            );
        }
    }
    assert_eq!(open(&directory).get("a").unwrap().unwrap().value, "2");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a segment is damaged")]
fn an_error_at_the_start_has_the_remedy_of_its_cause() {
    let directory = tempfile::tempdir().unwrap();
    let options = || Options::new(directory.path().join("data")).segment_bytes(1 << 20);
    let assert_refused = |options: Options, remedy: Remedy, part: &str| {
        let error = options.open().map(drop).unwrap_err();
        assert_eq!(error.remedy(), remedy, "{error}");
        assert!(error.to_string().contains(part), "{error}");
    };
    let flushed_after = |entries_max| Durability::MajorityMemory {
        entries_max,
        interval: Duration::from_millis(100),
    };
    let never = options().durability(flushed_after(0));
    assert_refused(never, Remedy::CorrectTheCall, "`flushing.entries_max` is 0");
    let odd = options().segment_bytes(1_000_000);
    assert_refused(odd, Remedy::CorrectTheCall, "segment_bytes");

    let store = options().open().unwrap();
    store.put("k", "v").unwrap();
    assert_refused(options(), Remedy::Retry, "in use");
    drop(store);

    let log = || std::fs::read_dir(directory.path().join("data")).unwrap();
    let log = log().map(|entry| entry.unwrap().path());
    let log = log.filter(|path| path.extension().is_some_and(|end| end == "log"));
    for segment in log {
        std::fs::write(segment, b"rubbish").unwrap();
    }
    assert_refused(options(), Remedy::Repair, "data");
}
