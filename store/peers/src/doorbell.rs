//! One wake-up of the network thread for all messages that were queued.
//!
//! ```text
//!   send ─► lane.bell.due = true ─► doorbell, if it is not ringing ─► eventfd
//!                                       │ network thread
//!                                       └─► for each lane that is due: wake its task
//! ```
//!
//! Waking a task from another thread costs a system call. A replica that sends
//! to four members makes one such call, and none if the thread was woken and has not looked
//! yet.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Wakes the task of one lane.
#[derive(Default)]
pub(crate) struct Bell {
    due: AtomicBool,
    notify: Notify,
}

impl Bell {
    /// Waits until the lane may have messages.
    pub async fn heard(&self) {
        self.notify.notified().await;
    }

    /// Wakes the lane's task if the bell was rung. Called on the network thread.
    pub fn pass_on(&self) {
        if self.due.swap(false, Ordering::AcqRel) {
            self.notify.notify_one();
        }
    }
}

/// Wakes the network thread.
#[derive(Default)]
pub(crate) struct Doorbell {
    ringing: AtomicBool,
    notify: Notify,
}

impl Doorbell {
    /// Wakes the task of `bell`, from any thread.
    pub fn ring(&self, bell: &Bell) {
        // The order matters. If the network thread resets `ringing` after this swap, it sees
        // the bell due; if it did so before, this call notifies it.
        bell.due.store(true, Ordering::Release);
        if !self.ringing.swap(true, Ordering::AcqRel) {
            self.notify.notify_one();
        }
    }

    /// Waits until a bell was rung. Called on the network thread, which must look at the
    /// bells after this, not before.
    pub async fn rung(&self) {
        self.notify.notified().await;
        self.ringing.swap(false, Ordering::AcqRel);
    }
}
