//! Disturbances: what the machine does besides the measured run.

use std::time::{Duration, Instant};

use super::{number_after, read};
use crate::record::{Disturbance, Taint, TaintKind};

/// A run with a greater share of stolen processor time than this is repeated.
const STEAL_SHARE_MAX: f64 = 0.01;
/// A run beside which other processes used a greater share than this is repeated.
const FOREIGN_SHARE_MAX: f64 = 0.05;

/// A run begins when fewer bytes than this wait to be written ...
const QUIET_DIRTY_BYTES: u64 = 16 << 20;
/// ... and processes use less than this share of the processors.
const QUIET_BUSY_SHARE: f64 = 0.05;
/// `PF_KTHREAD` of the kernel.
const KERNEL_THREAD: u64 = 0x0020_0000;
/// Interval over which [`wait_until_quiet`] measures the load.
const LOOK: Duration = Duration::from_millis(250);

/// The machine's counters at one moment.
#[derive(Clone, Copy, Debug)]
pub struct MachineCounters {
    at: Instant,
    all_ticks: u64,
    steal_ticks: u64,
    /// Processor time of processes that are not measured.
    foreign_seconds: f64,
    /// Microseconds in which some task waited for processor, disk, memory, in this order.
    pressure_us: [u64; 3],
    throttled: u64,
    swapped_pages: u64,
}

impl MachineCounters {
    /// Reads the counters. `own` are the ids of the measured processes, which do not
    /// count as foreign. A counter that this kernel does not have is zero.
    pub fn now(own: &[u32]) -> MachineCounters {
        let ticks = ticks(&read("/proc/stat").unwrap_or_default());
        let pressure = |what: &str| {
            let text = read(&format!("/proc/pressure/{what}")).unwrap_or_default();
            total_of_some(&text)
        };
        let pages = read("/proc/vmstat").unwrap_or_default();
        let swapped = |label: &str| number_after(&pages, label).unwrap_or(0);
        let group = read("/sys/fs/cgroup/cpu.stat").unwrap_or_default();
        MachineCounters {
            at: Instant::now(),
            all_ticks: ticks.iter().take(8).sum(),
            foreign_seconds: foreign_cpu_seconds(own),
            steal_ticks: *ticks.get(7).unwrap_or(&0),
            pressure_us: [pressure("cpu"), pressure("io"), pressure("memory")],
            throttled: number_after(&group, "nr_throttled ").unwrap_or(0),
            swapped_pages: swapped("pswpin ") + swapped("pswpout "),
        }
    }

    /// The disturbance between `earlier` and these counters.
    pub fn since(&self, earlier: &MachineCounters) -> Disturbance {
        let all = (self.all_ticks - earlier.all_ticks).max(1) as f64;
        let steal = (self.steal_ticks - earlier.steal_ticks) as f64;
        let foreign = self.foreign_seconds - earlier.foreign_seconds;
        let foreign = foreign * rustix::param::clock_ticks_per_second() as f64;
        let wall_us = self.at.duration_since(earlier.at).as_secs_f64() * 1e6;
        let pressure =
            |at: usize| (self.pressure_us[at] - earlier.pressure_us[at]) as f64 / wall_us.max(1.0);
        Disturbance {
            steal_share: steal / all,
            // The two sources are read one after the other; on a busy machine the delay
            // between the reads can push the share out of range.
            foreign_share: (foreign / all).clamp(0.0, 1.0),
            cpu_pressure_share: pressure(0),
            io_pressure_share: pressure(1),
            memory_pressure_share: pressure(2),
            throttled: self.throttled - earlier.throttled,
            swapped_pages: self.swapped_pages - earlier.swapped_pages,
            ..Disturbance::default()
        }
    }
}

/// Processor time of all processes except `own` and kernel threads (which work on behalf
/// of processes), including their children that have ended.
fn foreign_cpu_seconds(own: &[u32]) -> f64 {
    let mut ticks = 0;
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        if !own.contains(&pid) {
            let stat = read(&format!("/proc/{pid}/stat")).unwrap_or_default();
            ticks += ticks_of_process(&stat).unwrap_or(0);
        }
    }
    ticks as f64 / rustix::param::clock_ticks_per_second() as f64
}

