//! Counters of a process.

use super::{Unaccounted, number_after, read};
use crate::record::ProcessCosts;

impl ProcessCosts {
    /// The costs of process `pid` since it started. Fails where the process does not exist.
    pub fn of(pid: u32) -> Result<ProcessCosts, Unaccounted> {
        let file = |name: &str| read(&format!("/proc/{pid}/{name}"));
        let status = file("status")?;
        let (cpu_user_seconds, cpu_system_seconds) = times(&file("stat")?)
            .ok_or_else(|| format!("/proc/{pid}/stat has no processor times"))?;
        // The kernel may forbid or lack the counters below; zero means unknown.
        let io = file("io").unwrap_or_default();
        let of_io = |label: &str| number_after(&io, label).unwrap_or(0);
        let of_status = |label: &str| number_after(&status, label).unwrap_or(0);
        let mut costs = ProcessCosts {
            cpu_user_seconds,
            cpu_system_seconds,
            read_call_bytes: of_io("rchar:"),
            write_call_bytes: of_io("wchar:"),
            resident_bytes: of_status("VmRSS:") << 10,
            resident_bytes_peak: of_status("VmHWM:") << 10,
            ..ProcessCosts::default()
        };
        costs.add_threads(pid);
        Ok(costs)
    }

    /// Adds the counters that the kernel has per thread only.
    fn add_threads(&mut self, pid: u32) {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task"));
        for task in tasks.into_iter().flatten().flatten() {
            let path = task.path();
            let text = |name: &str| std::fs::read_to_string(path.join(name)).unwrap_or_default();
            let status = text("status");
            let of_status = |label: &str| number_after(&status, label).unwrap_or(0);
            let waited = text("schedstat");
            let waited = waited.split_whitespace().nth(1);
            let nanoseconds: u64 = waited.and_then(|word| word.parse().ok()).unwrap_or(0);
            self.run_queue_seconds += nanoseconds as f64 / 1e9;
            self.voluntary_switches += of_status("voluntary_ctxt_switches:");
            self.involuntary_switches += of_status("nonvoluntary_ctxt_switches:");
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

/// User and system seconds, those of ended children included (a generator may be one):
/// fields 14 to 17 of `stat` in proc(5). The name in brackets may itself contain brackets
/// and blanks.
fn times(stat: &str) -> Option<(f64, f64)> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let per_second = rustix::param::clock_ticks_per_second() as f64;
    let mut seconds = || Some(fields.next()?.parse::<u64>().ok()? as f64 / per_second);
    let [user, system, children_user, children_system] =
        [seconds()?, seconds()?, seconds()?, seconds()?];
    Some((user + children_user, system + children_system))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_parsed_when_the_name_contains_brackets() {
        let fields = "S 1 1 1 0 -1 4194560 1 2 3 4 500 250 7 8";
        let per_second = rustix::param::clock_ticks_per_second() as f64;
        let times = times(&format!("12 (a) b) {fields}")).unwrap();
        assert_eq!(times, (507.0 / per_second, 258.0 / per_second));
    }

    #[test]
    fn counters_of_this_process_can_be_read() {
        let counters = ProcessCosts::of(std::process::id()).unwrap();
        assert!(counters.resident_bytes > 0);
        assert!(counters.resident_bytes_peak >= counters.resident_bytes);
        assert_eq!(counters.since(&counters).cpu_seconds(), 0.0);
    }

    #[test]
    fn error_names_a_process_that_does_not_exist() {
        let error = ProcessCosts::of(u32::MAX).unwrap_err();
        assert!(error.contains("/proc/4294967295/"), "{error}");
    }
}
