//! What is damaged, where, and what to do about it.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Enough to see what happened; the rest is counted.
const SHOWN_MAX: usize = 100;

const LOG_REMEDY: &str =
    "restore the directory from a backup; what is readable: inkstone inspect --records";
const FOREIGN_REMEDY: &str = "move out of the directory what was copied into it from another one";
const CHECKPOINT_REMEDY: &str = "move this file away and start the server: it goes on from an older \
     checkpoint, or from the log alone while that is whole, and writes a new one";

/// One damaged place.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Finding {
    file: PathBuf,
    offset: u64,
    what: String,
    remedy: &'static str,
}

impl Finding {
    /// Damage in the log: the only copy of values.
    pub(super) fn log(file: &Path, offset: u64, what: impl Into<String>) -> Finding {
        Finding {
            file: file.to_owned(),
            offset,
            what: what.into(),
            remedy: LOG_REMEDY,
        }
    }

    /// A segment of another log.
    pub(super) fn foreign(file: &Path, what: impl Into<String>) -> Finding {
        Finding {
            file: file.to_owned(),
            offset: 0,
            what: what.into(),
            remedy: FOREIGN_REMEDY,
        }
    }

    /// Damage in a checkpoint: the log holds everything too.
    pub(super) fn checkpoint(file: &Path, offset: u64, what: impl Into<String>) -> Finding {
        Finding {
            file: file.to_owned(),
            offset,
            what: what.into(),
            remedy: CHECKPOINT_REMEDY,
        }
    }
}

/// All damaged places.
#[derive(Debug, Default)]
pub(super) struct Findings {
    shown: Vec<Finding>,
    total: u64,
}

impl Findings {
    pub(super) fn add(&mut self, finding: Finding) {
        self.total += 1;
        if self.shown.len() < SHOWN_MAX {
            self.shown.push(finding);
        }
    }

    pub(super) fn append(&mut self, other: Findings) {
        let hidden = other.total - other.shown.len() as u64;
        other
            .shown
            .into_iter()
            .for_each(|finding| self.add(finding));
        self.total += hidden;
    }

    /// Keeps what `other` has found as well.
    pub(super) fn retain_seen_by(&mut self, other: &Findings) {
        self.shown.retain(|finding| other.shown.contains(finding));
        self.total = self.shown.len() as u64;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.total == 0
    }

    pub(super) fn len(&self) -> u64 {
        self.total
    }

    pub(super) fn write(&self, output: &mut dyn Write) -> io::Result<()> {
        for finding in &self.shown {
            let Finding {
                file,
                offset,
                what,
                remedy,
            } = finding;
            writeln!(output, "{} at byte {offset}: {what}", file.display())?;
            writeln!(output, "  remedy: {remedy}")?;
        }
        match self.total - self.shown.len() as u64 {
            0 => Ok(()),
            hidden => writeln!(output, "and {hidden} more"),
        }
    }
}
