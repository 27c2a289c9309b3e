//! The public functions of the map.

#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::ops::{Bound, ControlFlow};
use std::os::unix::fs::FileExt;
use std::{panic, thread};

use ordered_map::{Compression, Durability, Error, Map, Options, Range, WriteBatch};

fn options(directory: &tempfile::TempDir) -> Options {
    Options::new(directory.path().join("data"))
        .durability(Durability::Os)
        .segment_bytes(1 << 20)
        .reserve_bytes(0)
        // Values of one byte take their length in most tests.
        .compression(Compression::None)
}

fn a_map() -> (tempfile::TempDir, Map) {
    let directory = tempfile::tempdir().unwrap();
    let map = options(&directory).open().unwrap();
    (directory, map)
}

fn keys(pairs: impl Iterator<Item = Result<(bytes::Bytes, bytes::Bytes), Error>>) -> Vec<String> {
    let key = |pair: Result<(bytes::Bytes, bytes::Bytes), Error>| pair.unwrap().0;
    pairs
        .map(|pair| String::from_utf8(key(pair).to_vec()).unwrap())
        .collect()
}

#[test]
fn a_key_has_the_value_that_was_put_last() {
    let (_directory, map) = a_map();
    assert_eq!(map.get("a").unwrap(), None);
    map.put("a", "1").unwrap();
    map.put("a", "2").unwrap();
    assert_eq!(map.get("a").unwrap().unwrap(), "2");
    assert!(map.delete("a").unwrap());
    assert!(!map.delete("a").unwrap(), "it is gone already");
    assert_eq!(map.get("a").unwrap(), None);
    assert!(map.is_empty());
}

/// The keys in front of the error that ends a range.
fn until_an_error(
    mut pairs: impl Iterator<Item = Result<(bytes::Bytes, bytes::Bytes), Error>>,
) -> Vec<String> {
    let good: Vec<_> = pairs.by_ref().map_while(Result::ok).collect();
    assert!(pairs.next().is_none(), "an error ends a range");
    keys(good.into_iter().map(Ok))
}

