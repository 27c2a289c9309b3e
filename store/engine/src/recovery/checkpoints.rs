//! The checkpoints of a directory, and the one that an opening begins with.

use super::{Recovery, Replay};
use crate::accounting::Accounting;
use crate::checkpoint::format::Head;
use crate::checkpoint::load::{self, BegunCheckpoint, LoadRules, Unusable};
use crate::checkpoint::{files, write};
use crate::maintenance::LastCheckpoint;
use crate::{Error, Replayed, whole_log};
use environment::Disk;
use std::collections::{BTreeSet, VecDeque};
use std::mem;
use std::path::Path;
use value_log::Position;

/// Changes wait for the entries of a checkpoint until they take these quarters of its file in memory. They are
/// freed piece by piece while the index is made, which takes somewhat more than the file's bytes.
const MERGED_BYTES_QUARTERS: u64 = 3;
/// Less than this may wait in any case.
const MERGED_BYTES_MIN: u64 = if cfg!(test) { 4 << 10 } else { 32 << 20 };
/// If the changes took this or more, the system gets free memory back. The allocator would keep
/// it, and the nodes of the index, which have a heap of their own, could not use it.
const RETURNED_BYTES_MIN: usize = 16 << 20;

#[derive(Debug)]
pub(super) struct Checkpoints {
    /// Newest first.
    numbers: Vec<u64>,
    untried: VecDeque<u64>,
    /// Ids of the segments that exist.
    present: BTreeSet<u32>,
    /// The one in use, while its entries are not loaded yet.
    begun: Option<BegunCheckpoint>,
    /// Why the newest checkpoint that was passed over is unusable.
    damaged: Option<String>,
    /// The missing segment that a sound checkpoint needs.
    lost_segment: Option<String>,
    /// Greatest main revision that the one in use has seen, once it is loaded.
    pub(super) last_main: i64,
    /// Index of the last entry that it has applied.
    pub(super) applied_index: u64,
    pub(super) last: LastCheckpoint,
}

impl Checkpoints {
    /// The checkpoints among the files of a directory.
    pub(super) fn among(names: &[String]) -> Checkpoints {
        let numbers = files::numbers(names);
        Checkpoints {
            untried: numbers.iter().copied().collect(),
            present: names.iter().filter_map(|name| segment(name)).collect(),
            begun: None,
            damaged: None,
            lost_segment: None,
            last_main: 0,
            applied_index: 0,
            last: LastCheckpoint {
                number: numbers.first().copied().unwrap_or(0),
                bytes: 0,
                applied: Position::NONE,
            },
            numbers,
        }
    }

    fn nothing_to_begin_with(&mut self, directory: &Path, log: String) -> Error {
        match self.numbers.first() {
            None => Error::CheckpointMissing {
                directory: directory.into(),
                what: log,
            },
            Some(&number) => Error::CheckpointUnusable {
                file: files::path(directory, number),
                what: self.damaged.take().unwrap_or_default(),
                log,
            },
        }
    }

    /// Whether the entries of the one in use are not loaded yet.
    pub(super) fn are_to_load(&self) -> bool {
        self.begun.is_some()
    }

    pub(super) fn take_damaged(&mut self) -> Option<String> {
        self.damaged.take()
    }

    fn pass_over(&mut self, path: &Path, unusable: Unusable) {
        let what = unusable.what;
        tracing::warn!(file = %path.display(), %what, "checkpoint passed over");
        if unusable.names_lost_segment {
            self.lost_segment.get_or_insert_with(|| what.clone());
        }
        self.damaged.get_or_insert(what);
    }
}

/// Why restoring from a checkpoint has ended early.
#[derive(Debug)]
pub(super) enum Halt {
    Refused(Error),
    /// The next checkpoint should be tried.
    Unusable(Unusable),
}

impl From<Error> for Halt {
    fn from(error: Error) -> Halt {
        Halt::Refused(error)
    }
}

impl From<Unusable> for Halt {
    fn from(unusable: Unusable) -> Halt {
        Halt::Unusable(unusable)
    }
}

