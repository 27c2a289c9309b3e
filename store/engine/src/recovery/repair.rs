//! Repair of a log that is damaged where a restart replays it: the log is cut in front of
//! the damage, and what lies behind is discarded. A plan is made without writing, and carried
//! out when an operator wants it, or a member that can ask other members.
//!
//! ```text
//!   checkpoint ─► replay ─► ✗    the cut: the end of the last sound group before it
//!                           │    discarded: all groups behind, sound ones too
//!                           └─   kept: what a member has promised (terms and votes)
//! ```
//!
//! A checkpoint that has seen more than is known to be committed in front of the cut is
//! renamed, and an older one or the whole log is used: entries behind the cut may have
//! overruled some in front of it.

use super::checkpoints::has_segments;
use super::{Recovery, log_options, refuse_foreign, take_lock};
use crate::checkpoint::files;
use crate::format::KIND_HARD_STATE;
use crate::inspect::{Contents, contents};
use crate::{Error, HardState, Options, Replayed};
use environment::Disk;
use std::path::{Path, PathBuf};
use value_log::inspect::{Directory, FrameRecord, SegmentBytes, SegmentFile, Walk, Why};
use value_log::repair::{self, Cut};
use value_log::{Group, Record, SegmentKind};

/// Keys of one group that are listed.
const KEYS_MAX: usize = 1000;
/// Times that a plan is begun again with one checkpoint less.
const ROUNDS_MAX: usize = 100;

/// Changes that a repair would make.
#[derive(Debug)]
pub struct RepairPlan {
    /// The place where the log is cut, and why; `None`: only checkpoints go.
    pub cut: Option<Cut>,
    /// Groups that are discarded, in the order of the log.
    pub lost: Vec<LostGroup>,
    /// Checkpoints that know more than is left of the log.
    pub checkpoints: Vec<PathBuf>,
    /// Last main revision that is left. In a cluster the last ones of these may not be
    /// committed: the other members decide.
    pub revision: i64,
    /// Whether all that this member promised to others is known: terms and votes.
    pub promises_known: bool,
    promised: HardState,
}

/// A group, or a stretch of damaged bytes, behind the cut.
#[derive(Clone, Debug, Default)]
pub struct LostGroup {
    /// File of the segment.
    pub file: PathBuf,
    /// First byte.
    pub offset: u64,
    /// Byte after the last one.
    pub end: u64,
    /// Number of the group in the log; `None`: of damaged bytes.
    pub sequence: Option<u64>,
    /// Keys that it wrote, as far as they can be read, and the main revision of each.
    pub keys: Vec<(Vec<u8>, i64)>,
    /// Number of records that are no key versions.
    pub others: usize,
}

impl RepairPlan {
    /// Plans a repair of `directory`, which must not be open. `None`: it can be
    /// opened as it is. `begin` is called at the start of each attempt, and `replay` then
    /// receives the state that the attempt finds; the last attempt finds the state in front of
    /// the cut. An error: the directory cannot be read, or giving up data would not help.
    pub fn of(
        disk: &dyn Disk,
        directory: &Path,
        options: &Options,
        begin: &mut dyn FnMut(),
        replay: &mut dyn FnMut(Replayed<'_>) -> Result<(), Error>,
    ) -> Result<Option<RepairPlan>, Error> {
        let names = files::list(disk, directory)?;
        refuse_foreign(directory, &names)?;
        if !has_segments(&names) {
            return Ok(None);
        }
        let _lock = take_lock(disk, directory)?;
        let mut attempt = Attempt {
            disk,
            directory,
            options,
            names,
            renamed: Vec::new(),
        };
        for _ in 0..ROUNDS_MAX {
            begin();
            if let Some(outcome) = attempt.run(replay)? {
                return Ok(outcome);
            }
        }
        Err(Error::Replay("there is no end of damage in the log".into()))
    }

    /// Carries the plan out. Returns the files that hold what was discarded.
    pub fn carry_out(&self, disk: &dyn Disk, directory: &Path) -> Result<Vec<PathBuf>, Error> {
        let _lock = take_lock(disk, directory)?;
        let mut renamed = Vec::new();
        // Checkpoints first: beside a cut log they would speak of entries that are gone.
        for checkpoint in &self.checkpoints {
            let to = repair::free_name(disk, checkpoint)?;
            disk.rename(checkpoint, &to)
                .map_err(Error::disk("rename", checkpoint))?;
            renamed.push(to);
        }
        disk.sync_directory(directory)
            .map_err(Error::disk("sync", directory))?;
        if let Some(cut) = &self.cut {
            let promised = self.promised.encode();
            let record = Record {
                kind: KIND_HARD_STATE,
                parts: &[promised.as_flattened()],
            };
            renamed.extend(repair::cut(disk, cut, &[record])?);
        }
        Ok(renamed)
    }
}

struct Attempt<'a> {
    disk: &'a dyn Disk,
    directory: &'a Path,
    options: &'a Options,
    /// Files of the directory, without checkpoints that are renamed.
    names: Vec<String>,
    renamed: Vec<PathBuf>,
}