/// The keys that a visit of a range sees, up to one, or up to its end or an error.
fn visited(range: Range, last: &str) -> (Vec<String>, Result<(), Error>) {
    let mut keys = Vec::new();
    let outcome = range.visit(|key, _value| {
        keys.push(String::from_utf8(key.to_vec()).unwrap());
        match key == last.as_bytes() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    (keys, outcome)
}

/// Flips a bit in the value, in the log of an open map.
#[expect(clippy::disallowed_methods, reason = "damage comes from outside")]
fn damage(directory: &tempfile::TempDir, value: &[u8]) {
    for entry in std::fs::read_dir(directory.path().join("data")).unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        if let Some(at) = bytes.windows(value.len()).position(|it| it == value) {
            let file = OpenOptions::new().write(true).open(&path).unwrap();
            return file.write_all_at(&[bytes[at] ^ 4], at as u64).unwrap();
        }
    }
    panic!("the value is in no file");
}

#[test]
fn a_damaged_value_ends_a_range_and_hides_no_pair_in_front_of_it() {
    let (directory, map) = a_map();
    let all: Vec<String> = (0..100).map(|number| format!("{number:03}")).collect();
    for key in &all {
        map.put(key, format!("value {key}")).unwrap();
    }
    damage(&directory, b"value 070");
    assert_eq!(until_an_error(map.range::<&str>(..)), all[..70]);
    let from_the_end = until_an_error(map.range::<&str>(..).rev());
    assert!(from_the_end.iter().eq(all[71..].iter().rev()));
    assert_eq!(keys(map.range("071"..)), all[71..]);
    assert!(matches!(map.range("070"..).next(), Some(Err(_))));
    let (seen, outcome) = visited(map.range::<&str>(..), "");
    assert_eq!(seen, all[..70]);
    let iterated = map.range("070"..).next().unwrap();
    assert_eq!(
        outcome.unwrap_err().to_string(),
        iterated.unwrap_err().to_string()
    );
}

#[test]
fn keys_and_values_may_be_empty_long_and_of_any_bytes() {
    let (directory, map) = a_map();
    let long = vec![0xff; 100_000];
    map.put("", "of the empty key").unwrap();
    map.put("empty", "").unwrap();
    map.put([0, 0xff, 0x2a], [0x2a, 0, 0xff]).unwrap();
    map.put(&long, &long).unwrap();
    drop(map);
    let map = options(&directory).open().unwrap();
    assert_eq!(map.get("").unwrap().unwrap(), "of the empty key");
    assert_eq!(map.get("empty").unwrap().unwrap(), "");
    assert_eq!(
        map.get([0, 0xff, 0x2a]).unwrap().unwrap(),
        &[0x2a, 0, 0xff][..]
    );
    assert_eq!(map.get(&long).unwrap().unwrap(), long);
    assert_eq!(map.range::<&str>(..).count(), 4);
    assert!(map.delete("").unwrap());
    assert_eq!(map.len(), 3);
}

#[test]
fn a_batch_happens_together_and_counts_what_it_deletes() {
    let (_directory, map) = a_map();
    map.put("a", "1").unwrap();
    let batch = WriteBatch::new().put("b", "2").delete("a").delete("absent");
    assert_eq!(map.write(batch).unwrap(), 1);
    assert_eq!(keys(map.range::<&str>(..)), ["b"]);
    assert_eq!(map.write(WriteBatch::new()).unwrap(), 0);
}

#[test]
fn ranges_run_in_order_from_both_ends_and_stop_where_these_meet() {
    let (_directory, map) = a_map();
    let mut batch = WriteBatch::new();
    for number in 0..1_000 {
        batch = batch.put(format!("{number:04}"), number.to_string());
    }
    map.write(batch).unwrap();
    let all: Vec<String> = (0..1_000).map(|number| format!("{number:04}")).collect();
    assert_eq!(keys(map.range::<&str>(..)), all);
    assert!(
        keys(map.range::<&str>(..).rev())
            .iter()
            .eq(all.iter().rev())
    );
    assert_eq!(keys(map.range("0100"..="0102")), ["0100", "0101", "0102"]);
    let above = (Bound::Excluded("0997"), Bound::Unbounded);
    assert_eq!(keys(map.range::<&str>(above)), ["0998", "0999"]);
    assert_eq!(keys(map.prefix("099")).len(), 10);
    assert_eq!(map.range("b".."a").count(), 0);
    for front in [0, 1, 15, 16, 17, 500, 999, 1_000] {
        let mut range = map.range::<&str>(..);
        let mut seen = keys(range.by_ref().take(front));
        let mut behind = keys(range.by_ref().rev());
        behind.reverse();
        seen.extend(behind);
        assert_eq!(seen, all, "{front} from the front");
        assert!(range.next().is_none() && range.next_back().is_none());
    }
}

#[test]
fn a_visit_sees_what_was_not_taken_from_a_range_up_to_a_break() {
    let (_directory, map) = a_map();
    let all: Vec<String> = (0..1_000).map(|number| format!("{number:04}")).collect();
    let put = |batch: WriteBatch, key: &String| batch.put(key.clone(), vec![7; 300]);
    map.write(all.iter().fold(WriteBatch::new(), put)).unwrap();
    for (front, back) in [
        (0, 0),
        (1, 1),
        (16, 17),
        (500, 499),
        (500, 500),
        (1_000, 0),
        (0, 1_000),
    ] {
        let taken = || {
            let mut range = map.range::<&str>(..);
            assert_eq!(range.by_ref().take(front).count(), front);
            assert_eq!(range.by_ref().rev().take(back).count(), back);
            range
        };
        let (seen, outcome) = visited(taken(), "");
        outcome.unwrap();
        let left = &all[front..1_000 - back];
        assert_eq!(seen, left);
        for end in [0, left.len() / 2, left.len().saturating_sub(1)] {
            let Some(last) = left.get(end) else { continue };
            let (seen, outcome) = visited(taken(), last);
            outcome.unwrap();
            assert_eq!(seen, left[..=end]);
        }
    }
    assert_eq!(visited(map.range("b".."a"), "").0, [""; 0]);
}

/// The pairs that a visit of all keys sees.
fn visited_pairs(map: &Map) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut pairs = Vec::new();
    let visit = |key: &[u8], value: &[u8]| {
        pairs.push((key.to_vec(), value.to_vec()));
        ControlFlow::Continue(())
    };
    map.range::<&str>(..).visit(visit).unwrap();
    pairs
}

