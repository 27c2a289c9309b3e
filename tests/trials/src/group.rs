//! The members of a cluster as child processes: one, or several that elected a
//! leader.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use etcd_api::etcdserverpb::{StatusRequest, maintenance_client::MaintenanceClient};

use crate::{
    machine::{processor_seconds, resident_mib},
    process::Outcome,
    server_process::{Program, Seat, Server},
};

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
const ELECTION_SECONDS_MAX: u64 = 60;
const SETTLE_SECONDS_MAX: u32 = 60;

/// Stopped together; killed when dropped.
pub struct Group {
    servers: Vec<Server>,
    /// Index of the leader.
    leader: usize,
}

impl Group {
    /// Starts one member for each directory, and returns when one leads.
    pub fn start(binary: &Path, directories: &[PathBuf], flags: &[String]) -> Outcome<Group> {
        let names = NAMES
            .get(..directories.len())
            .ok_or_else(|| format!("at most {} members", NAMES.len()))?;
        let mut servers = Vec::new();
        for (seat, directory) in Seat::draw(names)?.iter().zip(directories) {
            let mut program = Program::new(binary, directory);
            program.flags = flags.to_vec();
            servers.push(program.spawn(seat)?);
        }
        for server in &mut servers {
            server.wait_until_ready()?;
        }
        let runtime = tokio::runtime::Runtime::new()?;
        let leader = runtime.block_on(find_leader(&servers))?;
        Ok(Group { servers, leader })
    }

    /// All of them.
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// The member that led when the group was started.
    pub fn leader(&self) -> &Server {
        &self.servers[self.leader]
    }

    /// Which of the directories is the leader's.
    pub fn leader_number(&self) -> usize {
        self.leader
    }

    /// Another member than that, where there is one.
    pub fn follower(&self) -> &Server {
        &self.servers[(self.leader + 1) % self.servers.len()]
    }

    /// Where clients of any member connect, as `host:port,host:port`.
    pub fn endpoints(&self) -> String {
        let endpoints: Vec<String> = self.servers.iter().map(Server::endpoint).collect();
        endpoints.join(",")
    }

    /// Of all members together.
    pub fn processor_seconds(&self) -> Outcome<f64> {
        self.servers
            .iter()
            .map(|server| processor_seconds(server.pid()))
            .sum()
    }

    /// Of all members together.
    pub fn resident_mib(&self) -> Outcome<f64> {
        let mib = |server: &Server| Ok(resident_mib(server.pid())?.0);
        self.servers.iter().map(mib).sum()
    }

    /// The most that any one member ever had in memory.
    pub fn peak_resident_mib(&self) -> Outcome<f64> {
        self.servers.iter().try_fold(0.0, |most: f64, server| {
            Ok(most.max(resident_mib(server.pid())?.1))
        })
    }

    /// Waits until the members are idle, because work after a start (such as making segments
    /// ahead) is no part of the cost of an operation.
    pub fn settle(&self) -> Outcome {
        let mut before = self.processor_seconds()?;
        // Timers and heartbeats cost idle members a little.
        let idle = 0.02 * self.servers.len() as f64;
        for _ in 0..SETTLE_SECONDS_MAX {
            std::thread::sleep(Duration::from_secs(1));
            let now = self.processor_seconds()?;
            if now - before < idle {
                return Ok(());
            }
            before = now;
        }
        Err(format!("idle members are busy after {SETTLE_SECONDS_MAX} s").into())
    }

    /// SIGTERM for each, and waits for the end.
    pub fn stop(mut self) -> Outcome {
        for server in &mut self.servers {
            server.stop()?;
        }
        Ok(())
    }
}

async fn find_leader(servers: &[Server]) -> Outcome<usize> {
    let deadline = Instant::now() + Duration::from_secs(ELECTION_SECONDS_MAX);
    while Instant::now() < deadline {
        for (number, server) in servers.iter().enumerate() {
            if leads(server).await? {
                return Ok(number);
            }
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Err(format!("the cluster has no leader after {ELECTION_SECONDS_MAX} s").into())
}

async fn leads(server: &Server) -> Outcome<bool> {
    let mut client = MaintenanceClient::connect(server.url()).await?;
    let status = client.status(StatusRequest::default()).await?.into_inner();
    let own = status.header.unwrap_or_default().member_id;
    Ok(own != 0 && status.leader == own)
}
