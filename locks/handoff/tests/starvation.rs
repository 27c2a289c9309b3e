//! 256 threads at one lock: each enters again and again, and their shares are nearly equal.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use handoff::{Condvar, Mutex};

const THREADS: usize = 256;

/// Jain's index of fairness: 1 if all counts are equal, 1/n if all but one are 0.
fn fairness(counts: &[u64]) -> f64 {
    let sum: f64 = counts.iter().map(|&count| count as f64).sum();
    let squares: f64 = counts.iter().map(|&count| (count as f64).powi(2)).sum();
    sum * sum / (counts.len() as f64 * squares)
}

fn work(rounds: u64) {
    for round in 0..rounds {
        std::hint::black_box(round);
    }
}

/// Runs all threads until `until` returns; how often each has entered the lock.
fn contend(until: impl FnOnce(&[AtomicU64])) -> Vec<u64> {
    let mutex = Mutex::new(0_u64);
    let stop = AtomicBool::new(false);
    let start = Barrier::new(THREADS + 1);
    let counts: Vec<AtomicU64> = (0..THREADS).map(|_| AtomicU64::new(0)).collect();
    thread::scope(|scope| {
        for count in &counts {
            let (mutex, stop, start) = (&mutex, &stop, &start);
            scope.spawn(move || {
                start.wait();
                while !stop.load(Ordering::Relaxed) {
                    let mut guard = mutex.lock();
                    *guard += 1;
                    work(300);
                    drop(guard);
                    work(300);
                    count.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        start.wait();
        until(&counts);
        stop.store(true, Ordering::Relaxed);
    });
    counts.into_iter().map(AtomicU64::into_inner).collect()
}

#[test]
fn every_one_of_256_threads_gets_in_again_and_again() {
    const EACH: u64 = 50;
    let counts = contend(|counts| {
        // Without turns the oldest waiters would never be chosen, and this loop never end.
        while counts
            .iter()
            .any(|count| count.load(Ordering::Relaxed) < EACH)
        {
            thread::yield_now();
        }
    });
    assert!(counts.iter().all(|&count| count >= EACH));
}

#[test]
fn every_waiter_of_a_condition_variable_gets_its_share() {
    let tokens = Mutex::new(0_u64);
    let changed = Condvar::new();
    let counts: Vec<AtomicU64> = (0..THREADS).map(|_| AtomicU64::new(0)).collect();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for count in &counts {
            let (tokens, changed, stop) = (&tokens, &changed, &stop);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let mut tokens = tokens.lock();
                    changed.wait_while(&mut tokens, |tokens| {
                        *tokens == 0 && !stop.load(Ordering::Relaxed)
                    });
                    *tokens = tokens.saturating_sub(1);
                    count.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        while counts
            .iter()
            .any(|count| count.load(Ordering::Relaxed) < 20)
        {
            *tokens.lock() += 1;
            changed.notify_one();
        }
        stop.store(true, Ordering::Relaxed);
        drop(tokens.lock());
        changed.notify_all();
    });
}

/// Two times the bound on the time until each waiter is chosen: a chosen thread still needs a
/// core.
const TWICE_THE_BOUND: Duration =
    Duration::from_micros(2 * THREADS as u64 * handoff::raw::TURN_MICROS as u64);

/// Measured by hand only, because the result depends on the other work of the machine.
#[test]
#[ignore = "a measurement: cargo test -p handoff --release --test starvation -- --ignored --nocapture"]
fn jains_index_over_one_second_is_above_0_8() {
    let mut stalls = 0;
    let counts = contend(|counts| {
        let look = || counts.iter().map(|count| count.load(Ordering::Relaxed));
        for _ in 0..4 {
            let before: Vec<u64> = look().collect();
            #[expect(clippy::disallowed_methods, reason = "the second that is measured")]
            thread::sleep(TWICE_THE_BOUND);
            stalls += look().zip(before).filter(|(now, then)| now == then).count();
        }
    });
    let (fairness, total) = (fairness(&counts), counts.iter().sum::<u64>());
    let (least, most) = (counts.iter().min(), counts.iter().max());
    println!(
        "Jain's index {fairness:.3}, inside {total} times, each {least:?} to {most:?}; \
         {stalls} times a thread did not come in for {TWICE_THE_BOUND:?}"
    );
    assert!(fairness > 0.8, "Jain's index {fairness:.3}");
    assert_eq!(stalls, 0, "not chosen within {TWICE_THE_BOUND:?}");
}
