//! Errors of a server's start.

use std::io;
use std::path::PathBuf;

use cluster::{
    BootstrapError, BootstrapFailure as Failure, MemberFile, MemberFileError, MemberList,
};

use crate::config;

/// A server that could not be started.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A destination of log lines cannot be written to.
    #[error("{0}; see --log-outputs")]
    Log(io::Error),
    /// A new store cannot begin with these flags.
    #[error(transparent)]
    Config(config::Error),
    /// The process may open too few files to serve, or its log could soon open no further
    /// segment.
    #[error(
        "this process may open {limit} files at once, and a server on {cores} cores needs \
         {needed} for its log, other members and a few clients: raise the limit \
         (ulimit -n {advised}, LimitNOFILE={advised} of systemd)"
    )]
    TooFewDescriptors {
        /// The limit of the process.
        limit: u64,
        /// The least limit with which it can serve.
        needed: u64,
        /// Cores that it would serve on.
        cores: usize,
        /// A limit that suffices for many clients.
        advised: u64,
    },
    /// Memory cannot be locked, or not all of it.
    #[error(
        "--memory-mlock: {0}; raise the limit (ulimit -l unlimited, LimitMEMLOCK=infinity of \
         systemd) or leave the flag out"
    )]
    LockedMemory(String),
    /// Spans cannot be sent.
    #[error("--enable-distributed-tracing: {0}")]
    Tracing(String),
    /// The members of a new cluster were not found.
    #[error("--discovery-srv={domain}: {reason}; see --initial-cluster for a list without the DNS")]
    Discovery { domain: String, reason: String },
    /// The registry does not take this member into the cluster.
    #[error("--discovery-token={token}: {reason}")]
    Registry { token: String, reason: String },
    /// A socket cannot be bound.
    #[error("cannot listen on {url}: {source}; {}", remedy(source, flag))]
    Listen {
        url: String,
        /// The flag that names the URL.
        flag: &'static str,
        source: io::Error,
    },
    /// The member cannot start: why, and what to do about it.
    #[error("{0}")]
    Member(String),
    /// The directory belongs to etcd: serving an empty store from it would look like lost data.
    #[error(
        "{} is a data directory of etcd (it holds {holds}/), which Inkstone does not serve; \
         make a snapshot of it (`inkstone snapshot save FILE --data-dir DIR`), restore that \
         (`inkstone snapshot restore FILE`) and serve the new directory",
        directory.display()
    )]
    EtcdDirectory {
        directory: PathBuf,
        /// Name of etcd's directory in it.
        holds: &'static str,
    },
    /// This member's state is not that of the others.
    #[error(
        "{what}: remove this member (etcdctl member remove {member:x}), add it again and start it \
         with an empty data directory; or, if the others are wrong, start it without \
         --feature-gates=InitialCorruptCheck=true"
    )]
    Corrupt {
        /// etcd's text.
        what: String,
        /// Id of this member.
        member: u64,
    },
    /// The store cannot be opened.
    #[error("{0}; see --data-dir")]
    Node(cluster::Error),
    /// A file or a setting of TLS cannot be used.
    #[error("{0}")]
    Tls(tls::Error),
    /// The system does not start a thread or a runtime.
    #[error("cannot start a thread: {0}")]
    Threads(io::Error),
}

impl From<BootstrapError> for Error {
    fn from(BootstrapError { directory, reason }: BootstrapError) -> Error {
        let directory = directory.display();
        Error::Member(match reason {
            Failure::Node(error) => return error.into(),
            Failure::Thread(error) | Failure::Socket(error) => return Error::Threads(error),
            Failure::MemberFile(MemberFileError::Unusable { file, what }) => {
                format!("{} {what}; {MEMBER_FILE_REMEDY}", file.display())
            }
            Failure::MemberFile(MemberFileError::Disk(error)) => member_file_unread(&error),
            // A member without its log has lost votes and entries that it acknowledged, so it
            // must not take part.
            Failure::NoData { member } | Failure::ForeignLog { member } => format!(
                "the log in {directory} does not know the member {member:x} that its file MEMBER \
                 names: bring the directory's files back; a member that has lost its data cannot \
                 come back under its old name"
            ),
            Failure::Lost { member } => format!(
                "member {member:x} has already been bootstrapped: other members know it as one \
                 that was up, and this data directory is empty; bring the directory back, or \
                 remove the member (etcdctl member remove {member:x}), add it again and start it \
                 with --initial-cluster-state=existing"
            ),
            Failure::OtherCluster { described, running } => format!(
                "the members at the addresses of --initial-cluster run already, as cluster {:x} \
                 ({}), and these flags begin cluster {described:x}: to join that cluster, add \
                 this member there (etcdctl member add) and start it with \
                 --initial-cluster-state=existing; if it is one of those that began it, write \
                 their --initial-cluster and --initial-cluster-token",
                running.cluster_id,
                listed(&running)
            ),
            Failure::OtherSegments { ours, theirs } => format!(
                "the other members have segments of {theirs} bytes and --segment-bytes is {ours}, \
                 but it has to be the same on all members: start it with --segment-bytes={theirs}"
            ),
            Failure::Unfilled { member }
            | Failure::JoinsAnother {
                own: MemberFile { member, .. },
                ..
            } => format!(
                "the member {member:x} has joined its cluster and has received nothing yet: start \
                 it with the --initial-cluster and --initial-cluster-state=existing of its first \
                 start"
            ),
            Failure::NoMemberAnswers { reasons } => format!(
                "cannot fetch cluster info from peer urls: could not retrieve cluster information \
                 from the given URLs ({}); see --initial-cluster",
                reasons.join("; ")
            ),
            Failure::NotListed { list, what, .. } => not_listed(&listed(&list), &what),
            Failure::TwoClusters { clusters } => not_listed(
                &format!("{clusters:x?}"),
                "the members belong to two clusters",
            ),
        })
    }
}

