//! One member: its process, its disk and its clock.

use std::{
    path::PathBuf,
    process::{Child, Command},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
};

use environment::randomness::Random;
use rustix::process::{Pid, Signal, kill_process};

use super::clock::{Shim, SkewedClock};
use crate::{
    member_command::{MemberCommand, last_lines},
    process::Outcome,
};

/// Lines of a log that are shown after its member has ended.
const LOG_LINES: usize = 12;

/// Settings for the start of every member.
#[derive(Clone, Debug)]
pub struct Plan {
    pub binary: PathBuf,
    pub shim: Option<Shim>,
}

/// The initial cluster of a member.
#[derive(Clone, Debug)]
pub struct Company {
    /// All members and their peer URLs, as etcd's flag wants them.
    pub initial_cluster: String,
    /// The cluster exists already.
    pub exists: bool,
}

/// Standing of a member in its cluster, as far as the trial knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Not a member: no process, no data.
    Absent,
    /// Added, and not promoted yet.
    Learner,
    Voter,
    /// Being removed, or removed: its process ends by itself.
    Leaving,
}

/// One member.
#[derive(Debug)]
pub struct Member {
    pub name: &'static str,
    plan: Plan,
    /// Directory of its data; a separate file system if the trial runs as root.
    pub root: PathBuf,
    log: PathBuf,
    pub clock: SkewedClock,
    pub client_port: u16,
    /// The port of its proxy, and the port where it listens.
    peer_ports: (u16, u16),
    company: Mutex<Company>,
    standing: Mutex<Standing>,
    child: Mutex<Option<Child>>,
    /// Changes whenever a process starts or ends.
    life: AtomicU32,
}

/// Directories of a member.
pub struct Home {
    pub name: &'static str,
    pub root: PathBuf,
    /// A directory outside its disk, for its log and clock.
    pub beside: PathBuf,
    pub client_port: u16,
    pub door_port: u16,
    pub listen_port: u16,
}

impl Member {
    /// A member that is not started yet.
    pub fn new(plan: &Plan, home: Home, company: Company) -> Outcome<Member> {
        Ok(Member {
            name: home.name,
            plan: plan.clone(),
            root: home.root,
            log: home.beside.join(format!("{}.log", home.name)),
            clock: SkewedClock::new(home.beside.join(format!("{}.clock", home.name)))?,
            client_port: home.client_port,
            peer_ports: (home.door_port, home.listen_port),
            company: Mutex::new(company),
            standing: Mutex::new(Standing::Absent),
            child: Mutex::new(None),
            life: AtomicU32::new(0),
        })
    }

    /// Where clients connect.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.client_port)
    }

    /// Where other members connect.
    pub fn peer_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.peer_ports.0)
    }

    pub fn standing(&self) -> Standing {
        *self.standing.lock().expect("no holder panics")
    }

    pub fn set_standing(&self, standing: Standing) {
        *self.standing.lock().expect("no holder panics") = standing;
    }

    /// Sets the initial cluster of the next process, for a start without data.
    pub fn meet(&self, company: Company) {
        *self.company.lock().expect("no holder panics") = company;
    }

    /// Removes all data; no process may run.
    pub fn wipe(&self) -> Outcome {
        assert!(self.process().is_none(), "{} runs", self.name);
        match std::fs::remove_dir_all(self.data()) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            removed => Ok(removed?),
        }
    }

    /// A number that is equal before and after an answer if the same process gave it.
    pub fn life(&self) -> u32 {
        self.life.load(Ordering::SeqCst)
    }

    /// Starts the process and returns its id.
    pub fn start(&self) -> Outcome<u32> {
        let mut child = self.child.lock().expect("no holder panics");
        assert!(child.is_none(), "{} runs already", self.name);
        let started = self.command()?.spawn();
        let started = started
            .map_err(|error| format!("cannot start {}: {error}", self.plan.binary.display()))?;
        let process = started.id();
        *child = Some(started);
        self.life.fetch_add(1, Ordering::SeqCst);
        Ok(process)
    }

    fn command(&self) -> Outcome<Command> {
        let company = self.company.lock().expect("no holder panics").clone();
        let state = if company.exists { "existing" } else { "new" };
        let address = |port| format!("127.0.0.1:{port}");
        let (door, listen) = self.peer_ports;
        let member = MemberCommand {
            binary: &self.plan.binary,
            name: self.name,
            data: &self.data(),
            log: &self.log,
            client: &address(self.client_port),
            peer: &address(listen),
            advertised_peer: &address(door),
            initial_cluster: &company.initial_cluster,
        };
        let mut command = member.command()?;
        command.arg(format!("--initial-cluster-state={state}"));
        if !member.is_etcd() {
            // Small segments: a run fills, recycles and reads back many.
            command.arg("--segment-bytes=4194304");
        }
        if let Some(shim) = &self.plan.shim {
            command
                .env("LD_PRELOAD", &shim.library)
                .env("FAULTS_CLOCK", &self.clock.path);
        }
        Ok(command)
    }

    fn data(&self) -> PathBuf {
        self.root.join("data")
    }

    /// Id of the process, if one runs.
    pub fn process(&self) -> Option<u32> {
        let child = self.child.lock().expect("no holder panics");
        child.as_ref().map(Child::id)
    }

    /// Kills the process with -9 and waits for its end. Does nothing if none runs.
    pub fn kill(&self) -> Outcome {
        self.life.fetch_add(1, Ordering::SeqCst);
        if let Some(mut child) = self.child.lock().expect("no holder panics").take() {
            child.kill()?;
            child.wait()?;
        }
        Ok(())
    }

    /// Sends SIGTERM; `reap` says when the process has ended.
    pub fn ask_to_stop(&self) -> Outcome {
        self.signal(Signal::TERM)
    }

    /// Sends SIGSTOP: the process stops, its connections stay.
    pub fn freeze(&self) -> Outcome {
        self.signal(Signal::STOP)
    }

    /// Sends SIGCONT.
    pub fn thaw(&self) -> Outcome {
        self.signal(Signal::CONT)
    }

    fn signal(&self, signal: Signal) -> Outcome {
        if let Some(child) = self.child.lock().expect("no holder panics").as_ref() {
            kill_process(Pid::from_child(child), signal)?;
        }
        Ok(())
    }

    /// Returns whether no process runs, and how it ended if it has ended since the last call.
    pub fn reap(&self) -> Outcome<(bool, Option<String>)> {
        let mut child = self.child.lock().expect("no holder panics");
        let Some(running) = child.as_mut() else {
            return Ok((true, None));
        };
        let Some(status) = running.try_wait()? else {
            return Ok((false, None));
        };
        *child = None;
        self.life.fetch_add(1, Ordering::SeqCst);
        Ok((true, Some(status.to_string())))
    }

    /// The end of its log, to show why it ended.
    pub fn last_words(&self) -> String {
        last_lines(&self.log, LOG_LINES)
    }
}

/// A random place with a present member, as a client finds it in the member list.
pub fn any_present(members: &[Arc<Member>], random: &mut Random) -> Option<usize> {
    let is_present = |place: &usize| members[*place].standing() != Standing::Absent;
    let present: Vec<usize> = (0..members.len()).filter(is_present).collect();
    (!present.is_empty()).then(|| *random.pick(&present))
}

impl Drop for Member {
    fn drop(&mut self) {
        // Already gone is fine: the point is that nothing is left running.
        drop(self.kill());
    }
}
