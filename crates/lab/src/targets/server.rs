//! Servers as child processes: ours or etcd, told the same flags, alone or as
//! a cluster with a leader. They die with the worker, however it dies.

use std::fs::File;
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use etcd_api::etcdserverpb::{StatusRequest, maintenance_client::MaintenanceClient};

use super::Failure;

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
/// Recovery of a large log may take a while; nothing else may.
const READY_SECONDS_MAX: u64 = 120;
const ELECTION_SECONDS_MAX: u64 = 60;
const LOG_LINES: usize = 12;

/// Which program, and what it is told beside where it lives.
#[derive(Clone, Debug)]
pub struct Program {
    /// The file.
    pub binary: PathBuf,
    /// Beside names, addresses and directory.
    pub flags: Vec<String>,
}

/// The members of a cluster, or one server. Killed when dropped.
#[derive(Debug)]
pub struct Group {
    program: Program,
    seats: Vec<Seat>,
    children: Vec<Child>,
    leader: usize,
}

/// Where one member listens, and where it keeps its data.
#[derive(Clone, Debug)]
struct Seat {
    name: &'static str,
    client_port: u16,
    peer_port: u16,
    initial_cluster: String,
    data: PathBuf,
}

impl Program {
    /// Whether it is etcd: by its file's name, as `etcd` or `etcd-3.7`.
    pub fn is_etcd(&self) -> bool {
        let name = self.binary.file_name().unwrap_or_default();
        name.to_string_lossy().starts_with("etcd")
    }

    /// What the program says its version is; for people.
    pub fn version(&self) -> Result<String, Failure> {
        let output = Command::new(&self.binary).arg("--version").output();
        let output = output.map_err(|error| self.cannot_start(&error))?;
        Ok(own_version(&String::from_utf8_lossy(&output.stdout)))
    }

    fn cannot_start(&self, error: &std::io::Error) -> Failure {
        Failure(format!(
            "cannot start the server {}: {error}",
            self.binary.display()
        ))
    }

    fn command(&self, seat: &Seat) -> Command {
        let client = format!("http://127.0.0.1:{}", seat.client_port);
        let peer = format!("http://127.0.0.1:{}", seat.peer_port);
        let mut command = Command::new(&self.binary);
        if !self.is_etcd() {
            command.arg("serve");
        }
        command
            .arg(format!("--name={}", seat.name))
            .arg(format!("--data-dir={}", seat.data.display()))
            .arg(format!("--listen-client-urls={client}"))
            .arg(format!("--advertise-client-urls={client}"))
            .arg(format!("--listen-peer-urls={peer}"))
            .arg(format!("--initial-advertise-peer-urls={peer}"))
            .arg(format!("--initial-cluster={}", seat.initial_cluster))
            // No load of the lab may meet a quota on either side.
            .arg(format!("--quota-backend-bytes={}", 64_u64 << 30))
            .arg("--log-level=error")
            .args(&self.flags);
        command
    }

    fn spawn(&self, seat: &Seat) -> Result<Child, Failure> {
        let log = File::options()
            .create(true)
            .append(true)
            .open(seat.log())
            .map_err(|error| Failure(format!("{}: {error}", seat.log().display())))?;
        let errors = log.try_clone().map_err(Failure::of)?;
        let mut command = self.command(seat);
        command.stdin(Stdio::null()).stdout(log).stderr(errors);
        dies_with_its_parent(&mut command);
        command.spawn().map_err(|error| self.cannot_start(&error))
    }
}

/// A server that names the version of etcd that it stands in for, as etcd does in
/// its first line, has one of its own as well.
fn own_version(said: &str) -> String {
    let line = said
        .lines()
        .find(|line| line.starts_with("Inkstone Version:"))
        .or(said.lines().next())
        .unwrap_or_default();
    line.split_whitespace()
        .last()
        .unwrap_or_default()
        .to_owned()
}

/// Nothing stays behind, whatever happens to the process that starts it.
pub fn dies_with_its_parent(command: &mut Command) {
    let set = || {
        let signal = rustix::process::Signal::KILL;
        rustix::process::set_parent_process_death_signal(Some(signal)).map_err(Into::into)
    };
    // SAFETY: between fork and exec only one system call is made, which is
    // allowed there; nothing is allocated and no lock is taken.
    unsafe {
        command.pre_exec(set);
    }
}

impl Seat {
    fn log(&self) -> PathBuf {
        self.data.with_extension("log")
    }

    fn address(&self) -> String {
        format!("127.0.0.1:{}", self.client_port)
    }

    fn last_words(&self) -> String {
        let text = std::fs::read_to_string(self.log()).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
    }
}

impl Group {
    /// Starts members in folders below `directory`; returns when one leads.
    pub fn start(program: Program, directory: &Path, members: u32) -> Result<Group, Failure> {
        let names = &NAMES[..(members as usize).clamp(1, NAMES.len())];
        let ports = free_ports::reserve(2 * names.len()).map_err(Failure::of)?;
        let mut seats = Vec::new();
        for (name, ports) in names.iter().zip(ports.chunks(2)) {
            seats.push(Seat {
                name,
                client_port: ports[0],
                peer_port: ports[1],
                initial_cluster: String::new(),
                data: directory.join(format!("member-{name}")),
            });
        }
        let pairs: Vec<String> = seats
            .iter()
            .map(|seat| format!("{}=http://127.0.0.1:{}", seat.name, seat.peer_port))
            .collect();
        for seat in &mut seats {
            seat.initial_cluster = pairs.join(",");
        }
        let mut group = Group {
            program,
            seats,
            children: Vec::new(),
            leader: 0,
        };
        group.spawn_all()?;
        Ok(group)
    }