impl Attempt<'_> {
    /// One attempt. `None`: a checkpoint was renamed, and another attempt is needed.
    fn run(
        &mut self,
        replay: &mut dyn FnMut(Replayed<'_>) -> Result<(), Error>,
    ) -> Result<Option<Option<RepairPlan>>, Error> {
        let mut recovery = Recovery::new(self.directory, self.options.clone(), &self.names);
        recovery.load_checkpoint(self.disk, replay)?;
        let cut = self.survey(&mut recovery, replay)?;
        // Behind a cut there may be entries that overruled some in front of it: only what
        // is said to be committed in front of it is applied.
        if cut.is_none() {
            recovery.apply_what_was_applied(replay)?;
        }
        recovery.apply_gathered();
        match recovery.check_end() {
            Ok(()) => {}
            Err(Error::LogCutShort { .. }) => {
                self.rename_newest_checkpoint();
                return Ok(None);
            }
            Err(error) => return Err(error),
        }
        if cut.is_none() && self.renamed.is_empty() {
            return Ok(Some(None));
        }
        let mut promised = *recovery.accounting.hard_state.lock();
        let commit = promised.commit;
        let (lost, promises_known) = match &cut {
            Some(cut) => self.behind(cut, &mut promised)?,
            None => (Vec::new(), true),
        };
        promised.commit = commit;
        let mains = recovery.unapplied.iter().filter_map(|it| it.batch.mains());
        let last_main = mains.map(|(_, last)| last).last();
        Ok(Some(Some(RepairPlan {
            lost,
            checkpoints: std::mem::take(&mut self.renamed),
            revision: last_main.unwrap_or(recovery.index.revision),
            promises_known,
            promised,
            cut,
        })))
    }

    fn survey(
        &self,
        recovery: &mut Recovery<'_>,
        replay: &mut dyn FnMut(Replayed<'_>) -> Result<(), Error>,
    ) -> Result<Option<Cut>, Error> {
        let replay_from = recovery.replay_from;
        let mut failed = None;
        let mut visit = |group: &Group<'_>| {
            recovery.replay_group(group, replay).map_err(|error| {
                let text = value_log::Error::visit(std::io::Error::other(error.to_string()));
                if !error.is_damage() {
                    failed = Some(error);
                }
                text
            })
        };
        let options = log_options(self.options);
        let cut = repair::survey(self.disk, self.directory, &options, replay_from, &mut visit)?;
        match failed {
            Some(error) => Err(error),
            None => Ok(cut),
        }
    }

    fn rename_newest_checkpoint(&mut self) {
        if let Some(&newest) = files::numbers(&self.names).first() {
            let path = files::path(self.directory, newest);
            let name = path
                .file_name()
                .map(|name| name.to_string_lossy().into_owned());
            self.names.retain(|other| Some(other) != name.as_ref());
            self.renamed.push(path);
        }
    }

    /// What lies behind the cut, and whether the last promise in it is known; absorbs
    /// the promises.
    fn behind(&self, cut: &Cut, promised: &mut HardState) -> Result<(Vec<LostGroup>, bool), Error> {
        let listed = Directory::list(self.disk, self.directory)?;
        let mut behind = Behind {
            lost: Vec::new(),
            promises_known: true,
            promised,
        };
        let first = cut.position.segment();
        let logs = listed.segments.iter();
        for file in logs.filter(|it| it.kind == SegmentKind::Log && it.id >= first) {
            let bytes = file.read(self.disk)?;
            if file.id == first {
                behind.list_from(file, &bytes, cut.position.offset(), Some(cut.link));
            } else {
                behind.list_whole(file, &bytes);
            }
        }
        Ok((behind.lost, behind.promises_known))
    }
}

