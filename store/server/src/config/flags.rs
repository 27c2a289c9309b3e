//! The table of all flags.
//!
//! All flags of etcd 3.7 are here, so that a manifest written for etcd is
//! understood word for word. Each flag is of one of three kinds:
//!
//! * **served**: it does what it does in etcd;
//! * **idle**: it is accepted and changes nothing, because what it tunes does
//!   not exist here; a value other than the default causes a warning;
//! * **later**: its feature does not exist yet; any value but the default
//!   is refused, because a server that starts without the TLS it was asked for is
//!   worse than one that does not start.

use Kind::{Boolean, Duration, Signed, Text, Unsigned, Urls};
use Support::{Idle, Later, Served};

/// How the text of a flag is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Any text.
    Text,
    /// Go's booleans; the only kind that needs no value.
    Boolean,
    /// A whole number, 0 or more.
    Unsigned,
    /// A whole number.
    Signed,
    /// Go's duration.
    Duration,
    /// Comma-separated URLs.
    Urls,
}

/// Whether the server acts on a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Support {
    /// It does what it says.
    Served,
    /// Accepted without effect; the text is the reason.
    Idle(&'static str),
    /// Refused unless it holds its default; the text names what is missing.
    Later(&'static str),
}

/// One flag.
#[derive(Debug)]
pub(super) struct Flag {
    /// Without dashes. The variable is `ETCD_` and this in capitals.
    pub(super) name: &'static str,
    /// How its text is read.
    pub(super) kind: Kind,
    /// Its value when no source sets it.
    pub(super) default: &'static str,
    pub(super) support: Support,
    /// One line for `--help`.
    pub(super) help: &'static str,
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

    /// The environment variable that holds it.
    pub(super) fn variable(&self) -> String {
        format!("ETCD_{}", self.name.to_uppercase().replace('-', "_"))
    }
}

const fn served(name: &'static str, kind: Kind, default: &'static str, help: &'static str) -> Flag {
    Flag {
        name,
        kind,
        default,
        support: Served,
        help,
    }
}

const fn idle(name: &'static str, kind: Kind, default: &'static str, why: &'static str) -> Flag {
    Flag {
        name,
        kind,
        default,
        support: Idle(why),
        help: "accepted, changes nothing",
    }
}

const fn later(name: &'static str, kind: Kind, default: &'static str, what: &'static str) -> Flag {
    Flag {
        name,
        kind,
        default,
        support: Later(what),
        help: "not supported yet",
    }
}

/// The missing feature of the TLS flags.
pub(super) const TLS: &str = "TLS";
const AUTH: &str = "users, roles and tokens";
const CLUSTER: &str = "finding the members of a cluster";
const TRACING: &str = "distributed tracing";

const ONE_STORE: &str = "the log is the database: there is no second store to flush";
const NO_SNAPSHOT_FILES: &str = "checkpoints are taken by the size of the log";
const NO_HASH_CHECK: &str = "members do not compare their hashes by themselves yet";
const MEMBERS_CONNECTIONS: &str = "connections between members have limits of their own";
const IN_MEMORY_COMPACTION: &str = "compaction works on the index in memory";

#[rustfmt::skip]
static TABLE: &[Flag] = &[
    // Member
    served("name", Text, "default", "human-readable name of this member; in --initial-cluster it stands before this member's peer URLs"),
    served("data-dir", Text, "", "directory that holds the data; when empty, <name>.inkstone in the working directory"),
    served("listen-client-urls", Urls, "http://localhost:2379", "addresses at which this server accepts clients, over gRPC and HTTP"),
    served("listen-client-http-urls", Urls, "", "separate addresses for HTTP; when set, --listen-client-urls serves only gRPC"),
    served("listen-metrics-urls", Urls, "", "additional addresses that serve /metrics, /health, /livez and /readyz"),
    served("listen-peer-urls", Urls, "http://localhost:2380", "addresses at which this member accepts other members; a member that begins a cluster alone opens them only when this flag is set"),
    served("heartbeat-interval", Unsigned, "100", "milliseconds between the heartbeats of a leader; a member that is alone sends none, but its value is still checked"),
    served("election-timeout", Unsigned, "1000", "milliseconds without a leader after which a member starts an election; also sets how long a request waits (5 s plus twice this) and the shortest lease (1.5 times this), even for a member that is alone and holds no election"),
    served("snapshot-catchup-entries", Unsigned, "5000", "log entries kept for members that are behind; a member that needs older entries receives a snapshot"),
    served("snapshot-catchup-bytes", Unsigned, "67108864", "bytes of log entries kept for members that are behind; the smaller of the two limits applies"),
    served("quota-backend-bytes", Signed, "0", "bytes that the store may use before the alarm NOSPACE stops puts; 0 means 2 GiB, a negative number no limit"),
    served("max-txn-ops", Unsigned, "128", "largest number of operations in one transaction"),
    served("max-request-bytes", Unsigned, "1572864", "largest size of one request, in bytes"),
    served("max-concurrent-streams", Unsigned, "4294967295", "requests that one connection may have open at a time"),
    served("grpc-keepalive-interval", Duration, "2h0m0s", "time between the server's pings to a client; 0 switches them off"),
    served("grpc-keepalive-timeout", Duration, "20s", "time that a client has to answer a ping"),
    served("socket-reuse-port", Boolean, "false", "allow another process to listen on the same port (SO_REUSEPORT)"),
    served("watch-progress-notify-interval", Duration, "10m0s", "time between the progress notices to a watch that has no events"),
    served("warning-unary-request-duration", Duration, "300ms", "log a unary request that takes longer than this"),
    served("warning-long-turn-duration", Duration, "20ms", "log a call that occupies its core for longer than this, at most once a second; the metric inkstone_long_turns_total counts every turn above 5 ms"),
    served("auto-compaction-mode", Text, "periodic", "unit of --auto-compaction-retention: periodic (a time) or revision (a number of revisions)"),
    served("auto-compaction-retention", Text, "0", "history that automatic compaction keeps: with periodic a duration (a plain number means hours), with revision a number of revisions; 0 switches it off"),
    served("unsafe-no-fsync", Boolean, "false", "etcd's name for --durability=os: a power cut loses writes that were already answered"),
    served("durability", Text, "durable", "when a write is answered. durable: once a majority of the members has it on their devices; majority-memory: once a majority has it in memory, and the devices are flushed a little later; os: the same, but the kernel decides when to flush"),
    served("flush-entries-max", Unsigned, "1024", "with --durability=majority-memory: flush after this many entries"),
    served("flush-interval", Duration, "100ms", "with --durability=majority-memory: flush after this time, unless --flush-entries-max is reached before"),
    served("accept-lost-tail", Boolean, "false", "for one start only, when a member that lost power waits for a member that will never come back: accept the log as it is. Answered writes may be lost"),
    served("read-mode", Text, "read-index", "how a leader confirms that it still leads before a linearizable read. read-index: it asks a majority each time; lease: it asks no member while its lease holds, which is safe only if the clocks of the members run at rates that differ by less than 10 % and no clock stops while its machine goes on (a virtual machine that is frozen or moved)"),
    served("memory-bytes-max", Unsigned, "0", "bytes of memory that keys may take before writes are refused; 0 means three quarters of the memory of the machine or container"),
    served("segment-bytes", Unsigned, "67108864", "size of a log segment in bytes, a power of two from 1 MiB to 128 MiB; it is fixed when the data directory begins and must be the same on all members. On a disk below 1 GiB, 8388608 leaves more room for keys: there puts are refused when less is free than a segment plus a sixteenth of the disk (on larger disks, a segment plus 64 MiB)"),
    // Clustering
    served("initial-advertise-peer-urls", Urls, "http://localhost:2380", "URLs at which the other members connect to this one; part of its identity"),
    served("advertise-client-urls", Urls, "http://localhost:2379", "URLs at which clients connect to this member, shown in the member list; required when --listen-client-urls is set"),
    served("initial-cluster", Text, "", "all members of the cluster, as name=peer-url separated by commas, this one included; empty means a cluster of this member alone"),
    served("initial-cluster-token", Text, "etcd-cluster", "name that distinguishes clusters with equal members; part of the ids of the cluster and its members"),
    served("initial-cluster-state", Text, "new", "new: begin the cluster of --initial-cluster; existing: join a running cluster, to which this member was added before (etcdctl member add)"),
    served("peer-secret-file", Text, "", "file of at least 32 random bytes, the same on all members and readable by its owner only: members prove to each other that they have it and refuse every other connection"),
    served("strict-reconfig-check", Boolean, "true", "refuse to add or remove a member while too few members are up"),
    served("max-learners", Signed, "1", "largest number of learners in the cluster; must be the same on all members"),
    // HTTP
    served("enable-grpc-gateway", Boolean, "true", "serve the JSON gateway under /v3/; it does not exist yet: true answers 501, false 404"),
    served("cors", Text, "*", "origins that browsers may call from, comma-separated; * allows all"),
    served("host-whitelist", Text, "*", "host names that HTTP clients may ask for, comma-separated; * allows all"),
    // Logging
    served("log-level", Text, "info", "least severe level that is logged: debug, info, warn, error, panic or fatal"),
    served("log-format", Text, "json", "format of a log line: json or console"),
    served("log-outputs", Text, "default", "destinations of log lines, comma-separated: stderr, stdout or files; default is stderr"),
    served("metrics", Text, "basic", "basic, or extensive, which adds the histogram grpc_server_handling_seconds"),
    served("version", Boolean, "false", "print the versions and exit"),
    served("config-file", Text, "", "YAML file with these flags as keys; all other flags and variables are then ignored"),
    // Accepted without effect
    idle("snapshot-count", Unsigned, "10000", NO_SNAPSHOT_FILES),
    idle("max-snapshots", Unsigned, "5", NO_SNAPSHOT_FILES),
    idle("max-wals", Unsigned, "5", NO_SNAPSHOT_FILES),
    idle("backend-batch-interval", Duration, "0s", ONE_STORE),
    idle("backend-batch-limit", Signed, "0", ONE_STORE),
    idle("backend-bbolt-freelist-type", Text, "", ONE_STORE),
    idle("bootstrap-defrag-threshold-megabytes", Unsigned, "0", "space is reclaimed while serving"),
    idle("compaction-batch-limit", Signed, "0", IN_MEMORY_COMPACTION),
    idle("compaction-sleep-interval", Duration, "0s", IN_MEMORY_COMPACTION),
    idle("corrupt-check-time", Duration, "0s", NO_HASH_CHECK),
    idle("compact-hash-check-time", Duration, "1m0s", NO_HASH_CHECK),
    idle("downgrade-check-time", Duration, "5s", "downgrades do not exist here"),
    idle("raft-read-timeout", Duration, "5s", MEMBERS_CONNECTIONS),
    idle("raft-write-timeout", Duration, "5s", MEMBERS_CONNECTIONS),
    idle("initial-election-tick-advance", Boolean, "true", "a member that starts waits its full time before it stands for election"),
    idle("pre-vote", Boolean, "true", "pre-votes are always on"),
    idle("warning-apply-duration", Duration, "100ms", "applying an entry evaluates nothing, so it is never slow"),
    idle("grpc-keepalive-min-time", Duration, "5s", "pings are answered however frequent; etcd ends such connections with too_many_pings"),
    idle("socket-reuse-address", Boolean, "false", "SO_REUSEADDR is always on"),
    idle("self-signed-cert-validity", Unsigned, "1", "the server makes no certificates"),
    idle("bcrypt-cost", Unsigned, "10", "there are no users yet"),
    idle("auth-token-ttl", Unsigned, "300", "there are no tokens yet"),
    idle("discovery-fallback", Text, "exit", "there is no discovery yet"),
    idle("v2-deprecation", Text, "", "there is no v2 store"),
    idle("feature-gates", Text, "", "etcd's feature gates switch parts that do not exist here"),
    idle("logger", Text, "zap", "there is only one logger"),
    idle("log-rotation-config-json", Text, r#"{"maxsize": 100, "maxage": 0, "maxbackups": 0, "localtime": false, "compress": false}"#, "the server does not rotate its log files"),
    idle("distributed-tracing-address", Text, "localhost:4317", "tracing is off"),
    idle("distributed-tracing-service-name", Text, "etcd", "tracing is off"),
    idle("distributed-tracing-instance-id", Text, "", "tracing is off"),
    idle("distributed-tracing-sampling-rate", Signed, "0", "tracing is off"),
    // Refused for now
    later("wal-dir", Text, "", "a log apart from the data (the log is the data: use --data-dir)"),
    later("memory-mlock", Boolean, "false", "locking memory"),
    later("enable-log-rotation", Boolean, "false", "rotation of log files"),
    later("enable-pprof", Boolean, "false", "profiling over HTTP"),
    later("enable-distributed-tracing", Boolean, "false", TRACING),
    later("force-new-cluster", Boolean, "false", "making a cluster of one from a member of several"),
    later("discovery-endpoints", Text, "", CLUSTER),
    later("discovery-token", Text, "", CLUSTER),
    later("discovery-dial-timeout", Duration, "2s", CLUSTER),
    later("discovery-request-timeout", Duration, "5s", CLUSTER),
    later("discovery-keepalive-time", Duration, "2s", CLUSTER),
    later("discovery-keepalive-timeout", Duration, "6s", CLUSTER),
    later("discovery-insecure-transport", Boolean, "true", CLUSTER),
    later("discovery-insecure-skip-tls-verify", Boolean, "false", CLUSTER),
    later("discovery-cert", Text, "", CLUSTER),
    later("discovery-key", Text, "", CLUSTER),
    later("discovery-cacert", Text, "", CLUSTER),
    later("discovery-user", Text, "", CLUSTER),
    later("discovery-password", Text, "", CLUSTER),
    later("discovery-srv", Text, "", CLUSTER),
    later("discovery-srv-name", Text, "", CLUSTER),
    later("cert-file", Text, "", TLS),
    later("key-file", Text, "", TLS),
    later("client-cert-file", Text, "", TLS),
    later("client-key-file", Text, "", TLS),
    later("client-cert-auth", Boolean, "false", TLS),
    later("client-crl-file", Text, "", TLS),
    later("client-cert-allowed-hostname", Text, "", TLS),
    later("trusted-ca-file", Text, "", TLS),
    later("auto-tls", Boolean, "false", TLS),
    later("peer-cert-file", Text, "", TLS),
    later("peer-key-file", Text, "", TLS),
    later("peer-client-cert-file", Text, "", TLS),
    later("peer-client-key-file", Text, "", TLS),
    later("peer-client-cert-auth", Boolean, "false", TLS),
    later("peer-trusted-ca-file", Text, "", TLS),
    later("peer-auto-tls", Boolean, "false", TLS),
    later("peer-crl-file", Text, "", TLS),
    later("peer-cert-allowed-cn", Text, "", TLS),
    later("peer-cert-allowed-hostname", Text, "", TLS),
    later("peer-skip-client-san-verification", Boolean, "false", TLS),
    later("cipher-suites", Text, "", TLS),
    later("tls-min-version", Text, "TLS1.2", TLS),
    later("tls-max-version", Text, "", TLS),
    later("auth-token", Text, "simple", AUTH),
];

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
        use crate::config::{urls, values};
        for flag in TABLE.iter().filter(|flag| !flag.default.is_empty()) {
            let read = match flag.kind {
                Text => Ok(()),
                Boolean => values::boolean(flag.name, flag.default).map(drop),
                Unsigned => values::unsigned(flag.name, flag.default).map(drop),
                Signed => values::signed(flag.name, flag.default).map(drop),
                Duration => values::duration(flag.name, flag.default).map(drop),
                Urls => urls::list(flag.name, flag.default).map(drop),
            };
            assert!(read.is_ok(), "{}: {read:?}", flag.name);
        }
    }
}
