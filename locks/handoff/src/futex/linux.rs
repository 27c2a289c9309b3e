//! The futex of Linux, private to the process.

use std::sync::atomic::AtomicU32;
use std::time::Duration;

const NANOS_PER_SECOND: i64 = 1_000_000_000;

/// The moment at which a timed wait ends.
#[derive(Clone, Copy)]
pub struct Deadline {
    clock: libc::clockid_t,
    at: libc::timespec,
}

impl Deadline {
    /// A deadline `patience` from now. One beyond the clock's range never comes.
    pub fn after(patience: Duration) -> Deadline {
        let mut at = monotonic();
        let seconds = i64::try_from(patience.as_secs()).unwrap_or(i64::MAX);
        at.tv_sec = at.tv_sec.saturating_add(seconds);
        at.tv_nsec += i64::from(patience.subsec_nanos());
        if at.tv_nsec >= NANOS_PER_SECOND {
            at.tv_nsec -= NANOS_PER_SECOND;
            at.tv_sec = at.tv_sec.saturating_add(1);
        }
        Deadline {
            clock: libc::CLOCK_MONOTONIC,
            at,
        }
    }

    /// A deadline on `CLOCK_MONOTONIC` or `CLOCK_REALTIME`; none for another clock, or if the
    /// nanoseconds are not below one second.
    pub fn at(clock: libc::clockid_t, at: libc::timespec) -> Option<Deadline> {
        let known = clock == libc::CLOCK_MONOTONIC || clock == libc::CLOCK_REALTIME;
        let valid = (0..NANOS_PER_SECOND).contains(&at.tv_nsec);
        (known && valid).then_some(Deadline { clock, at })
    }
}

/// The present time of `CLOCK_MONOTONIC`, which never steps back.
pub(crate) fn monotonic() -> libc::timespec {
    let mut at = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `at` is writable; this clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut at) };
    at
}

/// Sleeps while `word` is `expected`, without a limit if there is no deadline; false once the
/// deadline has passed. `errno` is not changed: C programs read it after they have unlocked.
pub(crate) fn wait(word: &AtomicU32, expected: u32, deadline: Option<&Deadline>) -> bool {
    let mut operation = libc::FUTEX_WAIT_BITSET | libc::FUTEX_PRIVATE_FLAG;
    let mut at = std::ptr::null();
    if let Some(deadline) = deadline {
        if deadline.clock == libc::CLOCK_REALTIME {
            operation |= libc::FUTEX_CLOCK_REALTIME;
        }
        // The kernel refuses moments before the epoch, which have passed.
        if deadline.at.tv_sec < 0 {
            return false;
        }
        at = &raw const deadline.at;
    }
    let before = error();
    // SAFETY: `word` lives during the wait, and `at` is null or a valid moment.
    let outcome = unsafe {
        libc::syscall(
            libc::SYS_futex,
            std::ptr::from_ref(word),
            operation,
            expected,
            at,
            std::ptr::null::<u32>(),
            libc::FUTEX_BITSET_MATCH_ANY,
        )
    };
    let in_time = outcome == 0 || error() != libc::ETIMEDOUT;
    set_error(before);
    in_time
}

/// Wakes one sleeper of the word at this address.
pub(crate) fn wake_one(word: *const AtomicU32) {
    let before = error();
    // SAFETY: the kernel uses the address as a name only; a stale one wakes no thread, or one
    // that waits in a loop.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word,
            libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
            1,
        );
    }
    set_error(before);
}

fn error() -> libc::c_int {
    // SAFETY: the thread's own `errno`.
    unsafe { *libc::__errno_location() }
}

fn set_error(number: libc::c_int) {
    // SAFETY: the thread's own `errno`.
    unsafe { *libc::__errno_location() = number };
}
