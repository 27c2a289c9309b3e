//! Every byte is counted while it lives and freed when it is gone. One test,
//! because the counting allocator sees the whole process.

use environment::randomness::Random;
use ordered_index::{IndexEntry, heap_use, new};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicI64, Ordering};

struct Counting;

static LIVE_BYTES: AtomicI64 = AtomicI64::new(0);

// SAFETY: every call is handed to the system allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE_BYTES.fetch_add(layout.size() as i64, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE_BYTES.fetch_sub(layout.size() as i64, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const KEYS: u64 = if cfg!(miri) { 500 } else { 50_000 };
/// The collector's own bookkeeping, and what the test harness prints.
const SLACK_BYTES: i64 = 64 << 10;

/// Of small batches that no reader holds back, with the largest node and some to spare.
const GARBAGE_BYTES_MAX: u64 = 2 << 20;

/// Bytes of nodes, and all others.
fn live() -> i64 {
    let heap = heap_use();
    let of_nodes = if heap.is_own { heap.bytes } else { 0 };
    LIVE_BYTES.load(Ordering::Relaxed) + of_nodes as i64
}

/// Pins until the collector has freed all it may.
fn collect_garbage() {
    for _ in 0..2_000 {
        crossbeam_epoch::pin().flush();
    }
}

fn key(number: u64) -> Vec<u8> {
    let name = format!("/registry/pods/blue/web-{number:08}").into_bytes();
    if number.is_multiple_of(100) {
        [name, vec![b'x'; 1_000]].concat()
    } else {
        name
    }
}

#[test]
fn memory_is_counted_exactly_and_all_of_it_comes_back() {
    collect_garbage();
    let before = live();
    let (mut writer, reader) = new(2);
    let mut random = Random::from_seed(0);
    for mark in 0..KEYS {
        writer.insert(
            0,
            &key(random.below(KEYS)),
            IndexEntry {
                value: mark,
                stamp: mark,
            },
        );
        writer.insert(
            1,
            &key(mark),
            IndexEntry {
                value: mark,
                stamp: mark,
            },
        );
        writer.remove(0, &key(random.below(KEYS)));
        if mark.is_multiple_of(10) {
            writer.publish(mark);
            let garbage_bytes = writer.garbage_bytes();
            assert!(garbage_bytes < GARBAGE_BYTES_MAX, "{garbage_bytes} wait");
        }
    }
    writer.publish(KEYS);
    (0..100).for_each(|_| writer.collect());
    assert_eq!(writer.garbage_bytes(), 0);
    let counted = (writer.memory_bytes() + writer.spare_bytes()) as i64;
    let real = live() - before;
    assert!(
        (counted - real).abs() < SLACK_BYTES,
        "counted {counted}, allocated {real}"
    );

    let snapshot = reader.pin();
    for number in 0..KEYS {
        writer.remove(1, &key(number));
    }
    writer.publish(KEYS + 1);
    (0..100).for_each(|_| writer.collect());
    assert!(writer.garbage_bytes() > 0, "freed under a snapshot");
    assert_eq!(snapshot.len(1), KEYS);

    // Retired, and still with the writer when that goes.
    writer.insert(0, &key(0), IndexEntry::default());
    writer.publish(KEYS + 2);
    // Never published: the writer itself must free these.
    for number in 0..KEYS {
        writer.insert(1, &key(number), IndexEntry::default());
    }
    drop((writer, reader));
    collect_garbage();
    assert_eq!(snapshot.nth(1, 0).map(|(key, _)| key), Some(key(0)));
    drop(snapshot);
    collect_garbage();
    let left = live() - before;
    assert!(left.abs() < SLACK_BYTES, "{left} bytes were never freed");
}
