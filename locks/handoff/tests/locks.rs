//! The contracts of `Mutex`, `Condvar` and `RwLock`, with real threads.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use handoff::{Condvar, Mutex, RwLock};

/// Longer than any test takes on a loaded machine; ends a test that hangs.
const GENEROUS: Duration = Duration::from_secs(120);
const A_MOMENT: Duration = Duration::from_millis(1);
/// Divides the number of rounds: Miri is that much slower.
const FEWER: u64 = if cfg!(miri) { 100 } else { 1 };

fn poll(until: impl Fn() -> bool) {
    let mut rounds = 0_u64;
    while !until() {
        rounds += 1;
        assert!(rounds < 1 << 32, "never came true");
        thread::yield_now();
    }
}

#[test]
fn a_count_under_a_mutex_is_exact() {
    const ROUNDS: u64 = 40_000 / FEWER;
    for threads in [2, 8, 64] {
        let count = Mutex::new(0_u64);
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    for _ in 0..ROUNDS / threads {
                        *count.lock() += 1;
                    }
                });
            }
        });
        assert_eq!(count.into_inner(), ROUNDS / threads * threads);
    }
}

#[test]
fn fair_and_plain_unlocks_mix() {
    let count = Mutex::new(0_u64);
    thread::scope(|scope| {
        for thread in 0..8_u64 {
            let count = &count;
            scope.spawn(move || {
                for round in 0..2_000 / FEWER {
                    let mut guard = count.lock();
                    *guard += 1;
                    if (round + thread) % 3 == 0 {
                        lock_api::MutexGuard::unlock_fair(guard);
                    }
                }
            });
        }
    });
    assert_eq!(count.into_inner(), 16_000 / FEWER);
}

#[test]
fn a_fair_unlock_serves_the_oldest() {
    let order = Mutex::new(Vec::new());
    let all_wait = [const { AtomicBool::new(false) }; 4];
    thread::scope(|scope| {
        let guard = order.lock();
        for (name, waits) in all_wait.iter().enumerate() {
            let order = &order;
            scope.spawn(move || {
                waits.store(true, Ordering::Release);
                let mut order = order.lock();
                order.push(name);
                lock_api::MutexGuard::unlock_fair(order);
            });
            poll(|| waits.load(Ordering::Acquire));
            // It sets the flag just before it parks.
            thread::yield_now();
        }
        lock_api::MutexGuard::unlock_fair(guard);
    });
    assert_eq!(order.into_inner().len(), 4);
}

#[test]
fn try_lock_fails_only_while_the_lock_is_held() {
    let mutex = Mutex::new(());
    let guard = mutex.try_lock().unwrap();
    assert!(mutex.try_lock().is_none());
    assert!(mutex.is_locked());
    drop(guard);
    assert!(mutex.try_lock().is_some());
}

#[test]
fn a_timed_lock_gives_up_and_leaves_the_others_alone() {
    let mutex = Mutex::new(0);
    let gave_up = AtomicUsize::new(0);
    thread::scope(|scope| {
        let guard = mutex.lock();
        for _ in 0..8 {
            scope.spawn(|| {
                assert!(mutex.try_lock_for(A_MOMENT).is_none());
                gave_up.fetch_add(1, Ordering::Release);
            });
            scope.spawn(|| *mutex.try_lock_for(GENEROUS).unwrap() += 1);
        }
        poll(|| gave_up.load(Ordering::Acquire) == 8);
        drop(guard);
    });
    assert_eq!(mutex.into_inner(), 8);
    #[expect(clippy::disallowed_methods, reason = "a moment that has passed")]
    let past = Instant::now();
    let mutex = Mutex::new(());
    assert!(
        mutex.try_lock_until(past).is_some(),
        "a free lock is taken after the deadline, too"
    );
}

#[test]
fn many_time_outs_lose_no_wake_up() {
    let mutex = Mutex::new(0_u64);
    thread::scope(|scope| {
        for thread in 0..16_u64 {
            let mutex = &mutex;
            scope.spawn(move || {
                for round in 0..500 / FEWER {
                    let patience = Duration::from_micros((thread * 7 + round) % 90);
                    if let Some(mut guard) = mutex.try_lock_for(patience) {
                        *guard += 1;
                        thread::yield_now();
                    }
                }
                *mutex.lock() += 1;
            });
        }
    });
    assert!(mutex.into_inner() >= 16);
}

#[test]
fn a_panic_inside_leaves_the_lock_usable() {
    let mutex = Mutex::new(1);
    thread::scope(|scope| {
        let panicked = scope.spawn(|| {
            let _guard = mutex.lock();
            panic!("on purpose");
        });
        assert!(panicked.join().is_err());
    });
    assert_eq!(*mutex.lock(), 1);
}

#[test]
fn notify_one_wakes_one_and_notify_all_wakes_all() {
    let state = Mutex::new((0, 0));
    let changed = Condvar::new();
    assert!(!changed.notify_one());
    assert_eq!(changed.notify_all(), 0);
    thread::scope(|scope| {
        for _ in 0..5 {
            scope.spawn(|| {
                let mut state = state.lock();
                state.0 += 1;
                changed.wait_while(&mut state, |state| state.1 == 0);
                state.1 -= 1;
            });
        }
        poll(|| state.lock().0 == 5);
        state.lock().1 = 1;
        assert!(changed.notify_one());
        poll(|| state.lock().1 == 0);
        let mut held = state.lock();
        held.1 = 4;
        assert_eq!(changed.notify_all(), 4, "moved while the mutex is held");
        drop(held);
    });
    assert_eq!(state.into_inner(), (5, 0));
}

