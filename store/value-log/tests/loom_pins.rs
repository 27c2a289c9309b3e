//! Every interleaving of two looks at a segment with two releases of it, of which the first fails: a
//! file is never overwritten while its bytes are looked at.

#![allow(dead_code, reason = "the model uses a part of the file")]

#[path = "../src/pins.rs"]
mod pins;

mod sync {
    pub(crate) use loom::sync::atomic::{AtomicU64, Ordering};
}

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use pins::Pins;

struct Segment {
    pins: Pins,
    bytes: UnsafeCell<u8>,
}

impl Segment {
    fn look(&self) -> Option<u8> {
        let looked = |bytes: *const u8| {
            // SAFETY: loom fails the model if the bytes are overwritten during this.
            unsafe { *bytes }
        };
        self.pins.pin().then(|| {
            let byte = self.bytes.with(looked);
            self.pins.unpin();
            byte
        })
    }

    /// Overwrites the file, or removes it, which leaves its bytes as they are.
    fn release(&self) {
        if self.pins.close() {
            self.bytes.with_mut(|bytes| {
                // SAFETY: loom fails the model if the bytes are looked at during this.
                unsafe { *bytes = 2 };
            });
        }
    }
}

#[test]
fn no_bytes_are_overwritten_while_they_are_looked_at() {
    loom::model(|| {
        let segment = Arc::new(Segment {
            pins: Pins::new(),
            bytes: UnsafeCell::new(1),
        });
        let looks = [(); 2].map(|()| {
            let segment = Arc::clone(&segment);
            thread::spawn(move || segment.look())
        });
        segment.pins.close();
        segment.pins.reopen();
        segment.release();
        for look in looks {
            let seen = look.join().unwrap();
            assert!(seen.is_none_or(|byte| byte == 1), "{seen:?}");
        }
        assert_eq!(segment.look(), None);
    });
}
