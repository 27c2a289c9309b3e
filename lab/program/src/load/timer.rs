//! Timers with a precision of microseconds.
//!
//! tokio's timers have a resolution of a millisecond, which would be added to every latency
//! of an open loop. A timer of the kernel (timerfd) is precise.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::io::unix::AsyncFd;

/// A timer of the kernel, for one task.
#[derive(Debug)]
pub struct Timer(AsyncFd<OwnedFd>);

impl Timer {
    /// A timer that is registered with the runtime of the caller.
    pub fn new() -> io::Result<Timer> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        // SAFETY: the `AsyncFd` owns the descriptor from here on, and this type never
        // takes it out again: it stays open, and the same, while registered.
        let registered = unsafe { AsyncFd::register(timer) };
        Ok(Timer(registered?))
    }

    /// Returns after `length`.
    pub async fn sleep(&self, length: Duration) -> io::Result<()> {
        if length.is_zero() {
            return Ok(());
        }
        let zero = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let expiry = Itimerspec {
            it_interval: zero,
            it_value: Timespec {
                tv_sec: length.as_secs() as i64,
                tv_nsec: i64::from(length.subsec_nanos()),
            },
        };
        timerfd_settime(self.0.get_ref(), TimerfdTimerFlags::empty(), &expiry)?;
        loop {
            let mut ready = self.0.readable().await?;
            let read = ready.try_io(|timer| {
                let mut count = [0; 8];
                Ok(rustix::io::read(timer.get_ref(), &mut count)?)
            });
            // An error means a spurious wake-up: wait again.
            if let Ok(read) = read {
                return read.map(drop);
            }
        }
    }
}

/// Sets the timer slack of the calling thread to its minimum, so that the kernel does not
/// delay wake-ups in order to combine them.
pub fn wake_precisely() {
    // Best effort: with the default slack, sleeps are up to 50 us longer.
    let slack = std::num::NonZeroU64::new(1);
    let _ = rustix::thread::set_current_timer_slack(slack);
}
