//! One wake-up of the network thread for everything that was queued.
//!
//! ```text
//!   send ─► lane.bell.due = true ─► doorbell, if it is not ringing ─► eventfd
//!                                       │ network thread
//!                                       └─► for each lane that is due: wake its task
//! ```
//!
//! Waking a task from another thread costs a system call. A replica that sends
//! to four members pays for one; and for none while the thread is on its way.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// What one lane's task sleeps on.
#[derive(Default)]
pub(crate) struct Bell {
    due: AtomicBool,
    notify: Notify,
}

impl Bell {
    /// Sleeps until there may be something to do.
    pub async fn heard(&self) {
        self.notify.notified().await;
    }

    /// On the network thread: wakes the lane's task if it was rung.
    pub fn pass_on(&self) {
        if self.due.swap(false, Ordering::AcqRel) {
            self.notify.notify_one();
        }
    }
}

/// What the network thread sleeps on.
#[derive(Default)]
pub(crate) struct Doorbell {
    ringing: AtomicBool,
    notify: Notify,
}

impl Doorbell {
    /// `bell`'s task will wake up. From any thread.
    pub fn ring(&self, bell: &Bell) {
        // The order matters: whoever silences the doorbell after this swap
        // sees the bell due, and whoever did it before makes us ring.
        bell.due.store(true, Ordering::Release);
        if !self.ringing.swap(true, Ordering::AcqRel) {
            self.notify.notify_one();
        }
    }

    /// On the network thread: sleeps until someone rings. Bells are to be
    /// looked at after this, not before.
    pub async fn rung(&self) {
        self.notify.notified().await;
        self.ringing.swap(false, Ordering::AcqRel);
    }
}
