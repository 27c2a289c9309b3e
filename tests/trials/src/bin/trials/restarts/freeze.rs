//! Stops a server between two instructions, as a power cut does.
//!
//! `EXT4_IOC_SHUTDOWN` alone is not a power cut: a flush in progress returns
//! to the server, and apparently may return success although the journal
//! that it needed is gone. (Without the freeze, etcd lost writes that it had
//! acknowledged after the beginning of the shutdown; with it, none. The kernel was not
//! traced.) So the threads are stopped first. Those inside a system call stay
//! there, and stop before they can use its result.

use std::time::Duration;

use harness::wait_for;
use procfs::process::Process;
use rustix::process::{Pid, Signal, kill_process};

use crate::process::Outcome;

const PATIENCE: Duration = Duration::from_secs(10);

/// Returns when no thread of the process can do anything but finish the system
/// call it is in.
pub fn freeze(process: u32) -> Outcome {
    let pid = Pid::from_raw(i32::try_from(process)?).ok_or("0 is no process")?;
    kill_process(pid, Signal::STOP)?;
    let frozen = Process::new(pid.as_raw_pid())?;
    wait_for(&format!("threads of {process} stop"), PATIENCE, || {
        // A thread that is gone has no state.
        let threads = frozen
            .tasks()?
            .filter_map(|thread| thread.ok()?.stat().ok());
        let mut states = threads.map(|stat| stat.state);
        Ok(states.all(is_still).then_some(()))
    })
}

/// Whether a thread with this state is stopped, waits for a device, or is dead.
fn is_still(state: char) -> bool {
    matches!(state, 'T' | 't' | 'D' | 'Z' | 'X')
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_frozen_process_stands_still_until_it_is_thawed() {
        let mut busy = Command::new("yes").stdout(Stdio::null()).spawn().unwrap();
        let process = Process::new(busy.id().cast_signed()).unwrap();
        let state = || process.stat().ok().map(|stat| stat.state);
        freeze(busy.id()).unwrap();
        // Perhaps it was loaded from the disk just then: that comes to its end.
        while state() != Some('T') {
            std::thread::yield_now();
        }
        assert_eq!(state().map(is_still), Some(true));
        kill_process(Pid::from_child(&busy), Signal::CONT).unwrap();
        busy.kill().unwrap();
        busy.wait().unwrap();
        assert_eq!(state(), None);
    }
}
