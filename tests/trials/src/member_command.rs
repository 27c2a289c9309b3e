//! Command line of a member, Inkstone or etcd, with the same flags.

use std::{
    fs::File,
    path::Path,
    process::{Command, Stdio},
};

use crate::process::Outcome;

/// Name, addresses and initial cluster of a member.
pub struct MemberCommand<'a> {
    pub binary: &'a Path,
    pub name: &'a str,
    pub data: &'a Path,
    /// Log file, to which the process appends.
    pub log: &'a Path,
    /// Client address as `host:port`, like the other addresses.
    pub client: &'a str,
    /// Address where it listens for other members.
    pub peer: &'a str,
    /// Address to which they connect, which may be a proxy.
    pub advertised_peer: &'a str,
    pub initial_cluster: &'a str,
}

impl MemberCommand<'_> {
    /// Whether the binary is etcd, by its file name. Inkstone takes a verb before the flags, etcd
    /// does not.
    pub fn is_etcd(&self) -> bool {
        self.binary.file_stem().is_some_and(|stem| stem == "etcd")
    }

    /// The command, to which the caller may add flags.
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
