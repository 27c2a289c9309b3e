//! Servers as child processes: Inkstone or etcd, started with the same flags, alone or as a
//! cluster with a leader. The kernel kills them when the worker ends, however it ends.

use std::fs::File;
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use etcd_api::etcdserverpb::{StatusRequest, maintenance_client::MaintenanceClient};

use super::Failure;

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
/// Time limit for accepting connections, long enough for the recovery of a large log.
const READY_SECONDS_MAX: u64 = 120;
const ELECTION_SECONDS_MAX: u64 = 60;
const LOG_LINES: usize = 12;

/// A server program, and extra flags.
#[derive(Clone, Debug)]
pub struct Program {
    pub binary: PathBuf,
    /// Flags in addition to name, addresses and directory.
    pub flags: Vec<String>,
}

/// The members of a cluster, or a single server. Dropping the group kills them.
#[derive(Debug)]
pub struct Group {
    program: Program,
    configs: Vec<MemberConfig>,
    children: Vec<Child>,
    leader: usize,
}

/// Name, addresses and directory of one member.
#[derive(Clone, Debug)]
struct MemberConfig {
    name: &'static str,
    client_port: u16,
    peer_port: u16,
    initial_cluster: String,
    data: PathBuf,
}

impl Program {
    /// Whether the program is etcd: its file name begins with `etcd`.
    pub fn is_etcd(&self) -> bool {
        let name = self.binary.file_name().unwrap_or_default();
        name.to_string_lossy().starts_with("etcd")
    }

    /// The version that the program prints. Fails where it cannot be started.
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

    fn command(&self, config: &MemberConfig) -> Command {
        let client = format!("http://127.0.0.1:{}", config.client_port);
        let peer = format!("http://127.0.0.1:{}", config.peer_port);
        let mut command = Command::new(&self.binary);
        if !self.is_etcd() {
            command.arg("serve");
        }
        command
            .arg(format!("--name={}", config.name))
            .arg(format!("--data-dir={}", config.data.display()))
            .arg(format!("--listen-client-urls={client}"))
            .arg(format!("--advertise-client-urls={client}"))
            .arg(format!("--listen-peer-urls={peer}"))
            .arg(format!("--initial-advertise-peer-urls={peer}"))
            .arg(format!("--initial-cluster={}", config.initial_cluster))
            // A quota that no load of the lab reaches.
            .arg(format!("--quota-backend-bytes={}", 64_u64 << 30))
            .arg("--log-level=error")
            .args(&self.flags);
        command
    }

    fn spawn(&self, config: &MemberConfig) -> Result<Child, Failure> {
        let log = File::options()
            .create(true)
            .append(true)
            .open(config.log())
            .map_err(|error| Failure(format!("{}: {error}", config.log().display())))?;
        let errors = log.try_clone().map_err(Failure::of)?;
        let mut command = self.command(config);
        command.stdin(Stdio::null()).stdout(log).stderr(errors);
        dies_with_its_parent(&mut command);
        command.spawn().map_err(|error| self.cannot_start(&error))
    }
}

/// The version in the output of `--version`. Inkstone prints the version of the etcd API in
/// the first line, where etcd prints its version, and its own version in another line.
fn own_version(output: &str) -> String {
    let line = output
        .lines()
        .find(|line| line.starts_with("Inkstone Version:"))
        .or(output.lines().next())
        .unwrap_or_default();
    line.split_whitespace()
        .last()
        .unwrap_or_default()
        .to_owned()
}

/// Makes the kernel kill the started process when its parent ends.
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

impl MemberConfig {
    fn log(&self) -> PathBuf {
        self.data.with_extension("log")
    }

    fn address(&self) -> String {
        format!("127.0.0.1:{}", self.client_port)
    }

    fn end_of_log(&self) -> String {
        let text = std::fs::read_to_string(self.log()).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
    }
}

impl Group {
    /// Starts members in folders below `directory`; returns when one of them leads.
    pub fn start(program: Program, directory: &Path, members: u32) -> Result<Group, Failure> {
        let names = &NAMES[..(members as usize).clamp(1, NAMES.len())];
        let ports = harness::ports::reserve(2 * names.len()).map_err(Failure::of)?;
        let mut configs = Vec::new();
        for (name, ports) in names.iter().zip(ports.chunks(2)) {
            configs.push(MemberConfig {
                name,
                client_port: ports[0],
                peer_port: ports[1],
                initial_cluster: String::new(),
                data: directory.join(format!("member-{name}")),
            });
        }
        let pairs: Vec<String> = configs
            .iter()
            .map(|config| format!("{}=http://127.0.0.1:{}", config.name, config.peer_port))
            .collect();
        for config in &mut configs {
            config.initial_cluster = pairs.join(",");
        }
        let mut group = Group {
            program,
            configs,
            children: Vec::new(),
            leader: 0,
        };
        group.spawn_all()?;
        Ok(group)
    }

