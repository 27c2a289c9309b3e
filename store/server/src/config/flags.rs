//! The table of all flags.
//!
//! All flags of etcd 3.7 are here, so that a manifest written for etcd is
//! understood word for word. Each flag is of one of three kinds:
//!
//! * **served**: it does what it does in etcd;
//! * **idle**: it is accepted and changes nothing, because what it tunes does
//!   not exist here; a value other than the default causes a warning;
//! * **later**: its feature does not exist yet; any value but the default
//!   is refused, because a server that starts without what it was asked for is
//!   worse than one that does not start.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use Support::{Idle, Later, Served};
use Value::{Boolean, Duration, Signed, Text, Unsigned, Urls};
use cluster::{ReadMode, Scrubbing};

use super::configuration::{Config, LogConfig, LogFormat, LogOutput};
use super::error::Error;
use super::gates::FeatureGates;
use super::urls::{self, Url, check_bind, check_host};
use super::{peer_secret, values};

/// Result of a setter; the error is the remedy for a value that cannot be used.
type Checked = Result<(), String>;

/// How the text of a flag is read, and where its value goes.
#[derive(Debug)]
pub(super) enum Value {
    /// Any text.
    Text(fn(&mut Config, &str) -> Checked),
    /// Go's booleans; the only kind that needs no value.
    Boolean(fn(&mut Config, bool)),
    /// A whole number, 0 or more.
    Unsigned(fn(&mut Config, u64) -> Checked),
    /// A whole number.
    Signed(fn(&mut Config, i64) -> Checked),
    /// Go's duration.
    Duration(fn(&mut Config, std::time::Duration)),
    /// Comma-separated URLs, with a check of each.
    Urls(
        fn(&'static str, &[Url]) -> Result<(), Error>,
        fn(&mut Config, Vec<Url>),
    ),
}

// Values that change nothing, or that are read together with others ([`super::settings`]).
const TEXT: Value = Text(|_, _| Ok(()));
const BOOLEAN: Value = Boolean(|_, _| {});
const UNSIGNED: Value = Unsigned(|_, _| Ok(()));
const SIGNED: Value = Signed(|_, _| Ok(()));
const DURATION: Value = Duration(|_, _| {});

/// Whether the server acts on a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Support {
    /// It does what it says.
    Served,
    /// Accepted without effect.
    Idle,
    /// Refused unless it holds its default.
    Later,
}

/// One flag.
#[derive(Debug)]
pub(super) struct Flag {
    /// Without dashes. The variable is `ETCD_` and this in capitals.
    pub(super) name: &'static str,
    pub(super) value: Value,
    /// Its value when no source sets it.
    pub(super) default: &'static str,
    pub(super) support: Support,
    /// Its effect, why it has none, or what is missing; a line for `--help`.
    pub(super) about: &'static str,
}

impl Flag {
    /// All flags, in the order of the help.
    pub(super) fn all() -> &'static [Flag] {
        TABLE
    }

    /// The flag called `name`.
    pub(super) fn named(name: &str) -> Option<&'static Flag> {
        TABLE.iter().find(|flag| flag.name == name)
    }

    pub(super) fn is_boolean(&self) -> bool {
        matches!(self.value, Boolean(_))
    }

    pub(super) fn is_duration(&self) -> bool {
        matches!(self.value, Duration(_))
    }

    /// Reads a text and stores the value in the configuration.
    pub(super) fn set(&self, config: &mut Config, text: &str) -> Result<(), Error> {
        let name = self.name;
        let checked = match self.value {
            Text(set) => set(config, text),
            Boolean(set) => {
                set(config, values::boolean(name, text)?);
                Ok(())
            }
            Unsigned(set) => set(config, values::unsigned(name, text)?),
            Signed(set) => set(config, values::signed(name, text)?),
            Duration(set) => {
                set(config, values::duration(name, text)?);
                Ok(())
            }
            Urls(check, set) => {
                let urls = urls::list(name, text)?;
                check(name, &urls)?;
                set(config, urls);
                Ok(())
            }
        };
        checked.map_err(|remedy| Error::bad(name, text, remedy))
    }

    /// Whether `text` means the flag's default.
    pub(super) fn is_default(&self, text: &str) -> Result<bool, Error> {
        let (name, default) = (self.name, self.default);
        if text == default {
            return Ok(true);
        }
        Ok(match self.value {
            Boolean(_) => values::boolean(name, text)? == values::boolean(name, default)?,
            Unsigned(_) => values::unsigned(name, text)? == values::unsigned(name, default)?,
            Signed(_) => values::signed(name, text)? == values::signed(name, default)?,
            Duration(_) => values::duration(name, text)? == values::duration(name, default)?,
            Text(_) | Urls(..) => text.is_empty(),
        })
    }

    /// The environment variable that holds it.
    pub(super) fn variable(&self) -> String {
        format!("ETCD_{}", self.name.to_uppercase().replace('-', "_"))
    }
}

