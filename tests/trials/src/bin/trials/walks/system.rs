//! One of the two systems that a walk is performed on: its processes, and what it
//! has acknowledged.
//!
//! A process that ends by itself is started again, as an operator's supervisor
//! would; how often that happened is part of the report, and an end by a signal
//! or a panic is a failure.

use std::{os::unix::process::ExitStatusExt, path::Path, process::ExitStatus, time::Duration};

use tokio::time::Instant;

use super::{
    generate::Walk,
    model::Model,
    place::{Place, Process},
    ports::Ports,
    step::{Address, Ending, SLOTS},
};
use crate::{process::Outcome, request::PREFIX};

/// The pause of a supervisor before it starts an ended process again.
const SUPERVISOR_PAUSE: Duration = Duration::from_millis(300);
/// Exit code of a Rust program that panicked.
const PANICKED: i32 = 101;

/// A program with the flags of every member, and its name.
#[derive(Clone, Debug)]
pub struct Program {
    pub name: &'static str,
    pub server: harness::Program,
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
    /// When each ended process is to be started again.
    restarts: [Option<Instant>; SLOTS],
    /// A member that is being removed: its process may end.
    pub leaving: Option<usize>,
}

impl System {
    /// Starts the members that begin the cluster.
    pub fn begin(program: &Program, directory: &Path, walk: &Walk) -> Outcome<System> {
        let directory = directory.join(program.name);
        std::fs::create_dir_all(&directory)?;
        let mut ports = Ports::default();
        let addresses = (0..walk.addresses).map(|_| ports.address());
        let addresses = addresses.collect::<Outcome<Vec<_>>>()?;
        let mut clients = (0..SLOTS).map(|_| ports.address());
        let clients = clients.by_ref().collect::<Outcome<Vec<_>>>()?;
        let place =
            |slot: usize| Place::new(slot, &program.server, &directory, clients[slot].clone());
        let mut system = System {
            program: program.clone(),
            places: std::array::from_fn(place),
            addresses,
            _ports: ports,
            acknowledged: Vec::new(),
            keys_put: 0,
            ends: Vec::new(),
            crashes: Vec::new(),
            restarts: [None; SLOTS],
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

    /// Starts a member at the address that the member list has.
    pub fn start(&mut self, slot: usize, model: &Model) -> Outcome {
        let member = model.member(slot).expect("a member is started");
        if !member.started {
            self.places[slot].clear()?;
        }
        self.start_at(slot, member.address, true, model)
    }

    /// Starts a removed member in its directory, where it was.
    pub fn start_removed(&mut self, slot: usize, model: &Model) -> Outcome<Option<Process>> {
        let address = model.remains(slot).expect("a removed member is started");
        self.start_at(slot, address, true, model)?;
        Ok(self.places[slot].release())
    }

    /// `--initial-cluster` names the members of today, as an operator's flags do.
    fn start_at(&mut self, slot: usize, address: Address, joins: bool, model: &Model) -> Outcome {
        self.restarts[slot] = None;
        let pair = |slot: usize, address: Address| {
            format!("{}={}", self.places[slot].name, self.url(address))
        };
        let mut pairs = vec![pair(slot, address)];
        for other in model.slots(|_| true) {
            let member = model.member(other).expect("it is a member");
            if other != slot {
                pairs.push(pair(other, member.address));
            }
        }
        let peer = &self.addresses[address];
        self.places[slot].start(peer, pairs.join(","), joins)
    }

    /// Ends a process; SIGTERM is followed by SIGKILL when it does not help.
    pub async fn end(&mut self, slot: usize, ending: Ending) -> Outcome {
        self.restarts[slot] = None;
        let Some(mut process) = self.places[slot].release() else {
            return Ok(());
        };
        if ending == Ending::Asked {
            process.ask_to_stop()?;
            if process.end().await?.is_none() {
                let name = self.places[slot].name;
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
            if let Some(status) = self.places[slot].has_ended()? {
                self.note_end(slot, status);
                self.restarts[slot] = Some(Instant::now() + SUPERVISOR_PAUSE);
            }
            if self.restarts[slot].is_some_and(|due| due <= Instant::now()) {
                self.start(slot, model)?;
            }
        }
        Ok(())
    }

    fn note_end(&mut self, slot: usize, status: ExitStatus) {
        let place = &self.places[slot];
        let words = format!("{} ended: {status}\n    {}", place.name, place.last_words());
        if status.signal().is_some() || status.code() == Some(PANICKED) {
            self.crashes.push(words);
        } else {
            self.ends.push(words);
        }
    }

    /// A key that was never put before.
    pub fn next_key(&mut self) -> String {
        self.keys_put += 1;
        format!("{PREFIX}{:06}", self.keys_put)
    }
}
