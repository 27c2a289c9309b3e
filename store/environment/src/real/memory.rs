//! The memory that this process may use.

use rustix::process::{Resource, getrlimit};

use super::open::short_text;

/// Where version 2 of Linux's control groups states a container's limit, as
/// the container sees it: a number of bytes, or the word `max`.
const GROUP_LIMIT: &str = "/sys/fs/cgroup/memory.max";

/// The machine's memory, or the limit of this container or of this process (`ulimit -v`,
/// `ulimit -d`) where that is lower.
pub fn memory_bytes() -> u64 {
    let system = rustix::system::sysinfo();
    let machine = u64::from(system.mem_unit).saturating_mul(system.totalram);
    let limits = [
        short_text(GROUP_LIMIT).and_then(|text| text.parse().ok()),
        getrlimit(Resource::As).current,
        getrlimit(Resource::Data).current,
    ];
    limits.into_iter().flatten().fold(machine, u64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_memory_and_no_machine_has_an_exbibyte() {
        let bytes = memory_bytes();
        assert!((1 << 20..1 << 60).contains(&bytes), "{bytes}");
    }
}
