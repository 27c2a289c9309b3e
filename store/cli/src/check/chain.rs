//! Checks the segments in order: each one must verify and follow the one before it.
//!
//! Log segments form one chain. A gap in it is correct where garbage collection released
//! segments, which it does only before the position where the newest
//! checkpoint begins to replay; from there on every segment must exist and
//! every revision must follow the one before.

use std::convert::Infallible;
use std::path::Path;

use engine::inspect::{Checkpoint, Contents, contents};
use environment::real::RealDisk;
use value_log::inspect::{Frame, HomeLog, Link, SegmentBytes, SegmentFile, Why};
use value_log::{Position, SegmentKind};

use super::agreement::{Agreement, Open};
use super::finding::{Finding, Findings};
use super::walked::{Behind, Walked};
use crate::survey::Survey;

/// The link before the first group of a sorted segment, which has a chain of its own.
const SORTED_START: Link = Link {
    sequence: 0,
    epoch: 0,
    crc: 0,
};

/// State of the walk along the log.
#[derive(Debug)]
pub(super) struct Chain {
    checkpoint: Option<Checkpoint>,
    /// The previous log segment and the end of its last sound group; `None` at the beginning.
    last: Option<(SegmentFile, u64)>,
    link: Option<Link>,
    /// Last main revision seen; `None` if the next one is unknown, as after damage.
    revision: Option<i64>,
    last_revision: i64,
    /// Note about an unfinished group at the end, if no group follows.
    unfinished: Option<String>,
    /// The log that most segments are of.
    home: HomeLog,
}

/// The result for one segment.
struct Judged {
    survey: Survey,
    revision: Option<i64>,
    last_revision: i64,
    findings: Findings,
    sound: bool,
}

impl Chain {
    pub(super) fn new(checkpoint: Option<Checkpoint>, home: HomeLog) -> Chain {
        let last_revision = checkpoint.map_or(1, |checkpoint| checkpoint.revision);
        Chain {
            checkpoint,
            last: None,
            link: None,
            revision: None,
            last_revision,
            unfinished: None,
            home,
        }
    }

    /// Checks `file`. `None` if it is gone or belongs to another log: such a file does not
    /// count as a segment.
    pub(super) fn check(
        &mut self,
        file: &SegmentFile,
        agreement: &mut Agreement,
        findings: &mut Findings,
    ) -> Option<Survey> {
        if let Some(what) = self.home.foreign(file, &RealDisk) {
            findings.add(Finding::foreign(&file.path, what));
            return None;
        }
        let hole = self.hole_before(file);
        if hole.is_some() {
            (self.link, self.revision) = (None, None);
        }
        let judged = self.judge_linked(file, agreement, findings)?;
        if file.kind == SegmentKind::Log {
            self.go_on(&judged);
        }
        findings.append(judged.findings);
        findings.extend(hole.flatten());
        Some(judged.survey)
    }

    /// Checks `file` as the next of the chain, or by itself if none of its groups
    /// follows the chain.
    fn judge_linked(
        &self,
        file: &SegmentFile,
        agreement: &mut Agreement,
        findings: &mut Findings,
    ) -> Option<Judged> {
        if file.kind == SegmentKind::Sorted {
            return self.judge(file, Some(SORTED_START), agreement);
        }
        let linked = self.judge(file, self.link, agreement)?;
        if !linked.sound || linked.survey.link != self.link {
            return Some(linked);
        }
        let alone = self.judge(file, None, agreement)?;
        findings.extend(self.broken_chain(&alone.survey));
        Some(alone)
    }

    /// Groups that do not follow the chain are the rest of an unfinished
    /// write, unless one of them states that the log before it was on stable storage.
    fn broken_chain(&self, alone: &Survey) -> Option<Finding> {
        let (link, (last, end), begun) = (self.link?, self.last.as_ref()?, alone.link?);
        let lost = begun.epoch >= link.epoch && alone.promised > Position::new(last.id, *end);
        lost.then(|| {
            let what = format!(
                "the log ends with group {} here, and segment {:08x} begins with a later one",
                link.sequence, alone.file.id
            );
            Finding::log(&last.path, *end, what)
        })
    }

    /// Makes this the segment that the next one must follow. After damage the next one is
    /// checked by itself.
    fn go_on(&mut self, judged: &Judged) {
        let survey = &judged.survey;
        (self.link, self.revision) = match judged.sound {
            true => (survey.link.or(self.link), judged.revision),
            false => (None, None),
        };
        self.last_revision = self.last_revision.max(judged.last_revision);
        self.last = Some((survey.file.clone(), survey.used_bytes));
        if survey.groups > 0 || matches!(survey.stop.why, Why::Torn(_)) {
            self.unfinished = unfinished_group(survey);
        }
    }

    /// Checks that the log reaches as far as the checkpoint. Returns the last revision.
    pub(super) fn finish(&mut self, findings: &mut Findings) -> i64 {
        let wanted = self.checkpoint.map_or(0, |checkpoint| checkpoint.last_main);
        if let Some((file, end)) = self.last.as_ref().filter(|_| self.last_revision < wanted) {
            let what = format!(
                "the log ends with revision {}, but the checkpoint has revision {wanted}",
                self.last_revision
            );
            findings.add(Finding::log(&file.path, *end, what));
        }
        self.last_revision
    }

    /// A note about the end of the log.
    pub(super) fn note(self) -> Option<String> {
        self.unfinished
    }

