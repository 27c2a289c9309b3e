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
    /// The most blocks that one of them brought.
    pub blocks_flushed_max: u64,
    /// Those of them that also had to make new room or a new size durable:
    /// on a real file system a journal commit, several times the price.
    pub journal_commits: u64,
    /// `sync_directory` calls that succeeded.
    pub directory_syncs: u64,
}

/// A call that changes something.
#[derive(Clone, Debug)]
pub(super) struct Operation {
    pub action: Action,
    /// The file or directory that it changes.
    pub path: PathBuf,
}

#[derive(Clone, Debug)]
pub(super) enum Action {
    CreateDirectories,
    Create,
    RenameTo(PathBuf),
    Remove,
    SyncDirectory,
    Write {
        offset: u64,
        bytes: u64,
        durable: bool,
    },
    Sync,
    SetSize(u64),
    Reserve(u64),
}

impl Action {
    pub fn writes(&self) -> bool {
        matches!(self, Action::Write { .. })
    }

    pub fn flushes(&self) -> bool {
        use Action::{Sync, SyncDirectory, Write};
        matches!(self, Write { durable: true, .. } | Sync | SyncDirectory)
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match &self.action {
            Action::CreateDirectories => write!(formatter, "create directory {path}"),
            Action::Create => write!(formatter, "create {path}"),
            Action::RenameTo(to) => write!(formatter, "rename {path} to {}", to.display()),
            Action::Remove => write!(formatter, "remove {path}"),
            Action::SyncDirectory => write!(formatter, "sync directory {path}"),
            Action::Write {
                offset,
                bytes,
                durable,
            } => {
                let how = if *durable { " durably" } else { "" };
                write!(formatter, "write{how} {path} at {offset}, {bytes} bytes")
            }
            Action::Sync => write!(formatter, "sync {path}"),
            Action::Reserve(size) => write!(formatter, "reserve {size} bytes for {path}"),
            Action::SetSize(size) => write!(formatter, "set size of {path} to {size}"),
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
        let write = Action::Write {
            offset: 8,
            bytes: 3,
            durable: false,
        };
        for (number, action) in [(0, Action::Create), (1, write)] {
            let path = "/d/1.log".into();
            trace.io(number, Operation { action, path });
        }
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
            let (action, path) = (Action::Sync, "/d/x".into());
            trace.io(number, Operation { action, path });
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
