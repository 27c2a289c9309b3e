//! What can go wrong, and what to do about it.
//!
//! Broken invariants of this crate stop the process (assertions); everything
//! here is an operating failure, a wrong call, or data that is not ours.

use environment::Shortage;
use std::io;
use std::path::PathBuf;

/// Remedy when the directory has lost data that no file in it holds.
const ANOTHER_COPY: &str = "a member of a cluster: remove it (etcdctl member remove), move this \
     directory away, and add it again; a lone node: bring back a copy of the directory";

/// Remedy when the part of the log is damaged that a restart replays.
const REPAIR: &str = "inkstone repair --data-dir=DIR lists what would be given up if the log \
ended in front of this place; a member of a cluster may be removed (etcdctl member remove) and \
added again instead, with an empty directory";

/// The system's number for a device that cannot read a sector.
const EIO: i32 = 5;

/// A failure of the engine.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another process, or another part of this one, has the directory open.
    /// Stop it, or use another directory.
    #[error("{holder}")]
    DirectoryInUse {
        /// The directory.
        directory: PathBuf,
        /// The disk's message, which names the directory and the process that has it open.
        holder: String,
    },
    /// The directory holds files that are not Inkstone's. Choose another one.
    #[error("{} holds {file}, which is not a file of Inkstone; choose an empty directory", directory.display())]
    Foreign {
        /// The directory.
        directory: PathBuf,
        /// The first such file.
        file: String,
    },
    /// The log failed: see its own message.
    #[error(transparent)]
    Log(value_log::Error),
    /// A value's bytes on this machine fail their checksum. Everything else is served;
    /// the key can be written and deleted.
    #[error(
        "the value of key {key} at revision {revision} is damaged on this machine ({cause}): write or delete the key, or try again, since a member of a cluster fetches it from the others"
    )]
    DamagedValue {
        /// The key, as it can be shown.
        key: String,
        /// Main revision that wrote it.
        revision: i64,
        /// File, offset, and what is wrong there.
        cause: String,
    },
    /// The log cannot be replayed beyond a place that was stable once. What helps
    /// depends on whether there are other members.
    #[error("{} is damaged at byte {offset}: {what}; {REPAIR}", file.display())]
    LogDamaged {
        /// The segment's file.
        file: PathBuf,
        /// Where in it.
        offset: u64,
        /// What is wrong there.
        what: String,
    },
    /// A system call on one of the engine's own files failed.
    #[error("cannot {doing} {}: {}", file.display(), root(source))]
    Disk {
        /// The file or directory.
        file: PathBuf,
        /// What was tried.
        doing: &'static str,
        /// The system's answer.
        source: io::Error,
    },
    /// A checkpoint fails its checksums or does not fit the log, no older one can take
    /// its place, and the log does not hold the whole state. Only another copy helps.
    #[error("checkpoint {} is unusable ({what}), no older one fits the log, and the state cannot be rebuilt from the log ({log}); {ANOTHER_COPY}", file.display())]
    CheckpointUnusable {
        /// The newest checkpoint.
        file: PathBuf,
        /// What is wrong with it.
        what: String,
        /// Why the log alone is not enough.
        log: String,
    },
    /// A file has a segment's name and is not one. Move it away, or choose
    /// another directory.
    #[error("{} is called like a segment of an Inkstone log and is none, and there is no *.checkpoint file beside it; move it away, or choose another directory", file.display())]
    NotASegment {
        /// The file.
        file: PathBuf,
    },
    /// There is no checkpoint, and the log does not hold the whole state. Only another
    /// copy helps.
    #[error("{} has no *.checkpoint file, and the state cannot be rebuilt from the log ({what}); put the file back, or: {ANOTHER_COPY}", directory.display())]
    CheckpointMissing {
        /// The directory.
        directory: PathBuf,
        /// Why the log alone is not enough.
        what: String,
    },
    /// Revisions are missing in the log. Only another copy helps.
    #[error("the log in {} goes on with revision {found} where {expected} must come; {ANOTHER_COPY}", directory.display())]
    Gap {
        /// The directory.
        directory: PathBuf,
        /// The revision that must come next.
        expected: i64,
        /// The one that came.
        found: i64,
    },
    /// A record passes its checksum but is not what this version writes.
    #[error(
        "record at segment {segment:08x} offset {offset}: {what}; it was written by a newer version, or by another program"
    )]
    RecordUnreadable {
        /// Segment id.
        segment: u32,
        /// Byte offset in it.
        offset: u64,
        /// What does not fit.
        what: &'static str,
    },
    /// The revision asked for has been compacted. Ask for a newer one.
    #[error(
        "revision {asked} has been compacted (compacted up to {compacted}); ask for a newer one"
    )]
    Compacted {
        /// What was asked.
        asked: i64,
        /// Last compacted revision.
        compacted: i64,
    },
    /// The log ends before what a checkpoint has seen: its end is missing.
    /// Only another copy helps.
    #[error("the log in {} ends at revision {log}, but its checkpoint knows revision {checkpoint}; the end of the log is missing; {ANOTHER_COPY}", directory.display())]
    LogCutShort {
        /// The directory.
        directory: PathBuf,
        /// Greatest main revision of the checkpoint.
        checkpoint: i64,
        /// Last main revision of the log.
        log: i64,
    },
    /// No room: only deletes and compaction pass. Free space on the file
    /// system or raise the quota, or delete, compact and defragment.
    #[error("{} has {available_bytes} bytes left and {reserve_bytes} are kept in reserve; free space, or delete keys, compact and defragment", directory.display())]
    NoSpace {
        /// The directory.
        directory: PathBuf,
        /// Bytes the file system still has.
        available_bytes: u64,
        /// Bytes never touched.
        reserve_bytes: u64,
    },
    /// The disk has no room to put versions in the order of their keys, which needs copies of them until
    /// it ends.
    #[error("to put {} in the order of its keys, {needed_bytes} bytes must be free, and {available_bytes} are; free space and try again", directory.display())]
    NoRoomForCopy {
        /// The directory.
        directory: PathBuf,
        /// Bytes the file system still has.
        available_bytes: u64,
        /// Bytes of the copies, the checkpoint behind them and two segments, and the reserve.
        needed_bytes: u64,
    },
    /// The log cannot make its next segment for now, though the disk is not full. Nothing was
    /// written: try again when the cause has gone.
    #[error("nothing was written, try again later: {cause}")]
    NoSegment {
        /// The log's error.
        cause: value_log::Error,
    },
    /// The index has reached its limit: only deletes and compaction pass.
    #[error(
        "the index takes {index_bytes} bytes of the {memory_bytes_max} allowed; delete and compact, or raise the limit"
    )]
    MemoryLimit {
        /// What the index takes now.
        index_bytes: u64,
        /// `Options::memory_bytes_max`.
        memory_bytes_max: u64,
    },
    /// The index of a snapshot that is being received has grown beyond the limit.
    /// Raise it, or delete and compact where the snapshot comes from.
    #[error(
        "the snapshot's index takes {index_bytes} bytes of memory so far, and {memory_bytes_max} \
         are allowed here: start this member with a greater --memory-bytes-max \
         (`memory_bytes_max`), on a machine with enough memory, or delete keys and compact in \
         its cluster"
    )]
    SnapshotMemoryLimit {
        /// Bytes that the received part takes.
        index_bytes: u64,
        /// `Options::memory_bytes_max`.
        memory_bytes_max: u64,
    },
    /// A batch that can never fit. Split it, or open a new directory with
    /// larger segments.
    #[error(
        "the batch takes {batch_bytes} bytes, the largest possible is {batch_bytes_max}; \
         write less at once, or begin another directory with larger segments"
    )]
    TooLarge {
        /// What the batch takes in the log.
        batch_bytes: u64,
        /// `Options::batch_bytes_max`.
        batch_bytes_max: u64,
    },
    /// A batch that breaks this crate's contract: a bug in the caller.
    #[error("batch {index} is malformed: {what}; this is a bug")]
    InvalidBatch {
        /// Its index.
        index: u64,
        /// What does not fit.
        what: String,
    },
    /// The log no longer has the entry: it was released with its segment.
    #[error("entry {index} is no longer in the log; a member that needs it needs a snapshot")]
    EntryGone {
        /// Its index.
        index: u64,
    },
    /// The engine has been closed, and the directory may be another's by now.
    /// Open it again.
    #[error("{} has been closed; open it again", directory.display())]
    Closed {
        /// The directory.
        directory: PathBuf,
    },
    /// The export's member has another state now, or never gave that piece.
    /// Begin another export.
    #[error("piece {number} of the snapshot cannot be had here (any more); begin another export")]
    ExportOver {
        /// The piece asked for.
        number: u64,
    },
    /// A piece of a snapshot that does not fit. Ask for the one that is wanted,
    /// or begin again.
    #[error(
        "piece {number} of the snapshot, byte {offset}: {what}; ask for that piece again, or for the whole snapshot"
    )]
    Piece {
        /// Number of the piece that was wanted.
        number: u64,
        /// Where in the piece.
        offset: u64,
        /// What does not fit.
        what: String,
    },
    /// There is an import already: finish or drop it.
    #[error("a snapshot is being received already; one at a time")]
    ImportUnderWay,
    /// An import without all of its pieces cannot be installed.
    #[error("the snapshot is not complete; it can be installed when its last piece is written")]
    ImportIncomplete,
    /// The snapshot is not newer than the state of this member.
    #[error(
        "the snapshot is of entry {index} and entry {applied} is applied here; it is not needed"
    )]
    SnapshotOld {
        /// The snapshot's index.
        index: u64,
        /// The index that is applied.
        applied: u64,
    },
    /// The disk failed in the step from the old state to the new, so it is unknown
    /// which one lasts. The engine is closed: open it again.
    # [error("{} has either its old state or the snapshot's: the disk failed in the step between
    # them ({reason}); it is closed, open it again", directory.display())]
    InstallUncertain {
        /// The directory.
        directory: PathBuf,
        /// What failed.
        reason: String,
    },
    /// The caller refused what was replayed.
    #[error("replay: {0}")]
    Replay(String),
}

