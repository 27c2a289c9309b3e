//! Members of Inkstone or etcd as child processes on free ports; killed when dropped.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use etcd_api::etcdserverpb::StatusRequest;
use etcd_api::etcdserverpb::maintenance_client::MaintenanceClient;
use tonic::transport::{Channel, Endpoint};

use crate::Outcome;

/// Time limit of a start on a busy machine.
const READY_MAX: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(20);
/// Attempts to start: another program may take a free port before the server binds it.
const STARTS_MAX: usize = 5;
/// Lines of a member's log that an error message shows.
const LOG_LINES: usize = 12;

/// Path of etcd: `INKSTONE_ETCD`, or the binary that `cargo xtask etcd` built
/// below the root of the repository. `None` if there is none.
pub fn etcd_binary(root: &Path) -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("INKSTONE_ETCD") {
        return Some(PathBuf::from(named));
    }
    let built = root.join("target/etcd/bin/etcd");
    built.exists().then_some(built)
}

/// The members of one cluster.
pub struct Servers {
    /// In the order of their start.
    pub members: Vec<Server>,
    /// Directory of their data and logs.
    _folder: tempfile::TempDir,
}

/// One member.
pub struct Server {
    child: Child,
    client_port: u16,
    peer_port: u16,
    log: PathBuf,
}

impl Servers {
    /// Starts `count` members of one cluster; returns when one leads.
    pub async fn start(binary: &Path, count: usize, flags: &[&str]) -> Outcome<Servers> {
        let mut last = String::new();
        for _ in 0..STARTS_MAX {
            let mut servers = Servers::launch(binary, count, flags)?;
            match servers.wait_until_led().await {
                Ok(()) => return Ok(servers),
                Err(error) => last = error.to_string(),
            }
        }
        Err(last.into())
    }

    fn launch(binary: &Path, count: usize, flags: &[&str]) -> Outcome<Servers> {
        let folder = tempfile::tempdir()?;
        let ports = harness::ports::reserve(2 * count)?;
        let ports: Vec<(u16, u16)> = ports.chunks(2).map(|pair| (pair[0], pair[1])).collect();
        let pairs: Vec<String> = ports
            .iter()
            .enumerate()
            .map(|(number, (_, peer))| format!("m{number}=http://127.0.0.1:{peer}"))
            .collect();
        let initial = pairs.join(",");
        let mut members = Vec::new();
        for (number, ports) in ports.iter().enumerate() {
            let place = folder.path().join(format!("m{number}"));
            members.push(Server::launch(binary, &place, *ports, &initial, flags)?);
        }
        Ok(Servers {
            members,
            _folder: folder,
        })
    }

    async fn wait_until_led(&mut self) -> Outcome {
        let deadline = Instant::now() + READY_MAX;
        for server in &mut self.members {
            while !server.knows_a_leader().await {
                server.check_alive()?;
                if Instant::now() > deadline {
                    let seconds = READY_MAX.as_secs();
                    let log = server.last_lines();
                    return Err(format!("no leader after {seconds} s:\n{log}").into());
                }
                tokio::time::sleep(LOOK).await;
            }
        }
        Ok(())
    }

    /// Fails if a member has ended or one of its threads panicked.
    pub fn check(&mut self) -> Outcome {
        for server in &mut self.members {
            server.check_alive()?;
            let log = std::fs::read_to_string(&server.log)?;
            if let Some(line) = log.lines().find(|line| line.contains("panicked")) {
                return Err(format!("a thread of a member panicked: {line}").into());
            }
        }
        Ok(())
    }

    /// The only member, or the first of several.
    pub fn first(&self) -> &Server {
        &self.members[0]
    }

    /// The most memory that any member has in RAM now.
    pub fn resident_bytes(&self) -> Outcome<u64> {
        let each = self.members.iter().map(Server::resident_bytes);
        Ok(each
            .collect::<Outcome<Vec<_>>>()?
            .into_iter()
            .max()
            .unwrap_or(0))
    }

    /// The most files that any member has open now.
    pub fn open_files(&self) -> Outcome<u64> {
        let each = self.members.iter().map(Server::open_files);
        Ok(each
            .collect::<Outcome<Vec<_>>>()?
            .into_iter()
            .max()
            .unwrap_or(0))
    }
}

impl Server {
    fn launch(
        binary: &Path,
        place: &Path,
        (client_port, peer_port): (u16, u16),
        initial: &str,
        flags: &[&str],
    ) -> Outcome<Server> {
        let name = place.file_name().unwrap_or_default().to_string_lossy();
        let log = place.with_extension("log");
        let words = File::create(&log)?;
        let client = format!("http://127.0.0.1:{client_port}");
        let peer = format!("http://127.0.0.1:{peer_port}");
        let is_etcd = binary.file_stem().is_some_and(|stem| stem == "etcd");
        let child = Command::new(binary)
            .args((!is_etcd).then_some("serve"))
            .arg(format!("--name={name}"))
            .arg(format!("--data-dir={}", place.display()))
            .arg(format!("--listen-client-urls={client}"))
            .arg(format!("--advertise-client-urls={client}"))
            .arg(format!("--listen-peer-urls={peer}"))
            .arg(format!("--initial-advertise-peer-urls={peer}"))
            .arg(format!("--initial-cluster={initial}"))
            .args(flags)
            .stdin(Stdio::null())
            .stdout(words.try_clone()?)
            .stderr(words)
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", binary.display()))?;
        Ok(Server {
            child,
            client_port,
            peer_port,
            log,
        })
    }

    /// Where clients connect, as `host:port`.
    pub fn client_address(&self) -> String {
        format!("127.0.0.1:{}", self.client_port)
    }

    /// Where other members connect, as `host:port`.
    pub fn peer_address(&self) -> String {
        format!("127.0.0.1:{}", self.peer_port)
    }

    /// The endpoint for client connections.
    pub fn endpoint(&self) -> Outcome<Endpoint> {
        Ok(Endpoint::from_shared(format!(
            "http://{}",
            self.client_address()
        ))?)
    }

    /// Opens a new connection.
    pub async fn channel(&self) -> Outcome<Channel> {
        Ok(self.endpoint()?.connect().await?)
    }

    /// The last lines of the member's log.
    pub fn last_lines(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
    }

    /// The most memory that the process ever had in RAM.
    pub fn resident_bytes_peak(&self) -> Outcome<u64> {
        self.memory("VmHWM:")
    }

    fn resident_bytes(&self) -> Outcome<u64> {
        self.memory("VmRSS:")
    }

    fn memory(&self, label: &str) -> Outcome<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix(label));
        let number = line.and_then(|line| line.split_whitespace().next());
        let kibibytes: u64 = number.ok_or("no memory in /proc/PID/status")?.parse()?;
        Ok(kibibytes * 1024)
    }

    fn open_files(&self) -> Outcome<u64> {
        let files = std::fs::read_dir(format!("/proc/{}/fd", self.child.id()))?;
        Ok(files.count() as u64)
    }

    fn check_alive(&mut self) -> Outcome {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => {
                let log = self.last_lines();
                Err(format!("a member ended with {status}; the end of its log:\n{log}").into())
            }
        }
    }

    async fn knows_a_leader(&self) -> bool {
        let Ok(channel) = self.channel().await else {
            return false;
        };
        let mut client = MaintenanceClient::new(channel);
        let status = client.status(StatusRequest::default()).await;
        status.is_ok_and(|status| status.into_inner().leader != 0)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
