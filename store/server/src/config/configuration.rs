//! The values of the configuration.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use auth::COST_DEFAULT;
use cluster::{Durability, NodeOptions, PeerSecret};

use super::error::Error;
use super::gates::{COMPACT_HASH_CHECK, FeatureGates, INITIAL_CORRUPT_CHECK};
use super::urls::{Address, ChosenPort, Url};
use crate::tokens::Tokens;

/// A checked configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// Human-readable name of this member.
    pub name: String,
    /// Options of the node: its directory, limits, elections and durability. Those of
    /// elections have no effect on a member that is alone, but the election timeout also sets
    /// the timeout of requests and the shortest lease, as in etcd.
    pub node: NodeOptions,
    pub addresses: Addresses,
    pub cluster: Cluster,
    pub tls: Tls,
    pub clients: Clients,
    pub users: UserConfig,
    pub http: Http,
    pub corruption: CorruptionChecks,
    /// Automatic compaction; `None` if it is off.
    pub auto_compaction: Option<AutoCompaction>,
    /// When a write counts as done; `node` says the same in its terms.
    pub durability: Durability,
    /// Where and how to log.
    pub log: LogConfig,
    /// Whether the memory of the process is kept out of swap.
    pub locks_memory: bool,
    /// Warnings about the configuration, to be logged.
    pub warnings: Vec<String>,
    /// Further warnings, which apply only to a member that is alone in its cluster.
    pub warnings_alone: Vec<String>,
}

/// Where the server listens, and where others find it.
#[derive(Clone, Debug, Default)]
pub struct Addresses {
    /// Addresses that serve gRPC, and HTTP unless `listen_client_http` is set.
    pub listen_client: Vec<Url>,
    /// Separate addresses for HTTP; empty for the same as gRPC's.
    pub listen_client_http: Vec<Url>,
    /// Additional addresses for metrics and health.
    pub listen_metrics: Vec<Url>,
    /// Addresses at which this member accepts other members.
    pub listen_peer: Vec<Url>,
    /// Whether `listen_peer` was set: then a member that begins alone listens there, too,
    /// so that others can join it.
    pub awaits_peers: bool,
    /// Client URLs shown in the member list.
    pub advertise_client: Vec<Url>,
    /// Peer URLs shown in the member list; part of the identity.
    pub advertise_peer: Vec<Url>,
    /// `advertise_peer` if the flag was given, else empty: every start announces these URLs
    /// to the members that it connects to.
    pub announced_peer: Vec<Url>,
    /// Whether another process may listen on the same port.
    pub share_port: bool,
    /// Whether members are to be reached from an announced address.
    pub connects_from_advertised: bool,
}

impl Addresses {
    /// The address that this member connects to others from: by etcd's rule the first announced
    /// one that is a number, neither of the loopback nor of all interfaces. `None`: the system
    /// chooses.
    pub fn local(&self) -> Option<IpAddr> {
        let urls = self.advertise_peer.iter();
        let numbers = urls.filter_map(|url| match url.address() {
            Address::Tcp { host, .. } => host.parse().ok(),
            Address::Unix { .. } => None,
        });
        let mut suitable = numbers.filter(|it: &IpAddr| !it.is_loopback() && !it.is_unspecified());
        suitable.next().filter(|_| self.connects_from_advertised)
    }
}

/// The cluster of this member.
#[derive(Clone, Debug, Default)]
pub struct Cluster {
    /// The members that a new cluster starts with, ascending by name: this one
    /// is among them unless `cannot_begin` says otherwise.
    pub founders: Vec<Founder>,
    /// Whether the members run already and this one joins them.
    pub joins: bool,
    /// How the members are found, if no flag lists them.
    pub discovery: Discovery,
    /// Token of the cluster; part of the identity.
    pub token: String,
    /// Why a new store cannot begin with these flags; `None` if it can. An existing store
    /// knows its cluster and ignores them.
    pub cannot_begin: Option<Error>,
    /// Secret shared by all members. Both sides of each connection between members prove
    /// that they know it.
    pub peer_secret: Option<PeerSecret>,
    /// Whether changes of the membership are refused while too few members are up. The member
    /// that a client asks checks it, as in etcd.
    pub strict_reconfiguration: bool,
}

/// TLS with clients and with other members.
#[derive(Clone, Debug, Default)]
pub struct Tls {
    pub client: TlsSide,
    pub peer: TlsSide,
    /// Years for which a self-signed certificate is valid.
    pub self_signed_years: u64,
}

