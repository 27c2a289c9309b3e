//! Counts of all clients together.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::Report;

/// Counts during one step.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Acknowledged puts.
    pub puts: usize,
    pub gets: usize,
    /// Puts and gets that were sent again.
    pub repeated: usize,
    /// Puts with an unknown outcome.
    pub unknown: usize,
    /// The longest time until a get was answered or a put ended, repetitions included.
    pub longest: Duration,
}

/// How one call ended.
#[derive(Clone, Copy, Debug)]
pub enum Ended {
    Put,
    UnknownPut,
    Get,
}

#[derive(Debug, Default)]
pub struct Tally {
    has_ended: AtomicBool,
    counts: Mutex<Counts>,
    repeated: Mutex<BTreeMap<String, usize>>,
    wrong: Mutex<BTreeMap<String, usize>>,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().expect("no holder panics")
}

impl Tally {
    /// Tells the clients to stop.
    pub fn end(&self) {
        self.has_ended.store(true, Ordering::Relaxed);
    }

    pub fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }

    pub fn note(&self, ended: Ended, took: Duration) {
        let mut counts = lock(&self.counts);
        match ended {
            Ended::Put => counts.puts += 1,
            Ended::UnknownPut => counts.unknown += 1,
            Ended::Get => counts.gets += 1,
        }
        counts.longest = counts.longest.max(took);
    }

    /// Notes an error after which a retrying client repeats the call, or may not know the outcome
    /// of a put.
    pub fn note_repeatable(&self, error: String, is_repeated: bool) {
        *lock(&self.repeated).entry(error).or_default() += 1;
        lock(&self.counts).repeated += usize::from(is_repeated);
    }

    /// Notes an answer that no retrying client repeats.
    pub fn note_wrong(&self, error: String) {
        *lock(&self.wrong).entry(error).or_default() += 1;
    }

    /// The counts and repeatable errors since this was called last.
    pub fn take(&self) -> (Counts, BTreeMap<String, usize>) {
        let errors = std::mem::take(&mut *lock(&self.repeated));
        (std::mem::take(&mut lock(&self.counts)), errors)
    }

    /// Answers that no retrying client repeats.
    pub fn wrong(&self) -> Report {
        let mut report = Report::default();
        for (name, count) in &*lock(&self.wrong) {
            report.add(name, count);
        }
        report
    }
}
