//! A futex made of the checker's mutex and condition variable.

use crate::checker;
use crate::checker::sync::{Condvar, Mutex};
use crate::sync::{AtomicU32, Ordering};

pub struct Deadline;

checker::lazy_static! {
    static ref ROOM: (Mutex<()>, Condvar) = (Mutex::new(()), Condvar::new());
}

pub fn wait(word: &AtomicU32, expected: u32, deadline: Option<&Deadline>) -> bool {
    if deadline.is_some() {
        return !checker::time_is_up();
    }
    let guard = ROOM.0.lock().unwrap();
    if word.load(Ordering::Relaxed) == expected {
        drop(ROOM.1.wait(guard).unwrap());
    }
    true
}

pub fn wake_one(_word: *const AtomicU32) {
    let _guard = ROOM.0.lock().unwrap();
    ROOM.1.notify_all();
}
