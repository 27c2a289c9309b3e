//! Every flag, as data.
//!
//! etcd 3.7's flags are all here, so that a manifest written for etcd is
//! understood word for word. Each stands in one of three rooms:
//!
//! * **served**: it does what it does in etcd;
//! * **idle**: it is accepted and changes nothing, because what it tunes does
//!   not exist here; a value other than the default is met with a warning;
//! * **later**: a promise that cannot be kept yet; anything but the default
//!   is refused, because to start without TLS when TLS was asked for would be
//!   worse than not to start.

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

/// What becomes of a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Support {
    /// It does what it says.
    Served,
    /// Accepted without effect; the text says why.
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
    /// What it holds when nobody says anything.
    pub(super) default: &'static str,
    /// What becomes of it.
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

/// What a TLS flag waits for.
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
    served("name", Text, "default", "human-readable name of this member"),
    served("data-dir", Text, "", "directory of the data; <name>.inkstone when empty"),
    served("listen-client-urls", Urls, "http://localhost:2379", "where clients reach gRPC and HTTP"),
    served("listen-client-http-urls", Urls, "", "where clients reach HTTP, taking it away from listen-client-urls"),
    served("listen-metrics-urls", Urls, "", "further addresses for /metrics, /health, /livez and /readyz"),
    served("listen-peer-urls", Urls, "http://localhost:2380", "where other members reach this one; a member that begins alone listens there only if this is said"),
    served("heartbeat-interval", Unsigned, "100", "milliseconds between heartbeats; checked, but a member that is alone sends none"),
    served("election-timeout", Unsigned, "1000", "milliseconds without a leader before an election; a member that is alone holds none, but requests wait 5 s and twice this, and no lease is shorter than 1.5 times this"),
    served("snapshot-catchup-entries", Unsigned, "5000", "entries of the log kept for members that are behind; one that is farther behind gets a snapshot"),
    served("snapshot-catchup-bytes", Unsigned, "67108864", "the same in bytes, whichever is less"),
    served("quota-backend-bytes", Signed, "0", "bytes the store may use before the alarm NOSPACE; 0 is 2 GiB, negative is no limit"),
    served("max-txn-ops", Unsigned, "128", "operations allowed in one transaction"),
    served("max-request-bytes", Unsigned, "1572864", "bytes allowed in one request"),
    served("max-concurrent-streams", Unsigned, "4294967295", "requests one connection may have open"),
    served("grpc-keepalive-interval", Duration, "2h0m0s", "time between the server's pings; 0 for none"),
    served("grpc-keepalive-timeout", Duration, "20s", "time an answer to a ping may take"),
    served("socket-reuse-port", Boolean, "false", "let another process listen on the same port"),
    served("watch-progress-notify-interval", Duration, "10m0s", "time between progress notices to quiet watches"),
    served("warning-unary-request-duration", Duration, "300ms", "requests that take longer are logged"),
    served("warning-long-turn-duration", Duration, "20ms", "a call that holds its core for longer is logged, once a second at most; inkstone_long_turns_total counts all above 5 ms"),
    served("auto-compaction-mode", Text, "periodic", "periodic or revision"),
    served("auto-compaction-retention", Text, "0", "history kept by automatic compaction: a duration (hours without unit), or a number of revisions; 0 is off"),
    served("unsafe-no-fsync", Boolean, "false", "etcd's name for --durability=os"),
    served("durability", Text, "durable", "durable: answer when a majority has it on its devices; majority-memory: when a majority has it in memory, flushed a little later; os: the same, flushed when the kernel likes"),
    served("flush-entries-max", Unsigned, "1024", "with --durability=majority-memory: flush after so many entries"),
    served("flush-interval", Duration, "100ms", "with --durability=majority-memory: flush after so long, whichever comes first"),
    served("accept-lost-tail", Boolean, "false", "for one start, where a member that lost power waits for one that never comes back: what it has left is all there is, answered writes may be lost"),
    served("read-mode", Text, "read-index", "read-index: a leader asks a majority before a linearizable read; lease: not while its lease holds, believing that members' clocks run at rates that differ by less than 10 %, that none stands still while its machine goes on elsewhere (a virtual machine frozen or moved)"),
    served("memory-bytes-max", Unsigned, "0", "bytes of memory that keys may take before writes are refused; 0 is three quarters of the machine's or the container's"),
    served("segment-bytes", Unsigned, "67108864", "bytes of a log segment, a power of two from 1 MiB to 128 MiB; the same on all members. On disks below 1 GiB 8388608 leaves more room to keys: puts are refused with less free than a segment and 64 MiB, or a sixteenth of a small disk"),
    // Clustering
    served("initial-advertise-peer-urls", Urls, "http://localhost:2380", "this member's peer URLs, part of its identity"),
    served("advertise-client-urls", Urls, "http://localhost:2379", "client URLs shown in the member list; required with --listen-client-urls"),
    served("initial-cluster", Text, "", "name=peer-url of every member, comma-separated; this one alone when empty"),
    served("initial-cluster-token", Text, "etcd-cluster", "token of the cluster, part of its identity"),
    served("initial-cluster-state", Text, "new", "new, or existing: this member joins a cluster that runs and was told of it (member add)"),
    served("peer-secret-file", Text, "", "file of at least 32 random bytes, the same for all members, that only its owner may read: members prove to each other that they have it, and let nothing else in"),
    served("strict-reconfig-check", Boolean, "true", "refuse changes of the membership while too few members are up"),
    served("max-learners", Signed, "1", "learners that the cluster takes at a time; the same at every member"),
    // HTTP
    served("enable-grpc-gateway", Boolean, "true", "the JSON gateway under /v3/; not there yet: true answers 501, false 404"),
    served("cors", Text, "*", "origins that browsers may call from; * for all"),
    served("host-whitelist", Text, "*", "host names that HTTP clients may ask for; * for all"),
    // Logging
    served("log-level", Text, "info", "debug, info, warn, error, panic or fatal"),
    served("log-format", Text, "json", "json or console"),
    served("log-outputs", Text, "default", "default, stdout, stderr or files, comma-separated"),
    served("metrics", Text, "basic", "basic, or extensive: with the histogram grpc_server_handling_seconds"),
    served("version", Boolean, "false", "print the versions and exit"),
    served("config-file", Text, "", "YAML file with these flags as keys; other flags and variables are then ignored"),
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
    idle("downgrade-check-time", Duration, "5s", "there is no downgrade"),
    idle("raft-read-timeout", Duration, "5s", MEMBERS_CONNECTIONS),
    idle("raft-write-timeout", Duration, "5s", MEMBERS_CONNECTIONS),
    idle("initial-election-tick-advance", Boolean, "true", "a member that starts waits its full time before it stands for election"),
    idle("pre-vote", Boolean, "true", "always on"),
    idle("warning-apply-duration", Duration, "100ms", "apply evaluates nothing"),
    idle("grpc-keepalive-min-time", Duration, "5s", "pings are answered however frequent; etcd ends such connections with too_many_pings"),
    idle("socket-reuse-address", Boolean, "false", "always on"),
    idle("self-signed-cert-validity", Unsigned, "1", "no certificate is made"),
    idle("bcrypt-cost", Unsigned, "10", "there are no users yet"),
    idle("auth-token-ttl", Unsigned, "300", "there are no tokens yet"),
    idle("discovery-fallback", Text, "exit", "there is no discovery yet"),
    idle("v2-deprecation", Text, "", "there is no v2 store"),
    idle("feature-gates", Text, "", "etcd's feature gates switch parts that do not exist here"),
    idle("logger", Text, "zap", "there is one logger"),
    idle("log-rotation-config-json", Text, r#"{"maxsize": 100, "maxage": 0, "maxbackups": 0, "localtime": false, "compress": false}"#, "logs are not rotated by the server"),
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