    fn spawn_all(&mut self) -> Result<(), Failure> {
        for config in &self.configs {
            self.children.push(self.program.spawn(config)?);
        }
        for (child, config) in self.children.iter_mut().zip(&self.configs) {
            wait_until_ready(child, config)?;
        }
        self.leader = find_leader(&mut self.children, &self.configs)?;
        Ok(())
    }

    /// Kills all members with SIGKILL, then starts them again on the same data.
    pub fn kill_and_restart(&mut self) -> Result<(), Failure> {
        self.kill();
        self.spawn_all()
    }

    fn kill(&mut self) {
        for child in &mut self.children {
            // Errors are ignored: the process may have ended already.
            drop(child.kill());
            drop(child.wait());
        }
        self.children.clear();
    }

    /// URLs for clients; the leader's is the first.
    pub fn urls(&self) -> Vec<String> {
        let url = |config: &MemberConfig| format!("http://{}", config.address());
        let mut urls: Vec<String> = self.configs.iter().map(url).collect();
        urls.swap(0, self.leader);
        urls
    }

    /// Process ids of the members.
    pub fn pids(&self) -> Vec<u32> {
        self.children.iter().map(Child::id).collect()
    }

    /// Command line of the first member, without folders.
    pub fn command_line(&self) -> Vec<String> {
        let command = self.program.command(&self.configs[0]);
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

    /// Exit status and last log lines of a member that has ended; `None` while all run.
    pub fn ended_member(&mut self) -> Option<String> {
        let program = self.program.binary.display();
        for (child, config) in self.children.iter_mut().zip(&self.configs) {
            if let Ok(Some(status)) = child.try_wait() {
                return Some(format!(
                    "{program} ended with {status}\n{}",
                    config.end_of_log()
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

fn wait_until_ready(child: &mut Child, config: &MemberConfig) -> Result<(), Failure> {
    let deadline = Instant::now() + Duration::from_secs(READY_SECONDS_MAX);
    while TcpStream::connect(config.address()).is_err() {
        check_alive(child, config)?;
        if Instant::now() > deadline {
            return Err(Failure(format!(
                "the server took no connection in {READY_SECONDS_MAX} s:\n{}",
                config.end_of_log()
            )));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Fails if the process has ended. A server may accept connections and still end while it
/// opens its data.
fn check_alive(child: &mut Child, config: &MemberConfig) -> Result<(), Failure> {
    let Some(status) = child.try_wait().map_err(Failure::of)? else {
        return Ok(());
    };
    let words = match config.end_of_log() {
        words if words.trim().is_empty() => "its log is empty".to_owned(),
        words => words,
    };
    Err(Failure(format!(
        "the server ended with {status} instead of serving: {words}"
    )))
}

fn find_leader(children: &mut [Child], configs: &[MemberConfig]) -> Result<usize, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::of)?;
    runtime.block_on(async {
        let deadline = Instant::now() + Duration::from_secs(ELECTION_SECONDS_MAX);
        while Instant::now() < deadline {
            for (number, (child, config)) in children.iter_mut().zip(configs).enumerate() {
                check_alive(child, config)?;
                if leads(config).await.unwrap_or(false) {
                    return Ok(number);
                }
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let words = configs[0].end_of_log();
        Err(Failure(format!(
            "no member leads after {ELECTION_SECONDS_MAX} s:\n{words}"
        )))
    })
}

async fn leads(config: &MemberConfig) -> Result<bool, Box<dyn std::error::Error>> {
    let mut client = MaintenanceClient::connect(format!("http://{}", config.address())).await?;
    let status = client.status(StatusRequest::default()).await?.into_inner();
    let own = status.header.unwrap_or_default().member_id;
    Ok(own != 0 && status.leader == own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_that_of_the_server_and_not_that_of_the_api() {
        let ours = "etcd Version: 3.7.3\nInkstone Version: 0.1.0\nTarget: linux/x86_64\n";
        assert_eq!(own_version(ours), "0.1.0");
        assert_eq!(own_version("etcd Version: 3.7.3\nGit SHA: 1\n"), "3.7.3");
        assert_eq!(own_version(""), "");
    }
}
