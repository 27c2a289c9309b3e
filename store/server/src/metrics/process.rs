//! Metrics of this process that the kernel keeps.

use std::path::Path;

use super::text::Page;
use crate::files;

/// Adds the metrics that can be read; a system without `/proc` has none of them.
pub(super) fn write(page: &mut Page) {
    if let Some(usage) = Usage::read() {
        let help = "User and system time spent.";
        page.counter("process_cpu_seconds_total", help, usage.cpu_seconds);
        let (help, bytes) = ("Resident memory.", usage.resident_bytes);
        page.gauge("process_resident_memory_bytes", help, bytes);
        let (help, bytes) = ("Virtual memory.", usage.virtual_bytes);
        page.gauge("process_virtual_memory_bytes", help, bytes);
        let help = "When the process began.";
        page.gauge("process_start_time_seconds", help, usage.start_seconds);
    }
    if let Some((received, sent)) = network_bytes() {
        let help = "Bytes that this network namespace received.";
        page.counter("process_network_receive_bytes_total", help, received);
        let help = "Bytes that this network namespace sent.";
        page.counter("process_network_transmit_bytes_total", help, sent);
    }
    limits(page);
}

/// Open files and address space, with their limits.
fn limits(page: &mut Page) {
    use rustix::process::{Resource, getrlimit};
    // Prometheus writes "no limit" as the greatest number.
    let limit = |resource| getrlimit(resource).current.unwrap_or(u64::MAX);
    let (help, bytes) = ("Limit of the virtual memory.", limit(Resource::As));
    page.gauge("process_virtual_memory_max_bytes", help, bytes);
    // This reads the kernel's view of the process, no file of the data directory.
    let open = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    for name in ["process_open_fds", "os_fd_used"] {
        page.gauge(name, "Open files and sockets.", open);
    }
    for name in ["process_max_fds", "os_fd_limit"] {
        let (help, files) = ("Limit of open files and sockets.", limit(Resource::Nofile));
        page.gauge(name, help, files);
    }
}

/// One reading of `/proc/self/stat`.
pub(super) struct Usage {
    pub(super) cpu_seconds: f64,
    pub(super) resident_bytes: u64,
    virtual_bytes: u64,
    /// When the process began, in seconds since 1970.
    pub(super) start_seconds: f64,
}

impl Usage {
    pub(super) fn read() -> Option<Usage> {
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

/// Bytes received and sent by all processes of this network namespace: Prometheus'
/// collector reads the same file.
fn network_bytes() -> Option<(u64, u64)> {
    octets(&files::read_text(Path::new("/proc/self/net/netstat")).ok()?)
}

/// A line of names stands before a line of numbers.
fn octets(netstat: &str) -> Option<(u64, u64)> {
    let mut lines = netstat
        .lines()
        .filter_map(|line| line.strip_prefix("IpExt: "));
    let (names, numbers) = (lines.next()?, lines.next()?);
    let number = |wanted| {
        let mut pairs = names.split_whitespace().zip(numbers.split_whitespace());
        pairs.find(|(name, _)| *name == wanted)?.1.parse().ok()
    };
    Some((number("InOctets")?, number("OutOctets")?))
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
    fn octets_are_found_by_their_names() {
        let netstat = "TcpExt: A B\nTcpExt: 1 2\nIpExt: X InOctets OutOctets\nIpExt: 3 4 5\n";
        assert_eq!(octets(netstat), Some((4, 5)));
        assert_eq!(octets("IpExt: InOctets\n"), None);
    }

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