const fn flag(
    support: Support,
    name: &'static str,
    value: Value,
    default: &'static str,
    about: &'static str,
) -> Flag {
    Flag {
        name,
        value,
        default,
        support,
        about,
    }
}

const ONE_STORE: &str = "the log is the database: there is no second store to flush";
const NO_SNAPSHOT_FILES: &str = "checkpoints are taken by the size of the log";
const MEMBERS_CONNECTIONS: &str = "connections between members have limits of their own";
const IN_MEMORY_COMPACTION: &str = "compaction works on the index in memory";

#[rustfmt::skip]
static TABLE: &[Flag] = &[
    // Member
    flag(Served, "name", Text(|it, name| { it.name = name.to_owned(); Ok(()) }), "default", "human-readable name of this member; in --initial-cluster it stands before this member's peer URLs"),
    flag(Served, "data-dir", Text(|it, path| { it.node.directory = PathBuf::from(path); Ok(()) }), "", "directory that holds the data; when empty, <name>.inkstone in the working directory"),
    flag(Served, "listen-client-urls", Urls(check_bind, |it, urls| it.addresses.listen_client = urls), "http://localhost:2379", "addresses at which this server accepts clients, over gRPC and HTTP"),
    flag(Served, "listen-client-http-urls", Urls(check_bind, |it, urls| it.addresses.listen_client_http = urls), "", "separate addresses for HTTP; when set, --listen-client-urls serves only gRPC"),
    flag(Served, "listen-metrics-urls", Urls(check_bind, |it, urls| it.addresses.listen_metrics = urls), "", "additional addresses that serve /metrics, /health, /livez and /readyz"),
    flag(Served, "listen-peer-urls", Urls(check_bind, |it, urls| it.addresses.listen_peer = urls), "http://localhost:2380", "addresses at which this member accepts other members; a member that begins a cluster alone opens them only when this flag is set"),
    flag(Served, "heartbeat-interval", Unsigned(|it, ms| milliseconds(ms, &mut it.node.replica.heartbeat_interval)), "100", "milliseconds between the heartbeats of a leader; a member that is alone sends none, but its value is still checked"),
    flag(Served, "election-timeout", Unsigned(|it, ms| milliseconds(ms, &mut it.node.replica.election_timeout)), "1000", "milliseconds without a leader after which a member starts an election; also sets how long a request waits (5 s plus twice this) and the shortest lease (1.5 times this), even for a member that is alone and holds no election"),
    flag(Served, "snapshot-catchup-entries", Unsigned(|it, entries| at_most(U32_MAX, entries, &mut it.node.replica.entries_kept_max)), "5000", "log entries kept for members that are behind; a member that needs older entries receives a snapshot"),
    flag(Served, "snapshot-catchup-bytes", Unsigned(|it, bytes| { it.node.replica.bytes_kept_max = bytes; Ok(()) }), "67108864", "bytes of log entries kept for members that are behind; the smaller of the two limits applies"),
    flag(Served, "quota-backend-bytes", Signed(quota), "0", "bytes that the store may use before the alarm NOSPACE stops puts; 0 means 2 GiB, a negative number no limit"),
    flag(Served, "max-txn-ops", Unsigned(|it, operations| at_most(U32_MAX, operations, &mut it.node.replica.command_limits.operations_max)), "128", "largest number of operations in one transaction"),
    flag(Served, "max-request-bytes", Unsigned(|it, bytes| at_most(1 << 30, bytes, &mut it.node.replica.command_limits.request_bytes_max)), "1572864", "largest size of one request, in bytes"),
    flag(Served, "max-concurrent-streams", Unsigned(|it, streams| at_most(U32_MAX, streams, &mut it.clients.concurrent_streams_max)), "4294967295", "requests that one connection may have open at a time"),
    flag(Served, "grpc-keepalive-interval", Duration(|it, time| it.clients.keepalive_interval = Some(time).filter(|it| !it.is_zero())), "2h0m0s", "time between the server's pings to a client; 0 switches them off"),
    flag(Served, "grpc-keepalive-timeout", Duration(|it, time| it.clients.keepalive_timeout = time), "20s", "time that a client has to answer a ping; 0 switches the pings off"),
    flag(Served, "grpc-keepalive-min-time", Duration(ping_interval_min), "5s", "shortest time between the pings of a client that has a call open; the connection of a client that pings more often is ended with too_many_pings; 0 means 5m"),
    flag(Served, "socket-reuse-port", Boolean(|it, yes| it.addresses.share_port = yes), "false", "allow another process to listen on the same port (SO_REUSEPORT)"),
    flag(Served, "watch-progress-notify-interval", Duration(|it, time| it.clients.watch_progress_interval = time.max(WATCH_PROGRESS_MIN)), "10m0s", "time between the progress notices to a watch that has no events"),
    flag(Served, "warning-unary-request-duration", Duration(|it, time| it.clients.slow_request = time), "300ms", "log a unary request that takes longer than this"),
    flag(Served, "warning-apply-duration", Duration(|it, time| it.clients.slow_evaluation = time), "100ms", "log a command that takes longer than this to evaluate, at most once a second; etcd_server_slow_apply_total counts them all"),
    flag(Served, "warning-long-turn-duration", Duration(|it, time| it.clients.long_turn = time), "20ms", "log a call that occupies its core for longer than this, at most once a second; the metric inkstone_long_turns_total counts every turn above 5 ms"),
    flag(Served, "auto-compaction-mode", TEXT, "periodic", "unit of --auto-compaction-retention: periodic (a time) or revision (a number of revisions)"),
    flag(Served, "auto-compaction-retention", TEXT, "0", "history that automatic compaction keeps: with periodic a duration (a plain number means hours), with revision a number of revisions; 0 switches it off"),
    flag(Served, "unsafe-no-fsync", BOOLEAN, "false", "etcd's name for --durability=os: a power cut loses writes that were already answered"),
    flag(Served, "durability", TEXT, "durable", "when a write is answered. durable: once a majority of the members has it on their devices; majority-memory: once a majority has it in memory, and the devices are flushed a little later; os: the same, but the kernel decides when to flush"),
    flag(Served, "flush-entries-max", UNSIGNED, "1024", "with --durability=majority-memory: flush after this many entries"),
    flag(Served, "flush-interval", DURATION, "100ms", "with --durability=majority-memory: flush after this time, unless --flush-entries-max is reached before"),
    flag(Served, "accept-lost-tail", Boolean(|it, yes| it.node.replica.accept_lost_tail |= yes), "false", "for one start only, when a member that lost power waits for a member that will never come back: accept the log as it is. Answered writes may be lost"),
    flag(Served, "force-new-cluster", Boolean(force_new_cluster), "false", "for one start only, when the other members are lost for good: remove them all and go on alone with what this member has. Never while a majority is up"),
    flag(Served, "read-mode", Text(read_mode), "read-index", "how a leader confirms that it still leads before a linearizable read. read-index: it asks a majority each time; lease: it asks no member while its lease holds, which is safe only if the clocks of the members run at rates that differ by less than 10 % and no clock stops while its machine goes on (a virtual machine that is frozen or moved)"),
    flag(Served, "memory-bytes-max", Unsigned(memory_bytes_max), "0", "bytes of memory that keys may take before writes are refused; 0 means three quarters of the memory of the machine or container"),
    flag(Served, "memory-mlock", Boolean(|it, yes| it.locks_memory = yes), "false", "keep all memory of the server out of swap; needs the right to lock that much (ulimit -l unlimited)"),
    flag(Served, "segment-bytes", Unsigned(segment_bytes), "67108864", "size of a log segment in bytes, a power of two from 1 MiB to 128 MiB; it is fixed when the data directory begins and must be the same on all members. On a disk below 1 GiB, 8388608 leaves more room for keys: there puts are refused when less is free than a segment plus a sixteenth of the disk (on larger disks, a segment plus 64 MiB)"),
    // Clustering
    flag(Served, "initial-advertise-peer-urls", Urls(check_host, |it, urls| it.addresses.advertise_peer = urls), "http://localhost:2380", "URLs at which the other members connect to this one; part of its identity"),
    flag(Served, "advertise-client-urls", Urls(check_host, |it, urls| it.addresses.advertise_client = urls), "http://localhost:2379", "URLs at which clients connect to this member, shown in the member list; required when --listen-client-urls is set"),
    flag(Served, "initial-cluster", TEXT, "", "all members of the cluster, as name=peer-url separated by commas, this one included; empty means a cluster of this member alone"),
    flag(Served, "discovery-endpoints", TEXT, "", "client URLs, comma-separated, of another cluster in which the members of this new one register and find each other"),
    flag(Served, "discovery-token", TEXT, "", "name of this new cluster there; the key /_etcd/registry/<token>/_config/size must hold the number of its members"),
    flag(Served, "discovery-dial-timeout", DURATION, "2s", "time that a connection to --discovery-endpoints may take"),
    flag(Served, "discovery-request-timeout", DURATION, "5s", "time that an answer of --discovery-endpoints may take"),
    flag(Served, "discovery-keepalive-time", DURATION, "2s", "time between pings to --discovery-endpoints; 10s is the least, as in etcd's client"),
    flag(Served, "discovery-keepalive-timeout", DURATION, "6s", "time that the answer to such a ping may take"),
    flag(Served, "discovery-insecure-transport", BOOLEAN, "true", "false: --discovery-endpoints without a scheme take TLS"),
    flag(Served, "discovery-insecure-skip-tls-verify", BOOLEAN, "false", "accept every certificate of --discovery-endpoints; for tests only"),
    flag(Served, "discovery-cert", TEXT, "", "file with the certificate that is shown to --discovery-endpoints, as PEM"),
    flag(Served, "discovery-key", TEXT, "", "file with the private key of --discovery-cert, as PEM"),
    flag(Served, "discovery-cacert", TEXT, "", "file with the authorities that sign the certificates of --discovery-endpoints, as PEM; empty means those of the system"),
    flag(Served, "discovery-user", TEXT, "", "user at --discovery-endpoints, or user:password"),
    flag(Served, "discovery-password", TEXT, "", "password of --discovery-user"),
    flag(Served, "discovery-srv", TEXT, "", "domain of the DNS with the SRV records (_etcd-server-ssl._tcp, _etcd-server._tcp) name the members of a new cluster, instead of --initial-cluster"),
    flag(Served, "discovery-srv-name", TEXT, "", "suffix of the service in these records: _etcd-server-NAME._tcp"),
    flag(Served, "initial-cluster-token", Text(|it, token| { it.cluster.token = token.to_owned(); Ok(()) }), "etcd-cluster", "name that distinguishes clusters with equal members; part of the ids of the cluster and its members"),
    flag(Served, "initial-cluster-state", TEXT, "new", "new: begin the cluster of --initial-cluster; existing: join a running cluster, to which this member was added before (etcdctl member add)"),
    flag(Served, "peer-secret-file", Text(|it, path| { it.cluster.peer_secret = peer_secret::read(path)?; Ok(()) }), "", "file of at least 32 random bytes, the same on all members and readable by its owner only: members prove to each other that they have it and refuse every other connection"),
    flag(Served, "strict-reconfig-check", Boolean(|it, yes| it.cluster.strict_reconfiguration = yes), "true", "refuse to add or remove a member while too few members are up"),
    flag(Served, "max-learners", Signed(learners_max), "1", "largest number of learners in the cluster; must be the same on all members"),
    // TLS
    flag(Served, "self-signed-cert-validity", UNSIGNED, "1", "years for which the certificates of --auto-tls and --peer-auto-tls are valid"),
    flag(Served, "cert-file", TEXT, "", "file with the certificate for https:// and unixs:// addresses, as PEM, with the certificates that signed it; read again when it changes"),
    flag(Served, "key-file", TEXT, "", "file with the private key of --cert-file, as PEM"),
    flag(Served, "client-cert-file", TEXT, "", "certificate that this server would show when it connects to a client port; checked at the start, and not needed: its gateway makes no connections"),
    flag(Served, "client-key-file", TEXT, "", "private key of --client-cert-file"),
    flag(Served, "client-cert-auth", BOOLEAN, "false", "require a certificate of every client on addresses with TLS; its common name is the name of its user"),
    flag(Served, "client-crl-file", TEXT, "", "file with a list of revoked certificates, in DER; read again when it changes"),
    flag(Served, "client-cert-allowed-hostname", TEXT, "", "host names and addresses, comma-separated, for one of which a client's certificate must be valid"),
    flag(Served, "trusted-ca-file", TEXT, "", "file with the authorities that sign clients' certificates, as PEM; asks every client for one"),
    flag(Served, "auto-tls", BOOLEAN, "false", "make a self-signed certificate for the client addresses, in fixtures/client of the data directory, unless --cert-file is given"),
    flag(Served, "peer-cert-file", TEXT, "", "file with the certificate for https:// addresses of members, as PEM; also shown to the members that this one connects to"),
    flag(Served, "peer-key-file", TEXT, "", "file with the private key of --peer-cert-file, as PEM"),
    flag(Served, "peer-client-cert-file", TEXT, "", "certificate that is shown to the members that this one connects to, instead of --peer-cert-file"),
    flag(Served, "peer-client-key-file", TEXT, "", "private key of --peer-client-cert-file"),
    flag(Served, "peer-client-cert-auth", BOOLEAN, "false", "require a certificate of every member that connects"),
    flag(Served, "peer-trusted-ca-file", TEXT, "", "file with the authorities that sign members' certificates, as PEM; asks every member for one"),
    flag(Served, "peer-auto-tls", BOOLEAN, "false", "make a self-signed certificate for the peer addresses, in fixtures/peer of the data directory; members then encrypt, and verify nothing of each other"),
    flag(Served, "peer-crl-file", TEXT, "", "file with a list of revoked certificates of members, in DER; read again when it changes"),
    flag(Served, "peer-cert-allowed-cn", TEXT, "", "common names, comma-separated, of which a member's certificate must have one"),
    flag(Served, "peer-cert-allowed-hostname", TEXT, "", "host names and addresses, comma-separated, for one of which a member's certificate must be valid"),
    flag(Served, "peer-skip-client-san-verification", BOOLEAN, "false", "do not check whether the names in the certificate of a member fit the address that it connects from"),
    flag(Served, "cipher-suites", TEXT, "", "cipher suites of TLS 1.2, comma-separated, by Go's names; empty means all that are supported"),
    flag(Served, "tls-min-version", TEXT, "TLS1.2", "lowest version of TLS: TLS1.2 or TLS1.3"),
    flag(Served, "tls-max-version", TEXT, "", "highest version of TLS: TLS1.2 or TLS1.3; empty means the highest"),
    // Corruption checks
    flag(Served, "corrupt-check-time", Duration(|it, time| it.corruption.interval = time), "0s", "time between two comparisons of HashKV at the leader's newest revision with the other members; a member that differs gets the alarm CORRUPT; 0 switches it off"),
    flag(Served, "compact-hash-check-time", Duration(|it, time| it.corruption.compacted_interval = time), "1m0s", "with the feature gate CompactHashCheck: time between two comparisons of the hashes of compacted revisions"),
    flag(Served, "feature-gates", Text(|it, text| { it.corruption.gates = FeatureGates::read(text)?; Ok(()) }), "", "etcd's feature gates, as A=true,B=false: InitialCorruptCheck compares HashKV with the other members before clients are served, CompactHashCheck at compacted revisions; the others have no effect"),
    flag(Served, "compare-states", Boolean(|it, yes| it.node.replica.compares_states = yes), "true", "compare a hash of the whole state with the other members', several times a second at most, and raise the alarm CORRUPT for a member that differs from the majority; the hash is kept while entries are applied"),
    flag(Served, "scrub-core-percent", Unsigned(scrub), "1", "most percent of one core that verifying sealed log segments and the keys in memory may take in the background; damaged values are fetched from other members; 0 switches it off"),
    // HTTP
    flag(Served, "enable-grpc-gateway", Boolean(|it, yes| it.http.gateway = yes), "true", "serve the calls of gRPC as JSON over HTTP and WebSocket under /v3/"),
    flag(Served, "enable-ui", Boolean(|it, yes| it.http.page = yes), "true", "serve a page for browsers at /ui: keys, watches, leases, members and users; it needs --enable-grpc-gateway"),
    flag(Served, "enable-pprof", Boolean(|it, yes| it.http.profiles |= yes), "false", "serve profiles at /debug/pprof/ on the client addresses; --log-level=debug does the same"),
    flag(Served, "cors", Text(|it, list| { it.http.origins = names(list); Ok(()) }), "*", "origins of browsers' pages that may call, comma-separated; * lets pages of all origins read, and change nothing"),
    flag(Served, "host-whitelist", Text(|it, list| { it.http.hosts = names(list); Ok(()) }), "*", "host names that HTTP clients may ask for, comma-separated; * allows all"),
    // Logging
    flag(Served, "log-level", Text(log_level), "info", "least severe level that is logged: debug, info, warn, error, panic or fatal"),
    flag(Served, "log-format", Text(|it, text| log_format(&mut it.log, text)), "json", "format of a log line: json or console"),
    flag(Served, "log-outputs", Text(|it, text| log_outputs(&mut it.log, text)), "default", "destinations of log lines, comma-separated: stderr, stdout or files; default is stderr"),
    flag(Served, "enable-log-rotation", BOOLEAN, "false", "rename the file of --log-outputs when it is full; it must be the only output"),
    flag(Served, "log-rotation-config-json", TEXT, r#"{"maxsize": 100, "maxage": 0, "maxbackups": 0, "localtime": false, "compress": false}"#, "when a log file is full (maxsize, in MiB; 0 means 100) and which full ones are kept: at most maxbackups, none older than maxage days (0 keeps all); compress writes them with gzip"),
    flag(Served, "metrics", Text(metrics), "basic", "basic, or extensive, which adds the histogram grpc_server_handling_seconds"),
    flag(Served, "version", BOOLEAN, "false", "print the versions and exit"),
    flag(Served, "config-file", TEXT, "", "YAML file with these flags as keys; all other flags and variables are then ignored"),
    // Tracing
    flag(Served, "enable-distributed-tracing", BOOLEAN, "false", "send spans of calls to a collector of OpenTelemetry; calls that name a recorded trace of their client's (traceparent) join it"),
    flag(Served, "distributed-tracing-address", TEXT, "localhost:4317", "host:port of the collector: OTLP over gRPC, without TLS"),
    flag(Served, "distributed-tracing-service-name", TEXT, "etcd", "service.name of the spans; the same for all members"),
    flag(Served, "distributed-tracing-instance-id", TEXT, "", "service.instance.id of the spans; another one for each member"),
    flag(Served, "distributed-tracing-sampling-rate", SIGNED, "0", "recorded calls, of a million that belong to no trace of their client's"),
    // Users
    flag(Served, "auth-token", TEXT, "simple", "tokens of users: simple, or jwt,sign-method=M,pub-key=F,priv-key=F,ttl=5m; empty for none"),
    flag(Served, "auth-token-ttl", UNSIGNED, "300", "seconds until a simple token ends that is not used"),
    flag(Served, "bcrypt-cost", UNSIGNED, "10", "strength of the hashes of passwords, 4 to 31; each step doubles the time of a login"),
    // Accepted without effect
    flag(Idle, "snapshot-count", UNSIGNED, "10000", NO_SNAPSHOT_FILES),
    flag(Idle, "max-snapshots", UNSIGNED, "5", NO_SNAPSHOT_FILES),
    flag(Idle, "max-wals", UNSIGNED, "5", NO_SNAPSHOT_FILES),
    flag(Idle, "backend-batch-interval", DURATION, "0s", ONE_STORE),
    flag(Idle, "backend-batch-limit", SIGNED, "0", ONE_STORE),
    flag(Idle, "backend-bbolt-freelist-type", TEXT, "", ONE_STORE),
    flag(Idle, "bootstrap-defrag-threshold-megabytes", UNSIGNED, "0", "space is reclaimed while serving"),
    flag(Idle, "compaction-batch-limit", SIGNED, "0", IN_MEMORY_COMPACTION),
    flag(Idle, "compaction-sleep-interval", DURATION, "0s", IN_MEMORY_COMPACTION),
    flag(Idle, "downgrade-check-time", DURATION, "5s", "there is no older release that the members could have, so that no downgrade ever ends by itself"),
    flag(Idle, "raft-read-timeout", DURATION, "5s", MEMBERS_CONNECTIONS),
    flag(Idle, "raft-write-timeout", DURATION, "5s", MEMBERS_CONNECTIONS),
    flag(Idle, "initial-election-tick-advance", BOOLEAN, "true", "a member that starts waits its full time before it stands for election"),
    flag(Idle, "pre-vote", BOOLEAN, "true", "pre-votes are always on"),
    flag(Idle, "socket-reuse-address", BOOLEAN, "false", "SO_REUSEADDR is always on"),
    flag(Idle, "discovery-fallback", TEXT, "exit", "it is of the older discovery, which etcd has given up"),
    flag(Idle, "v2-deprecation", Text(|_, level| v2_deprecation(level)), "", "there is no v2 store"),
    flag(Idle, "logger", TEXT, "zap", "there is only one logger"),
    // Refused for now
    flag(Later, "wal-dir", TEXT, "", "a log apart from the data (the log is the data: use --data-dir)"),
];

const U32_MAX: u64 = u32::MAX as u64;
/// etcd's default quota.
const QUOTA_BYTES: u64 = 2 << 30;
/// Allowed sizes of a segment.
const SEGMENT_BYTES: RangeInclusive<u64> = 1 << 20..=128 << 20;
/// The index of an empty store takes some of it; less is taken for a mistake of units.
const MEMORY_BYTES_MIN: u64 = 1 << 20;
/// The limit of gRPC's library for Go.
const PING_INTERVAL_MIN: std::time::Duration = std::time::Duration::from_secs(300);
/// With a shorter interval the server would be busy with notices.
const WATCH_PROGRESS_MIN: std::time::Duration = std::time::Duration::from_millis(100);

fn milliseconds(number: u64, to: &mut std::time::Duration) -> Checked {
    *to = std::time::Duration::from_millis(number);
    match number {
        0 => Err("must be >0 (set to 0ms)".to_owned()),
        _ => Ok(()),
    }
}

fn at_most<T: TryFrom<u64>>(max: u64, number: u64, to: &mut T) -> Checked {
    let fits = Some(number).filter(|number| *number <= max);
    let fits = fits.and_then(|number| T::try_from(number).ok());
    *to = fits.ok_or_else(|| format!("at most {max}"))?;
    Ok(())
}

/// As etcd's library has it, 0 is no limit of etcd's, but the library's own.
fn ping_interval_min(config: &mut Config, time: std::time::Duration) {
    config.clients.ping_interval_min = match time.is_zero() {
        true => PING_INTERVAL_MIN,
        false => time,
    };
}

/// A member that forces a new cluster waits for no other one, not even for lost entries.
fn force_new_cluster(config: &mut Config, yes: bool) {
    config.node.replica.machine.forces_new_cluster = yes;
    config.node.replica.accept_lost_tail |= yes;
}

fn quota(config: &mut Config, bytes: i64) -> Checked {
    config.node.replica.machine.quota_bytes = match bytes {
        0 => Some(QUOTA_BYTES),
        bytes => u64::try_from(bytes).ok(),
    };
    Ok(())
}

fn learners_max(config: &mut Config, number: i64) -> Checked {
    let learners = usize::try_from(number).ok().filter(|&number| number > 0);
    config.node.replica.machine.learners_max = learners.ok_or("at least 1")?;
    Ok(())
}

/// Memory limit of the keys, all of which live in memory.
fn memory_bytes_max(config: &mut Config, bytes: u64) -> Checked {
    config.node.replica.machine.engine.memory_bytes_max = match bytes {
        0 => environment::real::memory_bytes() / 4 * 3,
        bytes if bytes >= MEMORY_BYTES_MIN => bytes,
        _ => {
            return Err(format!(
                "no key would fit: write bytes, at least {MEMORY_BYTES_MIN} (1 MiB), or 0"
            ));
        }
    };
    Ok(())
}

fn segment_bytes(config: &mut Config, bytes: u64) -> Checked {
    if !bytes.is_power_of_two() || !SEGMENT_BYTES.contains(&bytes) {
        let remedy = "write a power of two from 1 MiB (1048576) to 128 MiB (134217728)";
        return Err(remedy.to_owned());
    }
    let engine = &mut config.node.replica.machine.engine;
    engine.log.segment_bytes = bytes;
    engine.batch_bytes_max = engine.batch_bytes_max.min(bytes / 2);
    Ok(())
}

fn scrub(config: &mut Config, percent: u64) -> Checked {
    let mut core_permille = 0;
    at_most(100, percent, &mut core_permille)?;
    core_permille *= 10;
    config.node.scrubbing = (core_permille > 0).then(|| Scrubbing {
        core_permille,
        ..Scrubbing::default()
    });
    Ok(())
}

fn read_mode(config: &mut Config, text: &str) -> Checked {
    let mode: Result<ReadMode, ()> = text.parse();
    config.node.replica.read_mode = mode.map_err(|()| "write read-index or lease")?;
    Ok(())
}

/// A comma-separated list of names; `*` means all, which is the empty list.
fn names(text: &str) -> Vec<String> {
    let listed = text.split(',').map(str::trim);
    let listed: Vec<&str> = listed.filter(|part| !part.is_empty()).collect();
    match listed.contains(&"*") {
        true => Vec::new(),
        false => listed.into_iter().map(str::to_owned).collect(),
    }
}

fn log_level(config: &mut Config, text: &str) -> Checked {
    config.log.level = match text {
        "debug" => tracing::Level::DEBUG,
        "info" => tracing::Level::INFO,
        "warn" => tracing::Level::WARN,
        "error" | "dpanic" | "panic" | "fatal" => tracing::Level::ERROR,
        _ => return Err("write debug, info, warn or error".to_owned()),
    };
    config.http.profiles |= config.log.level == tracing::Level::DEBUG;
    Ok(())
}

fn log_format(log: &mut LogConfig, text: &str) -> Checked {
    log.format = match text {
        "json" => LogFormat::Json,
        "console" => LogFormat::Console,
        _ => return Err("write json or console".to_owned()),
    };
    Ok(())
}

fn log_outputs(log: &mut LogConfig, text: &str) -> Checked {
    for name in text.split(',').map(str::trim) {
        let output = match name {
            "" | "default" | "stderr" => LogOutput::Stderr,
            "stdout" => LogOutput::Stdout,
            "systemd/journal" => return Err("write stderr: systemd collects it".to_owned()),
            path => LogOutput::File(PathBuf::from(path)),
        };
        if !log.outputs.contains(&output) {
            log.outputs.push(output);
        }
    }
    Ok(())
}

/// etcd takes these words and then does as for the first one; it refuses others in its own.
fn v2_deprecation(level: &str) -> Checked {
    match level {
        "" | "write-only" | "write-only-drop-data" | "gone" => Ok(()),
        _ => Err(format!(
            "invalid value {level:?} for flag -v2-deprecation: invalid value {level:?}: leave the \
             flag out"
        )),
    }
}

fn metrics(config: &mut Config, text: &str) -> Checked {
    config.http.metrics_extensive = match text {
        "basic" => false,
        "extensive" => true,
        _ => return Err("write basic or extensive".to_owned()),
    };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_appears_twice() {
        let mut names: Vec<_> = TABLE.iter().map(|flag| flag.name).collect();
        names.sort_unstable();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all);
    }

    #[test]
    fn the_variable_is_the_name_in_capitals() {
        let flag = Flag::named("listen-client-urls").unwrap();
        assert_eq!(flag.variable(), "ETCD_LISTEN_CLIENT_URLS");
    }

    #[test]
    fn every_default_can_be_read() {
        let mut config = Config::unset();
        for flag in TABLE {
            let read = flag.set(&mut config, flag.default);
            assert!(read.is_ok(), "{}: {read:?}", flag.name);
        }
    }
}
