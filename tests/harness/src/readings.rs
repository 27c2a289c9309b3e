//! Resources of a process, from `/proc`.

use procfs::process::{LimitValue, Process, Status};

use crate::Outcome;

/// Memory that is in RAM now.
pub fn resident_bytes(pid: u32) -> Outcome<u64> {
    memory_bytes(pid, |status| status.vmrss)
}

/// The most memory that was ever in RAM.
pub fn resident_bytes_peak(pid: u32) -> Outcome<u64> {
    memory_bytes(pid, |status| status.vmhwm)
}

pub fn threads(pid: u32) -> Outcome<u64> {
    Ok(process(pid)?.status()?.threads)
}

pub fn open_files(pid: u32) -> Outcome<u64> {
    Ok(process(pid)?.fd_count()? as u64)
}

/// The soft limit of open files.
pub fn open_files_max(pid: u32) -> Outcome<u64> {
    match process(pid)?.limits()?.max_open_files.soft_limit {
        LimitValue::Value(files) => Ok(files),
        LimitValue::Unlimited => Err(format!("process {pid} has no limit of open files").into()),
    }
}

/// Processor time since the start, user's and system's.
pub fn processor_seconds(pid: u32) -> Outcome<f64> {
    let stat = process(pid)?.stat()?;
    Ok((stat.utime + stat.stime) as f64 / procfs::ticks_per_second() as f64)
}

fn memory_bytes(pid: u32, of: fn(&Status) -> Option<u64>) -> Outcome<u64> {
    let kibibytes = of(&process(pid)?.status()?);
    Ok(kibibytes.ok_or_else(|| format!("process {pid} has ended: it has no memory"))? << 10)
}

fn process(pid: u32) -> Outcome<Process> {
    Ok(Process::new_with_root(format!("/proc/{pid}").into())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_readings_and_an_ended_one_has_none() {
        let pid = std::process::id();
        assert!(resident_bytes(pid).unwrap() <= resident_bytes_peak(pid).unwrap());
        assert!(threads(pid).unwrap() >= 1);
        assert!(open_files(pid).unwrap() >= 3);
        assert!(open_files_max(pid).unwrap() >= 3);
        assert!(processor_seconds(pid).unwrap() >= 0.0);
        let error = resident_bytes(u32::MAX).unwrap_err().to_string();
        assert!(error.contains("/proc/4294967295"), "{error}");
    }
}
