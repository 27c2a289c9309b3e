//! The cores that this process may run on, and the one that a thread runs on now.

use std::sync::atomic::{AtomicU32, Ordering};

/// Cores that this process may run on; 0 until they have been counted.
static NUMBER: AtomicU32 = AtomicU32::new(0);

/// Cores that this process may run on. They are counted once; later changes have no effect.
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

/// The core that the calling thread runs on, until the kernel moves it. `errno` is not changed.
#[cfg(all(target_os = "linux", not(miri)))]
pub(crate) fn here() -> u32 {
    // SAFETY: reads a number, and reads and writes the thread's own `errno`.
    unsafe {
        let error = *libc::__errno_location();
        let here = libc::sched_getcpu();
        *libc::__errno_location() = error;
        here.cast_unsigned()
    }
}

/// 0 for all threads, as if there were one core: this system does not say where they run.
#[cfg(not(all(target_os = "linux", not(miri))))]
pub(crate) fn here() -> u32 {
    0
}

/// Asks the kernel for the number of cores, without allocating.
#[cfg(target_os = "linux")]
fn count() -> u32 {
    // SAFETY: all zeros are an empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is writable and has the given size.
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
