//! One of the two systems that a walk is performed on: its processes, and what it
//! has acknowledged.
//!
//! A process that ends by itself is started again, as an operator's supervisor
//! would; how often that happened is part of the report, and an end by a signal
//! or a panic is a failure.

use std::{
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::ExitStatus,
    time::Duration,
};

use tokio::time::{Instant, sleep};

use super::{
    model::Model,
    place::Place,
    ports::Ports,
    step::{Ending, SLOTS, Step},
};
use crate::process::Outcome;

/// A supervisor waits so long before it starts an ended process again.
const SUPERVISOR_PAUSE: Duration = Duration::from_millis(300);
/// A process that is asked to stop, or was removed, has ended by then.
const ENDING_TIME: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(20);
/// Exit code of a Rust program that panicked.
const PANICKED: i32 = 101;

/// A program, and the flags that every member gets.
#[derive(Clone, Debug)]
pub struct Program {
    pub name: &'static str,
    pub binary: PathBuf,
    pub flags: Vec<String>,
}

pub struct System {
    pub program: Program,
    pub places: [Place; SLOTS],
    pub ports: Ports,
    /// Keys whose put was acknowledged.
    pub acknowledged: Vec<String>,
    /// Keys that were put, acknowledged or not.
    pub keys_put: u64,
    /// Ends of processes that were not asked for, each with what was done about it.
    pub ends: Vec<String>,
    /// Ends that no server may have.
    pub crashes: Vec<String>,
    /// When each ended process is to be started again.
    restarts: [Option<Instant>; SLOTS],
    /// A member whose removal is asked for: its process may end.
    pub leaving: Option<usize>,
}

impl System {
    /// Starts the first `voters` members.
    pub fn begin(program: &Program, directory: &Path, voters: usize) -> Outcome<System> {
        let directory = directory.join(program.name);
        std::fs::create_dir_all(&directory)?;
        let mut ports = Ports::default();
        let mut places = Vec::new();
        for slot in 0..SLOTS {
            let mut place = Place::new(slot, &directory, ports.address()?);
            place.peer = ports.address()?;
            places.push(place);
        }
        let places = places
            .try_into()
            .unwrap_or_else(|_| panic!("there is a place for each slot"));
        let mut system = System {
            program: program.clone(),
            places,
            ports,
            acknowledged: Vec::new(),
            keys_put: 0,
            ends: Vec::new(),
            crashes: Vec::new(),
            restarts: [None; SLOTS],
            leaving: None,
        };
        let all: Vec<usize> = (0..voters).collect();
        for slot in 0..voters {
            system.start(slot, &all, "new")?;
        }
        Ok(system)
    }

    /// Starts a member that the cluster knows already.
    pub fn start_existing(&mut self, slot: usize, model: &Model) -> Outcome {
        self.start(slot, &model.slots(|_| true), "existing")
    }

    fn start(&mut self, slot: usize, members: &[usize], state: &str) -> Outcome {
        self.restarts[slot] = None;
        let pairs = members.iter().map(|member| {
            let place = &self.places[*member];
            format!("{}=http://{}", place.name, place.peer)
        });
        let initial_cluster = pairs.collect::<Vec<_>>().join(",");
        let mut flags = self.program.flags.clone();
        flags.push(format!("--initial-cluster-state={state}"));
        self.places[slot].start(&self.program.binary, &initial_cluster, &flags)
    }

    /// SIGKILL.
    pub fn kill(&mut self, slot: usize) -> Outcome {
        self.restarts[slot] = None;
        self.places[slot].kill()
    }

    /// Ends a process; SIGTERM is followed by SIGKILL when it does not help.
    pub async fn end(&mut self, slot: usize, ending: Ending) -> Outcome {
        if ending == Ending::Asked {
            self.places[slot].ask_to_stop()?;
            if self.wait_for_end(slot).await?.is_none() {
                let name = self.places[slot].name;
                self.crashes
                    .push(format!("{name} did not end within 10 s of SIGTERM"));
            }
        }
        self.kill(slot)
    }

    /// A step that ends or starts a process.
    pub async fn process(&mut self, step: Step, model: &Model) -> Outcome {
        match step {
            Step::Kill { slot, .. } => self.kill(slot),
            Step::Start { slot } => self.start_existing(slot, model),
            Step::Restart { slot, ending } => {
                self.end(slot, ending).await?;
                self.start_existing(slot, model)
            }
            Step::Call { .. } | Step::Check => unreachable!("{step} is about no process"),
        }
    }

    /// Whether the process ends by itself, and after how long.
    async fn wait_for_end(&mut self, slot: usize) -> Outcome<Option<Duration>> {
        let began = Instant::now();
        while began.elapsed() < ENDING_TIME {
            if !self.places[slot].has_process() || self.places[slot].has_ended()?.is_some() {
                return Ok(Some(began.elapsed()));
            }
            sleep(POLL).await;
        }
        Ok(None)
    }

    /// Waits for a removed member to end by itself and clears its directory away;
    /// `None`: it went on, and was killed.
    pub async fn see_off(&mut self, slot: usize) -> Outcome<Option<Duration>> {
        let ended = self.wait_for_end(slot).await?;
        self.kill(slot)?;
        self.places[slot].clear()?;
        Ok(ended)
    }

    /// Notices processes that ended, and starts each again a little later.
    pub fn look_after(&mut self, model: &Model) -> Outcome {
        for slot in model.slots(|it| it.up) {
            if self.leaving == Some(slot) {
                continue;
            }
            if let Some(status) = self.places[slot].has_ended()? {
                self.note_end(slot, status);
                self.restarts[slot] = Some(Instant::now() + SUPERVISOR_PAUSE);
            }
            if self.restarts[slot].is_some_and(|due| due <= Instant::now()) {
                self.start_existing(slot, model)?;
            }
        }
        Ok(())
    }

    fn note_end(&mut self, slot: usize, status: ExitStatus) {
        let place = &self.places[slot];
        let words = format!("{} ended: {status}; {}", place.name, place.last_words());
        if status.signal().is_some() || status.code() == Some(PANICKED) {
            self.crashes.push(words);
        } else {
            self.ends.push(words);
        }
    }

    /// A key that was never put before.
    pub fn next_key(&mut self) -> String {
        self.keys_put += 1;
        format!("{}{:06}", super::request::PREFIX, self.keys_put)
    }
}
