//! What the kernel says of this process.

use std::path::Path;

use super::text::Page;
use crate::files;

/// Adds what can be read; a system without `/proc` has none of it.
pub(super) fn write(page: &mut Page) {
    if let Some(usage) = Usage::read() {
        page.counter(
            "process_cpu_seconds_total",
            "User and system time spent.",
            usage.cpu_seconds,
        );
        page.gauge(
            "process_resident_memory_bytes",
            "Resident memory.",
            usage.resident_bytes,
        );
        page.gauge(
            "process_virtual_memory_bytes",
            "Virtual memory.",
            usage.virtual_bytes,
        );
        page.gauge(
            "process_start_time_seconds",
            "When the process began.",
            usage.start_seconds,
        );
    }
    // The kernel's word about this process; no files of ours.
    let open = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let limit = limit.unwrap_or(u64::MAX);
    for (name, value) in [
        ("process_open_fds", open as u64),
        ("os_fd_used", open as u64),
    ] {
        page.gauge(name, "Open files and sockets.", value);
    }
    for name in ["process_max_fds", "os_fd_limit"] {
        page.gauge(name, "Files and sockets that may be open.", limit);
    }
}

/// One reading of `/proc/self/stat`.
struct Usage {
    cpu_seconds: f64,
    resident_bytes: u64,
    virtual_bytes: u64,
    start_seconds: f64,
}

impl Usage {
    fn read() -> Option<Usage> {
        let stat = files::read_text(Path::new("/proc/self/stat")).ok()?;
        Usage::parse(&stat, boot_seconds()?)
    }

    /// Fields are counted from behind the name, which may hold blanks.
    fn parse(stat: &str, boot_seconds: f64) -> Option<Usage> {
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let number = |place: usize| fields.get(place)?.parse::<u64>().ok();
        let ticks = rustix::param::clock_ticks_per_second() as f64;
        Some(Usage {
            cpu_seconds: (number(11)? + number(12)?) as f64 / ticks,
            start_seconds: boot_seconds + number(19)? as f64 / ticks,
            virtual_bytes: number(20)?,
            resident_bytes: number(21)? * rustix::param::page_size() as u64,
        })
    }
}

fn boot_seconds() -> Option<f64> {
    let stat = files::read_text(Path::new("/proc/stat")).ok()?;
    stat.lines()
        .find_map(|line| line.strip_prefix("btime "))?
        .trim()
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_blanks_and_brackets_does_not_shift_the_fields() {
        let stat = "7 (a) b) S 1 1 1 0 -1 0 0 0 0 0 100 50 0 0 20 0 4 0 300 4096 2 0";
        let usage = Usage::parse(stat, 1000.0).unwrap();
        let ticks = rustix::param::clock_ticks_per_second() as f64;
        assert_eq!(usage.cpu_seconds, 150.0 / ticks);
        assert_eq!(usage.start_seconds, 1000.0 + 300.0 / ticks);
        assert_eq!(usage.virtual_bytes, 4096);
        assert_eq!(usage.resident_bytes, 2 * rustix::param::page_size() as u64);
    }
}
