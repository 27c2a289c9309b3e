//! The cores that this process may run on, and the one that a thread runs on now.

use std::sync::atomic::{AtomicU32, Ordering};

/// 0 until they have been counted.
static NUMBER: AtomicU32 = AtomicU32::new(0);

/// Cores this process may run on, as they were counted first.
pub(crate) fn number() -> u32 {
    match NUMBER.load(Ordering::Relaxed) {
        0 => {
            let number = count().max(1);
            NUMBER.store(number, Ordering::Relaxed);
            number
        }
        known => known,
    }
}

/// The core of the calling thread, until the kernel moves it. The thread's error number stays
/// as it was.
#[cfg(all(target_os = "linux", not(miri)))]
pub(crate) fn here() -> u32 {
    // SAFETY: asks for a number, and the thread's own error number.
    unsafe {
        let error = *libc::__errno_location();
        let here = libc::sched_getcpu();
        *libc::__errno_location() = error;
        here.cast_unsigned()
    }
}

/// Where nobody can tell, all are on the same core.
#[cfg(not(all(target_os = "linux", not(miri))))]
pub(crate) fn here() -> u32 {
    0
}

/// Cores this process may run on; asks the kernel without allocating.
#[cfg(target_os = "linux")]
fn count() -> u32 {
    // SAFETY: all zeros are an empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is writable and as long as we say.
    let failed = unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) } != 0;
    if failed {
        // More cores than the set has room for.
        return libc::CPU_SETSIZE as u32;
    }
    // SAFETY: `set` was filled in.
    unsafe { libc::CPU_COUNT(&set) as u32 }
}

#[cfg(not(target_os = "linux"))]
fn count() -> u32 {
    std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32)
}
