//! Looks at the versions of a page: which are listed, where they end, and which reads the device hears of first.

use crate::store;

use engine::{End, Error, Looks};
use environment::simulated::SimulatedDisk;
use std::ops::ControlFlow;
use std::sync::Arc;
use store::{Store, options, put, seen};

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

#[test]
fn two_portions_are_announced_beside_the_looks_at_the_one_in_front_of_them() {
    let disk = SimulatedDisk::new(1);
    let store = in_order(&disk);
    let mut looks = store.engine.looks();
    list_all(&store, &mut looks);
    let all = looks.log_bytes();
    let a_record = all / 2_000;
    let (mut seen, mut announced) = (0, 0);
    let end = looks.at_page(|_| {
        seen += 1;
        announced += announced_bytes(&disk);
        let looked_at = seen * a_record;
        if seen <= 32 {
            let portion = PORTION_BYTES - RECORD_BYTES_MAX..=PORTION_BYTES;
            assert!(portion.contains(&announced), "{announced} at {seen}");
        } else {
            let ahead = 2 * (PORTION_BYTES - RECORD_BYTES_MAX);
            let least = all.min(looked_at + ahead);
            assert!(announced >= least, "{announced} of {least} at {seen}");
            // Beginnings of frames are read as well.
            let most = looked_at * 11 / 10 + 3 * PORTION_BYTES;
            assert!(announced <= most, "{announced} of {most} at {seen}");
        }
        ControlFlow::<()>::Continue(())
    });
    assert_eq!(end.unwrap(), ControlFlow::Continue(()));
    assert_eq!(seen, 2_000);
}

#[test]
fn a_page_that_is_announced_ahead_is_not_announced_again() {
    let disk = SimulatedDisk::new(1);
    let store = in_order(&disk);
    let mut looks = store.engine.looks();
    list_all(&store, &mut looks);
    looks.announce_ahead();
    let ahead = announced_bytes(&disk);
    assert!(ahead > 2 * (PORTION_BYTES - RECORD_BYTES_MAX), "{ahead}");
    assert!(ahead <= 2 * PORTION_BYTES, "{ahead}");
    looks.announce_ahead();
    assert_eq!(announced_bytes(&disk), 0);
    let mut at_first = None;
    let end = looks.at_page(|_| {
        at_first.get_or_insert_with(|| announced_bytes(&disk));
        ControlFlow::<()>::Continue(())
    });
    assert_eq!(end.unwrap(), ControlFlow::Continue(()));
    assert_eq!(at_first, Some(0));
    let rest = announced_bytes(&disk);
    list_all(&store, &mut looks);
    seen(&mut looks).unwrap();
    assert_eq!(
        announced_bytes(&disk),
        ahead + rest,
        "of a page from its beginning"
    );
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
    let (mut looks, snapshot) = (store.engine.looks(), store.engine.snapshot());
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