#[test]
fn a_visit_sees_values_of_any_length() {
    let directory = tempfile::tempdir().unwrap();
    for compression in [Compression::None, Compression::Lz4] {
        let options = options(&directory).segment_bytes(8 << 20);
        let map = options.compression(compression).open().unwrap();
        let lengths = [
            0,
            1,
            400,
            4_000,
            8_180,
            9_000,
            30_000,
            33_000,
            70_000,
            1 << 20,
            3 << 20,
        ];
        let expected: Vec<_> = (b'a'..).zip(lengths).collect();
        let value = |key: u8, bytes: usize| -> Vec<u8> {
            (0..bytes)
                .map(|at| (at / 3 * usize::from(key)) as u8)
                .collect()
        };
        for &(key, bytes) in &expected {
            map.put([key], value(key, bytes)).unwrap();
        }
        for _ in 0..3 {
            let pairs = visited_pairs(&map);
            assert_eq!(pairs.len(), expected.len());
            for ((key, found), &(expected_key, bytes)) in pairs.iter().zip(&expected) {
                assert_eq!(key[..], [expected_key]);
                assert!(*found == value(expected_key, bytes), "{bytes} bytes");
            }
        }
    }
}

#[test]
fn a_visit_may_use_the_map_and_end_in_a_panic() {
    let (_directory, map) = a_map();
    for number in 0..100 {
        map.put(format!("{number:03}"), "before").unwrap();
    }
    let mut seen = 0;
    map.range::<&str>(..)
        .visit(|key, value| {
            assert_eq!(value, b"before", "a range is of the moment it was made");
            map.put("099", "after").unwrap();
            map.delete(key).unwrap();
            seen += visited_pairs(&map).len();
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!((seen, map.len()), ((0..100).sum(), 0));
    map.put("a", "1").unwrap();
    let visit = || map.range::<&str>(..).visit(|_, _| panic!("in a visit"));
    panic::catch_unwind(panic::AssertUnwindSafe(visit)).unwrap_err();
    assert_eq!(visited_pairs(&map), [(b"a".to_vec(), b"1".to_vec())]);
    let range = map.range::<&str>(..);
    drop(map);
    assert_eq!(visited(range, "").0, ["a"], "a range keeps its map open");
}

/// The rounds in which the values of a visit were written. All 200 pairs must be there, and whole.
fn visited_rounds(map: &Map) -> Vec<u32> {
    let pairs = visited_pairs(map);
    assert_eq!(pairs.len(), 200);
    let round = |(number, (key, value)): (u32, (Vec<u8>, Vec<u8>))| {
        assert_eq!(key, number.to_be_bytes());
        let (numbers, fill) = value.split_at(8);
        assert_eq!(numbers[..4], number.to_be_bytes());
        assert!(fill.len() == 1_000 && fill.iter().all(|it| *it == numbers[7]));
        u32::from_be_bytes(numbers[4..].try_into().unwrap())
    };
    (0..200).zip(pairs).map(round).collect()
}

#[test]
fn visits_beside_overwrites_and_collection_see_what_was_written_last() {
    for durability in [Durability::Os, Durability::Durable] {
        let directory = tempfile::tempdir().unwrap();
        let options = options(&directory).segment_bytes(256 << 10);
        let options = options.durability(durability).garbage_percent_max(10);
        let map = options.open().unwrap();
        let put_all = |round: u32| {
            let put = |batch: WriteBatch, number: u32| {
                let numbers = [number.to_be_bytes(), round.to_be_bytes()].concat();
                let value = [numbers, vec![round as u8; 1_000]].concat();
                batch.put(number.to_be_bytes().to_vec(), value)
            };
            map.write((0..200).fold(WriteBatch::new(), put)).unwrap();
        };
        put_all(0);
        thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let mut round = 0;
                while map.status().upkeep.released_segments < 40 {
                    round += 1;
                    assert!(round < 20_000, "nothing is released");
                    put_all(round);
                }
            });
            let mut last = 0;
            while !writer.is_finished() {
                let rounds = visited_rounds(&map);
                assert!(
                    rounds
                        .iter()
                        .all(|round| *round == rounds[0] && *round >= last)
                );
                last = rounds[0];
            }
        });
    }
}

