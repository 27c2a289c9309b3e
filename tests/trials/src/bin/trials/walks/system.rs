//! One of the two systems that a walk is performed on: its processes, and what it
//! has acknowledged.
//!
//! A process that ends by itself is started again, as an operator's supervisor
//! would; how often that happened is part of the report, and an end by a signal
//! or a panic is a failure.

use std::{os::unix::process::ExitStatusExt, path::Path, process::ExitStatus, time::Duration};

use harness::{Member, MemberConfig, ServerProcess, Signal};
use tokio::time::{Instant, sleep};

use super::{
    generate::Walk,
    model::Model,
    ports::Ports,
    step::{Address, Ending, NAMES, SLOTS, Slot, Target},
};
use crate::{
    process::Outcome,
    request::{Client, PREFIX},
};

/// The pause of a supervisor before it starts an ended process again.
const SUPERVISOR_PAUSE: Duration = Duration::from_millis(300);
/// Exit code of a Rust program that panicked.
const PANICKED: i32 = 101;
/// Of a log, where its process ended by itself.
const LOG_LINES: usize = 3;
const LINE_CHARACTERS: usize = 300;
/// A process that is asked to stop, or was removed, has ended by then.
const ENDING_TIME: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(20);

/// A program with the flags of every member, and its name.
#[derive(Clone, Debug)]
pub struct Program {
    pub name: &'static str,
    pub server: harness::Program,
}

/// A slot of one system: the directory and the process of the member that has it.
pub struct Place {
    /// The member's id; zero while the slot is empty.
    pub id: u64,
    member: Member,
    /// When an ended process is to be started again.
    restart: Option<Instant>,
}

impl Place {
    pub fn name(&self) -> &str {
        &self.member.config.name
    }
}

pub struct System {
    pub program: Program,
    pub places: [Place; SLOTS],
    /// Peer addresses, as `host:port`.
    addresses: Vec<String>,
    /// Given back at the end of the walk.
    _ports: Ports,
    /// Keys of acknowledged puts.
    pub acknowledged: Vec<String>,
    /// Keys that were put, acknowledged or not.
    keys_put: u64,
    /// Ends of processes that were not asked for.
    pub ends: Vec<String>,
    /// Ends that no server may have.
    pub crashes: Vec<String>,
    /// A member that is being removed: its process may end.
    pub leaving: Target,
}

impl System {
    /// Starts the members that begin the cluster.
    pub fn begin(program: &Program, directory: &Path, walk: &Walk) -> Outcome<System> {
        let directory = directory.join(program.name);
        std::fs::create_dir_all(&directory)?;
        let mut ports = Ports::default();
        let addresses = (0..walk.addresses).map(|_| ports.address());
        let addresses = addresses.collect::<Outcome<Vec<_>>>()?;
        let clients = (0..SLOTS).map(|_| ports.address());
        let clients = clients.collect::<Outcome<Vec<_>>>()?;
        let place = |slot: Slot| {
            let config = MemberConfig {
                client: clients[slot].clone(),
                ..MemberConfig::alone(NAMES[slot], &directory)
            };
            Place {
                id: 0,
                member: Member::new(program.server.clone(), config),
                restart: None,
            }
        };
        let mut system = System {
            program: program.clone(),
            places: std::array::from_fn(place),
            addresses,
            _ports: ports,
            acknowledged: Vec::new(),
            keys_put: 0,
            ends: Vec::new(),
            crashes: Vec::new(),
            leaving: None,
        };
        let model = Model::new(walk.voters);
        for slot in 0..walk.voters {
            system.start_at(slot, slot, false, &model)?;
        }
        Ok(system)
    }

    /// The peer URL with this number.
    pub fn url(&self, address: Address) -> String {
        format!("http://{}", self.addresses[address])
    }

    /// A client of the member in a slot.
    pub fn client(&self, slot: Slot, patience: Duration) -> Client {
        Client {
            address: self.places[slot].member.config.client.clone(),
            patience,
        }
    }