    fn spawn_all(&mut self) -> Result<(), Failure> {
        for seat in &self.seats {
            self.children.push(self.program.spawn(seat)?);
        }
        for (child, seat) in self.children.iter_mut().zip(&self.seats) {
            wait_until_ready(child, seat)?;
        }
        self.leader = find_leader(&mut self.children, &self.seats)?;
        Ok(())
    }

    /// kill -9 for each, then starts them again on what they left.
    pub fn kill_and_restart(&mut self) -> Result<(), Failure> {
        self.kill();
        self.spawn_all()
    }

    fn kill(&mut self) {
        for child in &mut self.children {
            // Already gone is fine: the point is that nothing is left running.
            drop(child.kill());
            drop(child.wait());
        }
        self.children.clear();
    }

    /// Where clients connect; the leader's first.
    pub fn urls(&self) -> Vec<String> {
        let url = |seat: &Seat| format!("http://{}", seat.address());
        let mut urls: Vec<String> = self.seats.iter().map(url).collect();
        urls.swap(0, self.leader);
        urls
    }

    /// For their accounts in `/proc`.
    pub fn pids(&self) -> Vec<u32> {
        self.children.iter().map(Child::id).collect()
    }

    /// The words that the first member was started with, without folders.
    pub fn command_line(&self) -> Vec<String> {
        let command = self.program.command(&self.seats[0]);
        let name = |text: &std::ffi::OsStr| {
            let text = text.to_string_lossy();
            match text.split_once("--data-dir=") {
                Some(_) => "--data-dir=DIRECTORY".to_owned(),
                None => {
                    text.rsplit_once('/')
                        .map_or(text.to_string(), |(folder, file)| {
                            match folder.contains("http:") {
                                true => text.to_string(),
                                false => file.to_owned(),
                            }
                        })
                }
            }
        };
        std::iter::once(command.get_program())
            .chain(command.get_args())
            .map(name)
            .collect()
    }

    /// What a server that has ended since said last; nothing while all run.
    pub fn obituary(&mut self) -> Option<String> {
        let program = self.program.binary.display();
        for (child, seat) in self.children.iter_mut().zip(&self.seats) {
            if let Ok(Some(status)) = child.try_wait() {
                return Some(format!(
                    "{program} ended with {status}\n{}",
                    seat.last_words()
                ));
            }
        }
        None
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

fn wait_until_ready(child: &mut Child, seat: &Seat) -> Result<(), Failure> {
    let deadline = Instant::now() + Duration::from_secs(READY_SECONDS_MAX);
    while TcpStream::connect(seat.address()).is_err() {
        check_alive(child, seat)?;
        if Instant::now() > deadline {
            return Err(Failure(format!(
                "the server took no connection in {READY_SECONDS_MAX} s:\n{}",
                seat.last_words()
            )));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// A server may take connections and end all the same, while it opens its data.
fn check_alive(child: &mut Child, seat: &Seat) -> Result<(), Failure> {
    let Some(status) = child.try_wait().map_err(Failure::of)? else {
        return Ok(());
    };
    let words = match seat.last_words() {
        words if words.trim().is_empty() => "its log is empty".to_owned(),
        words => words,
    };
    Err(Failure(format!(
        "the server ended with {status} instead of serving: {words}"
    )))
}

fn find_leader(children: &mut [Child], seats: &[Seat]) -> Result<usize, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::of)?;
    runtime.block_on(async {
        let deadline = Instant::now() + Duration::from_secs(ELECTION_SECONDS_MAX);
        while Instant::now() < deadline {
            for (number, (child, seat)) in children.iter_mut().zip(seats).enumerate() {
                check_alive(child, seat)?;
                if leads(seat).await.unwrap_or(false) {
                    return Ok(number);
                }
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let words = seats[0].last_words();
        Err(Failure(format!(
            "no member leads after {ELECTION_SECONDS_MAX} s:\n{words}"
        )))
    })
}

async fn leads(seat: &Seat) -> Result<bool, Box<dyn std::error::Error>> {
    let mut client = MaintenanceClient::connect(format!("http://{}", seat.address())).await?;
    let status = client.status(StatusRequest::default()).await?.into_inner();
    let own = status.header.unwrap_or_default().member_id;
    Ok(own != 0 && status.leader == own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_the_servers_own_and_not_that_of_the_api() {
        let ours = "etcd Version: 3.7.3\nInkstone Version: 0.1.0\nTarget: linux/x86_64\n";
        assert_eq!(own_version(ours), "0.1.0");
        assert_eq!(own_version("etcd Version: 3.7.3\nGit SHA: 1\n"), "3.7.3");
        assert_eq!(own_version(""), "");
    }
}
