//! `inspect` for people.

use std::io::{self, Write};

use engine::inspect::{Checkpoint, CheckpointFile, Contents, Damage, contents};
use value_log::inspect::{Frame, FrameKind, FrameRecord, SegmentFile};
use value_log::{Position, SegmentKind};

use super::{Report, value_bytes};
use crate::directory::DataDirectory;
use crate::survey::Survey;
use crate::table::{Table, counted, size};

const SEGMENT_COLUMNS: &[&str] = &[
    "<SEGMENT",
    "<KIND",
    "EPOCH",
    "USED",
    "GROUPS",
    "RECORDS",
    "FIRST REV",
    "LAST REV",
    "<  STATE",
];
const CHECKPOINT_COLUMNS: &[&str] = &[
    "<CHECKPOINT",
    "SIZE",
    "REVISION",
    "COMPACTED",
    "APPLIED",
    "KEYS",
    "OLD VERSIONS",
    "<  REPLAY FROM",
];
/// Column heads, aligned with the lines of groups and records.
const RECORD_COLUMNS: &str = "        OFFSET      BYTES  CHANGE     REVISION VALUE BYTES  KEY";

/// Tables on an output.
pub(super) struct Text {
    output: Box<dyn Write>,
    segments: Table,
    checkpoints: Table,
    any_group: bool,
    notes: Vec<String>,
}

impl Text {
    pub(super) fn new(output: Box<dyn Write>) -> Text {
        Text {
            output,
            segments: Table::new(SEGMENT_COLUMNS),
            checkpoints: Table::new(CHECKPOINT_COLUMNS),
            any_group: false,
            notes: Vec::new(),
        }
    }

    fn record(&mut self, record: &FrameRecord) -> io::Result<()> {
        let (offset, bytes) = (record.position.offset(), record.record_bytes);
        write!(self.output, "  {offset:>12} {bytes:>10}  ")?;
        match contents(record.kind, &record.payload) {
            Contents::Key(stored) => {
                let verb = if stored.tombstone { "delete" } else { "put" };
                let revision = format!("{}.{}", stored.revision.main, stored.revision.sub);
                let value = match stored.tombstone {
                    true => "-".to_owned(),
                    false => value_bytes(stored.kv).to_string(),
                };
                let key = readable(&stored.key);
                write!(self.output, "{verb:<7}{revision:>12} {value:>10}  {key}")?;
                if stored.lease != 0 {
                    write!(self.output, "  lease {:x}", stored.lease)?;
                }
            }
            Contents::State {
                kind,
                payload_bytes,
            } => {
                let blank = "";
                write!(
                    self.output,
                    "state  {blank:>12} {payload_bytes:>10}  kind {kind}"
                )?;
            }
            Contents::HardState(state) => write!(
                self.output,
                "raft   {:>12} {:>10}  term {}, vote {:x}",
                "", state.commit, state.term, state.vote
            )?,
            Contents::Unreadable(what) => write!(self.output, "unreadable: {what}")?,
        }
        writeln!(self.output)
    }
}

impl Report for Text {
    fn directory(&mut self, directory: &DataDirectory) -> io::Result<()> {
        writeln!(self.output, "{}", directory.path.display())?;
        if let Some(holder) = directory.holder {
            let note = "data that it is writing may be missing here";
            writeln!(self.output, "in use by process {holder}: {note}")?;
        }
        let (files, spares) = (&directory.files, directory.files.spares.len() as u64);
        let segments = counted(files.segments.len() as u64, "segment", "segments");
        let spares = counted(spares, "spare file", "spare files");
        writeln!(self.output, "{segments}, {spares}\n")
    }

    fn segment_begins(&mut self, file: &SegmentFile) -> io::Result<()> {
        self.any_group = true;
        writeln!(self.output, "segment {:08x}", file.id)?;
        writeln!(self.output, "{RECORD_COLUMNS}")
    }