#[test]
fn a_wait_ends_with_its_time() {
    let state = Mutex::new(());
    let changed = Condvar::new();
    let mut guard = state.lock();
    while !changed.wait_for(&mut guard, A_MOMENT).timed_out() {}
    let waited = changed.wait_while_for(&mut guard, |()| true, A_MOMENT);
    assert!(waited.timed_out());
    assert!(
        !changed
            .wait_while_for(&mut guard, |()| false, A_MOMENT)
            .timed_out()
    );
    assert!(!changed.notify_one(), "no waiter is left in the list");
}

#[test]
fn a_bounded_queue_loses_and_repeats_nothing() {
    const ROOM: usize = 4;
    const ITEMS: u64 = 8 * (500 / FEWER);
    let queue = Mutex::new(std::collections::VecDeque::new());
    let (not_full, not_empty) = (Condvar::new(), Condvar::new());
    let sum = Mutex::new(0);
    thread::scope(|scope| {
        for producer in 0..8 {
            let (queue, not_full, not_empty) = (&queue, &not_full, &not_empty);
            scope.spawn(move || {
                for item in (producer..ITEMS).step_by(8) {
                    let mut queue = queue.lock();
                    not_full.wait_while(&mut queue, |queue| queue.len() == ROOM);
                    queue.push_back(item);
                    drop(queue);
                    not_empty.notify_one();
                }
            });
            scope.spawn(|| {
                for _ in 0..ITEMS / 8 {
                    let mut queue = queue.lock();
                    not_empty.wait_while(&mut queue, |queue| queue.is_empty());
                    let item = queue.pop_front().unwrap();
                    not_full.notify_one();
                    drop(queue);
                    *sum.lock() += item;
                }
            });
        }
    });
    assert_eq!(sum.into_inner(), ITEMS * (ITEMS - 1) / 2);
}

#[test]
fn notifications_and_time_outs_together_lose_nothing() {
    const EACH: u64 = 200 / FEWER;
    let tokens = Mutex::new(0_u64);
    let changed = Condvar::new();
    let taken = AtomicUsize::new(0);
    thread::scope(|scope| {
        for thread in 0..12_u64 {
            let (tokens, changed, taken) = (&tokens, &changed, &taken);
            scope.spawn(move || {
                let mut mine = 0;
                while mine < EACH {
                    let mut tokens = tokens.lock();
                    let patience = Duration::from_micros(thread * 11);
                    changed.wait_while_for(&mut tokens, |tokens| *tokens == 0, patience);
                    if *tokens > 0 {
                        *tokens -= 1;
                        mine += 1;
                        taken.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        for _ in 0..12 * EACH {
            *tokens.lock() += 1;
            changed.notify_one();
        }
    });
    assert_eq!(taken.into_inner() as u64, 12 * EACH);
    assert_eq!(changed.notify_all(), 0);
}

#[test]
fn readers_share_and_writers_do_not() {
    let value = RwLock::new((0_u64, 0_u64));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..2_000 / FEWER {
                    let mut value = value.write();
                    value.0 += 1;
                    value.1 += 1;
                }
            });
            scope.spawn(|| {
                for _ in 0..2_000 / FEWER {
                    let value = value.read();
                    assert_eq!(value.0, value.1, "half of a write was seen");
                }
            });
        }
    });
    assert_eq!(value.into_inner(), (8_000 / FEWER, 8_000 / FEWER));
}

#[test]
fn two_readers_are_inside_at_once() {
    let value = RwLock::new(());
    let inside = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let _guard = value.read();
                inside.fetch_add(1, Ordering::AcqRel);
                poll(|| inside.load(Ordering::Acquire) == 2);
            });
        }
    });
}

#[test]
fn a_reader_excludes_writers_and_a_writer_excludes_all_others() {
    let value = RwLock::new(());
    {
        let _reader = value.read();
        assert!(value.try_write().is_none());
        assert!(value.try_write_for(A_MOMENT).is_none());
        assert!(
            value.try_read().is_some(),
            "a writer that gave up is no obstacle"
        );
    }
    let writer = value.write();
    assert!(value.try_read().is_none());
    assert!(value.try_read_for(A_MOMENT).is_none());
    let reader = lock_api::RwLockWriteGuard::downgrade(writer);
    assert!(value.try_read().is_some());
    drop(reader);
    assert!(value.try_write().is_some());
}

#[test]
fn timed_readers_and_writers_mix() {
    let value = RwLock::new(0_u64);
    thread::scope(|scope| {
        for thread in 0..12_u64 {
            let value = &value;
            scope.spawn(move || {
                for round in 0..300 / FEWER {
                    let patience = Duration::from_micros((thread * 13 + round) % 60);
                    if thread % 3 == 0 {
                        if let Some(mut value) = value.try_write_for(patience) {
                            *value += 1;
                        }
                    } else {
                        drop(value.try_read_for(patience));
                    }
                }
                *value.write() += 1;
            });
        }
    });
    assert!(value.into_inner() >= 12);
}
