//! Findings: what is damaged, where, and what to do about it.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Findings that are printed; further ones are only counted.
const SHOWN_MAX: usize = 100;

const LOG_REMEDY: &str = "inkstone repair --data-dir DIR says whether the server starts as it is, \
     and which groups a repair would lose; inkstone inspect --records shows the readable records";
const NOT_REPLAYED_REMEDY: &str = "the server starts without it and serves all that is readable; \
     to have the rest again restore the directory from a backup or a peer";
const FOREIGN_REMEDY: &str = "move it out of the directory; where it took the place of a segment \
     of this log, restore that one from a backup";

/// One damaged place.
#[derive(Debug)]
pub(super) struct Finding {
    file: PathBuf,
    /// `None` if the finding concerns the file or directory as a whole.
    offset: Option<u64>,
    what: String,
    remedy: String,
}

impl Finding {
    /// Damage in the log, which is this directory's only copy of the values.
    pub(super) fn log(file: &Path, offset: u64, what: impl Into<String>) -> Finding {
        Finding::new(file, Some(offset), what, LOG_REMEDY)
    }

    /// A file with a segment's name that does not belong to this log.
    pub(super) fn foreign(file: &Path, what: String) -> Finding {
        Finding::new(file, Some(0), what, FOREIGN_REMEDY)
    }

    /// Damage with a remedy that depends on other files.
    pub(super) fn new(
        file: &Path,
        offset: Option<u64>,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Finding {
        Finding {
            file: file.to_owned(),
            offset,
            what: what.into(),
            remedy: remedy.into(),
        }
    }

    /// Whether both are the same finding. Their remedies may differ, because those
    /// depend on other files.
    fn is_again(&self, other: &Finding) -> bool {
        (&self.file, self.offset, &self.what) == (&other.file, other.offset, &other.what)
    }
}

/// All findings.
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
        self.extend(other.shown);
        self.total += hidden;
    }

    pub(super) fn extend(&mut self, findings: impl IntoIterator<Item = Finding>) {
        findings.into_iter().for_each(|finding| self.add(finding));
    }

    /// Sets the remedy for damage in data that the server does not read when it starts.
    pub(super) fn are_not_replayed(&mut self) {
        for finding in &mut self.shown {
            finding.remedy = NOT_REPLAYED_REMEDY.to_owned();
        }
    }

    /// Keeps the findings that `other` has, too.
    pub(super) fn retain_seen_by(&mut self, other: &Findings) {
        let seen = |finding: &Finding| other.shown.iter().any(|it| it.is_again(finding));
        self.shown.retain(seen);
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
            match offset {
                Some(offset) => writeln!(output, "{} at byte {offset}: {what}", file.display())?,
                None => writeln!(output, "{}: {what}", file.display())?,
            }
            writeln!(output, "  remedy: {remedy}")?;
        }
        match self.total - self.shown.len() as u64 {
            0 => Ok(()),
            hidden => writeln!(output, "and {hidden} more"),
        }
    }
}