#[test]
fn a_snapshot_shows_what_was_whatever_is_written_later() {
    let (_directory, map) = a_map();
    for number in 0..500 {
        map.put(format!("{number:03}"), "before").unwrap();
    }
    let snapshot = map.snapshot();
    let mut range = map.range::<&str>(..);
    assert_eq!(range.next().unwrap().unwrap().1, "before");
    for round in 0..60 {
        for number in 0..500 {
            match number % 3 {
                0 => map.put(format!("{number:03}"), format!("{round}")).unwrap(),
                1 => drop(map.delete(format!("{number:03}")).unwrap()),
                _ => {}
            }
        }
    }
    map.put("new", "after").unwrap();
    assert_eq!(snapshot.get("000").unwrap().unwrap(), "before");
    assert_eq!(snapshot.get("new").unwrap(), None);
    for all in [snapshot.range::<&str>(..), snapshot.prefix("")] {
        let values: Vec<_> = all.map(|pair| pair.unwrap().1).collect();
        assert_eq!(values.len(), 500);
        assert!(values.iter().all(|value| value == "before"));
    }
    assert_eq!(range.count(), 499, "a range is of the moment it was made");
    assert_eq!(map.len(), 500 - 167 + 1);
}

#[test]
fn replaced_versions_are_kept_only_while_a_snapshot_is_held() {
    let (_directory, map) = a_map();
    let kept = |map: &Map| map.status().versions - map.len();
    map.put("a", "1").unwrap();
    map.put("a", "2").unwrap();
    assert_eq!(kept(&map), 0, "no snapshot is held");
    let snapshot = map.snapshot();
    map.put("a", "3").unwrap();
    map.delete("a").unwrap();
    assert!(kept(&map) > 0, "a snapshot is held");
    drop(snapshot);
    // The upkeep thread sweeps after each mebibyte of log.
    while kept(&map) > 0 {
        map.put("large", vec![0; 100_000]).unwrap();
    }
    assert!(map.status().log_bytes > 0);
}

#[test]
fn everything_is_there_after_opening_again() {
    let directory = tempfile::tempdir().unwrap();
    let mut expected = BTreeMap::new();
    for life in 0..4 {
        let map = options(&directory).open().unwrap();
        for number in 0..300 {
            let key = format!("{:03}", (number * 7 + life * 31) % 400);
            if number % 5 == 0 {
                assert_eq!(map.delete(&key).unwrap(), expected.remove(&key).is_some());
            } else {
                map.put(&key, format!("{life}/{number}")).unwrap();
                expected.insert(key, format!("{life}/{number}"));
            }
        }
    }
    let map = options(&directory).open().unwrap();
    let pairs = map.range::<&str>(..).map(|pair| {
        let (key, value) = pair.unwrap();
        (
            String::from_utf8(key.to_vec()).unwrap(),
            String::from_utf8(value.to_vec()).unwrap(),
        )
    });
    assert!(pairs.eq(expected));
}

#[test]
fn threads_share_a_map_and_each_reads_what_it_wrote() {
    let (directory, map) = a_map();
    thread::scope(|scope| {
        for number in 0..16 {
            let map = &map;
            scope.spawn(move || {
                for round in 0..300 {
                    let key = format!("{number}/{}", round % 20);
                    map.put(&key, round.to_string()).unwrap();
                    assert_eq!(map.get(&key).unwrap().unwrap(), round.to_string());
                    if round % 7 == 0 {
                        assert!(map.delete(&key).unwrap());
                        assert_eq!(map.get(&key).unwrap(), None);
                    }
                    if round % 50 == 0 {
                        assert!(map.prefix(format!("{number}/")).all(|pair| pair.is_ok()));
                    }
                }
            });
        }
    });
    let before = keys(map.range::<&str>(..));
    drop(map);
    assert_eq!(
        keys(options(&directory).open().unwrap().range::<&str>(..)),
        before
    );
}

