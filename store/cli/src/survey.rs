//! A walk over one segment from its first group to its last: `inspect` prints the
//! result, `check` judges it.

use environment::real::RealDisk;
use value_log::Position;
use value_log::inspect::{
    Frame, FrameKind, Link, SealNote, SegmentBytes, SegmentFile, SegmentHeader, Stop, Walk, Why,
};

/// The result of a walk over a segment.
#[derive(Debug)]
pub(crate) struct Survey {
    pub(crate) file: SegmentFile,
    pub(crate) file_bytes: u64,
    /// The header, or what is wrong with it.
    pub(crate) header: Result<SegmentHeader, String>,
    /// The seal, which notes where the segment ends; `None` if it is not sealed.
    pub(crate) seal: Result<Option<SealNote>, String>,
    /// Offset at which reading failed, and the reason.
    pub(crate) unreadable: Option<(u64, String)>,
    pub(crate) groups: u64,
    pub(crate) records: u64,
    /// First and last main revision; `None` if no group has one.
    pub(crate) revisions: Option<(u64, u64)>,
    /// End of the last sound group.
    pub(crate) used_bytes: u64,
    /// Whether the last group is a clean close of the log.
    pub(crate) closed: bool,
    /// The highest position up to which a group states that the log is on stable storage.
    pub(crate) promised: Position,
    /// Link of the last group, which the next segment must follow.
    pub(crate) link: Option<Link>,
    pub(crate) stop: Stop,
}

impl Survey {
    /// Reads `file` and walks it, showing every sound group to `visit`.
    /// `None` when the file is no longer there.
    pub(crate) fn of<E>(
        file: &SegmentFile,
        after: Option<Link>,
        visit: &mut dyn FnMut(&Frame) -> Result<(), E>,
    ) -> Result<Option<Survey>, E> {
        let bytes = match file.read(&RealDisk) {
            Ok(bytes) => bytes,
            Err(_) if !file.path.exists() => return Ok(None),
            Err(error) => {
                let mut survey = Survey::new(file, Err(error.to_string()));
                survey.unreadable = Some((0, error.to_string()));
                return Ok(Some(survey));
            }
        };
        let mut walk = bytes.walk(after);
        let mut survey = Survey {
            file_bytes: bytes.file_bytes,
            seal: bytes.seal(),
            unreadable: bytes.unreadable.clone(),
            ..Survey::new(file, bytes.header())
        };
        for frame in &mut walk {
            visit(&frame)?;
            survey.count(&frame);
        }
        survey.finish(&walk);
        Ok(Some(survey))
    }

    /// The survey of a file before its first group.
    fn new(file: &SegmentFile, header: Result<SegmentHeader, String>) -> Survey {
        Survey {
            file: file.clone(),
            file_bytes: 0,
            header,
            seal: Ok(None),
            unreadable: None,
            groups: 0,
            records: 0,
            revisions: None,
            used_bytes: 0,
            closed: false,
            promised: Position::NONE,
            link: None,
            stop: Stop {
                offset: 0,
                why: Why::End,
            },
        }
    }

    /// Adds a sound group to the totals.
    pub(crate) fn count(&mut self, frame: &Frame) {
        self.groups += u64::from(frame.kind == FrameKind::Group);
        self.records += frame.records.len() as u64;
        self.promised = self.promised.max(frame.synced_up_to);
        self.closed = frame.kind == FrameKind::Closing;
        if frame.tag.last > 0 {
            let first = self.revisions.map_or(frame.tag.first, |(first, _)| first);
            self.revisions = Some((first, frame.tag.last));
        }
    }

    fn finish(&mut self, walk: &Walk) {
        self.used_bytes = walk.end();
        self.link = walk.link();
        self.stop = walk.stop().cloned().expect("the walk has ended");
    }

    /// The segment's state in a word, or what is wrong with it and where.
    pub(crate) fn state(&self) -> String {
        if let Err(what) = &self.header {
            return format!("damaged at 0: {what}");
        }
        if let Some((offset, what)) = &self.unreadable {
            return format!("unreadable at {offset}: {what}");
        }
        match (&self.stop.why, &self.seal) {
            (Why::Damaged(what), _) => format!("damaged at {}: {what}", self.stop.offset),
            (Why::Torn(_), _) => format!("unfinished group at {}", self.stop.offset),
            (Why::End, Ok(Some(_))) => "sealed".to_owned(),
            (Why::End, Err(what)) => format!("damaged at {}: {what}", SegmentBytes::SEAL_OFFSET),
            (Why::End, Ok(None)) if self.link.is_none() => "ready".to_owned(),
            (Why::End, Ok(None)) if self.closed => "closed".to_owned(),
            (Why::End, Ok(None)) => "open".to_owned(),
        }
    }
}
