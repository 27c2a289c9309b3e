//! One slot of one system: the directory and the process of the member that has it.

use std::{path::Path, process::ExitStatus, time::Duration};

use harness::{Member, MemberConfig, Program, ServerProcess, Signal};
use tokio::time::{Instant, sleep};

use super::step::NAMES;
use crate::process::Outcome;

/// Of a log, where its process ended by itself.
const LOG_LINES: usize = 3;
const LINE_CHARACTERS: usize = 300;
/// A process that is asked to stop, or was removed, has ended by then.
const ENDING_TIME: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(20);

pub struct Place {
    pub name: &'static str,
    /// Where clients connect, as `host:port`.
    pub client: String,
    /// The member's id; zero while the slot is empty.
    pub id: u64,
    member: Member,
    /// The end of the log of the last process that ended by itself.
    last_lines: String,
}

/// A running server; killed when dropped.
pub struct Process(ServerProcess);

impl Place {
    pub fn new(slot: usize, program: &Program, directory: &Path, client: String) -> Place {
        let name = NAMES[slot];
        let config = MemberConfig {
            client: client.clone(),
            ..MemberConfig::alone(name, directory)
        };
        Place {
            name,
            client,
            id: 0,
            member: Member::new(program.clone(), config),
            last_lines: String::new(),
        }
    }

    /// Starts a process at a peer address (`host:port`), which begins or joins a cluster.
    pub fn start(&mut self, peer: &str, initial_cluster: String, joins: bool) -> Outcome {
        let config = &mut self.member.config;
        config.peer = peer.to_owned();
        config.advertised_peer = peer.to_owned();
        config.initial_cluster = initial_cluster;
        config.joins = joins;
        self.member.start()
    }

    /// SIGKILL, and waits for the end; nothing if no process runs.
    pub fn kill(&mut self) {
        drop(self.release());
    }

    /// The process, which this place no longer looks after.
    pub fn release(&mut self) -> Option<Process> {
        self.member.take_process().map(Process)
    }

    /// How the process ended, if it has since the last look.
    pub fn has_ended(&mut self) -> Outcome<Option<ExitStatus>> {
        let ended = self.member.status()?;
        if ended.is_some() {
            self.last_lines = self.member.last_lines();
            self.kill();
        }
        Ok(ended)
    }

    /// The end of the log of the process that has ended, long lines cut off.
    pub fn last_words(&self) -> String {
        let lines: Vec<&str> = self.last_lines.lines().collect();
        let lines = &lines[lines.len().saturating_sub(LOG_LINES)..];
        let cut = |line: &&str| line.chars().take(LINE_CHARACTERS).collect();
        let lines: Vec<String> = lines.iter().map(cut).collect();
        lines.join("\n    ")
    }

    /// Removes the directory of an earlier member; no process may run.
    pub fn clear(&mut self) -> Outcome {
        self.member.remove_data()
    }
}

impl Process {
    /// SIGTERM.
    pub fn ask_to_stop(&mut self) -> Outcome {
        match self.0.status()? {
            None => self.0.signal(Signal::TERM),
            Some(_) => Ok(()),
        }
    }

    /// Waits until it has ended by itself; `None`: it goes on.
    pub async fn end(&mut self) -> Outcome<Option<Duration>> {
        let began = Instant::now();
        while began.elapsed() < ENDING_TIME {
            if self.0.status()?.is_some() {
                return Ok(Some(began.elapsed()));
            }
            sleep(POLL).await;
        }
        Ok(None)
    }
}
