//! Verifies each checkpoint and finds the one that the server starts from.
//!
//! The server skips a checkpoint that is damaged, or that points into missing
//! segments, and takes the next older one. If none is left it rebuilds the state
//! from the log, provided that the log has all its segments from the first one on.

use std::collections::BTreeSet;
use std::path::Path;

use engine::inspect::{Checkpoint, CheckpointFile, Damage, check_log_is_whole};
use environment::real::RealDisk;
use value_log::Position;

use super::agreement::Agreement;
use super::finding::{Finding, Findings};
use super::{Tally, file_bytes};
use crate::directory::DataDirectory;
use crate::progress::Progress;

/// Remedy if no checkpoint is usable and segments of the log were released.
const ANOTHER_COPY: &str = "a member of a cluster: remove it (etcdctl member remove), move this \
     directory away, and add it again; a lone node: bring back a copy of the directory";
/// First segment of a whole log. The empty checkpoint of a new directory names no position
/// and is replayed from here.
const FIRST_SEGMENT: u32 = 1;

/// The result of the pass over the checkpoints.
#[derive(Debug, Default)]
pub(super) struct Checkpoints {
    pub(super) tally: Tally,
    /// The newest checkpoint that verifies.
    pub(super) newest: Option<Checkpoint>,
    /// The records that the newest one names.
    pub(super) agreement: Agreement,
    /// The checkpoint that the server starts from.
    usable: Option<CheckpointFile>,
    /// Whether a checkpoint verifies but names a missing segment.
    names_lost_segment: bool,
    damaged: Vec<(CheckpointFile, Damage)>,
}

impl Checkpoints {
    /// Reads all of `files`, newest first.
    pub(super) fn verify(
        directory: &DataDirectory,
        files: &[CheckpointFile],
        progress: &mut Progress,
    ) -> Checkpoints {
        let present: BTreeSet<u32> = directory.files.segments.iter().map(|it| it.id).collect();
        let mut seen = Checkpoints::default();
        for file in files {
            seen.take(file, &present);
            progress.advance(file_bytes(&file.path));
        }
        seen.agreement.prepare();
        seen
    }

    fn take(&mut self, file: &CheckpointFile, present: &BTreeSet<u32>) {
        let wanted = self.newest.is_none();
        let mut expected = Agreement::default();
        let mut points_to_present = true;
        let found = file.verify(&RealDisk, &mut |pointer| {
            points_to_present &= present.contains(&pointer.position.segment());
            if wanted {
                expected.expect(&pointer);
            }
        });
        match found {
            Ok(checkpoint) => {
                self.tally.files += 1;
                self.tally.bytes += checkpoint.file_bytes;
                self.tally.records += checkpoint.keys + checkpoint.superseded;
                let usable = points_to_present && present.contains(&replayed_from(&checkpoint));
                self.names_lost_segment |= !usable;
                if usable && self.usable.is_none() {
                    self.usable = Some(file.clone());
                }
                if wanted {
                    self.newest = Some(checkpoint);
                    self.agreement = expected;
                }
            }
            // The server has replaced it since it was listed.
            Err(_) if !file.path.exists() => {}
            Err(damage) => self.damaged.push((file.clone(), damage)),
        }
    }

    /// Findings about the checkpoints.
    pub(super) fn findings(&mut self, directory: &Path, files: &[CheckpointFile]) -> Findings {
        let mut findings = Findings::default();
        if files.is_empty() {
            let remedy = self.remedy_without_any(directory);
            let what = "it holds a log but no *.checkpoint file";
            findings.add(Finding::new(directory, None, what, remedy));
        }
        for (file, damage) in std::mem::take(&mut self.damaged) {
            let remedy = self.remedy(directory, &file);
            let Damage { offset, what } = damage;
            findings.add(Finding::new(&file.path, Some(offset), what, remedy));
        }
        findings
    }

    fn remedy_without_any(&self, directory: &Path) -> String {
        let whole = match self.names_lost_segment {
            true => Err("a checkpoint names a segment that is missing".to_owned()),
            false => check_log_is_whole(&RealDisk, directory),
        };
        match whole {
            Ok(()) => "start the server: its log has all segments from the first one on, and the \
                       state is rebuilt from it"
                .to_owned(),
            Err(what) => format!("no other checkpoint can take its place ({what}); {ANOTHER_COPY}"),
        }
    }

    fn remedy(&self, directory: &Path, damaged: &CheckpointFile) -> String {
        let Some(usable) = &self.usable else {
            return self.remedy_without_any(directory);
        };
        let age = match usable.number < damaged.number {
            true => "older",
            false => "newer",
        };
        let name = usable.path.file_name().unwrap_or_default();
        let name = name.to_string_lossy();
        format!(
            "start the server: it goes on from the {age} {name} by itself, while the log is whole, \
             and writes new ones"
        )
    }
}

/// The segment where replay begins.
fn replayed_from(checkpoint: &Checkpoint) -> u32 {
    match checkpoint.replay_position {
        Position::NONE => FIRST_SEGMENT,
        position => position.segment(),
    }
}