/// TLS of one kind of connection.
#[derive(Clone, Debug, Default)]
pub struct TlsSide {
    pub settings: tls::Settings,
    /// Whether the server makes its own certificate.
    pub is_automatic: bool,
}

impl TlsSide {
    /// Whether this server has a certificate to show.
    pub fn has_certificate(&self) -> bool {
        self.is_automatic || self.settings.pair.is_some()
    }
}

/// Life of our own tokens, and of signed ones, unless a flag says otherwise.
pub(super) const TTL_SECONDS: u64 = 300;

/// How users prove themselves.
#[derive(Clone, Debug)]
pub struct UserConfig {
    pub(crate) tokens: Arc<Tokens>,
    /// Two to this power are the rounds of bcrypt.
    pub(crate) bcrypt_cost: u32,
}

impl Default for UserConfig {
    fn default() -> UserConfig {
        UserConfig {
            tokens: Arc::new(Tokens::Simple {
                ttl_seconds: TTL_SECONDS,
            }),
            bcrypt_cost: COST_DEFAULT,
        }
    }
}

/// How the members of a new cluster are found.
#[derive(Clone, Debug, Default)]
pub struct Discovery {
    /// Domain with the SRV records that name the members; empty for none.
    pub srv_domain: String,
    /// Suffix of the service in these records; empty for none.
    pub srv_name: String,
    /// Another cluster that knows the members; `None` for none.
    pub registry: Option<Registry>,
}

/// Another cluster that knows the members of a new one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registry {
    /// Name of the new cluster there, and part of its members' identities.
    pub token: String,
    /// `http://host:port` or `https://host:port`, tried in turn.
    pub endpoints: Vec<String>,
    /// Time limit of a connection.
    pub dial_timeout: Duration,
    /// Time limit of an answer.
    pub request_timeout: Duration,
    /// Time between pings.
    pub keepalive_interval: Duration,
    /// Time limit for the answer to a ping.
    pub keepalive_timeout: Duration,
    /// The user there; `None` for none.
    pub login: Option<Login>,
    /// TLS of `https://` endpoints.
    pub tls: tls::Settings,
}

/// A user and its password. Printing it shows neither.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    pub(crate) user: String,
    pub(crate) password: String,
}

impl fmt::Debug for Login {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Login")
    }
}

/// How clients are served.
#[derive(Clone, Debug, Default)]
pub struct Clients {
    /// Requests one connection may have open.
    pub concurrent_streams_max: u32,
    /// Time between the server's pings; `None` for no pings.
    pub keepalive_interval: Option<Duration>,
    /// Time limit for a client's answer to a ping.
    pub keepalive_timeout: Duration,
    /// Shortest time between the pings of a client that has a call open.
    pub ping_interval_min: Duration,
    /// Time between progress notices to quiet watches.
    pub watch_progress_interval: Duration,
    /// A unary request that takes longer is logged.
    pub slow_request: Duration,
    /// A command that takes longer to evaluate is logged.
    pub slow_evaluation: Duration,
    /// A call that occupies its core for longer is logged.
    pub long_turn: Duration,
    /// Distributed tracing of calls; `None` if it is off.
    pub traces: Option<Traces>,
}

/// Where the spans of requests go, and which requests are recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traces {
    /// `host:port` of a collector that speaks OTLP over gRPC without TLS.
    pub address: String,
    /// Name of this service, the same for all members.
    pub service: String,
    /// Name of this member among them; empty for none.
    pub instance: String,
    /// Recorded requests, of a million that do not belong to a trace of their client's.
    pub per_million: u32,
}

/// When members compare HashKV, as in etcd.
#[derive(Clone, Debug, Default)]
pub struct CorruptionChecks {
    /// etcd's gates, two of which switch such checks.
    pub gates: FeatureGates,
    /// Time between two comparisons at the leader's newest revision; zero for none.
    pub interval: Duration,
    /// Time between two comparisons at compacted revisions.
    pub compacted_interval: Duration,
}

impl CorruptionChecks {
    /// Whether a member that starts compares its state before it serves clients.
    pub fn at_the_start(&self) -> bool {
        self.gates.is_open(INITIAL_CORRUPT_CHECK)
    }

    /// Whether compacted revisions are compared.
    pub fn after_compactions(&self) -> bool {
        self.gates.is_open(COMPACT_HASH_CHECK)
    }
}