pub(crate) const MEMBER_FILE_REMEDY: &str = "put a copy of it back, or remove it: then the \
                                             --initial-* flags name this member again";

pub(crate) fn member_file_unread(error: &io::Error) -> String {
    format!("{error}; the server needs to read and write its data directory")
}

fn not_listed(members: &str, what: &str) -> String {
    format!(
        "error validating peerURLs {{{members}}}: {what}; write --initial-cluster as \
         `etcdctl member add` has printed it"
    )
}

/// The error of a member that the cluster has removed; its id cannot be used again.
pub(crate) fn removed(member: u64) -> Error {
    Error::Member(format!(
        "the member {member:x} has been permanently removed from the cluster: to bring this \
         machine back, move its data directory away, add it again (etcdctl member add) and \
         start it with --initial-cluster-state=existing"
    ))
}

/// Members as text, in the form of `--initial-cluster`.
fn listed(list: &MemberList) -> String {
    let members = list.members.iter().flat_map(|member| {
        let name = match &*member.name {
            "" => "?",
            name => name,
        };
        member
            .peer_urls
            .iter()
            .map(move |url| format!("{name}={url}"))
    });
    members.collect::<Vec<_>>().join(",")
}

impl From<cluster::Error> for Error {
    fn from(error: cluster::Error) -> Error {
        match error {
            cluster::Error::Removed { member } => removed(member),
            cluster::Error::Thread(error) => Error::Threads(io::Error::new(error.kind(), error)),
            error => Error::Node(error),
        }
    }
}

/// The remedy when listening fails.
fn remedy(error: &io::Error, flag: &str) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => format!(
            "another process listens there (another server?): stop it, or choose another \
             address with --{flag}"
        ),
        io::ErrorKind::PermissionDenied => format!(
            "this user may not listen there: a port below 1024 needs the capability \
             CAP_NET_BIND_SERVICE, a socket's file a directory that may be written to; or \
             choose another address with --{flag}"
        ),
        io::ErrorKind::AddrNotAvailable => format!(
            "this machine has no such address: choose one that it has, or 0.0.0.0 for all, \
             with --{flag}"
        ),
        io::ErrorKind::AlreadyExists => {
            format!("move the file away, or choose another with --{flag}")
        }
        io::ErrorKind::NotFound => {
            format!("make the directory of the socket's file, or choose another with --{flag}")
        }
        _ => format!("see --{flag}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list() -> Box<MemberList> {
        let member = |id, name: &str| revisions::Member {
            id,
            name: name.to_owned(),
            peer_urls: vec![format!("http://h:{id}")],
            ..revisions::Member::default()
        };
        Box::new(MemberList {
            cluster_id: 9,
            members: vec![member(1, "a"), member(2, "")],
            ..MemberList::default()
        })
    }

    #[test]
    fn a_refused_start_is_explained_with_flags_and_in_etcd_s_words() {
        let (described, running, member) = (10, list(), 3);
        let (own_urls, what) = (vec![], "member count is unequal".to_owned());
        for (reason, parts) in [
            (
                Failure::OtherCluster { described, running },
                &[
                    "cluster 9 (a=http://h:1,?=http://h:2)",
                    "cluster a",
                    "--initial-cluster-token",
                    "--initial-cluster-state=existing",
                ][..],
            ),
            (
                Failure::OtherSegments {
                    ours: 1 << 26,
                    theirs: 1 << 20,
                },
                &["start it with --segment-bytes=1048576", "67108864"],
            ),
            (
                Failure::NoMemberAnswers {
                    reasons: vec!["h: no answer".to_owned()],
                },
                &["cannot fetch cluster info from peer urls", "h: no answer"],
            ),
            (
                Failure::NotListed {
                    list: list(),
                    own_urls,
                    what,
                },
                &[
                    "validating peerURLs {a=http://h:1",
                    "member count is unequal",
                ],
            ),
            (
                Failure::Lost { member },
                &["member 3 has already been bootstrapped"],
            ),
            (
                Failure::Node(cluster::Error::Removed { member }),
                &["member 3 has been permanently removed"],
            ),
            (
                Failure::NoData { member },
                &["the log in /data does not know the member 3"],
            ),
        ] {
            let directory = "/data".into();
            let text = Error::from(BootstrapError { directory, reason }).to_string();
            for part in parts {
                assert!(text.contains(part), "{text}");
            }
        }
    }

    #[test]
    fn each_reason_for_a_failed_listen_has_its_own_remedy() {
        for (kind, part) in [
            (io::ErrorKind::AddrInUse, "another server?"),
            (io::ErrorKind::PermissionDenied, "CAP_NET_BIND_SERVICE"),
            (io::ErrorKind::AddrNotAvailable, "no such address"),
            (io::ErrorKind::AlreadyExists, "move the file"),
            (io::ErrorKind::NotFound, "make the directory"),
            (io::ErrorKind::OutOfMemory, "see"),
        ] {
            let text = remedy(&kind.into(), "listen-metrics-urls");
            assert!(text.contains(part), "{text}");
            assert!(text.contains("--listen-metrics-urls"), "{text}");
        }
    }
}
