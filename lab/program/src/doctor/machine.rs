//! Description of the machine for the head of a record, with warnings about conditions that
//! make measurements on it doubtful.

use std::path::Path;
use std::process::Command;

use procfs::{CpuInfo, Current as _, Meminfo};

use crate::accounting::{
    FOREIGN_SHARE_MAX, MachineCounters, STEAL_SHARE_MAX, device_of, dirty_bytes,
};
use crate::record::Environment;
use crate::schedule::run_directory::capture;

/// Bytes that wait to be written above which the machine gets a warning.
const DIRTY_BYTES_MAX: u64 = 64 << 20;
const LOOK: std::time::Duration = std::time::Duration::from_millis(500);
const FEW_CORES: u32 = 4;

/// Describes this machine and the device of `directory`. Takes `LOOK` to measure the load.
pub fn environment(directory: &Path) -> Environment {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
    let git = ["describe", "--always", "--dirty", "--abbrev=12"];
    let mut environment = Environment {
        date: output_of(Command::new("date").args(["-u", "+%F"])),
        processor: processor(),
        cores,
        memory_bytes: Meminfo::current().map_or(0, |it| it.mem_total),
        kernel: output_of(Command::new("uname").arg("-sr")),
        virtualization: output_of(&mut Command::new("systemd-detect-virt")),
        governor: text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        commit: output_of(Command::new("git").args(git)),
        file_system: file_system(directory),
        device: device_of(directory, false),
        limits: limits(),
        warnings: Vec::new(),
    };
    environment.warnings = warnings(&environment);
    environment
}

fn output_of(command: &mut Command) -> String {
    capture(command).unwrap_or_default()
}

fn text(path: &str) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.trim().to_owned()
}

fn processor() -> String {
    let processors = CpuInfo::current().ok();
    let name = processors.as_ref().and_then(|it| it.model_name(0));
    name.unwrap_or("unknown").to_owned()
}

/// Kind of the file system of `directory`: the one with the longest mount point above it.
fn file_system(directory: &Path) -> String {
    let directory = std::fs::canonicalize(directory).unwrap_or_else(|_| directory.to_owned());
    let mounts = procfs::mounts().into_iter().flatten();
    let above = mounts.filter(|it| directory.starts_with(&it.fs_file));
    let nearest = above.max_by_key(|it| it.fs_file.len());
    nearest.map(|it| it.fs_vfstype).unwrap_or_default()
}

fn limits() -> Vec<String> {
    let files = [
        ("cpu.max", "processor time, us of us"),
        ("memory.max", "memory, bytes"),
        ("io.max", "disk"),
    ];
    let limit = |(file, what): &(&str, &str)| {
        let value = text(&format!("/sys/fs/cgroup/{file}"));
        let is_limit = !value.is_empty() && !value.starts_with("max");
        is_limit.then(|| format!("{what}: {value}"))
    };
    files.iter().filter_map(limit).collect()
}

fn warnings(environment: &Environment) -> Vec<String> {
    let mut warnings = Vec::new();
    let before = MachineCounters::now(&[std::process::id()]);
    std::thread::sleep(LOOK);
    let seen = MachineCounters::now(&[std::process::id()]).since(&before);
    if seen.foreign_share > FOREIGN_SHARE_MAX {
        warnings.push(format!(
            "other processes use {:.0} % of the processors: runs will wait or be repeated",
            seen.foreign_share * 100.0
        ));
    }
    if seen.steal_share > STEAL_SHARE_MAX {
        warnings.push(format!(
            "the host takes {:.1} % of the processor time away",
            seen.steal_share * 100.0
        ));
    }
    if dirty_bytes() > DIRTY_BYTES_MAX {
        warnings.push("much is waiting to be written to disks".into());
    }
    if !matches!(environment.governor.as_str(), "" | "performance") {
        warnings.push(format!(
            "the frequency governor is {}: processors change their speed",
            environment.governor
        ));
    }
    if environment.cores < FEW_CORES {
        warnings.push(format!(
            "{} cores: clients and servers share them; look at processor time per operation",
            environment.cores
        ));
    }
    if !matches!(environment.virtualization.as_str(), "" | "none") {
        warnings.push("a virtual machine: neighbours disturb, and a flush may be a promise".into());
    }
    if environment.device.is_none() {
        warnings.push(format!(
            "the data is on {}, which has no device: nothing is durable there",
            environment.file_system
        ));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_can_be_described() {
        let here = environment(Path::new("."));
        assert!(here.cores > 0 && here.memory_bytes > 0);
        assert!(here.kernel.starts_with("Linux"), "{here:?}");
        assert!(!here.file_system.is_empty());
    }
}