/// Clock ticks of a process and its ended children from its `stat` file; `None` for a
/// kernel thread.
fn ticks_of_process(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    // Field 9 of proc(5), counted from the third; 14 to 17 are the times.
    let flags: u64 = fields.get(6)?.parse().ok()?;
    let times = fields.get(11..15)?.iter();
    let ticks = times.filter_map(|word| word.parse::<u64>().ok()).sum();
    (flags & KERNEL_THREAD == 0).then_some(ticks)
}

/// Ticks of all processors together: user nice system idle iowait irq softirq steal.
fn ticks(stat: &str) -> Vec<u64> {
    let row = stat.lines().next().unwrap_or_default();
    let words = row.split_whitespace().skip(1);
    words.filter_map(|word| word.parse().ok()).collect()
}

fn total_of_some(pressure: &str) -> u64 {
    let row = pressure.lines().find(|row| row.starts_with("some"));
    let total = row.and_then(|row| row.split_once("total="));
    total
        .and_then(|(_, total)| total.trim().parse().ok())
        .unwrap_or(0)
}

/// Bytes that wait to be written to disks, on the whole machine.
pub fn dirty_bytes() -> u64 {
    let text = read("/proc/meminfo").unwrap_or_default();
    let of = |label: &str| number_after(&text, label).unwrap_or(0) << 10;
    of("Dirty:") + of("Writeback:")
}

/// Waits until the machine is nearly idle, at most about `seconds_max`. Returns the seconds
/// waited, and whether the machine became quiet.
pub fn wait_until_quiet(seconds_max: f64) -> (f64, bool) {
    let begun = Instant::now();
    let mut before = MachineCounters::now(&[]);
    loop {
        std::thread::sleep(LOOK);
        let now = MachineCounters::now(&[]);
        let seen = now.since(&before);
        let waited = begun.elapsed().as_secs_f64();
        if seen.foreign_share < QUIET_BUSY_SHARE && dirty_bytes() < QUIET_DIRTY_BYTES {
            return (waited, true);
        }
        if waited > seconds_max {
            return (waited, false);
        }
        before = now;
    }
}

impl Disturbance {
    /// The disturbances above their limits; each makes the run doubtful.
    pub fn taints(&self) -> Vec<Taint> {
        let judged = [
            (TaintKind::Steal, self.steal_share, STEAL_SHARE_MAX),
            (
                TaintKind::ForeignLoad,
                self.foreign_share,
                FOREIGN_SHARE_MAX,
            ),
            (TaintKind::Throttling, self.throttled as f64, 0.0),
            (TaintKind::Swap, self.swapped_pages as f64, 0.0),
        ];
        let doubtful = judged.into_iter().filter(|(_, value, limit)| value > limit);
        doubtful
            .map(|(kind, value, limit)| Taint { kind, value, limit })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_of_stat_sums_all_processors() {
        assert_eq!(ticks("cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 1\n")[7], 8);
        assert_eq!(
            total_of_some("some avg10=0.00 avg60=0.00 avg300=0.00 total=123\nfull total=4\n"),
            123
        );
    }

    #[test]
    fn foreign_load_and_steal_taint_a_run() {
        let disturbance = Disturbance {
            steal_share: 0.02,
            foreign_share: 0.5,
            ..Disturbance::default()
        };
        let kinds: Vec<TaintKind> = disturbance
            .taints()
            .iter()
            .map(|taint| taint.kind)
            .collect();
        assert_eq!(kinds, [TaintKind::Steal, TaintKind::ForeignLoad]);
        assert!(Disturbance::default().taints().is_empty());
    }

    #[test]
    fn foreign_time_is_a_share_of_all_processors() {
        let per_second = rustix::param::clock_ticks_per_second();
        let zero = MachineCounters {
            at: Instant::now(),
            all_ticks: 0,
            steal_ticks: 0,
            foreign_seconds: 3.0,
            pressure_us: [0; 3],
            throttled: 0,
            swapped_pages: 0,
        };
        let later = MachineCounters {
            all_ticks: 2 * per_second,
            foreign_seconds: 3.5,
            ..zero
        };
        assert_eq!(later.since(&zero).foreign_share, 0.25);
        // Equal counters give a share of zero.
        assert_eq!(zero.since(&zero).foreign_share, 0.0);
    }

    #[test]
    fn measured_processes_are_left_out_of_foreign_time() {
        let all = foreign_cpu_seconds(&[]);
        let others = foreign_cpu_seconds(&[std::process::id()]);
        assert!(all >= 0.0 && others >= 0.0);
    }
}