    fn group(&mut self, frame: &Frame, shown: &[FrameRecord]) -> io::Result<()> {
        let (sequence, epoch) = (frame.link.sequence, frame.link.epoch);
        let (start, bytes) = (frame.start, frame.end - frame.start);
        let kind = name_of(frame.kind);
        write!(
            self.output,
            "{start:>14} {bytes:>10}  {kind:<8}{sequence}  epoch {epoch}"
        )?;
        if frame.kind == FrameKind::Group {
            let tag = frame.tag;
            write!(self.output, "  term {} index {}", tag.term, tag.index)?;
            if tag.last > 0 {
                write!(self.output, "  revisions {} to {}", tag.first, tag.last)?;
            }
            let records = counted(frame.records.len() as u64, "record", "records");
            write!(self.output, "  {records}")?;
        }
        writeln!(self.output)?;
        shown.iter().try_for_each(|record| self.record(record))
    }

    fn segment(&mut self, survey: &Survey) -> io::Result<()> {
        let revision = |number: Option<u64>| number.map_or("-".to_owned(), |it| it.to_string());
        self.segments.row(vec![
            format!("{:08x}", survey.file.id),
            kind_name(survey.file.kind).to_owned(),
            epochs(survey),
            size(survey.used_bytes),
            survey.groups.to_string(),
            survey.records.to_string(),
            revision(survey.revisions.map(|(first, _)| first)),
            revision(survey.revisions.map(|(_, last)| last)),
            format!("  {}", survey.state()),
        ]);
        Ok(())
    }

    fn checkpoint(
        &mut self,
        file: &CheckpointFile,
        found: &Result<Checkpoint, Damage>,
    ) -> io::Result<()> {
        let checkpoint = match found {
            Ok(checkpoint) => checkpoint,
            Err(Damage { offset, what }) => {
                let number = file.number;
                let note = format!("checkpoint {number:x} is damaged at {offset}: {what}");
                self.notes.push(note);
                return Ok(());
            }
        };
        let from = checkpoint.replay_position;
        self.checkpoints.row(vec![
            format!("{:x}", file.number),
            size(checkpoint.file_bytes),
            checkpoint.revision.to_string(),
            match checkpoint.compacted {
                ..0 => "-".to_owned(),
                compacted => compacted.to_string(),
            },
            checkpoint.applied_index.to_string(),
            checkpoint.keys.to_string(),
            checkpoint.superseded.to_string(),
            match from {
                Position::NONE => "  the beginning".to_owned(),
                _ => format!("  {:08x} at {}", from.segment(), from.offset()),
            },
        ]);
        Ok(())
    }

    fn end(&mut self) -> io::Result<()> {
        if self.any_group {
            writeln!(self.output)?;
        }
        if !self.segments.is_empty() {
            self.segments.write(&mut self.output)?;
        }
        if !self.checkpoints.is_empty() {
            writeln!(self.output)?;
            self.checkpoints.write(&mut self.output)?;
        }
        for note in &self.notes {
            writeln!(self.output, "\n{note}")?;
        }
        self.output.flush()
    }
}

/// The epochs of a segment: one number, or the first and the last.
fn epochs(survey: &Survey) -> String {
    let first = survey.header.as_ref().ok().map(|header| header.epoch);
    let last = survey.link.map(|link| link.epoch);
    match (first, last) {
        (Some(first), Some(last)) if first != last => format!("{first}-{last}"),
        (Some(one), _) | (None, Some(one)) => one.to_string(),
        (None, None) => "?".to_owned(),
    }
}

pub(super) fn kind_name(kind: SegmentKind) -> &'static str {
    match kind {
        SegmentKind::Log => "log",
        SegmentKind::Sorted => "sorted",
    }
}

pub(super) fn name_of(kind: FrameKind) -> &'static str {
    match kind {
        FrameKind::Group => "group",
        FrameKind::Opening => "opening",
        FrameKind::Closing => "closing",
    }
}

/// A key as text, with every byte that is not text escaped.
fn readable(key: &[u8]) -> String {
    match std::str::from_utf8(key) {
        Ok(text) if !text.chars().any(char::is_control) => text.to_owned(),
        _ => key.escape_ascii().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_and_bytes_are_spelled_out() {
        assert_eq!(readable("tinte/größe".as_bytes()), "tinte/größe");
        assert_eq!(readable(b"a\nb"), "a\\nb");
        assert_eq!(readable(b"\xff\0"), "\\xff\\x00");
    }
}
