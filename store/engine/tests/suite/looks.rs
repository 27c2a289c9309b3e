//! Looks at the versions of a page: which are listed, where they end, and which reads the device hears of first.

use crate::store;

use engine::{End, Error, Looks};
use environment::simulated::SimulatedDisk;
use std::ops::ControlFlow;
use std::sync::Arc;
use store::{Store, delete, options, put, seen};

const PORTION_BYTES: u64 = 512 << 10;
/// More than what follows the last whole portion, of records as in these tests.
const RECORD_BYTES_MAX: u64 = 2_000;

/// A store with two megabytes of values in the order of their keys.
fn in_order(disk: &SimulatedDisk) -> Store {
    let mut store = Store::new(disk);
    let writes: Vec<_> = (0..2_000)
        .map(|number| put(format!("{number:04}"), [7; 1_000]))
        .collect();
    for together in writes.chunks(20) {
        store.write(together).unwrap();
    }
    disk.cache_nothing();
    disk.take_announced();
    store
}

fn list_all(store: &Store, looks: &mut Looks<'_>) {
    let snapshot = store.engine.snapshot();
    let range = snapshot.range(b"", None, i64::MAX);
    looks.list(range, End::Front, usize::MAX, u64::MAX);
}

fn announced_bytes(disk: &SimulatedDisk) -> u64 {
    disk.take_announced().iter().map(|(_, bytes)| bytes).sum()
}

/// Looks at all versions, in pages of this many, and returns for each look the bytes that were announced before it.
fn announced_before_each(disk: &SimulatedDisk, store: &Store, page: usize) -> Vec<u64> {
    let (mut announced, mut before_each) = (0, Vec::new());
    let snapshot = store.engine.snapshot();
    let mut last = Vec::new();
    let end = store.engine.looks().at_pages(
        |looked| {
            announced += announced_bytes(disk);
            before_each.push(announced);
            let number = before_each.len() - 1;
            assert_eq!(looked.key, format!("{number:04}").as_bytes());
            ControlFlow::<()>::Continue(())
        },
        |looks| {
            if let Some(key) = looks.last_key() {
                last = [key, &[0]].concat();
            }
            let range = snapshot.range(&last, None, i64::MAX);
            looks.list(range, End::Front, page, u64::MAX);
        },
    );
    assert_eq!(end.unwrap(), ControlFlow::Continue(()));
    assert_eq!(announced_bytes(disk), 0, "behind the last look");
    before_each
}

#[test]
fn portions_are_announced_beside_the_looks_at_the_one_in_front_of_them() {
    let disk = SimulatedDisk::new(1);
    let store = in_order(&disk);
    for page in [usize::MAX, 1_500, 700, 100] {
        let before_each = announced_before_each(&disk, &store, page);
        assert_eq!(before_each.len(), 2_000);
        let all = before_each[1_999];
        let a_record = all / 2_000;
        for (looks, &announced) in before_each.iter().enumerate() {
            let (looks, looked_at) = (looks as u64, looks as u64 * a_record);
            let most = looked_at * 4 + (70 << 10);
            let most = most.min(looked_at + 3 * PORTION_BYTES);
            assert!(announced <= most, "{announced} of {most} at {looks}");
            // By then the walk is long. Portions end where pages do.
            if looks > 1_100 {
                let ahead = match page {
                    100 => 100 * a_record,
                    _ => looked_at / 4,
                };
                let least = (looked_at + ahead).min(all - a_record);
                assert!(announced >= least, "{announced} of {least} at {looks}");
            }
        }
    }
}

