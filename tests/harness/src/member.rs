//! One member: where it keeps its data and listens, and its process.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::Signal;

use crate::{Outcome, Program, ServerProcess, page, ports, wait_for};

/// Time limit for a start on a busy machine; the recovery of a large log takes long.
const READY_MAX: Duration = Duration::from_secs(120);
/// The port is chosen by the system.
const ANY_PORT: &str = "127.0.0.1:0";

/// Name, directory and addresses of a member, and the cluster that it begins or joins.
/// Addresses are `host:port`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberConfig {
    pub name: String,
    pub data: PathBuf,
    /// File to which each process appends its output.
    pub log: PathBuf,
    /// Where it listens for clients. With port 0 the system chooses the port at each start.
    pub client: String,
    /// Where it listens for other members. Empty: no flag says so, and an Inkstone that is
    /// alone listens for none.
    pub peer: String,
    /// Where other members connect: `peer`, or a proxy before it.
    pub advertised_peer: String,
    /// `name=url` of each member; empty for a member that is alone.
    pub initial_cluster: String,
    /// Whether the cluster runs already, and the member joins it.
    pub joins: bool,
    /// TLS for clients and members; without it there is none.
    pub secure: Option<SecureConfig>,
}

/// TLS of a member, with etcd's flags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecureConfig {
    /// Directory with `ca.pem`, `server.pem` and `server.key`.
    pub certificates: PathBuf,
    /// Where it serves its metrics, without TLS.
    pub metrics: String,
}

impl MemberConfig {
    /// A member that is alone, listens for clients only, at a port that the system chooses, and
    /// keeps `name` and `name.log` in `directory`.
    pub fn alone(name: &str, directory: &Path) -> MemberConfig {
        MemberConfig {
            name: name.to_owned(),
            data: directory.join(name),
            log: directory.join(format!("{name}.log")),
            client: ANY_PORT.to_owned(),
            ..MemberConfig::default()
        }
    }

    /// A member with reserved ports for clients and for other members.
    pub fn on_reserved_ports(name: &str, directory: &Path) -> Outcome<MemberConfig> {
        let ports = ports::reserve(2)?;
        Ok(MemberConfig::on_ports(
            name,
            directory,
            [ports[0], ports[1]],
        ))
    }

    /// A member of a cluster on a port for clients and one for members.
    pub fn on_ports(name: &str, directory: &Path, [client, peer]: [u16; 2]) -> MemberConfig {
        let peer = format!("127.0.0.1:{peer}");
        MemberConfig {
            client: format!("127.0.0.1:{client}"),
            advertised_peer: peer.clone(),
            peer,
            ..MemberConfig::alone(name, directory)
        }
    }

    pub fn peer_url(&self) -> String {
        format!("{}://{}", self.scheme(), self.advertised_peer)
    }

    /// `http`, or `https` with TLS.
    pub fn scheme(&self) -> &'static str {
        match self.secure {
            Some(_) => "https",
            None => "http",
        }
    }

    /// Gives the member TLS with the files in `certificates`, and its metrics a port without it.
    pub fn secure(&mut self, certificates: &Path) -> Outcome {
        self.secure = Some(SecureConfig {
            certificates: certificates.to_owned(),
            metrics: format!("127.0.0.1:{}", ports::reserve_one()?),
        });
        Ok(())
    }

    /// The flags for these settings, equal for Inkstone and etcd.
    pub fn flags(&self) -> Vec<String> {
        let (client, scheme) = (&self.client, self.scheme());
        let mut flags = vec![
            format!("--name={}", self.name),
            format!("--data-dir={}", self.data.display()),
            format!("--listen-client-urls={scheme}://{client}"),
            format!("--advertise-client-urls={scheme}://{client}"),
        ];
        if !self.peer.is_empty() {
            flags.push(format!("--listen-peer-urls={scheme}://{}", self.peer));
            let advertised = self.peer_url();
            flags.push(format!("--initial-advertise-peer-urls={advertised}"));
        }
        if !self.initial_cluster.is_empty() {
            flags.push(format!("--initial-cluster={}", self.initial_cluster));
        }
        if self.joins {
            flags.push("--initial-cluster-state=existing".to_owned());
        }
        let secure = self.secure.as_ref().map(SecureConfig::flags);
        flags.extend(secure.unwrap_or_default());
        flags
    }
}

