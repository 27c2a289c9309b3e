//! Stops a server between two instructions, as a power cut does.
//!
//! `EXT4_IOC_SHUTDOWN` alone is not a power cut: a flush in progress returns
//! to the server, and apparently may return success although the journal
//! that it needed is gone. (Without the freeze, etcd lost writes that it had
//! acknowledged after the beginning of the shutdown; with it, none. The kernel was not
//! traced.) So the threads are stopped first. Those inside a system call stay
//! there, and stop before they can use its result.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

use crate::process::Outcome;

const PATIENCE: Duration = Duration::from_secs(10);

/// Returns when no thread of the process can do anything but finish the system
/// call it is in.
pub fn freeze(process: u32) -> Outcome {
    let pid = Pid::from_raw(i32::try_from(process)?).ok_or("0 is no process")?;
    kill_process(pid, Signal::STOP)?;
    let deadline = Instant::now() + PATIENCE;
    while !threads(process)?
        .iter()
        .all(|thread| is_still(thread).unwrap_or(true))
    {
        if Instant::now() > deadline {
            return Err(format!("threads of {process} do not stop").into());
        }
        std::thread::yield_now();
    }
    Ok(())
}

/// The threads of a process, as folders.
fn threads(process: u32) -> Outcome<Vec<PathBuf>> {
    let threads = std::fs::read_dir(format!("/proc/{process}/task"))?;
    Ok(threads
        .map(|thread| Ok(thread?.path()))
        .collect::<std::io::Result<_>>()?)
}

/// Stopped, waiting for a device, or dead; None when it is gone.
fn is_still(thread: &Path) -> Option<bool> {
    Some(matches!(state(thread)?, 'T' | 't' | 'D' | 'Z' | 'X'))
}

/// The kernel's letter for what it does; None when it is gone.
fn state(thread: &Path) -> Option<char> {
    let stat = std::fs::read_to_string(thread.join("stat")).ok()?;
    // The name before it stands in parentheses and may hold any of them.
    let (_, fields) = stat.rsplit_once(") ")?;
    fields.chars().next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_frozen_process_stands_still_until_it_is_thawed() {
        let mut busy = Command::new("yes").stdout(Stdio::null()).spawn().unwrap();
        let stat = PathBuf::from(format!("/proc/{}", busy.id()));
        freeze(busy.id()).unwrap();
        // Perhaps it was loaded from the disk just then: that comes to its end.
        while state(&stat) != Some('T') {
            std::thread::yield_now();
        }
        assert_eq!(is_still(&stat), Some(true));
        kill_process(Pid::from_child(&busy), Signal::CONT).unwrap();
        busy.kill().unwrap();
        busy.wait().unwrap();
        assert_eq!(is_still(&stat), None);
    }
}
