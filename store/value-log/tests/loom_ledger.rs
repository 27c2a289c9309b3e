//! Every interleaving of the reservation and of the doorbell.
//!
//! The two files are compiled here against loom's atomics; the bytes of a
//! buffer are loom cells, so that a producer and the committer in the same
//! byte at once is a failure.

#![allow(dead_code, reason = "the models use a part of the two files")]

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
use loom::thread;

use doorbell::Doorbell;
use ledger::{Ledger, Refusal, Want};

const ROOM: u64 = 26;

struct Buffer {
    ledger: Ledger,
    doorbell: Doorbell,
    units: Vec<UnsafeCell<u64>>,
}

impl Buffer {
    fn new() -> Buffer {
        let ledger = Ledger::new();
        ledger.open(ROOM, 0);
        Buffer {
            ledger,
            doorbell: Doorbell::default(),
            units: (0..ROOM).map(|_| UnsafeCell::new(0)).collect(),
        }
    }

    /// Fills what it gets with `mark`; false when the buffer was sealed.
    fn produce(&self, want: Want, mark: u64) -> bool {
        match self.ledger.reserve(want) {
            Ok(reserved) => {
                let start = ROOM - reserved.room_before;
                for unit in start..start + reserved.units {
                    // SAFETY: loom checks that no other thread is in this cell.
                    self.units[unit as usize].with_mut(|unit| unsafe { *unit = mark });
                }
                self.ledger.commit(&reserved);
                self.doorbell.ring();
                true
            }
            Err(refusal) => {
                assert_eq!(refusal, Refusal::Sealed);
                false
            }
        }
    }

    /// Seals, waits for the producers, reads; returns the marks it found.
    fn consume(&self) -> Vec<u64> {
        self.doorbell.wait_until(|| self.ledger.is_used());
        let used = ROOM - self.ledger.seal().room;
        self.doorbell.wait_until(|| self.ledger.is_committed(used));
        // SAFETY: loom checks that no thread writes this cell at the same time.
        (0..used)
            .map(|unit| self.units[unit as usize].with(|unit| unsafe { *unit }))
            .collect()
    }
}

fn count(marks: &[u64], mark: u64) -> usize {
    marks.iter().filter(|&&it| it == mark).count()
}

/// Every interleaving with at most three preemptions; more take minutes.
fn explore(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

/// Starts the committer. It is a thread of its own because loom takes a late
/// unpark for the end of a `join`.
fn start_committer(buffer: &Arc<Buffer>) -> thread::JoinHandle<Vec<u64>> {
    let buffer = Arc::clone(buffer);
    thread::spawn(move || {
        buffer.doorbell.attach();
        buffer.consume()
    })
}

#[test]
fn the_committer_sees_all_that_was_reserved_and_nothing_twice() {
    explore(|| {
        let buffer = Arc::new(Buffer::new());
        let committer = start_committer(&buffer);
        let other = Arc::clone(&buffer);
        let producer = thread::spawn(move || other.produce(Want::Frame(12), 1));
        let came_in_time = [buffer.produce(Want::Frame(12), 2), producer.join().unwrap()];
        let marks = committer.join().unwrap();
        for (mark, came_in_time) in [2, 1].into_iter().zip(came_in_time) {
            assert_eq!(count(&marks, mark), if came_in_time { 12 } else { 0 });
        }
        assert_eq!(count(&marks, 0), 0, "no hole");
    });
}

#[test]
fn a_shared_frame_is_opened_once() {
    explore(|| {
        let buffer = Arc::new(Buffer::new());
        let other = Arc::clone(&buffer);
        let producer = thread::spawn(move || other.produce(Want::Records(2), 1));
        assert!(buffer.produce(Want::Records(3), 2));
        let committer = start_committer(&buffer);
        let others = producer.join().unwrap();
        let marks = committer.join().unwrap();
        assert_eq!(
            marks.len(),
            11 + 3 + if others { 2 } else { 0 },
            "one header"
        );
    });
}
