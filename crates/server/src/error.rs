//! Why a server does not start.

use std::io;
use std::path::PathBuf;

/// A server that could not be started.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Logs cannot be written where they should go.
    #[error("{0}; see --log-outputs")]
    Log(io::Error),
    /// A socket cannot be bound.
    #[error("{0}; is another server running? see --listen-client-urls")]
    Listen(io::Error),
    /// Serving an empty store in its place would look like lost data.
    #[error(
        "{} is a data directory of etcd (it holds member/), which Inkstone does not read; \
         name another one with --data-dir and copy the keys with `etcdctl make-mirror`",
        .0.display()
    )]
    EtcdDirectory(PathBuf),
    /// The store cannot be opened.
    #[error("{0}")]
    Node(#[from] cluster::Error),
    /// The system gives no thread or runtime.
    #[error("cannot start a thread: {0}")]
    Threads(io::Error),
}