#[test]
fn a_walk_that_breaks_early_has_announced_one_portion() {
    let disk = SimulatedDisk::new(1);
    let store = in_order(&disk);
    let mut looks = store.engine.looks();
    list_all(&store, &mut looks);
    let end = looks.at_page(|_| ControlFlow::Break(()));
    assert_eq!(end.unwrap(), ControlFlow::Break(()));
    let first = announced_bytes(&disk);
    assert!(
        (PORTION_BYTES - RECORD_BYTES_MAX..=PORTION_BYTES).contains(&first),
        "{first}"
    );
    let mut count = 0;
    let end = looks.at_page(|_| {
        count += 1;
        match count {
            1_200 => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    });
    assert_eq!(end.unwrap(), ControlFlow::Break(()));
    disk.take_announced();
    let mut fresh = store.engine.looks();
    list_all(&store, &mut fresh);
    let announced = [&mut looks, &mut fresh].map(|looks| {
        assert_eq!(seen(looks).unwrap().len(), 2_000);
        announced_bytes(&disk)
    });
    assert_eq!(
        announced[0], announced[1],
        "a page is announced again, if it is looked at again"
    );
}

#[test]
fn of_a_page_of_scattered_versions_the_next_portion_is_announced_behind_the_first_looks() {
    let disk = SimulatedDisk::new(1);
    let mut store = Store::new(&disk);
    // This factor has no divisor in common with the number of versions.
    for number in (0..600).map(|number| number * 277 % 600) {
        store
            .write(&[put(format!("{number:04}"), [7; 100])])
            .unwrap();
    }
    disk.cache_nothing();
    disk.take_announced();
    let mut looks = store.engine.looks();
    list_all(&store, &mut looks);
    let (mut count, mut announced) = (0, Vec::new());
    let end = looks.at_page(|_| {
        if announced_bytes(&disk) > 0 {
            announced.push(count);
        }
        count += 1;
        ControlFlow::<()>::Continue(())
    });
    assert_eq!(end.unwrap(), ControlFlow::Continue(()));
    assert_eq!((count, &announced[..2]), (600, &[0, 32][..]));
}

#[test]
fn pages_of_a_cached_walk_are_listed_when_nothing_is_left_to_look_at() {
    let disk = SimulatedDisk::new(1);
    let mut store = Store::new(&disk);
    let writes: Vec<_> = (0..4_000)
        .map(|number| put(format!("{number:04}"), "value"))
        .collect();
    for together in writes.chunks(100) {
        store.write(together).unwrap();
    }
    let snapshot = store.engine.snapshot();
    let seen = std::cell::Cell::new(0);
    let end = store.engine.looks().at_pages(
        |_| {
            seen.set(seen.get() + 1);
            ControlFlow::<()>::Continue(())
        },
        |looks| {
            let start = format!("{:04}", seen.get());
            let range = snapshot.range(start.as_bytes(), None, i64::MAX);
            looks.list(range, End::Front, 300, u64::MAX);
            assert_eq!(looks.log_bytes() > 0, seen.get() < 4_000);
        },
    );
    assert_eq!(end.unwrap(), ControlFlow::Continue(()));
    assert_eq!(seen.get(), 4_000, "no version twice");
    assert_eq!(disk.take_announced(), []);
}

#[test]
fn a_page_says_whether_it_ends_its_range() {
    let disk = SimulatedDisk::new(1);
    let mut store = Store::new(&disk);
    let writes: Vec<_> = (0..20).map(|number| put([b'k', number], "value")).collect();
    store.write(&writes).unwrap();
    let (mut looks, snapshot) = (store.engine.looks(), store.engine.snapshot());
    for (from, versions_max, ends) in [
        (End::Front, 19, false),
        (End::Front, 20, false),
        (End::Front, 21, true),
        (End::Back, 20, false),
        (End::Back, 21, true),
    ] {
        let range = snapshot.range(b"k", Some(b"l"), i64::MAX);
        looks.list(range, from, versions_max, u64::MAX);
        assert_eq!(looks.ends_range(), ends, "{from:?} {versions_max}");
        seen(&mut looks).unwrap();
    }
    let bytes = |looks: &mut Looks<'_>, bytes_max| {
        let range = snapshot.range(b"k", Some(b"l"), i64::MAX);
        looks.list(range, End::Front, usize::MAX, bytes_max);
        let listed = (looks.log_bytes(), looks.ends_range());
        seen(looks).unwrap();
        listed
    };
    let (all, ends) = bytes(&mut looks, u64::MAX);
    assert!(ends);
    assert_eq!(bytes(&mut looks, all), (all, false));
    assert_eq!(bytes(&mut looks, all + 1), (all, true));
    looks.list(snapshot.range(b"l", None, i64::MAX), End::Front, 20, 1);
    assert!(looks.ends_range(), "an empty range");
}

