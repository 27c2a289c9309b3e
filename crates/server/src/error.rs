//! Why a server does not start.

use std::io;
use std::path::PathBuf;

use crate::config;

/// A server that could not be started.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Logs cannot be written where they should go.
    #[error("{0}; see --log-outputs")]
    Log(io::Error),
    /// A new store cannot begin with these flags.
    #[error(transparent)]
    Config(config::Error),
    /// It could not work, or only until its log needs another file.
    #[error(
        "this process may open {limit} files at once, and a server on {cores} cores needs \
         {needed} for its log, other members and a few clients: raise the limit \
         (ulimit -n {advised}, LimitNOFILE={advised} of systemd)"
    )]
    TooFewDescriptors {
        /// The limit of the process.
        limit: u64,
        /// What it needs at least.
        needed: u64,
        /// Cores that it would serve on.
        cores: usize,
        /// What does for many clients.
        advised: u64,
    },
    /// A socket cannot be bound.
    #[error("cannot listen on {url}: {source}; {}", remedy(source, flag))]
    Listen {
        /// Where.
        url: String,
        /// The flag that says so.
        flag: &'static str,
        /// What the system says.
        source: io::Error,
    },
    /// Another member's names would be a lie.
    #[error(
        "{} {what}; put a copy of it back, or remove it to have the --initial-* flags name \
         this member anew",
        file.display()
    )]
    MemberFile {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The member's names cannot be read or kept.
    #[error("{0}; the server needs to read and write its data directory")]
    Member(io::Error),
    /// A member that forgot what it had promised could lose what others count on.
    #[error(
        "the log in {} does not know the member {member:x} that its file MEMBER names: bring \
         the directory's files back; a member that has lost its data cannot come back under \
         its old name",
        directory.display()
    )]
    NotInItsData {
        /// The directory.
        directory: PathBuf,
        /// Its member.
        member: u64,
    },
    /// The same of a member that has lost everything, as the others know.
    #[error(
        "member {member:x} has already been bootstrapped: other members know it as one that was \
         up, and this data directory is empty; bring the directory back, or remove the member \
         (etcdctl member remove {member:x}), add it again and start it with \
         --initial-cluster-state=existing"
    )]
    Bootstrapped {
        /// The member.
        member: u64,
    },
    /// Its id never returns.
    #[error(
        "the member {member:x} has been permanently removed from the cluster: to bring this \
         machine back, move its data directory away, add it anew (etcdctl member add) and start \
         it with --initial-cluster-state=existing"
    )]
    Removed {
        /// The member.
        member: u64,
    },
    /// It would wait for others that are somewhere else.
    #[error(
        "the members at the addresses of --initial-cluster run already, as cluster {running:x} \
         ({members}), and these flags begin cluster {described:x}: to join that cluster, add \
         this member there (etcdctl member add) and start it with \
         --initial-cluster-state=existing; if it is one of those that began it, write their \
         --initial-cluster and --initial-cluster-token"
    )]
    OtherCluster {
        /// What the flags describe.
        described: u64,
        /// Who is there.
        running: u64,
        /// The members of that.
        members: String,
    },
    /// It could not take what another one writes.
    #[error(
        "the other members have segments of {theirs} bytes and --segment-bytes is {ours}, but \
         it has to be the same on all members: start it with --segment-bytes={theirs}"
    )]
    OtherSegments {
        /// What the flag says.
        ours: u64,
        /// What the others have.
        theirs: u64,
    },
    /// A member that has joined, and ended before it was told anything.
    #[error(
        "the member {member:x} has joined its cluster and has received nothing yet: start it with \
         the --initial-cluster and --initial-cluster-state=existing of its first start"
    )]
    Unfilled {
        /// The member.
        member: u64,
    },
    /// A member that joins has to know who is there.
    #[error(
        "cannot fetch cluster info from peer urls: could not retrieve cluster information from \
         the given URLs ({reasons}); see --initial-cluster"
    )]
    NobodyAnswers {
        /// Why not, of each address.
        reasons: String,
    },
    /// A member that joins does not know who is there.
    #[error(
        "error validating peerURLs {{{members}}}: {what}; write --initial-cluster as \
         `etcdctl member add` has printed it"
    )]
    NotListed {
        /// Who is there.
        members: String,
        /// How that differs from what was listed.
        what: String,
    },
    /// Serving an empty store in its place would look like lost data.
    #[error(
        "{} is a data directory of etcd (it holds {holds}/), which Inkstone does not read; \
         name another one with --data-dir and copy the keys with `etcdctl make-mirror`",
        directory.display()
    )]
    EtcdDirectory {
        /// The directory.
        directory: PathBuf,
        /// The directory of etcd's in it.
        holds: &'static str,
    },
    /// The store cannot be opened.
    #[error("{0}; see --data-dir")]
    Node(cluster::Error),
    /// The system gives no thread or runtime.
    #[error("cannot start a thread: {0}")]
    Threads(io::Error),
}

impl From<cluster::Error> for Error {
    fn from(error: cluster::Error) -> Error {
        match error {
            cluster::Error::Removed { member } => Error::Removed { member },
            error => Error::Node(error),
        }
    }
}

/// What to do when nobody can listen somewhere.
fn remedy(error: &io::Error, flag: &str) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => format!(
            "another process listens there (another server?): stop it, or choose another \
             address with --{flag}"
        ),
        io::ErrorKind::PermissionDenied => format!(
            "this user may not: a port below 1024 needs the capability CAP_NET_BIND_SERVICE, \
             a socket's file a directory that may be written to; or choose another address \
             with --{flag}"
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

    #[test]
    fn each_reason_why_nobody_can_listen_has_its_own_remedy() {
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