#[test]
fn a_batch_is_seen_whole_or_not_at_all() {
    let (_directory, map) = a_map();
    map.write(WriteBatch::new().put("a", "0").put("z", "0"))
        .unwrap();
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for round in 1..2_000 {
                let value = round.to_string();
                map.write(WriteBatch::new().put("a", value.clone()).put("z", value))
                    .unwrap();
            }
        });
        while !writer.is_finished() {
            let snapshot = map.snapshot();
            assert_eq!(snapshot.get("a").unwrap(), snapshot.get("z").unwrap());
            let values: Vec<_> = map.range::<&str>(..).map(|pair| pair.unwrap().1).collect();
            assert_eq!(values[0], values[1]);
        }
    });
}

#[test]
fn a_write_that_is_too_large_is_refused_and_loses_nothing() {
    let (_directory, map) = a_map();
    map.put("a", "1").unwrap();
    let error = map.put("large", vec![0; 2 << 20]).unwrap_err();
    assert!(
        error.to_string().contains("the largest possible is"),
        "{error}"
    );
    let mut batch = WriteBatch::new().put("a", "2");
    for number in 0..20 {
        batch = batch.put(number.to_string(), vec![0; 100_000]);
    }
    map.write(batch).unwrap_err();
    assert_eq!(map.get("a").unwrap().unwrap(), "1");
    assert_eq!(map.len(), 1);
    map.put("a", "2").unwrap();
}

#[test]
fn what_is_too_large_does_not_depend_on_how_it_compresses() {
    let directory = tempfile::tempdir().unwrap();
    let map = options(&directory).compression(Compression::Lz4).open();
    let map = map.unwrap();
    map.put("large", vec![0; 2 << 20]).unwrap_err();
    let batch = |puts| {
        let puts = (0..puts).map(|number: u32| (number.to_string(), vec![0; 100_000]));
        puts.fold(WriteBatch::new(), |batch, (key, value)| {
            batch.put(key, value)
        })
    };
    map.write(batch(11)).unwrap_err();
    assert!(map.is_empty());
    map.write(batch(10)).unwrap();
    assert_eq!(map.get("9").unwrap().unwrap(), vec![0; 100_000]);
}

#[test]
fn values_are_there_whatever_later_openings_compress() {
    let directory = tempfile::tempdir().unwrap();
    let value = |key: u32| format!("{key} ").repeat(key as usize % 70).into_bytes();
    let openings = [Compression::Lz4, Compression::None, Compression::Lz4];
    for (opening, compression) in (0_u32..).zip(openings) {
        let map = options(&directory).compression(compression).open().unwrap();
        for key in 0..600_u32 {
            let expected = (opening > 0).then(|| value(key + opening - 1));
            let found = map.get(key.to_be_bytes()).unwrap();
            assert_eq!(found.as_deref(), expected.as_deref());
        }
        let snapshot = map.snapshot();
        for key in 0..600_u32 {
            map.put(key.to_be_bytes(), value(key + opening)).unwrap();
        }
        let pairs = map.range::<[u8; 4]>(..).map(Result::unwrap);
        let expected = (0..600_u32).map(|key| (key.to_be_bytes().to_vec(), value(key + opening)));
        assert!(
            pairs
                .map(|(key, value)| (key.to_vec(), value.to_vec()))
                .eq(expected)
        );
        let old = snapshot.get(599_u32.to_be_bytes()).unwrap();
        assert_eq!(old.is_some(), opening > 0);
    }
}

