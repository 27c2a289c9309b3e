//! Waiting until a moment, to the microsecond.
//!
//! tokio's own timers know milliseconds, which would be added to every latency
//! of an open loop; a timer of the kernel does not.

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
    /// In the runtime that this is called in.
    pub fn new() -> io::Result<Timer> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        // SAFETY: the descriptor belongs to the `AsyncFd` from here on, which
        // nobody takes it out of: it stays open, and the same, while registered.
        let registered = unsafe { AsyncFd::register(timer) };
        Ok(Timer(registered?))
    }

    /// Returns after so long.
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
            // Otherwise it was woken for nothing.
            if let Ok(read) = read {
                return read.map(drop);
            }
        }
    }
}

/// The calling thread's sleeps end when they should: no time is given away to
/// save wake-ups.
pub fn wake_precisely() {
    // Best effort: without it sleeps are 50 us longer.
    let slack = std::num::NonZeroU64::new(1);
    let _ = rustix::thread::set_current_timer_slack(slack);
}