    /// Starts a member at the address that the member list has.
    pub fn start(&mut self, slot: Slot, model: &Model) -> Outcome {
        let member = model.member(slot).expect("a member is started");
        if !member.started {
            self.places[slot].member.remove_data()?;
        }
        self.start_at(slot, member.address, true, model)
    }

    /// Starts a removed member in its directory, where it was.
    pub fn start_removed(&mut self, slot: Slot, model: &Model) -> Outcome<Option<ServerProcess>> {
        let address = model.remains(slot).expect("a removed member is started");
        self.start_at(slot, address, true, model)?;
        Ok(self.release(slot))
    }

    /// `--initial-cluster` names the members of today, as an operator's flags do.
    fn start_at(&mut self, slot: Slot, address: Address, joins: bool, model: &Model) -> Outcome {
        let others = model.slots(|_| true).into_iter();
        let others = others.filter(|other| *other != slot).map(|other| {
            let member = model.member(other).expect("it is a member");
            (other, member.address)
        });
        let pairs = std::iter::once((slot, address)).chain(others);
        let pairs = pairs.map(|(slot, address)| format!("{}={}", NAMES[slot], self.url(address)));
        let initial_cluster = pairs.collect::<Vec<_>>().join(",");
        let place = &mut self.places[slot];
        place.restart = None;
        let config = &mut place.member.config;
        config.peer = self.addresses[address].clone();
        config.advertised_peer = config.peer.clone();
        config.initial_cluster = initial_cluster;
        config.joins = joins;
        place.member.start()
    }

    /// The process of a member, which is killed when dropped and no longer looked after.
    pub fn release(&mut self, slot: Slot) -> Option<ServerProcess> {
        self.places[slot].restart = None;
        self.places[slot].member.take_process()
    }

    /// Ends a process; SIGTERM is followed by SIGKILL when it does not help.
    pub async fn end(&mut self, slot: Slot, ending: Ending) -> Outcome {
        let process = self.release(slot);
        if let (Some(mut process), Ending::Asked) = (process, ending)
            && process.status()?.is_none()
        {
            process.signal(Signal::TERM)?;
            if wait_for_end(&mut process).await?.is_none() {
                let name = NAMES[slot];
                let words = format!("{name} did not end within 10 s of SIGTERM");
                self.crashes.push(words);
            }
        }
        Ok(())
    }

    /// Notices processes that ended, and starts each again a little later.
    pub fn look_after(&mut self, model: &Model) -> Outcome {
        for slot in model.slots(|it| it.up()) {
            if self.leaving == Some(slot) {
                continue;
            }
            if let Some(status) = self.places[slot].member.status()? {
                self.note_end(slot, status);
                drop(self.release(slot));
                self.places[slot].restart = Some(Instant::now() + SUPERVISOR_PAUSE);
            }
            let restart = self.places[slot].restart;
            if restart.is_some_and(|due| due <= Instant::now()) {
                self.start(slot, model)?;
            }
        }
        Ok(())
    }

    /// With the end of the log, long lines cut off.
    fn note_end(&mut self, slot: Slot, status: ExitStatus) {
        let log = self.places[slot].member.last_lines();
        let lines: Vec<&str> = log.lines().collect();
        let mut words = format!("{} ended: {status}", NAMES[slot]);
        for line in &lines[lines.len().saturating_sub(LOG_LINES)..] {
            words.push_str("\n    ");
            words.extend(line.chars().take(LINE_CHARACTERS));
        }
        match status.signal().is_some() || status.code() == Some(PANICKED) {
            true => self.crashes.push(words),
            false => self.ends.push(words),
        }
    }

    /// A key that was never put before.
    pub fn next_key(&mut self) -> String {
        self.keys_put += 1;
        format!("{PREFIX}{:06}", self.keys_put)
    }
}

/// Waits until a process has ended by itself; `None`: it goes on.
pub async fn wait_for_end(process: &mut ServerProcess) -> Outcome<Option<Duration>> {
    let began = Instant::now();
    while began.elapsed() < ENDING_TIME {
        if process.status()?.is_some() {
            return Ok(Some(began.elapsed()));
        }
        sleep(POLL).await;
    }
    Ok(None)
}