#[test]
fn writes_that_wait_beside_a_refused_write_are_not_refused() {
    let (_directory, map) = a_map();
    thread::scope(|scope| {
        for number in 0..8 {
            let map = &map;
            scope.spawn(move || {
                for round in 0..50 {
                    if number == 0 {
                        map.put("large", vec![0; 2 << 20]).unwrap_err();
                    } else {
                        map.put(format!("{number}/{round}"), "value").unwrap();
                    }
                }
            });
        }
    });
    assert_eq!(map.len(), 7 * 50);
}

#[test]
fn at_the_limit_of_memory_only_deletions_pass() {
    let directory = tempfile::tempdir().unwrap();
    let map = options(&directory)
        .memory_bytes_max(64 << 10)
        .open()
        .unwrap();
    let refused = (0..10_000).find_map(|number| map.put(format!("{number:06}"), "value").err());
    let error = refused.expect("64 KiB hold no 10,000 keys");
    assert!(matches!(error, Error::MemoryLimit { .. }), "{error}");
    assert!(error.to_string().contains("memory_bytes_max"), "{error}");
    assert!(map.delete("000000").unwrap());
    assert_eq!(map.get("000001").unwrap().unwrap(), "value");
}

#[test]
fn closing_a_map_that_was_filled_leaves_its_index_for_the_next_opening() {
    const KEYS: u64 = 60_000;
    let (directory, map) = a_map();
    map.put("", "of the empty key").unwrap();
    for number in 1..KEYS {
        map.put(number.to_be_bytes(), [7; 100]).unwrap();
    }
    assert_eq!(map.status().upkeep.checkpoints, 0, "none is due yet");
    drop(map);
    let files = std::fs::read_dir(directory.path().join("data")).unwrap();
    let sizes = files.map(Result::unwrap).filter_map(|file| {
        let name = file.file_name().into_string().unwrap();
        let is_checkpoint = name.ends_with(".checkpoint");
        is_checkpoint.then(|| file.metadata().unwrap().len())
    });
    let largest = sizes.max().unwrap();
    assert!(largest > KEYS * 5, "{largest} bytes");
    let map = options(&directory).open().unwrap();
    assert_eq!(map.len(), KEYS);
    assert_eq!(map.get("").unwrap().unwrap(), "of the empty key");
    assert_eq!(
        map.get((KEYS - 1).to_be_bytes()).unwrap().unwrap(),
        [7; 100][..]
    );
}

#[test]
fn garbage_is_collected_when_it_takes_more_than_its_share_of_what_is_alive() {
    let overwrite = |map: &Map, round: u32| {
        map.put(format!("kept {round}"), [1; 2_000]).unwrap();
        for number in 0..20 {
            map.put(format!("key {number}"), [round as u8; 2_000])
                .unwrap();
        }
    };
    let directory = tempfile::tempdir().unwrap();
    let map = options(&directory)
        .segment_bytes(64 << 10)
        .garbage_percent_max(50)
        .open()
        .unwrap();
    let mut rounds = 0;
    while map.status().upkeep.relocated_bytes == 0 {
        overwrite(&map, rounds);
        rounds += 1;
    }
    let directory = tempfile::tempdir().unwrap();
    let patient = options(&directory)
        .segment_bytes(64 << 10)
        .garbage_percent_max(1_000_000)
        .open()
        .unwrap();
    (0..rounds).for_each(|round| overwrite(&patient, round));
    assert_eq!(patient.status().upkeep.relocated_bytes, 0);
}

