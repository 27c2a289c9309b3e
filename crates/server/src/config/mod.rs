//! What the server is told: flags, variables, a file.
//!
//! ```text
//!   default  <  ETCD_* variable  <  flag          without a file
//!   default  <  key in the file                   with --config-file
//! ```
//!
//! Everything is first gathered as text by name ([`gather`]), then read and
//! checked in one place ([`settings`]); a [`Config`] that exists can be
//! served.

mod arguments;
mod durability;
mod error;
mod file;
mod flags;
mod founders;
mod gather;
mod help;
mod peer_secret;
mod settings;
mod suggest;
mod urls;
mod values;

use std::path::PathBuf;
use std::time::Duration;

use cluster::PeerSecret;

pub use cluster::ReadMode;
pub use durability::Durability;
pub use error::Error;
pub use founders::Founder;
pub use gather::{Surroundings, resolve};
pub use urls::{Place, Url};

/// What a command line asks for.
#[derive(Debug)]
pub enum Request {
    /// Serve.
    Serve(Box<Config>),
    /// Print this text and leave.
    Help(String),
    /// Print the versions and leave.
    Version,
}

/// A configuration that has been checked.
#[derive(Clone, Debug)]
pub struct Config {
    /// Human-readable name of this member.
    pub name: String,
    /// Where the data lives.
    pub data_directory: PathBuf,
    /// Where clients reach gRPC, and HTTP unless `listen_client_http` is set.
    pub listen_client: Vec<Url>,
    /// Where clients reach HTTP apart from gRPC; empty for the same port.
    pub listen_client_http: Vec<Url>,
    /// Further addresses for metrics and health.
    pub listen_metrics: Vec<Url>,
    /// Where other members reach this one.
    pub listen_peer: Vec<Url>,
    /// Somebody said where: a member that begins alone listens there, too, so
    /// that others can join it.
    pub awaits_peers: bool,
    /// Client URLs shown in the member list.
    pub advertise_client: Vec<Url>,
    /// Peer URLs shown in the member list; part of the identity.
    pub advertise_peer: Vec<Url>,
    /// The same, if they were given and are not only the default: every start announces
    /// them to the members that it connects to.
    pub announced_peer: Vec<Url>,
    /// The members that a new cluster starts with, ascending by name: this one
    /// is among them unless `cannot_begin` says otherwise.
    pub founders: Vec<Founder>,
    /// The members run already, and this one joins them.
    pub joins: bool,
    /// Token of the cluster; part of the identity.
    pub cluster_token: String,
    /// Why a new store cannot begin with these flags, if it cannot. A store
    /// that exists knows its cluster and does not look at them.
    pub cannot_begin: Option<Error>,
    /// What all members know and no stranger does, to be proved at each connection
    /// between members.
    pub peer_secret: Option<PeerSecret>,
    /// Entries that the log keeps for members that are behind.
    pub entries_kept_max: usize,
    /// The same in bytes, whichever is less.
    pub bytes_kept_max: u64,
    /// Changes of the membership are refused while too few members are up.
    pub strict_reconfiguration: bool,
    /// Learners that a cluster takes at a time.
    pub learners_max: usize,
    /// Time between a leader's heartbeats.
    pub heartbeat_interval: Duration,
    /// Time without a leader before an election. Alone there is none, but
    /// requests and leases are given as much time as etcd gives them.
    pub election_timeout: Duration,
    /// Bytes the store may use before the alarm; `None` for no limit.
    pub quota_bytes: Option<u64>,
    /// Operations allowed in one transaction.
    pub txn_operations_max: usize,
    /// Bytes allowed in one request.
    pub request_bytes_max: usize,
    /// Requests one connection may have open.
    pub concurrent_streams_max: u32,
    /// Time between the server's pings; `None` for no pings.
    pub keepalive_interval: Option<Duration>,
    /// Time an answer to a ping may take.
    pub keepalive_timeout: Duration,
    /// Whether another process may listen on the same port.
    pub share_port: bool,
    /// Time between progress notices to quiet watches.
    pub watch_progress_interval: Duration,
    /// Requests that take longer are logged.
    pub slow_request: Duration,
    /// A call that holds its core for longer is logged.
    pub long_turn: Duration,
    /// Automatic compaction.
    pub auto_compaction: Option<AutoCompaction>,
    /// When a write counts as done.
    pub durability: Durability,
    /// Where the end of the log may be lost, what is left is all there is.
    pub accept_lost_tail: bool,
    /// How a leader makes sure of its lead before a linearizable read.
    pub read_mode: ReadMode,
    /// Size of a log segment.
    pub segment_bytes: u64,
    /// Memory that keys may take before writes are refused.
    pub memory_bytes_max: u64,
    /// Whether `/v3/*` is where the JSON gateway will be.
    pub gateway: bool,
    /// Whether the time of every call is measured, streams included.
    pub metrics_extensive: bool,
    /// Origins that browsers may call from; empty for all.
    pub origins: Vec<String>,
    /// Host names that HTTP clients may ask for; empty for all.
    pub hosts: Vec<String>,
    /// Where and how to log.
    pub log: LogConfig,
    /// What to say in the log about the configuration itself.
    pub warnings: Vec<String>,
    /// The same, for a member that is alone in its cluster.
    pub warnings_alone: Vec<String>,
}

impl Config {
    /// How long a request may wait for its answer: room for two elections.
    pub fn request_timeout(&self) -> Duration {
        Duration::from_secs(5) + 2 * self.election_timeout
    }

    /// Largest message that is read off the wire.
    pub fn message_bytes_max(&self) -> usize {
        self.request_bytes_max.saturating_add(512 * 1024)
    }
}

/// History that automatic compaction keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AutoCompaction {
    /// What happened within this time.
    Periodic(Duration),
    /// This many revisions.
    Revision(i64),
}

/// Where and how to log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// Least severe level that is written.
    pub level: tracing::Level,
    /// Shape of a line.
    pub format: LogFormat,
    /// Every line goes to each of them.
    pub outputs: Vec<LogOutput>,
}

/// Shape of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// One JSON object.
    Json,
    /// Columns separated by tabs.
    Console,
}

/// Where log lines go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogOutput {
    /// Standard error.
    Stderr,
    /// Standard output.
    Stdout,
    /// Appended to a file.
    File(PathBuf),
}

#[cfg(test)]
pub(crate) mod testing {
    //! Configurations for the tests of this crate.

    use super::{Config, Request, Surroundings, resolve};

    /// What these words ask for.
    pub(crate) fn config(words: &[&str]) -> Config {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let read_file = |_: &std::path::Path| Err("no files here".to_owned());
        match resolve(
            &words,
            &Surroundings {
                variables: &[],
                read_file: &read_file,
            },
        ) {
            Ok(Request::Serve(config)) => *config,
            other => panic!("expected a configuration, got {other:?}"),
        }
    }
}

#[cfg(test)]
mod tests;
