//! The events of a disk, which a failing test prints.

use std::collections::VecDeque;
use std::fmt;
use std::path::PathBuf;

/// Events that are kept; older ones are forgotten.
const EVENTS_MAX: usize = 4096;

/// What has been done to a disk since it was made, forked or restarted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Calls that change something; the numbers that `crash_at` takes.
    pub ios: u64,
    /// Reads.
    pub reads: u64,
    /// Bytes that reads returned.
    pub bytes_read: u64,
    /// Writes, durable or not.
    pub writes: u64,
    /// Bytes written into the page cache, durable or not.
    pub bytes_written: u64,
    /// `write_durable_at` and `sync_data` calls that succeeded.
    pub durable_flushes: u64,
    /// Dirty 4 KiB blocks that those brought to the device.
    pub blocks_flushed: u64,
    /// Those of them that also had to make new room or a new size durable:
    /// on a real file system a journal commit, several times the price.
    pub journal_commits: u64,
    /// `sync_directory` calls that succeeded.
    pub directory_syncs: u64,
}

/// A call that changes something.
#[derive(Clone, Debug)]
pub(super) enum Operation {
    CreateDirectories(PathBuf),
    Create(PathBuf),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
    SyncDirectory(PathBuf),
    Write {
        path: PathBuf,
        offset: u64,
        bytes: u64,
    },
    WriteDurable {
        path: PathBuf,
        offset: u64,
        bytes: u64,
    },
    Sync(PathBuf),
    SetSize {
        path: PathBuf,
        size: u64,
    },
}

impl Operation {
    pub fn writes(&self) -> bool {
        matches!(
            self,
            Operation::Write { .. } | Operation::WriteDurable { .. }
        )
    }

    pub fn flushes(&self) -> bool {
        use Operation::{Sync, SyncDirectory, WriteDurable};
        matches!(self, WriteDurable { .. } | Sync(_) | SyncDirectory(_))
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut say = |what: &str, path: &PathBuf| write!(formatter, "{what} {}", path.display());
        match self {
            Operation::CreateDirectories(path) => say("create directory", path),
            Operation::Create(path) => say("create", path),
            Operation::Rename(from, to) => {
                say("rename", from)?;
                write!(formatter, " to {}", to.display())
            }
            Operation::Remove(path) => say("remove", path),
            Operation::SyncDirectory(path) => say("sync directory", path),
            Operation::Write {
                path,
                offset,
                bytes,
            } => {
                say("write", path)?;
                write!(formatter, " at {offset}, {bytes} bytes")
            }
            Operation::WriteDurable {
                path,
                offset,
                bytes,
            } => {
                say("write durably", path)?;
                write!(formatter, " at {offset}, {bytes} bytes")
            }
            Operation::Sync(path) => say("sync", path),
            Operation::SetSize { path, size } => {
                say("set size of", path)?;
                write!(formatter, " to {size}")
            }
        }
    }
}

/// One line of the trace.
#[derive(Clone, Debug)]
enum Event {
    /// A numbered I/O.
    Io(u64, Operation),
    /// A remark about that I/O or the machine.
    Note(String),
}

/// The events of a disk; `Display` prints them.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    seed: u64,
    /// Events that were forgotten.
    forgotten: u64,
    events: VecDeque<Event>,
}

impl Trace {
    pub(super) fn of_seed(seed: u64) -> Trace {
        Trace {
            seed,
            ..Trace::default()
        }
    }

    pub(super) fn io(&mut self, number: u64, operation: Operation) {
        self.push(Event::Io(number, operation));
    }

    pub(super) fn note(&mut self, text: impl Into<String>) {
        self.push(Event::Note(text.into()));
    }

    fn push(&mut self, event: Event) {
        if self.events.len() == EVENTS_MAX {
            self.events.pop_front();
            self.forgotten += 1;
        }
        self.events.push_back(event);
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "simulated disk, seed {}", self.seed)?;
        if self.forgotten > 0 {
            writeln!(
                formatter,
                "       ({} older events forgotten)",
                self.forgotten
            )?;
        }
        for event in &self.events {
            match event {
                Event::Io(number, operation) => writeln!(formatter, "{number:>6} {operation}")?,
                Event::Note(text) => writeln!(formatter, "       - {text}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_story_names_its_seed_and_numbers_its_ios() {
        let mut trace = Trace::of_seed(42);
        trace.io(0, Operation::Create("/d/1.log".into()));
        trace.io(
            1,
            Operation::Write {
                path: "/d/1.log".into(),
                offset: 8,
                bytes: 3,
            },
        );
        trace.note("power lost");
        let lines: Vec<String> = trace.to_string().lines().map(str::to_owned).collect();
        assert_eq!(lines[0], "simulated disk, seed 42");
        assert_eq!(lines[1].trim(), "0 create /d/1.log");
        assert_eq!(lines[2].trim(), "1 write /d/1.log at 8, 3 bytes");
        assert_eq!(lines[3].trim(), "- power lost");
    }

    #[test]
    fn a_long_story_keeps_its_end() {
        let mut trace = Trace::of_seed(0);
        for number in 0..EVENTS_MAX as u64 + 5 {
            trace.io(number, Operation::Sync("/d/x".into()));
        }
        let story = trace.to_string();
        assert!(story.contains("(5 older events forgotten)"), "{story}");
        assert!(
            story
                .trim_end()
                .ends_with(&format!("{} sync /d/x", EVENTS_MAX + 4))
        );
    }
}