#[test]
fn a_directory_in_use_or_of_another_program_is_refused() {
    let (directory, map) = a_map();
    let error = options(&directory).open().unwrap_err().to_string();
    assert!(error.contains("data"), "{error}");
    map.put("a", "1").unwrap();
    drop(map);
    let foreign = tempfile::tempdir().unwrap();
    std::fs::create_dir(foreign.path().join("data")).unwrap();
    let current = foreign.path().join("data").join("CURRENT");
    std::fs::copy(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"), &current).unwrap();
    let error = options(&foreign).open().unwrap_err().to_string();
    assert!(error.contains("CURRENT"), "{error}");
    assert_eq!(
        std::fs::read_dir(foreign.path().join("data"))
            .unwrap()
            .count(),
        1
    );
    assert_eq!(options(&directory).open().unwrap().len(), 1);
}

#[test]
fn a_snapshot_outlives_its_map() {
    let (directory, map) = a_map();
    map.put("a", "1").unwrap();
    let snapshot = map.snapshot();
    drop(map);
    assert_eq!(snapshot.get("a").unwrap().unwrap(), "1");
    options(&directory).open().unwrap_err();
    drop(snapshot);
    assert_eq!(
        options(&directory)
            .open()
            .unwrap()
            .get("a")
            .unwrap()
            .unwrap(),
        "1"
    );
}

#[test]
fn dropping_a_snapshot_makes_room_for_puts() {
    let directory = tempfile::tempdir().unwrap();
    let options = options(&directory).memory_bytes_max(256 << 10);
    let map = options.open().unwrap();
    let snapshot = map.snapshot();
    let refused = (0..100_000).find_map(|number| map.put((number % 50).to_string(), "v").err());
    let refused = refused.expect("the snapshot keeps every version, so the limit is reached");
    assert!(matches!(refused, Error::MemoryLimit { .. }), "{refused}");
    drop(snapshot);
    // A refused write wakes upkeep.
    while map.put("new", "v").is_err() {
        thread::yield_now();
    }
    assert_eq!(map.len(), 51);
}

#[test]
fn flush_leaves_nothing_in_the_page_cache_alone() {
    let (_directory, map) = a_map();
    map.put("a", "1").unwrap();
    assert!(map.status().log.unflushed_bytes > 0);
    map.flush().unwrap();
    assert_eq!(map.status().log.unflushed_bytes, 0);
}

/// The keys of the next test, in random order and each of them once.
fn scattered_key(number: u64) -> [u8; 8] {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

#[test]
fn a_map_is_the_same_after_a_compaction_beside_writes_and_another_compaction() {
    const KEYS: u64 = 20_000;
    let (directory, map) = a_map();
    let value = |number: u64, round: u32| format!("{round} {number} {}", "v".repeat(300));
    let mut expected = BTreeMap::new();
    for number in 0..KEYS {
        let key = scattered_key(number);
        map.put(key, value(number, 0)).unwrap();
        expected.insert(key.to_vec(), value(number, 0).into_bytes());
    }
    let snapshot = map.snapshot();
    let before = expected.clone();
    thread::scope(|scope| {
        let compactions = [0, 1].map(|_| scope.spawn(|| map.compact()));
        for number in (0..KEYS).step_by(50) {
            let key = scattered_key(number);
            map.put(key, value(number, 1)).unwrap();
            expected.insert(key.to_vec(), value(number, 1).into_bytes());
        }
        for compaction in compactions {
            compaction.join().unwrap().unwrap();
        }
    });
    assert!(visited_pairs(&map).into_iter().eq(expected.clone()));
    let at_the_snapshot = snapshot.range::<&[u8]>(..).map(|pair| {
        let (key, value) = pair.unwrap();
        (key.to_vec(), value.to_vec())
    });
    assert!(at_the_snapshot.eq(before));
    drop(snapshot);
    drop(map);
    let map = options(&directory).open().unwrap();
    assert!(visited_pairs(&map).into_iter().eq(expected));
}

#[test]
fn a_compaction_copies_each_pair_once_and_another_one_none() {
    const KEYS: u64 = 20_000;
    let (_directory, map) = a_map();
    let value = [7; 300];
    for number in 0..KEYS {
        map.put(scattered_key(number), value).unwrap();
    }
    let copied = || map.status().upkeep.relocated_bytes;
    map.compact().unwrap();
    let live = KEYS * 300;
    assert!(copied() >= live && copied() < 2 * live, "{}", copied());
    // A window at the end of a segment is in two pieces, which are joined.
    map.compact().unwrap();
    let joined = copied();
    map.compact().unwrap();
    assert_eq!(copied(), joined);
}

#[test]
fn an_empty_map_can_be_compacted() {
    let (_directory, map) = a_map();
    map.compact().unwrap();
    map.put("key", "value").unwrap();
    map.compact().unwrap();
    map.delete("key").unwrap();
    map.compact().unwrap();
    assert!(map.is_empty());
}
