//! Errors of an experiment; their texts name the remedy.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

use super::memory_group::MemoryGroupError;
use crate::targets::Failure;

/// Reason why an experiment cannot begin or go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("--loopfs makes a device and mounts it, which needs root")]
    LoopNeedsRoot,
    #[error(transparent)]
    MemoryGroup(MemoryGroupError),
    #[error(
        "target `{0}`: memory.limit holds for processes that the lab starts, and this server \
         runs already; leave memory.limit out, or write server:PATH"
    )]
    LimitOfEndpoints(String),
    #[error(
        "{0}; with memory.limit the image of --loopfs is read past the page cache: name a \
         --directory on a file system with direct I/O"
    )]
    LoopDirect(CommandFailed),
    #[error("--generator sends to servers: targets are server:PATH")]
    GeneratorNeedsServers,
    #[error("--generator: {0}; `cargo xtask etcd` builds etcd's benchmark")]
    Generator(NotExecutable),
    #[error("target `{target}`: {program}; {remedy}")]
    Program {
        target: String,
        program: NotExecutable,
        remedy: &'static str,
    },
    #[error("target `{target}`: {answer}; start the server, or correct the address")]
    Endpoint { target: String, answer: Failure },
    #[error(
        "there is no target `{target}` in this lab: it has {offers}; also `server:PATH`, \
         `endpoints:HOST:PORT` and `{target}@PATH` for the worker of another build. LevelDB, \
         RocksDB, LMDB, redb, fjall and sled are in inkstone-lab-peers, which `cargo build \
         --release --manifest-path lab/lab-peers/Cargo.toml` makes"
    )]
    UnknownTarget { target: String, offers: String },
    #[error("the path of this program is unknown: {0}")]
    OwnPath(io::Error),
    #[error("{}: {error}", file.display())]
    Record { file: PathBuf, error: io::Error },
    #[error(
        "no data can be kept in {}: {error}; name another folder with --directory",
        folder.display()
    )]
    Directory { folder: PathBuf, error: io::Error },
    #[error(
        "no image of {bytes} bytes can be made in {}: {error}; write a smaller --loopfs or \
         another --directory",
        folder.display()
    )]
    Image {
        bytes: u64,
        folder: PathBuf,
        error: io::Error,
    },
    #[error(transparent)]
    Command(#[from] CommandFailed),
    #[error("{0}; install xfsprogs, or use ext4")]
    Xfs(CommandFailed),
}

/// Reason why the system cannot start a program.
#[derive(Debug, thiserror::Error)]
pub enum NotExecutable {
    #[error("there is no program `{0}` in PATH; one in this folder is `./{0}`")]
    NotInPath(String),
    #[error("there is no program at {0}: {1}")]
    Missing(String, io::Error),
    #[error("{0} is no program that may be started")]
    NotAProgram(String),
}

/// A program that did not do its work.
#[derive(Debug, thiserror::Error)]
pub enum CommandFailed {
    #[error("cannot start {0}: {1}")]
    NotStarted(String, io::Error),
    #[error("{name} ended with {status}: {errors}")]
    Ended {
        name: String,
        status: ExitStatus,
        errors: String,
    },
}