impl Recovery<'_> {
    /// Loads the newest usable checkpoint.
    pub(super) fn load_checkpoint(
        &mut self,
        disk: &dyn Disk,
        replay: Replay<'_>,
    ) -> Result<(), Error> {
        self.with_a_checkpoint(disk, replay, |recovery, _| Ok(recovery.load_begun()?))
    }

    /// Restores the newest usable checkpoint, and by `follow` what comes behind it. The entries of
    /// the checkpoint may wait until `follow` loads them; if they are damaged, another one is tried.
    pub(super) fn with_a_checkpoint<T>(
        &mut self,
        disk: &dyn Disk,
        replay: Replay<'_>,
        mut follow: impl FnMut(&mut Self, Replay<'_>) -> Result<T, Halt>,
    ) -> Result<T, Error> {
        while let Some(number) = self.checkpoints.untried.pop_front() {
            let path = files::path(self.directory, number);
            let begun = self.begin(disk, &path, replay);
            match begun.and_then(|()| follow(self, replay)) {
                Ok(result) => return Ok(result),
                Err(Halt::Refused(error)) => return Err(error),
                Err(Halt::Unusable(unusable)) => {
                    self.checkpoints.pass_over(&path, unusable);
                    self.forget();
                }
            }
        }
        self.without_checkpoint(disk)?;
        follow(self, replay).map_err(|halt| match halt {
            Halt::Refused(error) => error,
            Halt::Unusable(unusable) => unreachable!("none is in use: {}", unusable.what),
        })
    }

    /// Forgets all that was restored from a checkpoint which is unusable.
    fn forget(&mut self) {
        let checkpoints = mem::replace(&mut self.checkpoints, Checkpoints::among(&[]));
        *self = Recovery::new(self.directory, self.options.clone(), &[]);
        self.checkpoints = Checkpoints {
            begun: None,
            last_main: 0,
            applied_index: 0,
            last: LastCheckpoint {
                bytes: 0,
                applied: Position::NONE,
                ..checkpoints.last
            },
            ..checkpoints
        };
    }

    /// Takes a checkpoint into use. Without history its entries are loaded later, because they are
    /// merged with what the log says.
    fn begin(&mut self, disk: &dyn Disk, path: &Path, replay: Replay<'_>) -> Result<(), Halt> {
        let (present, worker) = (&self.checkpoints.present, self.options.log.worker);
        let mut begun = load::begin(disk, path, present, worker)?;
        let (head, tables) = (begun.head, begun.take_tables());
        self.checkpoints.begun = Some(begun);
        self.install_head(&head);
        self.accounting =
            Accounting::new(tables.live, tables.marks, tables.overruled, head.hard_state);
        if self.options.keeps_history {
            self.load_begun()?;
        }
        // A new directory's checkpoint has no blob of the caller's.
        if self.replay_from.is_some() {
            replay(Replayed::Checkpoint(&tables.state))?;
        }
        Ok(())
    }

    fn install_head(&mut self, head: &Head) {
        self.index.install_head(head);
        self.replay_from = Some(head.replay_position).filter(|&from| from != Position::NONE);
        self.log_floor = head.log_floor;
        self.checkpoints.applied_index = head.applied_index;
        self.checkpoints.last.applied = head.applied_position;
    }

    /// Loads the entries of the checkpoint in use with what was gathered, if they wait.
    pub(super) fn load_begun(&mut self) -> Result<(), Unusable> {
        let Some(begun) = self.checkpoints.begun.take() else {
            return Ok(());
        };
        let rules = LoadRules {
            history: self.options.keeps_history,
            hashes: self.options.state_hash,
        };
        let freed = self.gathered.bytes();
        let loaded = begun.load(rules, self.gathered.take())?;
        if freed >= RETURNED_BYTES_MIN {
            environment::real::return_free_memory();
        }
        self.index.install_trees(loaded.trees, loaded.keys);
        self.accounting.live.lock().add(&loaded.live);
        self.checkpoints.last_main = loaded.last_main;
        self.checkpoints.last.bytes = loaded.file_bytes;
        Ok(())
    }

    /// Loads the entries if no more changes should wait for them.
    pub(super) fn load_if_much_waits(&mut self) -> Result<(), Unusable> {
        let bytes_max = |begun: &BegunCheckpoint| {
            (begun.file_bytes / 4 * MERGED_BYTES_QUARTERS).max(MERGED_BYTES_MIN)
        };
        let bytes = self.gathered.bytes() as u64;
        let begun = self.checkpoints.begun.as_ref();
        match begun.is_some_and(|begun| bytes >= bytes_max(begun)) {
            true => self.load_begun(),
            false => Ok(()),
        }
    }

    /// A new directory, or one that is rebuilt from its log.
    fn without_checkpoint(&mut self, disk: &dyn Disk) -> Result<(), Error> {
        let (directory, checkpoints) = (self.directory, &mut self.checkpoints);
        if checkpoints.numbers.is_empty() && checkpoints.present.is_empty() {
            checkpoints.last.number = files::FIRST;
            return write::first(disk, directory);
        }
        refuse_nameless(disk, directory)?;
        let whole = match checkpoints.lost_segment.take() {
            Some(lost) => Err(format!("a checkpoint says: {lost}")),
            None => whole_log::beginning(disk, directory),
        };
        match whole {
            Ok(beginning) => {
                tracing::warn!(
                    directory = %directory.display(),
                    "no checkpoint is usable: the state is rebuilt from the whole log"
                );
                checkpoints.last.number = checkpoints.last.number.max(files::FIRST);
                self.replay_from = Some(beginning);
                self.found.rebuilt = true;
                Ok(())
            }
            Err(what) => Err(checkpoints.nothing_to_begin_with(directory, what)),
        }
    }
}

/// Without a checkpoint a name alone does not make a log: any program may call
/// a file `00000001.log`.
fn refuse_nameless(disk: &dyn Disk, directory: &Path) -> Result<(), Error> {
    let listed = value_log::inspect::Directory::list(disk, directory)?;
    let foreign = |file: &&value_log::inspect::SegmentFile| file.read_header(disk).is_none();
    match listed.segments.iter().find(foreign) {
        Some(file) => Err(Error::NotASegment {
            file: file.path.clone(),
        }),
        None => Ok(()),
    }
}

/// Whether any of these files is a segment, by its name.
pub(super) fn has_segments(names: &[String]) -> bool {
    names.iter().any(|name| segment(name).is_some())
}

/// The id of the segment with this name.
fn segment(name: &str) -> Option<u32> {
    let digits = name
        .strip_suffix(".log")
        .or_else(|| name.strip_suffix(".sorted"))?;
    (digits.len() == 8).then(|| u32::from_str_radix(digits, 16).ok())?
}