/// Settings of the HTTP endpoints.
#[derive(Clone, Debug, Default)]
pub struct Http {
    /// Whether `/v3/*` is served as JSON.
    pub gateway: bool,
    /// Whether the page at `/ui` is served; it needs the gateway.
    pub page: bool,
    /// Whether profiles are served.
    pub profiles: bool,
    /// Whether the time of every call is measured, streams included.
    pub metrics_extensive: bool,
    /// Origins that browsers may call from; empty for all.
    pub origins: Vec<String>,
    /// Host names that HTTP clients may ask for; empty for all.
    pub hosts: Vec<String>,
    /// Whether the pseudo-header fields of each HTTP/2 request are printed.
    pub prints_requests: bool,
}

impl Config {
    /// The values before any flag is read; each flag then sets its own, or its default.
    pub(super) fn unset() -> Config {
        Config {
            name: String::new(),
            node: NodeOptions::new(""),
            addresses: Addresses::default(),
            cluster: Cluster::default(),
            tls: Tls::default(),
            clients: Clients::default(),
            users: UserConfig::default(),
            http: Http::default(),
            corruption: CorruptionChecks::default(),
            auto_compaction: None,
            durability: Durability::default(),
            log: LogConfig::default(),
            locks_memory: false,
            warnings: Vec::new(),
            warnings_alone: Vec::new(),
        }
    }

    /// Longest time that a request waits for its answer: 5 s and two election timeouts.
    pub fn request_timeout(&self) -> Duration {
        Duration::from_secs(5) + 2 * self.node.replica.election_timeout
    }

    /// Largest message that the server reads.
    pub fn message_bytes_max(&self) -> usize {
        let request_bytes_max = self.node.replica.command_limits.request_bytes_max;
        request_bytes_max.saturating_add(512 * 1024)
    }

    /// Whether a flag or a URL asks for TLS between members.
    pub fn members_use_tls(&self) -> bool {
        let founders = self.cluster.founders.iter();
        let urls = founders.flat_map(|founder| &founder.peer_urls);
        let addresses = &self.addresses;
        let urls = urls
            .chain(&addresses.listen_peer)
            .chain(&addresses.advertise_peer);
        let peer = &self.tls.peer;
        peer.has_certificate()
            || peer.settings.trusted.is_some()
            || urls.into_iter().any(Url::is_secure)
    }

    /// Advertises the ports that the system chose instead of port 0 to clients.
    pub(crate) fn fill_client_ports(&mut self, chosen: &[ChosenPort]) {
        fill_ports(&mut self.addresses.advertise_client, chosen);
    }

    /// The same for URLs of members, and for the URLs at which this one listens.
    pub(crate) fn fill_peer_ports(&mut self, chosen: &[ChosenPort]) {
        let founders = self.cluster.founders.iter_mut();
        let own = founders.filter(|founder| founder.name == self.name);
        let own = own.map(|founder| &mut founder.peer_urls);
        [
            &mut self.addresses.listen_peer,
            &mut self.addresses.advertise_peer,
            &mut self.addresses.announced_peer,
        ]
        .into_iter()
        .chain(own)
        .for_each(|urls| fill_ports(urls, chosen));
    }
}

fn fill_ports(urls: &mut [Url], chosen: &[ChosenPort]) {
    for url in urls.iter_mut() {
        *url = url.with_chosen_port(chosen);
    }
    urls.sort();
}

/// History that automatic compaction keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AutoCompaction {
    /// Keep the history of this time.
    Periodic(Duration),
    /// Keep this many revisions.
    Revision(i64),
}

/// Where and how to log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// Least severe level that is written.
    pub level: tracing::Level,
    /// Shape of a line.
    pub format: LogFormat,
    /// Destinations; every line goes to each of them.
    pub outputs: Vec<LogOutput>,
}

impl Default for LogConfig {
    fn default() -> LogConfig {
        LogConfig {
            level: tracing::Level::INFO,
            format: LogFormat::Json,
            outputs: Vec::new(),
        }
    }
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
    /// Appended to a file that is renamed when it is full.
    Rotating(PathBuf, LogRotation),
}

/// When a log file is renamed, and which renamed files are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogRotation {
    /// A line that would make the file longer goes into a new one.
    pub bytes_max: u64,
    /// Renamed files that are older are removed; `None` keeps them.
    pub age_max: Option<Duration>,
    /// Most renamed files; `None` keeps all.
    pub backups_max: Option<usize>,
    /// Whether renamed files are compressed.
    pub compress: bool,
}

/// A member that the cluster starts with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Founder {
    pub name: String,
    /// URLs at which other members reach it: sorted, at least one.
    pub peer_urls: Vec<Url>,
}
