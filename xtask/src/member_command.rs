//! How a member of any cluster here is started: ours or etcd, told the same flags.

use std::{
    fs::File,
    path::Path,
    process::{Command, Stdio},
};

use crate::process::Outcome;

/// Who a member is, where it listens, and with whom it begins.
pub struct MemberCommand<'a> {
    pub binary: &'a Path,
    pub name: &'a str,
    pub data: &'a Path,
    /// Where its own words go, behind those of earlier processes.
    pub log: &'a Path,
    /// `host:port`, as the others.
    pub client: &'a str,
    /// Where it listens for other members.
    pub peer: &'a str,
    /// Where they connect, which a proxy may be.
    pub advertised_peer: &'a str,
    pub initial_cluster: &'a str,
}

impl MemberCommand<'_> {
    /// Ours takes a verb before the flags; etcd, told by its file's name, takes none.
    pub fn is_etcd(&self) -> bool {
        self.binary.file_stem().is_some_and(|stem| stem == "etcd")
    }

    /// More flags may follow.
    pub fn command(&self) -> Outcome<Command> {
        let log = File::options().create(true).append(true).open(self.log)?;
        let MemberCommand { client, peer, .. } = self;
        let mut command = Command::new(self.binary);
        command
            .args((!self.is_etcd()).then_some("serve"))
            .arg(format!("--name={}", self.name))
            .arg(format!("--data-dir={}", self.data.display()))
            .arg(format!("--listen-client-urls=http://{client}"))
            .arg(format!("--advertise-client-urls=http://{client}"))
            .arg(format!("--listen-peer-urls=http://{peer}"))
            .arg(format!(
                "--initial-advertise-peer-urls=http://{}",
                self.advertised_peer
            ))
            .arg(format!("--initial-cluster={}", self.initial_cluster))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        Ok(command)
    }
}

/// The end of a log, to show why its process ended.
pub fn last_lines(log: &Path, many: usize) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(many)..].join("\n")
}
