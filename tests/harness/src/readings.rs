//! Resources of a process, from `/proc`.

use crate::Outcome;

/// Memory that is in RAM now.
pub fn resident_bytes(pid: u32) -> Outcome<u64> {
    status_bytes(pid, "VmRSS:")
}

/// The most memory that was ever in RAM.
pub fn resident_bytes_peak(pid: u32) -> Outcome<u64> {
    status_bytes(pid, "VmHWM:")
}

pub fn threads(pid: u32) -> Outcome<u64> {
    status(pid, "Threads:")
}

pub fn open_files(pid: u32) -> Outcome<u64> {
    let files = std::fs::read_dir(format!("/proc/{pid}/fd"))?;
    Ok(files.count() as u64)
}

/// The soft limit of open files.
pub fn open_files_max(pid: u32) -> Outcome<u64> {
    number(pid, "limits", "Max open files")
}

/// Processor time since the start, user's and system's.
pub fn processor_seconds(pid: u32) -> Outcome<f64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name may contain spaces and brackets; what follows its last bracket does not.
    let (_, fields) = text.rsplit_once(')').ok_or("no name in /proc/PID/stat")?;
    // Fields 14 and 15 of proc(5), counted from the third.
    let ticks = fields.split_whitespace().skip(11).take(2);
    let ticks: u64 = ticks.map(str::parse::<u64>).sum::<Result<u64, _>>()?;
    Ok(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

fn status_bytes(pid: u32, label: &str) -> Outcome<u64> {
    Ok(status(pid, label)? << 10)
}

fn status(pid: u32, label: &str) -> Outcome<u64> {
    number(pid, "status", label)
}

/// The number after a label in a file of the process.
fn number(pid: u32, file: &str, label: &str) -> Outcome<u64> {
    let path = format!("/proc/{pid}/{file}");
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    let row = text.lines().find_map(|row| row.strip_prefix(label));
    let number = row.and_then(|row| row.split_whitespace().next());
    Ok(number
        .ok_or_else(|| format!("{path} has no {label}"))?
        .parse()?)
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
        assert!(error.contains("/proc/4294967295/"), "{error}");
    }
}