struct Behind<'a> {
    lost: Vec<LostGroup>,
    promises_known: bool,
    promised: &'a mut HardState,
}

impl Behind<'_> {
    fn list_whole(&mut self, file: &SegmentFile, bytes: &SegmentBytes) {
        let mut walk = bytes.walk(None);
        self.list(file, &mut walk);
        if matches!(walk.stop().map(|stop| &stop.why), Some(Why::Damaged(_))) {
            self.list_from(file, bytes, walk.end(), walk.link());
        }
    }

    /// Damaged bytes from `from` on, then sound groups, and again.
    fn list_from(
        &mut self,
        file: &SegmentFile,
        bytes: &SegmentBytes,
        mut from: u64,
        mut link: Option<value_log::inspect::Link>,
    ) {
        while let Some(mut walk) = bytes.walk_behind(from, link) {
            self.damaged(file, bytes, from, walk.end());
            self.list(file, &mut walk);
            (from, link) = (walk.end(), walk.link());
            if !matches!(walk.stop().map(|stop| &stop.why), Some(Why::Damaged(_))) {
                return;
            }
        }
        let end = bytes.used_from(from);
        if end > from {
            self.damaged(file, bytes, from, end);
        }
    }

    fn list(&mut self, file: &SegmentFile, walk: &mut Walk) {
        for frame in walk {
            let mut group = LostGroup {
                file: file.path.clone(),
                offset: frame.start,
                end: frame.end,
                sequence: Some(frame.link.sequence),
                ..LostGroup::default()
            };
            frame
                .records
                .iter()
                .for_each(|record| self.take(&mut group, record));
            self.lost.push(group);
        }
    }

    fn damaged(&mut self, file: &SegmentFile, bytes: &SegmentBytes, from: u64, to: u64) {
        let mut group = LostGroup {
            file: file.path.clone(),
            offset: from,
            end: to,
            ..LostGroup::default()
        };
        self.promises_known = false;
        let mut at = from;
        while at < to {
            match bytes.record_at(at).filter(|it| it.kind != 0) {
                Some(record) => {
                    at += record.record_bytes;
                    // The last record of a group is the one that may be a promise.
                    self.promises_known = at == to && record.kind == KIND_HARD_STATE;
                    self.take(&mut group, &record);
                }
                None => at += 8,
            }
        }
        self.lost.push(group);
    }

    fn take(&mut self, group: &mut LostGroup, record: &FrameRecord) {
        match contents(record.kind, &record.payload) {
            Contents::Key(stored) => {
                if group.keys.len() < KEYS_MAX {
                    let key = stored.key.to_vec();
                    group.keys.push((key, stored.revision.main));
                }
            }
            Contents::HardState(state) => {
                self.promised.absorb(state);
                if group.sequence.is_some() {
                    self.promises_known = true;
                }
            }
            _ => group.others += 1,
        }
    }
}
