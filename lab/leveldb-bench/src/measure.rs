//! Costs of a run, as the kernel counts them.

use std::ffi::CStr;

/// Resources used so far by this process, and (`busy_seconds`) by all of them.
#[derive(Clone, Copy)]
pub struct Usage {
    pub cpu_seconds: f64,
    /// Switches because a thread had to wait.
    pub voluntary: i64,
    /// Switches because another thread got the core.
    pub involuntary: i64,
    /// Processor time of all processes, this one included.
    pub busy_seconds: f64,
}

impl Usage {
    pub fn now() -> Usage {
        // SAFETY: all zeros are valid, and the kernel fills them in.
        let usage = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
            usage
        };
        let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
        Usage {
            cpu_seconds: seconds(usage.ru_utime) + seconds(usage.ru_stime),
            voluntary: usage.ru_nvcsw,
            involuntary: usage.ru_nivcsw,
            busy_seconds: busy_seconds(),
        }
    }

    pub fn since(self, before: Usage) -> Usage {
        Usage {
            cpu_seconds: self.cpu_seconds - before.cpu_seconds,
            voluntary: self.voluntary - before.voluntary,
            involuntary: self.involuntary - before.involuntary,
            busy_seconds: self.busy_seconds - before.busy_seconds,
        }
    }
}

/// Time of the cores that was not idle, from the first line of the kernel's table; 0 if
/// there is none.
fn busy_seconds() -> f64 {
    let table = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let first = table.lines().next().unwrap_or_default();
    let ticks: Vec<f64> = first
        .split_whitespace()
        .skip(1)
        .map(|ticks| ticks.parse().unwrap_or(0.0))
        .collect();
    // User, nice, system, then idle and waiting for devices, then interrupts and what
    // the host has taken; guests are counted under user.
    let busy = [0, 1, 2, 5, 6, 7].map(|column| ticks.get(column).copied().unwrap_or(0.0));
    // SAFETY: `sysconf` takes no pointer.
    let ticks_per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) } as f64;
    busy.iter().sum::<f64>() / ticks_per_second
}

/// Jain's index: 1 when all rates are equal, 1/n when one of n is the whole sum.
pub fn jain(rates: &[f64]) -> f64 {
    let sum: f64 = rates.iter().sum();
    let squares: f64 = rates.iter().map(|rate| rate * rate).sum();
    if squares == 0.0 {
        return 1.0;
    }
    sum * sum / (rates.len() as f64 * squares)
}

/// The file with the `pthread_mutex_lock` that this process calls.
pub fn path_of_mutex_lock() -> String {
    // SAFETY: a string with its zero; the answer is looked at at once.
    unsafe {
        let address = libc::dlsym(libc::RTLD_DEFAULT, c"pthread_mutex_lock".as_ptr());
        let mut about: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr(address, &raw mut about) == 0 || about.dli_fname.is_null() {
            return String::new();
        }
        CStr::from_ptr(about.dli_fname)
            .to_string_lossy()
            .into_owned()
    }
}
