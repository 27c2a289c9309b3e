//! One member: its process, and its standing in its cluster.

use std::{
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use harness::{MemberConfig, Program, Signal, initial_cluster};

use crate::{process::Outcome, request::Client};

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

#[derive(Debug)]
pub struct Member {
    pub name: String,
    /// Where clients connect, as `host:port`.
    pub address: String,
    /// Where other members connect.
    pub peer_url: String,
    /// Lock for stopping and starting the process.
    pub hand: Arc<tokio::sync::Mutex<()>>,
    /// Its disk was full at some time since its process started.
    is_excused: AtomicBool,
    /// Its disk is full now.
    has_full_disk: AtomicBool,
    standing: Mutex<Standing>,
    server: Mutex<harness::Member>,
    /// How many processes were started.
    life: AtomicU32,
}

impl Member {
    /// A member that is not started yet, and absent; its ports are reserved.
    pub fn new(program: Program, config: MemberConfig) -> Member {
        Member {
            name: config.name.clone(),
            address: config.client.clone(),
            peer_url: config.peer_url(),
            hand: Arc::default(),
            is_excused: AtomicBool::new(false),
            has_full_disk: AtomicBool::new(false),
            standing: Mutex::new(Standing::Absent),
            server: Mutex::new(harness::Member::new(program, config)),
            life: AtomicU32::new(0),
        }
    }

    /// The only member of its cluster, with its data below `root` and its log in `outside`.
    pub fn alone(program: Program, root: &Path, outside: &Path) -> Outcome<Arc<Member>> {
        let mut config = MemberConfig::on_reserved_ports("server", root)?;
        config.log = outside.join("server.log");
        config.initial_cluster = initial_cluster([&config]);
        Ok(Member::voter(program, config))
    }

    /// A voter of a cluster; another owner may run its process.
    pub fn voter(program: Program, config: MemberConfig) -> Arc<Member> {
        let member = Member::new(program, config);
        member.set_standing(Standing::Voter);
        Arc::new(member)
    }

    /// [`Member::address`] as a URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// A client with this patience.
    pub fn client(&self, patience: Duration) -> Client {
        Client {
            address: self.address.clone(),
            patience,
        }
    }

    pub fn standing(&self) -> Standing {
        *self.standing.lock().expect("no holder panics")
    }

    pub fn set_standing(&self, standing: Standing) {
        *self.standing.lock().expect("no holder panics") = standing;
    }

    /// The process, its directory and its log.
    pub fn server(&self) -> MutexGuard<'_, harness::Member> {
        self.server.lock().expect("no holder panics")
    }

    /// Sets the members, as etcd's flag lists them, that the next process begins with or
    /// `joins`.
    pub fn meet(&self, initial_cluster: String, joins: bool) {
        let config = &mut self.server().config;
        config.initial_cluster = initial_cluster;
        config.joins = joins;
    }

    /// A number that is equal before and after an answer if the same process gave it.
    pub fn life(&self) -> u32 {
        self.life.load(Ordering::SeqCst)
    }

    /// Starts the process.
    pub fn start(&self) -> Outcome {
        let is_full = self.has_full_disk.load(Ordering::SeqCst);
        self.is_excused.store(is_full, Ordering::SeqCst);
        self.life.fetch_add(1, Ordering::SeqCst);
        self.server().start()
    }

    /// Starts the process and waits until it serves clients.
    pub fn start_and_wait(&self) -> Outcome {
        self.start()?;
        self.server().wait_until_ready()
    }

    /// Id of the process, if one runs.
    pub fn process(&self) -> Option<u32> {
        let mut server = self.server();
        server.is_running().then(|| server.pid())?
    }

    /// Notes that its disk is full, or not any more. Its process may end or fail because of
    /// that until its next start with room: it may detect late that it has no room.
    pub fn set_full_disk(&self, is_full: bool) {
        self.has_full_disk.store(is_full, Ordering::SeqCst);
        self.is_excused.fetch_or(is_full, Ordering::SeqCst);
    }

    pub fn is_excused(&self) -> bool {
        self.is_excused.load(Ordering::SeqCst)
    }

    /// Sends a signal to the process, if one runs.
    pub fn signal(&self, signal: Signal) -> Outcome {
        let mut server = self.server();
        match server.is_running() {
            true => server.signal(signal),
            false => Ok(()),
        }
    }
}
