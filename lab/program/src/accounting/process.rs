//! Counters of a process.

use procfs::ProcResult;
use procfs::process::{Process, Stat};

use crate::record::ProcessCosts;

impl ProcessCosts {
    /// The costs of process `pid` since it started. Fails where the process does not exist.
    pub fn of(pid: u32) -> ProcResult<ProcessCosts> {
        let process = Process::new_with_root(format!("/proc/{pid}").into())?;
        let (status, [cpu_user_seconds, cpu_system_seconds]) =
            (process.status()?, times(&process.stat()?));
        // The kernel may forbid or lack the counters below; zero means unknown.
        let io = process.io().ok();
        let mut costs = ProcessCosts {
            cpu_user_seconds,
            cpu_system_seconds,
            read_call_bytes: io.map_or(0, |io| io.rchar),
            write_call_bytes: io.map_or(0, |io| io.wchar),
            resident_bytes: status.vmrss.unwrap_or(0) << 10,
            resident_bytes_peak: status.vmhwm.unwrap_or(0) << 10,
            ..ProcessCosts::default()
        };
        costs.add_threads(&process);
        Ok(costs)
    }

    /// Adds the counters that the kernel has per thread only.
    fn add_threads(&mut self, process: &Process) {
        for thread in process.tasks().into_iter().flatten().flatten() {
            let waited_ns = thread.schedstat().map_or(0, |it| it.run_delay);
            self.run_queue_seconds += waited_ns as f64 / 1e9;
            if let Ok(status) = thread.status() {
                self.voluntary_switches += status.voluntary_ctxt_switches.unwrap_or(0);
                self.involuntary_switches += status.nonvoluntary_ctxt_switches.unwrap_or(0);
            }
        }
    }

    /// The costs of the process between `earlier` and now.
    pub fn since(&self, earlier: &ProcessCosts) -> ProcessCosts {
        // The sums lose the counters of a thread that has ended, so they may fall.
        let less = |now: u64, before: u64| now.saturating_sub(before);
        ProcessCosts {
            cpu_user_seconds: self.cpu_user_seconds - earlier.cpu_user_seconds,
            cpu_system_seconds: self.cpu_system_seconds - earlier.cpu_system_seconds,
            run_queue_seconds: (self.run_queue_seconds - earlier.run_queue_seconds).max(0.0),
            voluntary_switches: less(self.voluntary_switches, earlier.voluntary_switches),
            involuntary_switches: less(self.involuntary_switches, earlier.involuntary_switches),
            read_call_bytes: less(self.read_call_bytes, earlier.read_call_bytes),
            write_call_bytes: less(self.write_call_bytes, earlier.write_call_bytes),
            ..*self
        }
    }
}

/// Anonymous memory in RAM of a process: its heap and stacks, without pages of files. 0 where
/// the process does not exist or the kernel does not count it (before Linux 4.5).
pub fn anonymous_bytes(pid: u32) -> u64 {
    let process = Process::new_with_root(format!("/proc/{pid}").into());
    let status = process.and_then(|process| process.status());
    status.ok().and_then(|it| it.rssanon).unwrap_or(0) << 10
}

/// User and system seconds, those of ended children included (a generator may be one).
fn times(stat: &Stat) -> [f64; 2] {
    let all = [(stat.utime, stat.cutime), (stat.stime, stat.cstime)];
    let per_second = procfs::ticks_per_second() as f64;
    all.map(|(own, children)| (own as f64 + children as f64) / per_second)
}

#[cfg(test)]
mod tests {
    use procfs::FromRead as _;

    use super::*;

    #[test]
    fn times_are_parsed_when_the_name_contains_brackets() {
        let fields =
            "S 1 1 1 0 -1 4194560 1 2 3 4 500 250 7 8 20 0 1 0 9 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0";
        let per_second = procfs::ticks_per_second() as f64;
        let stat = Stat::from_read(format!("12 (a) b) {fields} 17 1 0 0 0 0 0").as_bytes());
        assert_eq!(
            times(&stat.unwrap()),
            [507.0 / per_second, 258.0 / per_second]
        );
    }

    #[test]
    fn counters_of_this_process_can_be_read() {
        let counters = ProcessCosts::of(std::process::id()).unwrap();
        assert!(counters.resident_bytes > 0);
        assert!(counters.resident_bytes_peak >= counters.resident_bytes);
        assert_eq!(counters.since(&counters).cpu_seconds(), 0.0);
    }

    #[test]
    fn anonymous_memory_grows_with_the_heap_and_a_missing_process_has_none() {
        let before = anonymous_bytes(std::process::id());
        // Other tests of this process may free some memory in between.
        let heap = std::hint::black_box(vec![1_u8; 256 << 20]);
        let grown = anonymous_bytes(std::process::id());
        assert!(grown >= before + (128 << 20), "{before} {grown}");
        assert!(heap.iter().all(|byte| *byte == 1));
        assert_eq!(anonymous_bytes(u32::MAX), 0);
    }

    #[test]
    fn error_names_a_process_that_does_not_exist() {
        let error = ProcessCosts::of(u32::MAX).unwrap_err().to_string();
        assert!(error.contains("/proc/4294967295"), "{error}");
    }
}
