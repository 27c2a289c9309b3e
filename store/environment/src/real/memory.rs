//! The memory that this process may use.

use std::path::Path;

use rustix::process::{Resource, getrlimit};

use super::RealDisk;
use crate::{Disk, OpenMode};

/// Where version 2 of Linux's control groups states a container's limit, as
/// the container sees it: a number of bytes, or the word `max`.
const GROUP_LIMIT: &str = "/sys/fs/cgroup/memory.max";

/// The machine's memory, or the limit of this container or of this process (`ulimit -v`,
/// `ulimit -d`) where that is lower.
pub fn memory_bytes() -> u64 {
    let system = rustix::system::sysinfo();
    let machine = u64::from(system.mem_unit).saturating_mul(system.totalram);
    let limits = [
        group_limit_bytes(),
        getrlimit(Resource::As).current,
        getrlimit(Resource::Data).current,
    ];
    limits.into_iter().flatten().fold(machine, u64::min)
}

fn group_limit_bytes() -> Option<u64> {
    let file = RealDisk.open(Path::new(GROUP_LIMIT), OpenMode::Read).ok()?;
    let mut text = [0; 32];
    let read = file.read_at(&mut text, 0).ok()?;
    std::str::from_utf8(&text[..read]).ok()?.trim().parse().ok()
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