/// Errors that have a variant of this crate become that variant.
impl From<value_log::Error> for Error {
    fn from(error: value_log::Error) -> Error {
        match error {
            value_log::Error::TooLarge { bytes, limit_bytes } => Error::TooLarge {
                batch_bytes: bytes,
                batch_bytes_max: limit_bytes,
            },
            value_log::Error::NoSpace {
                directory,
                needed_bytes,
                available_bytes,
            } => Error::NoSpace {
                directory,
                available_bytes,
                reserve_bytes: needed_bytes,
            },
            cause @ value_log::Error::NoSegment { .. } => Error::NoSegment { cause },
            other => Error::Log(other),
        }
    }
}

/// The system's message alone: the disk puts an action and the path before it, and so
/// does this crate.
fn root(error: &io::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

impl Error {
    /// Whether bytes on the disk are not what was written there.
    pub fn is_damage(&self) -> bool {
        let is_own = matches!(self, Error::DamagedValue { .. } | Error::LogDamaged { .. });
        is_own || self.damage().is_some()
    }

    /// The damage and its place; `None` if the error says nothing of the bytes on the disk.
    pub(crate) fn damage(&self) -> Option<String> {
        match self {
            Error::Log(value_log::Error::Damaged {
                file, offset, what, ..
            }) => Some(format!("{} at byte {offset}: {what}", file.display())),
            Error::Log(value_log::Error::Io { path, source, .. })
                if source.raw_os_error() == Some(EIO) =>
            {
                Some(format!("{}: {source}", path.display()))
            }
            Error::RecordUnreadable {
                segment,
                offset,
                what,
            } => Some(format!("segment {segment:08x} at byte {offset}: {what}")),
            _ => None,
        }
    }

    /// Whether the log is intact but accepts nothing for now, because the disk is full or the
    /// system has run out of another resource. A shortage ends without a restart. A read or
    /// write that fails on the device (EIO) is no shortage.
    pub fn is_shortage(&self) -> bool {
        matches!(self, Error::NoSpace { .. } | Error::NoSegment { .. })
    }

    /// The resource that ran out, if a system call reported one.
    pub fn shortage(&self) -> Option<Shortage> {
        match self {
            Error::NoSpace { .. } | Error::NoRoomForCopy { .. } => Some(Shortage::Room),
            Error::NoSegment { cause } | Error::Log(cause) => cause.shortage(),
            Error::Disk { source, .. } => Shortage::of(source),
            _ => None,
        }
    }

    pub(crate) fn disk(
        doing: &'static str,
        file: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Error {
        let file = file.into();
        move |source| Error::Disk {
            file,
            doing,
            source,
        }
    }
}
