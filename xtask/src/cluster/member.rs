//! One member as a child process.

use std::{
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::Child,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use tokio::{net::TcpStream, time::timeout};

use crate::{
    member_command::{MemberCommand, last_lines},
    process::Outcome,
};

use super::layout::Layout;

/// Time limit for an answer of a ready server.
const ANSWER_PATIENCE: Duration = Duration::from_secs(2);
/// Lines of a log that are shown after its member has ended.
const LOG_LINES: usize = 8;

pub struct Member {
    pub name: &'static str,
    /// Client address, as `host:port`.
    pub client: String,
    peer: String,
    data: PathBuf,
    pub log: PathBuf,
    initial_cluster: String,
    pub binary: PathBuf,
    flags: Vec<String>,
    child: Option<Child>,
    /// The process was asked to end.
    stopping: bool,
}

impl Member {
    pub fn new(layout: &Layout, number: usize, binary: &Path, flags: &[String]) -> Member {
        let name = layout.name(number);
        let data = layout.directory.join(name);
        let (client, peer) = (layout.client(number), layout.peer(number));
        Member {
            name,
            client,
            peer,
            log: data.with_extension("log"),
            data,
            initial_cluster: layout.initial_cluster(),
            binary: binary.to_owned(),
            flags: flags.to_vec(),
            child: None,
            stopping: false,
        }
    }

    /// Starts the process in its own process group, so that Ctrl-C reaches only the caller, which
    /// then stops the members.
    pub fn start(&mut self) -> Outcome {
        let member = MemberCommand {
            binary: &self.binary,
            name: self.name,
            data: &self.data,
            log: &self.log,
            client: &self.client,
            peer: &self.peer,
            advertised_peer: &self.peer,
            initial_cluster: &self.initial_cluster,
        };
        let child = member
            .command()?
            .arg("--initial-cluster-token=xtask-cluster")
            .args(&self.flags)
            .process_group(0)
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", self.binary.display()))?;
        (self.child, self.stopping) = (Some(child), false);
        Ok(())
    }

    pub fn is_running(&self) -> bool {
        self.child.is_some()
    }

    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Sends SIGTERM; a leader then hands the lead over.
    pub fn ask_to_stop(&mut self) -> Outcome {
        self.stopping = true;
        self.signal(Signal::TERM)
    }

    /// Sends SIGKILL.
    pub fn kill(&mut self) -> Outcome {
        self.signal(Signal::KILL)
    }

    fn signal(&self, signal: Signal) -> Outcome {
        if let Some(child) = &self.child {
            kill_process(Pid::from_child(child), signal)?;
        }
        Ok(())
    }

    /// A message for a member that has ended since the last call.
    pub fn has_ended(&mut self) -> Outcome<Option<String>> {
        let Some(child) = &mut self.child else {
            return Ok(None);
        };
        let Some(status) = child.try_wait()? else {
            return Ok(None);
        };
        self.child = None;
        if self.stopping && status.success() {
            return Ok(Some(format!("{} has stopped", self.name)));
        }
        let last = last_lines(&self.log, LOG_LINES);
        Ok(Some(format!(
            "{} has ended with {status}; the last lines of {}:\n  {}",
            self.name,
            self.log.display(),
            last.replace('\n', "\n  ")
        )))
    }

    /// Whether the member has a leader and serves.
    pub async fn is_ready(&self) -> bool {
        let page = timeout(ANSWER_PATIENCE, page(&self.client, "/readyz")).await;
        matches!(page, Ok(Ok(text)) if text.starts_with("HTTP/1.1 200"))
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // Already gone is fine: the point is that nothing is left running.
            drop(child.kill());
            drop(child.wait());
        }
    }
}

/// A page of a server, with its head.
async fn page(address: &str, path: &str) -> std::io::Result<String> {
    let stream = TcpStream::connect(address).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    let mut request = request.as_bytes();
    while !request.is_empty() {
        stream.writable().await?;
        match stream.try_write(request) {
            Ok(written) => request = &request[written..],
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    let mut answer = Vec::new();
    loop {
        stream.readable().await?;
        match stream.try_read_buf(&mut answer) {
            Ok(0) => return Ok(String::from_utf8_lossy(&answer).into_owned()),
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}
