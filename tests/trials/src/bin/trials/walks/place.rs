//! One slot of one system: the directory and the process of the member that has it.

use std::{
    path::{Path, PathBuf},
    process::{Child, ExitStatus},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use tokio::time::{Instant, sleep};

use super::step::NAMES;
use crate::{
    member_command::{MemberCommand, last_lines},
    process::Outcome,
};

/// Of a log, where its process ended by itself.
const LOG_LINES: usize = 3;
const LINE_CHARACTERS: usize = 300;
/// A process that is asked to stop, or was removed, has ended by then.
const ENDING_TIME: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(20);

pub struct Place {
    pub name: &'static str,
    data: PathBuf,
    log: PathBuf,
    /// Where clients connect, as `host:port`.
    pub client: String,
    /// The member's id; zero while the slot is empty.
    pub id: u64,
    process: Option<Process>,
}

/// A running server; killed when dropped.
pub struct Process(Child);

/// How a member is started.
pub struct Start<'a> {
    pub binary: &'a Path,
    /// Its peer address, as `host:port`.
    pub peer: &'a str,
    pub initial_cluster: &'a str,
    pub flags: &'a [String],
}

impl Place {
    pub fn new(slot: usize, directory: &Path, client: String) -> Place {
        let name = NAMES[slot];
        Place {
            name,
            data: directory.join(name),
            log: directory.join(format!("{name}.log")),
            client,
            id: 0,
            process: None,
        }
    }

    pub fn start(&mut self, start: &Start<'_>) -> Outcome {
        assert!(self.process.is_none(), "{} runs already", self.name);
        let member = MemberCommand {
            binary: start.binary,
            name: self.name,
            data: &self.data,
            log: &self.log,
            client: &self.client,
            peer: start.peer,
            advertised_peer: start.peer,
            initial_cluster: start.initial_cluster,
        };
        let child = member.command()?.args(start.flags).spawn();
        let program = start.binary.display();
        let child = child.map_err(|error| format!("cannot start {program}: {error}"))?;
        self.process = Some(Process(child));
        Ok(())
    }

    /// SIGKILL, and waits for the end; nothing if no process runs.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// The process, which this place no longer looks after.
    pub fn release(&mut self) -> Option<Process> {
        self.process.take()
    }

    /// How the process ended, if it has since the last look.
    pub fn has_ended(&mut self) -> Outcome<Option<ExitStatus>> {
        let ended = match &mut self.process {
            Some(Process(child)) => child.try_wait()?,
            None => None,
        };
        if ended.is_some() {
            self.process = None;
        }
        Ok(ended)
    }

    /// The end of its log, long lines cut off.
    pub fn last_words(&self) -> String {
        let lines = last_lines(&self.log, LOG_LINES);
        let cut = |line: &str| line.chars().take(LINE_CHARACTERS).collect();
        let lines: Vec<String> = lines.lines().map(cut).collect();
        lines.join("\n    ")
    }

    /// Removes the directory of an earlier member; no process may run.
    pub fn clear(&self) -> Outcome {
        assert!(self.process.is_none(), "{} runs", self.name);
        match std::fs::remove_dir_all(&self.data) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            removed => Ok(removed?),
        }
    }
}

impl Process {
    /// SIGTERM.
    pub fn ask_to_stop(&self) -> Outcome {
        Ok(kill_process(Pid::from_child(&self.0), Signal::TERM)?)
    }

    /// Waits until it has ended by itself; `None`: it goes on.
    pub async fn end(&mut self) -> Outcome<Option<Duration>> {
        let began = Instant::now();
        while began.elapsed() < ENDING_TIME {
            if self.0.try_wait()?.is_some() {
                return Ok(Some(began.elapsed()));
            }
            sleep(POLL).await;
        }
        Ok(None)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Already gone is fine: the point is that nothing is left running.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}