    /// `Some` if segments are missing before `file`, with a finding if they should be there.
    fn hole_before(&self, file: &SegmentFile) -> Option<Option<Finding>> {
        let previous = previous_of(file)?;
        if previous == self.last.as_ref().map_or(0, |(last, _)| last.id) {
            return None;
        }
        // Without a checkpoint it is unknown which segments were released.
        let Some(checkpoint) = self.checkpoint else {
            return Some(None);
        };
        let replayed = checkpoint.replay_position.segment();
        let missing = (previous >= replayed).then(|| {
            let path = file.path.with_file_name(format!("{previous:08x}.log"));
            let what = format!("the segment is missing: {:08x} follows it", file.id);
            Finding::log(&path, 0, what)
        });
        Some(missing)
    }

    /// Walks `file` once and collects all findings about it.
    fn judge(
        &self,
        file: &SegmentFile,
        after: Option<Link>,
        agreement: &mut Agreement,
    ) -> Option<Judged> {
        let log = file.kind == SegmentKind::Log;
        let mut pass = Pass {
            path: &file.path,
            open: agreement.of(file.id),
            revision: self.revision.filter(|_| log),
            last_revision: 0,
            findings: Findings::default(),
        };
        let mut visit = |frame: &Frame| {
            pass.frame(frame, log);
            Ok::<(), Infallible>(())
        };
        let Ok(survey) = Survey::of(file, after, &mut visit);
        let mut survey = survey?;
        let mut further = Findings::default();
        let walked = Walked::on_from(&mut survey, &mut further, &mut |frame, behind| {
            if behind == Behind::Damage {
                pass.revision = None;
            }
            pass.frame(frame, log);
        });
        let Pass {
            open,
            revision,
            last_revision,
            mut findings,
            ..
        } = pass;
        judge_survey(&survey, &mut findings);
        findings.append(further);
        findings.append(open.finish(file, &walked));
        let sound = findings.is_empty();
        if self.is_not_replayed(&survey) {
            findings.are_not_replayed();
        }
        Some(Judged {
            survey,
            revision,
            last_revision,
            findings,
            sound,
        })
    }

    /// Whether the server reads no group of the segment when it starts: the seal gives its
    /// end, and the newest checkpoint covers all that lies before the position where it
    /// begins to replay.
    fn is_not_replayed(&self, survey: &Survey) -> bool {
        let opens = survey.header.as_ref().is_ok_and(|header| {
            header.kind == SegmentKind::Log && survey.file_bytes >= header.segment_bytes
        });
        let replayed = self.checkpoint.map(|it| it.replay_position.segment());
        opens
            && matches!(survey.seal, Ok(Some(_)))
            && replayed.is_some_and(|segment| survey.file.id < segment)
    }
}

/// A note about a group that was begun and never acknowledged.
fn unfinished_group(survey: &Survey) -> Option<String> {
    matches!(survey.stop.why, Why::Torn(_)).then(|| {
        let (path, offset) = (survey.file.path.display(), survey.stop.offset);
        format!("{path} ends in an unfinished group at byte {offset}, never acknowledged; the server drops it when it starts")
    })
}

/// The log segment that `file` follows, by its number.
fn previous_of(file: &SegmentFile) -> Option<u32> {
    let header = file.read_header(&RealDisk)?;
    (header.kind == SegmentKind::Log).then_some(header.previous)
}

/// Adds findings about a segment as a whole.
fn judge_survey(survey: &Survey, findings: &mut Findings) {
    let path = &survey.file.path;
    let mut add = |offset: u64, what: String| findings.add(Finding::log(path, offset, what));
    match &survey.header {
        Err(what) => add(0, what.clone()),
        Ok(header) if survey.file_bytes < header.segment_bytes => {
            let what = format!(
                "the file ends here, its header says {} bytes",
                header.segment_bytes
            );
            add(survey.file_bytes, what);
        }
        Ok(_) => {}
    }
    if let Err(what) = &survey.seal {
        add(SegmentBytes::SEAL_OFFSET, what.clone());
    }
    if let Some((offset, what)) = &survey.unreadable {
        let what = format!("cannot be read: {what}; the rest of this file is not checked");
        add(*offset, what);
    }
    if let Why::Damaged(what) = &survey.stop.why {
        add(survey.stop.offset, what.clone());
    }
}

/// Checks the groups of one segment in order.
struct Pass<'a> {
    path: &'a Path,
    open: Open,
    revision: Option<i64>,
    last_revision: i64,
    findings: Findings,
}

impl Pass<'_> {
    fn frame(&mut self, frame: &Frame, log: bool) {
        if log && frame.tag.last > 0 {
            self.follow(frame);
        }
        for record in &frame.records {
            match contents(record.kind, &record.payload) {
                Contents::Key(stored) => self.open.cross_off(self.path, record, &stored),
                Contents::State { .. } | Contents::HardState(_) => {}
                Contents::Unreadable(what) => {
                    let what = format!("the record verifies but cannot be decoded: {what}");
                    self.findings
                        .add(Finding::log(self.path, record.position.offset(), what));
                }
            }
        }
    }

    /// Checks that the group's revisions follow those before without a gap.
    fn follow(&mut self, frame: &Frame) {
        let (first, last) = (frame.tag.first as i64, frame.tag.last as i64);
        if let Some(before) = self.revision.filter(|before| before + 1 != first) {
            let what = format!("revision {first} follows {before}");
            self.findings
                .add(Finding::log(self.path, frame.start, what));
        }
        self.revision = Some(last);
        self.last_revision = last;
    }
}
