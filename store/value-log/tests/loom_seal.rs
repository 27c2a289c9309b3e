//! Every interleaving of a writer that makes the last frame longer with two flushes: no byte
//! before the end that a flush has seen is written from then on.

#![allow(dead_code, reason = "the model uses a part of the file")]

#[path = "../src/frame_seal.rs"]
mod frame_seal;

mod sync {
    use std::sync::PoisonError;

    pub(crate) use loom::sync::MutexGuard;

    /// The environment's lock, of loom's.
    #[derive(Debug)]
    pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Mutex<T> {
            Mutex(loom::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner)
        }
    }
}

use frame_seal::FrameSeal;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

/// Records that are appended.
const RECORDS: usize = 3;

struct Log {
    seal: FrameSeal,
    /// Frames that are published.
    end: AtomicUsize,
    /// The number of records in each frame, which stands for its bytes.
    frames: [UnsafeCell<usize>; RECORDS],
}

impl Log {
    /// Looks where the log ends, and reads all before, as the device does.
    fn flush(&self) -> usize {
        let end = self.seal.seal_and(|| self.end.load(Ordering::Acquire));
        let read = |frame: &UnsafeCell<usize>| {
            frame.with(|records| {
                // SAFETY: loom fails the model if a frame is written during this.
                unsafe { *records }
            })
        };
        self.frames[..end].iter().map(read).sum()
    }

    fn write(&self) {
        let mut growing = None;
        for _ in 0..RECORDS {
            if self.lengthen(growing) {
                continue;
            }
            let (times, frame) = (self.seal.times(), self.end.load(Ordering::Relaxed));
            self.add_record(frame);
            self.end.store(frame + 1, Ordering::Release);
            growing = times.map(|times| (times, frame));
        }
    }

    fn lengthen(&self, growing: Option<(u64, usize)>) -> bool {
        let Some((times, frame)) = growing else {
            return false;
        };
        let Some(_open) = self.seal.keep_open(times) else {
            return false;
        };
        self.add_record(frame);
        true
    }

    fn add_record(&self, frame: usize) {
        self.frames[frame].with_mut(|records| {
            // SAFETY: there is one writer, and loom fails the model if a frame is read during this.
            unsafe { *records += 1 };
        });
    }
}

#[test]
fn no_frame_that_a_flush_has_seen_becomes_longer() {
    loom::model(|| {
        let log = Arc::new(Log {
            seal: FrameSeal::new(),
            end: AtomicUsize::new(0),
            frames: std::array::from_fn(|_| UnsafeCell::new(0)),
        });
        let writer = thread::spawn({
            let log = Arc::clone(&log);
            move || log.write()
        });
        let promised = log.flush();
        let more = log.flush();
        assert!(promised <= more && more <= RECORDS);
        writer.join().unwrap();
        assert_eq!(log.flush(), RECORDS, "no record is lost");
    });
}

#[test]
fn a_log_that_is_sealed_for_good_has_no_longer_frame() {
    loom::model(|| {
        let seal = Arc::new(FrameSeal::new());
        let times = seal.times().unwrap();
        let sealing = thread::spawn({
            let seal = Arc::clone(&seal);
            move || seal.seal_for_good()
        });
        drop(seal.keep_open(times));
        sealing.join().unwrap();
        assert!(seal.keep_open(times).is_none() && seal.times().is_none());
        seal.seal_and(|| ());
        assert_eq!(seal.times(), None);
    });
}
