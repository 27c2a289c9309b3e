//! A server as a child process, Inkstone or etcd, with the same flags.

use std::{
    net::TcpStream,
    path::{Path, PathBuf},
    process::Child,
    time::{Duration, Instant},
};

use crate::{
    member_command::{MemberCommand, last_lines},
    process::Outcome,
};

/// Time limit for a start; the recovery of a large log takes long.
const READY_SECONDS: u64 = 60;
/// Lines of the log that are shown if a server does not start.
const LOG_LINES: usize = 20;

/// Which program, and where it keeps its data.
#[derive(Clone, Debug)]
pub struct Program {
    pub binary: PathBuf,
    pub data: PathBuf,
    /// Log file of the server.
    pub log: PathBuf,
    pub flags: Vec<String>,
}

/// Name and ports of a member, and its initial cluster.
#[derive(Clone, Debug)]
pub struct Seat {
    name: String,
    client_port: u16,
    peer_port: u16,
    initial_cluster: String,
}

impl Seat {
    /// As many as there are names, on free ports.
    pub fn draw(names: &[&str]) -> Outcome<Vec<Seat>> {
        let ports = harness::ports::reserve(2 * names.len())?;
        let ports: Vec<(u16, u16)> = ports.chunks(2).map(|pair| (pair[0], pair[1])).collect();
        let pairs: Vec<String> = names
            .iter()
            .zip(&ports)
            .map(|(name, (_, peer))| format!("{name}=http://127.0.0.1:{peer}"))
            .collect();
        let seat = |(name, (client_port, peer_port)): (&&str, &(u16, u16))| Seat {
            name: (*name).to_owned(),
            client_port: *client_port,
            peer_port: *peer_port,
            initial_cluster: pairs.join(","),
        };
        Ok(names.iter().zip(&ports).map(seat).collect())
    }
}

/// A started server; killed when dropped.
pub struct Server {
    child: Child,
    client_port: u16,
    log: PathBuf,
}

impl Program {
    /// An Inkstone server, or etcd if the file has that name.
    pub fn new(binary: &Path, data: &Path) -> Program {
        Program {
            binary: binary.to_owned(),
            data: data.to_owned(),
            log: data.with_extension("log"),
            flags: Vec::new(),
        }
    }

    /// Starts the server on free ports; returns once it takes connections.
    pub fn start(&self) -> Outcome<Server> {
        let seats = Seat::draw(&["house"])?;
        let mut server = self.spawn(&seats[0])?;
        server.wait_until_ready()?;
        Ok(server)
    }

    /// Starts the server, and does not wait for it: it may need others.
    pub fn spawn(&self, seat: &Seat) -> Outcome<Server> {
        let client = format!("127.0.0.1:{}", seat.client_port);
        let peer = format!("127.0.0.1:{}", seat.peer_port);
        let member = MemberCommand {
            binary: &self.binary,
            name: &seat.name,
            data: &self.data,
            log: &self.log,
            client: &client,
            peer: &peer,
            advertised_peer: &peer,
            initial_cluster: &seat.initial_cluster,
        };
        let mut command = member.command()?;
        let child = command
            .args(&self.flags)
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", self.binary.display()))?;
        Ok(Server {
            child,
            client_port: seat.client_port,
            log: self.log.clone(),
        })
    }
}

impl Server {
    /// Where clients connect, as `http://host:port`.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.client_port)
    }

    /// Where clients connect, as `host:port`.
    pub fn endpoint(&self) -> String {
        format!("127.0.0.1:{}", self.client_port)
    }

    /// The process, for its accounts in `/proc`.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// kill -9, and waits for the end.
    pub fn kill(&mut self) -> Outcome {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// SIGTERM, and waits for the end.
    pub fn stop(&mut self) -> Outcome {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM)?;
        self.child.wait()?;
        Ok(())
    }

    /// Returns once it takes connections; an error shows the end of its log.
    pub fn wait_until_ready(&mut self) -> Outcome {
        let ready = self.wait_for_connection();
        ready.map_err(|error| format!("{error}\n{}", last_lines(&self.log, LOG_LINES)).into())
    }

    fn wait_for_connection(&mut self) -> Outcome {
        let deadline = Instant::now() + Duration::from_secs(READY_SECONDS);
        while TcpStream::connect(self.endpoint()).is_err() {
            if let Some(status) = self.child.try_wait()? {
                return Err(format!("the server ended with {status} instead of serving").into());
            }
            if Instant::now() > deadline {
                return Err(format!("the server took no connection in {READY_SECONDS} s").into());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Already gone is fine: the point is that nothing is left running.
        drop(self.kill());
    }
}
