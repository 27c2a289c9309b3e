//! One slot of one system: the directory, the addresses and the process of the
//! member that has it.

use std::{
    path::{Path, PathBuf},
    process::{Child, ExitStatus},
};

use rustix::process::{Pid, Signal, kill_process};

use super::step::NAMES;
use crate::{
    member_command::{MemberCommand, last_lines},
    process::Outcome,
};

/// Of a log, where its process ended by itself.
const LOG_LINES: usize = 3;
const LINE_CHARACTERS: usize = 300;

pub struct Place {
    pub name: &'static str,
    data: PathBuf,
    pub log: PathBuf,
    /// Where clients connect, as `host:port`.
    pub client: String,
    /// The peer address in the member list; the next process listens there.
    pub peer: String,
    /// A peer address that the cluster was or will be asked to take for this member.
    pub proposed: Option<String>,
    /// The member's id; zero while the slot is empty.
    pub id: u64,
    child: Option<Child>,
}

impl Place {
    pub fn new(slot: usize, directory: &Path, client: String) -> Place {
        let name = NAMES[slot];
        Place {
            name,
            data: directory.join(name),
            log: directory.join(format!("{name}.log")),
            client,
            peer: String::new(),
            proposed: None,
            id: 0,
            child: None,
        }
    }

    /// Starts a process at the address that the member list has.
    pub fn start(&mut self, binary: &Path, initial_cluster: &str, flags: &[String]) -> Outcome {
        assert!(self.child.is_none(), "{} runs already", self.name);
        let member = MemberCommand {
            binary,
            name: self.name,
            data: &self.data,
            log: &self.log,
            client: &self.client,
            peer: &self.peer,
            advertised_peer: &self.peer,
            initial_cluster,
        };
        let child = member.command()?.args(flags).spawn();
        self.child =
            Some(child.map_err(|error| format!("cannot start {}: {error}", binary.display()))?);
        Ok(())
    }

    pub fn has_process(&self) -> bool {
        self.child.is_some()
    }

    /// SIGKILL, and waits for the end; nothing if none runs.
    pub fn kill(&mut self) -> Outcome {
        if let Some(mut child) = self.child.take() {
            child.kill()?;
            child.wait()?;
        }
        Ok(())
    }

    /// SIGTERM; `has_ended` says when it has.
    pub fn ask_to_stop(&self) -> Outcome {
        if let Some(child) = &self.child {
            kill_process(Pid::from_child(child), Signal::TERM)?;
        }
        Ok(())
    }

    /// How the process ended, if it has since the last look.
    pub fn has_ended(&mut self) -> Outcome<Option<ExitStatus>> {
        let ended = match &mut self.child {
            Some(child) => child.try_wait()?,
            None => None,
        };
        if ended.is_some() {
            self.child = None;
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

    /// Empties the slot of a member that was removed; no process may run.
    pub fn clear(&mut self) -> Outcome {
        assert!(self.child.is_none(), "{} runs", self.name);
        (self.id, self.proposed) = (0, None);
        match std::fs::remove_dir_all(&self.data) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            removed => Ok(removed?),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Already gone is fine: the point is that nothing is left running.
        drop(self.kill());
    }
}