impl SecureConfig {
    fn flags(&self) -> Vec<String> {
        let file = |name| self.certificates.join(name).display().to_string();
        vec![
            format!("--cert-file={}", file("server.pem")),
            format!("--key-file={}", file("server.key")),
            format!("--peer-cert-file={}", file("server.pem")),
            format!("--peer-key-file={}", file("server.key")),
            format!("--peer-trusted-ca-file={}", file("ca.pem")),
            "--peer-client-cert-auth".to_owned(),
            format!("--listen-metrics-urls=http://{}", self.metrics),
        ]
    }
}

/// The members as `--initial-cluster` lists them.
pub fn initial_cluster<'a>(members: impl IntoIterator<Item = &'a MemberConfig>) -> String {
    let members = members.into_iter();
    let pairs = members.map(|member| format!("{}={}", member.name, member.peer_url()));
    pairs.collect::<Vec<_>>().join(",")
}

/// A member, with or without a process.
#[derive(Debug)]
pub struct Member {
    pub program: Program,
    pub config: MemberConfig,
    process: Option<ServerProcess>,
    /// Where clients connect, or connected to the process before. If the system chooses the
    /// port, it is known once the member is ready.
    client: Option<String>,
}

impl Member {
    /// A member that is not started yet.
    pub fn new(program: Program, config: MemberConfig) -> Member {
        Member {
            program,
            config,
            process: None,
            client: None,
        }
    }

    /// Starts a member that is alone in `directory`, and waits until it is ready.
    pub fn alone(program: Program, directory: &Path) -> Outcome<Member> {
        let mut config = MemberConfig::alone("alone", directory);
        if program.is_etcd() {
            // Its default is a fixed port.
            config.peer = ANY_PORT.to_owned();
            config.advertised_peer = ANY_PORT.to_owned();
            config.initial_cluster = initial_cluster([&config]);
        }
        let mut member = Member::new(program, config);
        member.start_and_wait()?;
        Ok(member)
    }

    /// Starts a process. None may run.
    pub fn start(&mut self) -> Outcome {
        assert!(!self.is_running(), "{} runs already", self.config.name);
        let command = self.program.command(&self.config);
        self.process = Some(ServerProcess::spawn(command, &self.config.log)?);
        if !self.has_chosen_port() {
            self.client = Some(self.config.client.clone());
        }
        Ok(())
    }

    /// Whether the system chooses the port for clients.
    fn has_chosen_port(&self) -> bool {
        self.config.client.ends_with(":0")
    }

    /// Starts a process and waits until it is ready.
    pub fn start_and_wait(&mut self) -> Outcome {
        self.start()?;
        self.wait_until_ready()
    }

    /// Waits until the member serves clients, for which its cluster must have a leader.
    pub fn wait_until_ready(&mut self) -> Outcome {
        if self.has_chosen_port() {
            let process = self.process()?;
            process.wait_for_line("ready to serve client requests")?;
            // etcd says afterwards where it listens.
            process.wait_for_line("serving client traffic")?;
            self.client = Some(logged_address(process, "serving client traffic")?);
            return Ok(());
        }
        let metrics = self.metrics_address().to_owned();
        let process = self.process()?;
        let ready = wait_for("the server is ready", READY_MAX, || {
            process.check_running()?;
            Ok(shows(&metrics, "etcd_server_has_leader").then_some(()))
        });
        ready.map_err(|error| process.error(&error.to_string()))
    }

    /// Starts a process that must end by itself; returns its exit status and its log.
    pub fn refused_start(&mut self) -> Outcome<(ExitStatus, String)> {
        self.start()?;
        let process = self.process()?;
        let status = process.wait_for_end()?;
        Ok((status, process.log()))
    }

    /// The process, which may have ended; an error if none was started.
    pub fn process(&mut self) -> Outcome<&mut ServerProcess> {
        let name = &self.config.name;
        let process = self.process.as_mut();
        process.ok_or_else(|| format!("{name} has no process").into())
    }

    /// The process, which is no longer this member's.
    pub fn take_process(&mut self) -> Option<ServerProcess> {
        self.process.take()
    }

    pub fn is_running(&mut self) -> bool {
        let process = self.process.as_mut();
        process.is_some_and(|process| matches!(process.status(), Ok(None)))
    }

    /// Exit status of a process that has ended; `None` while one runs and if there is none.
    pub fn status(&mut self) -> Outcome<Option<ExitStatus>> {
        self.process.as_mut().map_or(Ok(None), |it| it.status())
    }