#[test]
fn a_page_of_the_past_ends_its_range_where_no_version_of_then_is_left() {
    let disk = SimulatedDisk::new(1);
    let mut store = Store::new(&disk);
    let puts: Vec<_> = (0..20).map(|number| put([b'k', number], "value")).collect();
    let deletions: Vec<_> = (10..20).map(|number| delete([b'k', number])).collect();
    for writes in [&puts, &deletions, &puts[..15]] {
        store.write(writes).unwrap();
    }
    let (snapshot, now) = (store.engine.snapshot(), store.model.revision);
    for (at, versions) in [(now - 2, 20), (now - 1, 10), (now, 15)] {
        for (versions_max, ends) in [(versions, false), (versions + 1, true)] {
            let mut looks = store.engine.looks();
            let range = snapshot.range(b"k", Some(b"l"), at);
            looks.list(range, End::Front, versions_max, u64::MAX);
            assert_eq!(looks.ends_range(), ends, "{at} {versions_max}");
            assert_eq!(seen(&mut looks).unwrap().len(), versions, "{at}");
        }
    }
}

#[test]
fn looks_end_where_the_caller_breaks_and_pages_where_they_are_full() {
    let disk = SimulatedDisk::new(1);
    let mut store = Store::new(&disk);
    for number in (0..20).chain(0..20) {
        let value = [number; 2_000];
        store.write(&[put([b'k', number], value)]).unwrap();
    }
    let snapshot = store.engine.snapshot();
    let mut looks = store.engine.looks();
    for versions_max in [1, 7, 20, 21] {
        let range = snapshot.range(b"k", Some(b"l"), i64::MAX);
        looks.list(range, End::Front, versions_max, u64::MAX);
        let listed = seen(&mut looks).unwrap();
        assert_eq!(listed.len(), versions_max.min(20));
        for enough in 1..=listed.len() {
            let mut count = 0;
            let end = looks.at_page(|looked| {
                assert_eq!(looked.kv, listed[count]);
                count += 1;
                match count == enough {
                    true => ControlFlow::Break(enough),
                    false => ControlFlow::Continue(()),
                }
            });
            assert_eq!(end.unwrap(), ControlFlow::Break(enough));
            assert_eq!(count, enough);
        }
    }
    let range = snapshot.range(b"k", Some(b"l"), i64::MAX);
    looks.list(range, End::Front, 20, 1);
    assert_eq!(
        seen(&mut looks).unwrap().len(),
        1,
        "the first has more bytes"
    );
    let range = snapshot.range(b"l", Some(b"k"), i64::MAX);
    looks.list(range, End::Front, 20, 1);
    assert_eq!(
        (seen(&mut looks).unwrap().len(), looks.last_key()),
        (0, None)
    );
}

#[test]
fn looks_at_a_page_keep_the_directory_of_a_closed_engine_locked_and_later_ones_fail() {
    let disk = SimulatedDisk::new(1);
    let mut store = Store::new(&disk);
    let writes: Vec<_> = (0..40).map(|number| put([b'k', number], "value")).collect();
    store.write(&writes).unwrap();
    let engine = store.engine.clone();
    let mut looks = engine.looks();
    let snapshot = engine.snapshot();
    looks.list(
        snapshot.range(b"", None, i64::MAX),
        End::Front,
        usize::MAX,
        u64::MAX,
    );
    let open_again = || {
        let disk = Arc::new(disk.clone());
        let opened =
            engine::Engine::open(disk, store::DIRECTORY.as_ref(), options(), &mut |_| Ok(()));
        opened.map(drop)
    };
    let mut seen = 0;
    let end = looks.at_page(|_| {
        if seen == 0 {
            store.applier.close().unwrap();
            assert!(matches!(open_again(), Err(Error::DirectoryInUse { .. })));
        }
        seen += 1;
        ControlFlow::<()>::Continue(())
    });
    // Those that the processor has fetched together are looked at.
    assert!(matches!(end, Err(Error::Closed { .. })), "{end:?}");
    assert_eq!(seen, 32);
    let end = looks.at_page(|_| ControlFlow::Break(()));
    assert!(matches!(end, Err(Error::Closed { .. })), "{end:?}");
    open_again().unwrap();
}
