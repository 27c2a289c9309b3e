//! One member: its process, and its standing in its cluster.

use std::{
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
};

use harness::{MemberConfig, Program, Signal, initial_cluster};

use crate::process::Outcome;

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

impl Member {
    /// A member that is not started yet, and absent; its ports are reserved.
    pub fn new(program: Program, config: MemberConfig) -> Member {
        Member {
            name: config.name.clone(),
            address: config.client.clone(),
            peer_url: config.peer_url(),
            hand: Arc::default(),
            is_excused: AtomicBool::new(false),
            standing: Mutex::new(Standing::Absent),
            server: Mutex::new(Server {
                member: harness::Member::new(program, config),
                has_process: false,
            }),
            life: AtomicU32::new(0),
        }
    }

    /// The only member of its cluster, with its data below `root` and its log in `outside`.
    pub fn alone(program: Program, root: &Path, outside: &Path) -> Outcome<Arc<Member>> {
        let mut config = MemberConfig::on_reserved_ports("server", root)?;
        config.log = outside.join("server.log");
        config.initial_cluster = initial_cluster([&config]);
        let member = Member::new(program, config);
        member.set_standing(Standing::Voter);
        Ok(Arc::new(member))
    }

    /// [`Member::address`] as a URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
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

    /// Sets the members, as etcd's flag lists them, that the next process begins with or
    /// `joins`.
    pub fn meet(&self, initial_cluster: String, joins: bool) {
        let config = &mut self.server().member.config;
        config.initial_cluster = initial_cluster;
        config.joins = joins;
    }

    /// Removes all data; no process may run.
    pub fn wipe(&self) -> Outcome {
        self.server().member.remove_data()
    }

    /// A number that is equal before and after an answer if the same process gave it.
    pub fn life(&self) -> u32 {
        self.life.load(Ordering::SeqCst)
    }

    /// Starts the process.
    pub fn start(&self) -> Outcome {
        let mut server = self.server();
        self.is_excused.store(false, Ordering::SeqCst);
        server.member.start()?;
        server.has_process = true;
        self.life.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    /// Starts the process and waits until it serves clients.
    pub fn start_and_wait(&self) -> Outcome {
        self.start()?;
        self.server().member.wait_until_ready()
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

    /// Sends SIGTERM and waits for the end.
    pub fn stop(&self) -> Outcome {
        self.server().member.stop().map(drop)
    }

    /// Allows the process to end or fail because of a full disk, until its next start: it may
    /// detect late that it has no room.
    pub fn excuse(&self) {
        self.is_excused.store(true, Ordering::SeqCst);
    }

    pub fn is_excused(&self) -> bool {
        self.is_excused.load(Ordering::SeqCst)
    }

    /// Sends a signal to the process, if one runs.
    pub fn signal(&self, signal: Signal) -> Outcome {
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
