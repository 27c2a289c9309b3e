//! Disturbances: what the machine does besides the measured run.

use std::fs::read_to_string;
use std::time::{Duration, Instant};

use procfs::prelude::*;
use procfs::process::{Stat, StatFlags, all_processes};
use procfs::{CpuTime, KernelStats, Meminfo, parse_pressure_record};

use crate::record::{Disturbance, Taint, TaintKind};

/// A run with a greater share of stolen processor time than this is repeated.
pub const STEAL_SHARE_MAX: f64 = 0.01;
/// A run beside which other processes used a greater share than this is repeated.
pub const FOREIGN_SHARE_MAX: f64 = 0.05;

/// A run begins when fewer bytes than this wait to be written ...
const QUIET_DIRTY_BYTES: u64 = 16 << 20;
/// ... and processes use less than this share of the processors.
const QUIET_BUSY_SHARE: f64 = 0.05;
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
        let processors = KernelStats::current().map(|stats| stats.total).ok();
        let pages = procfs::vmstat().unwrap_or_default();
        let swapped = |name: &str| pages.get(name).map_or(0, |pages| pages.unsigned_abs());
        MachineCounters {
            at: Instant::now(),
            all_ticks: processors.as_ref().map_or(0, ticks),
            foreign_seconds: foreign_cpu_seconds(own),
            steal_ticks: processors.and_then(|it| it.steal).unwrap_or(0),
            pressure_us: ["cpu", "io", "memory"].map(|what| {
                let text = read_to_string(format!("/proc/pressure/{what}"));
                total_of_some(&text.unwrap_or_default()).unwrap_or(0)
            }),
            throttled: throttled().unwrap_or(0),
            swapped_pages: swapped("pswpin") + swapped("pswpout"),
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
    let processes = all_processes().into_iter().flatten().flatten();
    let foreign = processes.filter(|process| !own.contains(&process.pid.cast_unsigned()));
    let stats = foreign.filter_map(|process| process.stat().ok());
    let is_kernels = |stat: &Stat| stat.flags & StatFlags::PF_KTHREAD.bits() != 0;
    let ticks = stats.filter(|stat| !is_kernels(stat)).map(|stat| {
        let of_children = stat.cutime + stat.cstime;
        stat.utime + stat.stime + of_children.unsigned_abs()
    });
    ticks.sum::<u64>() as f64 / procfs::ticks_per_second() as f64
}

/// Ticks of all processors together, without those of guests, which are in `user`, too.
fn ticks(cpu: &CpuTime) -> u64 {
    let newer = [cpu.iowait, cpu.irq, cpu.softirq, cpu.steal];
    cpu.user + cpu.nice + cpu.system + cpu.idle + newer.iter().flatten().sum::<u64>()
}

/// Of the first line alone: before Linux 5.13 the processor's pressure has no second.
fn total_of_some(pressure: &str) -> Option<u64> {
    let some = parse_pressure_record(pressure.lines().next()?);
    some.ok().map(|some| some.total)
}

/// Number of periods in which the control group had used up its processor time.
fn throttled() -> Option<u64> {
    let group = read_to_string("/sys/fs/cgroup/cpu.stat").ok()?;
    let count = group
        .lines()
        .find_map(|row| row.strip_prefix("nr_throttled "));
    count?.parse().ok()
}

/// Bytes that wait to be written to disks, on the whole machine.
pub fn dirty_bytes() -> u64 {
    Meminfo::current().map_or(0, |it| it.dirty + it.writeback)
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
        let text = "cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 1 1 1 1\nctxt 1\nbtime 1\nprocesses 1\n";
        let stats = KernelStats::from_buf_read(text.as_bytes(), procfs::current_system_info());
        let all = stats.unwrap().total;
        assert_eq!((ticks(&all), all.steal), (36, Some(8)));
        let text = "some avg10=0.00 avg60=0.00 avg300=0.00 total=123\n";
        assert_eq!(total_of_some(text), Some(123));
        assert_eq!(total_of_some(&format!("{text}full total=4\n")), Some(123));
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
