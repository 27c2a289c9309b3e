//! What a figure must name to mean anything: day, machine, commit.

use std::process::Command;

use procfs::{CpuInfo, Current as _};

use chores::process::{Outcome, capture, root};

/// Where and when something was measured.
pub struct Machine {
    pub date: String,
    pub commit: String,
    pub processor: String,
    pub cores: usize,
    pub memory_gib: u64,
    pub kernel: String,
}

impl Machine {
    /// Reads it from the running system.
    pub fn here() -> Outcome<Machine> {
        Ok(Machine {
            date: line(Command::new("date").args(["-u", "+%F"]))?,
            commit: commit()?,
            processor: processor()?,
            cores: std::thread::available_parallelism()?.get(),
            memory_gib: rustix::system::sysinfo().totalram.div_ceil(1 << 30),
            kernel: line(Command::new("uname").arg("-sr"))?,
        })
    }

    /// All of it, for the head of a record.
    pub fn line(&self) -> String {
        format!(
            "{}, {}, {} cores, {} GiB, {}, commit {}",
            self.date, self.processor, self.cores, self.memory_gib, self.kernel, self.commit
        )
    }

    /// For file names: what the machine is, not what it is called.
    pub fn slug(&self) -> String {
        let is_other = |letter: char| !letter.is_ascii_alphanumeric();
        let processor = self.processor.to_lowercase().replace(is_other, "-");
        format!("{}-core-{}", self.cores, processor.trim_matches('-'))
    }
}

fn line(command: &mut Command) -> Outcome<String> {
    Ok(capture(command)?.trim().to_owned())
}

fn commit() -> Outcome<String> {
    let git = ["describe", "--always", "--dirty", "--abbrev=12"];
    line(Command::new("git").args(git).current_dir(root()))
}

fn processor() -> Outcome<String> {
    let processors = CpuInfo::current()?;
    let name = processors.model_name(0).unwrap_or("unknown processor");
    Ok(name.to_owned())
}