    /// Id of the process that was started last.
    pub fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(ServerProcess::pid)
    }

    /// Sends SIGKILL and waits for the end. Does nothing if no process runs.
    pub fn kill(&mut self) -> Outcome {
        self.process.as_mut().map_or(Ok(()), ServerProcess::kill)
    }

    /// Sends SIGTERM and waits for the end.
    pub fn stop(&mut self) -> Outcome<ExitStatus> {
        self.process()?.stop()
    }

    /// Sends a signal to the process, which must run.
    pub fn signal(&mut self, signal: Signal) -> Outcome {
        self.process()?.signal(signal)
    }

    /// The last lines of the log of the process that was started last.
    pub fn last_lines(&self) -> String {
        let process = self.process.as_ref();
        process.map(ServerProcess::last_lines).unwrap_or_default()
    }

    /// Where clients connect, as `host:port`. If the system chooses the port, the member must
    /// have been ready.
    pub fn client_address(&self) -> &str {
        let name = &self.config.name;
        let address = self.client.as_deref();
        address.unwrap_or_else(|| panic!("{name} has not said where it listens"))
    }

    /// [`Member::client_address`] as a URL.
    pub fn client_url(&self) -> String {
        format!("{}://{}", self.config.scheme(), self.client_address())
    }

    /// Where the member serves its metrics without TLS, as `host:port`.
    pub fn metrics_address(&self) -> &str {
        match &self.config.secure {
            Some(secure) => &secure.metrics,
            None => self.client_address(),
        }
    }

    /// Where the running process listens for other members, as `host:port`, by its log.
    pub fn logged_peer_address(&mut self) -> Outcome<String> {
        logged_address(self.process()?, "serving peer traffic")
    }

    /// Whether the member leads its cluster. False if it does not answer.
    pub fn leads(&self) -> bool {
        shows(self.metrics_address(), "etcd_server_is_leader")
    }

    /// Removes the member's data. No process may run.
    pub fn remove_data(&mut self) -> Outcome {
        assert!(!self.is_running(), "{} runs", self.config.name);
        match std::fs::remove_dir_all(&self.config.data) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => Ok(removed?),
        }
    }
}

/// Whether a metric is 1. Unlike the pages about health, metrics write no lines to the log.
fn shows(address: &str, metric: &str) -> bool {
    matches!(page::metric(address, metric), Ok(Some(1.0)))
}

/// The address in the line of the log that contains `text`.
fn logged_address(process: &ServerProcess, text: &str) -> Outcome<String> {
    let line = process.line_with(text);
    let address = line.as_deref().and_then(address_in);
    let missing = || process.error(&format!("no address is logged by `{text}`"));
    Ok(address.ok_or_else(missing)?.to_owned())
}

/// The address in a line of a server's log, which is a JSON object. etcd logs an address,
/// Inkstone the URL of an address for members.
fn address_in(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("\"address\":\"")?;
    let (address, _) = rest.split_once('"')?;
    Some(address.split_once("://").map_or(address, |(_, host)| host))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_of_a_cluster_has_the_flags_of_one() {
        let mut config = MemberConfig::on_reserved_ports("a", Path::new("/d")).unwrap();
        config.advertised_peer = "127.0.0.1:1".to_owned();
        config.initial_cluster = initial_cluster([&config]);
        config.joins = true;
        let flags = config.flags();
        for flag in [
            "--data-dir=/d/a",
            "--initial-advertise-peer-urls=http://127.0.0.1:1",
            "--initial-cluster=a=http://127.0.0.1:1",
            "--initial-cluster-state=existing",
        ] {
            assert!(flags.iter().any(|it| it == flag), "{flag} in {flags:?}");
        }
        let alone = MemberConfig::alone("a", Path::new("/d")).flags();
        assert!(!alone.iter().any(|flag| flag.contains("peer")), "{alone:?}");
    }

    #[test]
    fn a_secure_member_has_https_addresses_and_plain_metrics() {
        let mut config = MemberConfig::on_reserved_ports("a", Path::new("/d")).unwrap();
        config.secure(Path::new("/c")).unwrap();
        assert!(config.peer_url().starts_with("https://"));
        let flags = config.flags();
        assert!(flags.iter().any(|flag| flag == "--cert-file=/c/server.pem"));
        let metrics = |flag: &&String| flag.starts_with("--listen-metrics-urls=http://");
        assert_eq!(flags.iter().filter(metrics).count(), 1, "{flags:?}");
    }

    #[test]
    fn the_address_is_read_from_a_line_of_the_log() {
        let line = r#"{"msg":"serving","traffic":"grpc","address":"127.0.0.1:7","x":1}"#;
        assert_eq!(address_in(line), Some("127.0.0.1:7"));
        assert_eq!(
            address_in(r#"{"address":"http://[::1]:7"}"#),
            Some("[::1]:7")
        );
        assert_eq!(address_in("address 7"), None);
    }
}
