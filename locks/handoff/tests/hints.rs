//! The hint page, written by this process's locks and read through a second mapping.
//!
//! All cases that install a page are in one test: a process has one page.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test")]

use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::sync::Barrier;
use std::thread;

use handoff::hints::{MAGIC, Page, Refused, SLOT_BYTES, ThreadHints, VERSION};
use handoff::{Condvar, Mutex};

fn page_of(bytes: &[u8]) -> Result<Page, Refused> {
    let mut file = tempfile();
    file.write_all(bytes).unwrap();
    Page::open(file.as_fd())
}

fn tempfile() -> File {
    let (_, file) = Page::create(1).unwrap();
    let file = File::from(file);
    file.set_len(0).unwrap();
    file
}

fn header(magic: u64, version: u32, slots: u32) -> Vec<u8> {
    let mut bytes = magic.to_le_bytes().to_vec();
    bytes.extend(version.to_le_bytes());
    bytes.extend(slots.to_le_bytes());
    bytes.resize(SLOT_BYTES, 0);
    bytes
}

#[test]
fn files_that_are_not_pages_are_refused() {
    assert!(matches!(page_of(b""), Err(Refused::TooShort { bytes: 0 })));
    let other = page_of(&header(7, VERSION, 0));
    assert!(matches!(other, Err(Refused::NotAPage { found: 7 })));
    let other = page_of(&header(MAGIC, VERSION + 1, 0));
    let Err(refused @ Refused::OtherVersion { .. }) = other else {
        panic!("a page of another version was opened");
    };
    assert!(refused.to_string().contains("use the same release"));
    let short = page_of(&header(MAGIC, VERSION, 2));
    assert!(matches!(short, Err(Refused::TooShort { .. })));
    assert!(page_of(&header(MAGIC, VERSION, 0)).is_ok());
    let no_file = std::io::stdin();
    assert!(Page::open(no_file.as_fd()).is_err());
}

fn only_holder(page: &Page) -> ThreadHints {
    let holders: Vec<_> = page.threads().filter(|thread| thread.depth > 0).collect();
    assert_eq!(holders.len(), 1, "{holders:?}");
    holders[0]
}

#[test]
fn holders_and_waiters_are_seen_from_outside() {
    let (page, file) = Page::create(8).unwrap();
    let reader = Page::open(file.as_fd()).unwrap();
    page.install().unwrap();
    let (second, _) = Page::create(1).unwrap();
    assert!(second.install().is_err(), "a process keeps its page");

    let (outer, inner) = (Mutex::new(()), Mutex::new(()));
    let held = outer.lock();
    assert_eq!(only_holder(&reader).depth, 1);
    let also_held = inner.lock();
    let holder = only_holder(&reader);
    assert_eq!(holder.depth, 2);
    drop(also_held);
    let before = reader.generation();
    thread::scope(|scope| {
        scope.spawn(|| drop(outer.lock()));
        while !reader.threads().any(|thread| thread.waiting.is_some()) {
            thread::yield_now();
        }
        assert!(reader.mark_preempted(holder.slot, true));
        assert!(only_holder(&reader).is_preempted);
        assert!(!reader.mark_preempted(0, true) && !reader.mark_preempted(9, true));
        drop(held);
    });
    assert_ne!(reader.generation(), before, "a thread came");
    while reader.threads().count() > 1 {
        thread::yield_now();
    }
    assert!(reader.threads().all(|thread| thread.depth == 0));

    waiting_for_a_condition_is_not_holding(&reader);
    slots_of_the_dead_are_taken(&file, &reader);
    more_threads_than_slots_go_without(&reader);
}

fn waiting_for_a_condition_is_not_holding(reader: &Page) {
    let (ready, changed) = (Mutex::new(false), Condvar::new());
    let announced = Barrier::new(2);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut ready = ready.lock();
            announced.wait();
            changed.wait_while(&mut ready, |ready| !*ready);
        });
        announced.wait();
        // Once this thread holds the mutex, the other one waits.
        *ready.lock() = true;
        assert!(reader.threads().all(|thread| thread.depth == 0));
        changed.notify_one();
    });
}

/// Fills the page with slots of a thread that cannot exist, as a killed process leaves them.
fn slots_of_the_dead_are_taken(file: &OwnedFd, reader: &Page) {
    const NO_THREAD: u32 = 1 << 30;
    let file = File::from(file.try_clone().unwrap());
    let own = only_thread(reader);
    let thread_at = |slot: u32| u64::from(slot) * SLOT_BYTES as u64;
    for slot in (1..=8).filter(|slot| *slot != own) {
        file.write_all_at(&NO_THREAD.to_le_bytes(), thread_at(slot))
            .unwrap();
        file.write_all_at(&5_u32.to_le_bytes(), thread_at(slot) + 4)
            .unwrap();
    }
    let mutex = Mutex::new(());
    thread::scope(|scope| {
        scope.spawn(|| {
            let _held = mutex.lock();
            let mut living = reader.threads().filter(|thread| thread.thread != NO_THREAD);
            assert!(living.any(|thread| thread.slot != own && thread.depth == 1));
        });
    });
    // The thread may give its slot back only after the scope has ended.
    while reader
        .threads()
        .any(|thread| thread.thread != NO_THREAD && thread.slot != own)
    {
        thread::yield_now();
    }
    for slot in (1..=8).filter(|slot| *slot != own) {
        file.write_all_at(&[0; 8], thread_at(slot)).unwrap();
    }
}

/// The slot of this thread, once all others have given theirs back.
fn only_thread(reader: &Page) -> u32 {
    loop {
        let threads: Vec<_> = reader.threads().collect();
        if let [only] = threads[..] {
            return only.slot;
        }
        thread::yield_now();
    }
}

fn more_threads_than_slots_go_without(reader: &Page) {
    let mutex = Mutex::new(0);
    let all = Barrier::new(20);
    thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| {
                *mutex.lock() += 1;
                all.wait();
                assert_eq!(reader.threads().count(), 8);
                all.wait();
            });
        }
    });
    assert_eq!(mutex.into_inner(), 20);
}
