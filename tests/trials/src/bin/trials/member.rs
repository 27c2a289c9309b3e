//! One member: its process, its disk and its clock.

use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU32, Ordering},
    },
};

use environment::randomness::Random;
use harness::{MemberConfig, Program, Signal};

use super::clock::{Shim, SkewedClock};
use crate::process::Outcome;

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
    /// Directory of its data; a separate file system if the trial runs as root.
    pub root: PathBuf,
    pub clock: SkewedClock,
    /// Where clients connect, as `host:port`.
    address: String,
    peer_url: String,
    standing: Mutex<Standing>,
    server: Mutex<Server>,
    /// Changes whenever a process starts or ends.
    life: AtomicU32,
}

#[derive(Debug)]
struct Server {
    member: harness::Member,
    /// A process runs, or has ended by itself and `reap` was not called since.
    has_process: bool,
}

/// Directories and addresses of a member.
pub struct Home {
    pub name: &'static str,
    pub root: PathBuf,
    /// A directory outside its disk, for its log and clock.
    pub beside: PathBuf,
    pub client_port: u16,
    /// The port of its proxy.
    pub door_port: u16,
    pub listen_port: u16,
}

impl Member {
    /// A member that is not started yet.
    pub fn new(binary: PathBuf, shim: Option<&Shim>, home: Home) -> Outcome<Member> {
        let clock = SkewedClock::new(home.beside.join(format!("{}.clock", home.name)))?;
        let mut program = Program::new(binary);
        if !program.is_etcd() {
            // Small segments: a run fills, recycles and reads back many.
            program.flags.push("--segment-bytes=4194304".to_owned());
        }
        if let Some(shim) = shim {
            let library = ("LD_PRELOAD".into(), shim.library.clone().into());
            let page = ("FAULTS_CLOCK".into(), clock.path.clone().into());
            program.environment.extend([library, page]);
        }
        let address = |port| format!("127.0.0.1:{port}");
        let config = MemberConfig {
            data: home.root.join("data"),
            client: address(home.client_port),
            peer: address(home.listen_port),
            advertised_peer: address(home.door_port),
            ..MemberConfig::alone(home.name, &home.beside)
        };
        Ok(Member {
            name: home.name,
            root: home.root,
            clock,
            address: config.client.clone(),
            peer_url: config.peer_url(),
            standing: Mutex::new(Standing::Absent),
            server: Mutex::new(Server {
                member: harness::Member::new(program, config),
                has_process: false,
            }),
            life: AtomicU32::new(0),
        })
    }

    /// Where clients connect.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// [`Member::url`] as `host:port`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Where other members connect.
    pub fn peer_url(&self) -> String {
        self.peer_url.clone()
    }

    pub fn standing(&self) -> Standing {
        *self.standing.lock().expect("no holder panics")
    }

    pub fn set_standing(&self, standing: Standing) {
        *self.standing.lock().expect("no holder panics") = standing;
    }

    fn server(&self) -> MutexGuard<'_, Server> {
        self.server.lock().expect("no holder panics")
    }

    /// Sets the initial cluster of the next process, for a start without data.
    pub fn meet(&self, company: Company) {
        let config = &mut self.server().member.config;
        config.initial_cluster = company.initial_cluster;
        config.joins = company.exists;
    }

    /// Removes all data; no process may run.
    pub fn wipe(&self) -> Outcome {
        self.server().member.remove_data()
    }

    /// A number that is equal before and after an answer if the same process gave it.
    pub fn life(&self) -> u32 {
        self.life.load(Ordering::SeqCst)
    }

    /// Starts the process and returns its id.
    pub fn start(&self) -> Outcome<u32> {
        let mut server = self.server();
        server.member.start()?;
        server.has_process = true;
        self.life.fetch_add(1, Ordering::SeqCst);
        Ok(server.member.pid().ok_or("no process runs")?)
    }

    /// Id of the process, if one runs.
    pub fn process(&self) -> Option<u32> {
        let server = self.server();
        server.member.pid().filter(|_| server.has_process)
    }

    /// Kills the process with -9 and waits for its end. Does nothing if none runs.
    pub fn kill(&self) -> Outcome {
        self.life.fetch_add(1, Ordering::SeqCst);
        let mut server = self.server();
        server.has_process = false;
        server.member.kill()
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
        let member = &mut self.server().member;
        match member.is_running() {
            true => member.signal(signal),
            false => Ok(()),
        }
    }

    /// Returns whether no process runs, and how it ended if it has ended since the last call.
    pub fn reap(&self) -> Outcome<(bool, Option<String>)> {
        let mut server = self.server();
        if !server.has_process {
            return Ok((true, None));
        }
        let Some(status) = server.member.status()? else {
            return Ok((false, None));
        };
        server.has_process = false;
        self.life.fetch_add(1, Ordering::SeqCst);
        Ok((true, Some(status.to_string())))
    }

    /// The end of the log of its last process, to show why it ended.
    pub fn last_words(&self) -> String {
        self.server().member.last_lines()
    }
}

/// A random place with a present member, as a client finds it in the member list.
pub fn any_present(members: &[Arc<Member>], random: &mut Random) -> Option<usize> {
    let is_present = |place: &usize| members[*place].standing() != Standing::Absent;
    let present: Vec<usize> = (0..members.len()).filter(is_present).collect();
    (!present.is_empty()).then(|| *random.pick(&present))
}
