//! Every interleaving of producers with a committer that swaps two buffers:
//! seal one, open the other behind it, wait for the producers of the first,
//! read, and open it again one turn later.
//!
//! What this adds to `loom_ledger`: a producer may sleep between finding out
//! which buffer is open and reserving in it, through a whole life of that
//! buffer; whatever it then gets must be of the present life, position
//! included, though that is written and read without ordering of its own.

#![allow(dead_code, reason = "the model uses a part of the two files")]

#[path = "../src/doorbell.rs"]
mod doorbell;
#[path = "../src/ledger.rs"]
mod ledger;

mod sync {
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
    pub(crate) use loom::thread::{Thread, current, park};
}

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use loom::thread;

use doorbell::Doorbell;
use ledger::{Ledger, UNIT_BYTES, Want};

/// Units of the smallest frame: a header.
const FRAME: u64 = 88 / UNIT_BYTES as u64;
/// A buffer holds all that is produced.
const FRAMES_MAX: u64 = 3;
const ROOM: u64 = FRAME * FRAMES_MAX;
const NO_BUFFER: usize = 2;

struct Buffer {
    ledger: Ledger,
    /// Stands for base and sequence: constant from open to drain.
    life: AtomicU64,
    /// One cell per frame.
    frames: Vec<UnsafeCell<(u64, u64)>>,
}

struct Log {
    buffers: [Buffer; 2],
    open_buffer: AtomicUsize,
    /// The end is wanted.
    ordered: AtomicBool,
    doorbell: Doorbell,
}

impl Log {
    fn new() -> Log {
        let buffer = || Buffer {
            ledger: Ledger::new(),
            life: AtomicU64::new(0),
            frames: (0..FRAMES_MAX).map(|_| UnsafeCell::new((0, 0))).collect(),
        };
        let log = Log {
            buffers: [buffer(), buffer()],
            open_buffer: AtomicUsize::new(NO_BUFFER),
            ordered: AtomicBool::new(false),
            doorbell: Doorbell::default(),
        };
        log.open(0, 1);
        log
    }

    fn open(&self, index: usize, life: u64) {
        let buffer = &self.buffers[index];
        buffer.life.store(life, Ordering::Relaxed);
        buffer.ledger.open(ROOM, 0);
        self.open_buffer.store(index, Ordering::Release);
    }

    /// Appends a frame; false when the buffers were being swapped.
    fn produce(&self, mark: u64) -> bool {
        let index = self.open_buffer.load(Ordering::Acquire);
        let Some(buffer) = self.buffers.get(index) else {
            return false;
        };
        let Ok(reserved) = buffer.ledger.reserve(Want::Frame(FRAME)) else {
            return false;
        };
        let life = buffer.life.load(Ordering::Relaxed);
        let frame = (ROOM - reserved.room_before) / FRAME;
        // SAFETY: loom checks that no other thread is in this cell.
        buffer.frames[frame as usize].with_mut(|it| unsafe { *it = (mark, life) });
        buffer.ledger.commit(&reserved);
        self.doorbell.ring();
        true
    }

    /// Turns until the end is ordered; returns the marks of all frames.
    fn commit(&self) -> Vec<u64> {
        self.doorbell.attach();
        let (mut index, mut life, mut marks) = (0, 1, Vec::new());
        let mut closing = false;
        while !closing {
            let buffer = &self.buffers[index];
            let ordered = || self.ordered.load(Ordering::Acquire);
            self.doorbell
                .wait_until(|| buffer.ledger.is_used() || ordered());
            closing = ordered();
            self.open_buffer.store(NO_BUFFER, Ordering::Release);
            let sealed = buffer.ledger.seal();
            self.open(1 - index, life + 1);
            let used = ROOM - sealed.room;
            self.doorbell
                .wait_until(|| buffer.ledger.is_committed(used));
            for frame in &buffer.frames[..(used / FRAME) as usize] {
                // SAFETY: loom checks that no thread writes this cell at the same time.
                let (mark, its_life) = frame.with(|it| unsafe { *it });
                assert_eq!(its_life, life, "frame {mark} is of another life");
                marks.push(mark);
            }
            (index, life) = (1 - index, life + 1);
        }
        marks
    }
}

#[test]
fn frames_land_in_the_life_they_were_reserved_in_and_all_are_read_once() {
    let mut builder = loom::model::Builder::new();
    // More take minutes.
    builder.preemption_bound = Some(2);
    builder.check(|| {
        let log = Arc::new(Log::new());
        let (other, committing) = (Arc::clone(&log), Arc::clone(&log));
        let committer = thread::spawn(move || committing.commit());
        let producer = thread::spawn(move || other.produce(1));
        let mut expected: Vec<u64> = [2, 3].into_iter().filter(|&it| log.produce(it)).collect();
        expected.extend(producer.join().unwrap().then_some(1));
        log.ordered.store(true, Ordering::Release);
        log.doorbell.ring();
        let mut marks = committer.join().unwrap();
        marks.sort_unstable();
        expected.sort_unstable();
        assert_eq!(marks, expected);
    });
}
