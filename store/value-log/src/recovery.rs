//! Finding the end of the log, and telling a torn tail from damage.
//!
//! ```text
//!   replay from ──► frame ─► frame ─► frame ─►  ✗        ✗: no frame that
//!                                               │           continues the chain
//!                       anything later that promised ✗?
//!                         yes: damaged, refuse  │  no: torn, go on here
//! ```
//!
//! Every frame says up to where the log was stable when it was written. The
//! frames of one write promise nothing about each other, so whatever subset of
//! an unfinished write reached the device, none of it speaks for a missing
//! piece. A frame of a later write does: it was only written after the flush
//! of all before it had returned. So a later frame of this opening or a newer
//! one that promises beyond ✗ proves that ✗ was stable once.
//!
//! The tail is read from the device: after a failed flush the page cache may
//! show bytes that the device never got.
//!
//! *What is read*: nothing before the place to replay from, when a frame starts
//! there; the tail as far as frames can reach, says its note, which is stable
//! before one goes further; and behind it the next segment, if the tail was
//! ever left (its seal note is stable before anything is written there).
//!
//! A torn tail is truncated logically: the next opening writes over it. What
//! lies behind can never come to life again, because epochs do not fall along
//! the chain and every opening starts with a frame of a higher one.

use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;

use environment::{Disk, File, OpenMode};

use crate::directory::{Contents, measure};
use crate::format::{FRAME_HEADER_BYTES, FRAMES_START, FrameHeader, FrameKind};
use crate::frame::Finisher;
use crate::position::end_of;
use crate::record;
use crate::segment::{Extent, FileName, Segment};
use crate::window::{FileWindow, FoundFrame};
use crate::{Error, Group, Options, Position, SegmentKind, Sequence, Tag};

/// How far a segment is searched if no seal note shows that it was entered.
const GLANCE_BYTES: u64 = 4 << 20;

/// Called with every group from the place to replay from on.
pub(crate) type Visit<'a> = dyn FnMut(&Group<'_>) -> Result<(), Error> + 'a;

/// What the walk found.
#[derive(Debug)]
pub(crate) struct Walked {
    /// Index of the last segment with frames, in the directory's order.
    pub tail: usize,
    /// How far it is filled.
    pub extent: Extent,
    pub groups: u64,
    pub sequence: Sequence,
    pub crc: u32,
    /// Where the last frame starts; 0 if it lies in another segment than the tail.
    pub last_start: u64,
    /// What the last frame promised.
    pub synced_up_to: Position,
    /// Highest epoch seen anywhere.
    pub epoch: u32,
    pub tag: Tag,
    pub clean: bool,
    pub torn: bool,
}

/// The last frame accepted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Last {
    start: Position,
    pub sequence: Sequence,
    pub crc: u32,
    pub epoch: u32,
    kind: FrameKind,
    pub synced_up_to: Position,
}

impl Last {
    /// Offset at which it starts in this segment; 0 if it lies in another one.
    fn start_in(&self, segment: &Segment) -> u64 {
        match self.start.segment() == segment.id() {
            true => self.start.offset(),
            false => 0,
        }
    }
}

/// A walk over the log from the place to replay from, or its oldest segment, to its end.
pub(crate) struct Walker<'a> {
    disk: &'a dyn Disk,
    contents: &'a Contents,
    replay_from: Option<Position>,
    options: &'a Options,
    visit: &'a mut Visit<'a>,
    finisher: Finisher,
    last: Option<Last>,
    groups: u64,
    tag: Tag,
    first: usize,
    /// Segment and end of the last frame accepted.
    reached: (usize, u64),
    /// The first segment is walked from its start, wherever replay begins.
    learns_chain: bool,
}

/// How far a walk has come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reached {
    /// Index of the segment, in the directory's order.
    pub index: usize,
    /// End of the last frame accepted.
    pub end: u64,
    /// That frame.
    pub last: Option<Last>,
}

fn first_segment(
    directory: &Path,
    contents: &Contents,
    replay_from: Option<Position>,
) -> Result<usize, Error> {
    let Some(from) = replay_from else {
        return Ok(0);
    };
    let found = contents
        .log
        .iter()
        .position(|segment| segment.id() == from.segment());
    found.ok_or_else(|| {
        let file = FileName::Segment(SegmentKind::Log, from.segment()).in_directory(directory);
        Error::damaged(
            &file,
            from.offset(),
            "the log is to be replayed from here, but there is no such file",
        )
    })
}

impl<'a> Walker<'a> {
    pub fn begin(
        disk: &'a dyn Disk,
        directory: &Path,
        contents: &'a Contents,
        replay_from: Option<Position>,
        options: &'a Options,
        visit: &'a mut Visit<'a>,
    ) -> Result<Walker<'a>, Error> {
        assert!(!contents.log.is_empty(), "an empty log is not walked");
        let first = first_segment(directory, contents, replay_from)?;
        for segment in contents.log[..first].iter().chain(&contents.sorted) {
            if !segment.extent().sealed {
                measure(segment)?;
            }
        }
        Ok(Walker {
            disk,
            contents,
            replay_from,
            options,
            visit,
            finisher: Finisher::default(),
            last: None,
            groups: 0,
            tag: Tag::default(),
            first,
            reached: (first, FRAMES_START),
            learns_chain: false,
        })
    }

    /// [`Walker::walk`]. If that would fail because of damage, or because the visitor refuses a
    /// group, returns how far it came, and the error.
    pub fn survey(mut self) -> Result<Option<(Reached, Error)>, Error> {
        self.learns_chain = true;
        match self.walk() {
            Ok(_) => Ok(None),
            Err(error @ (Error::Damaged { .. } | Error::Visit(_))) => {
                let (index, end) = self.reached;
                let last = self.last;
                Ok(Some((Reached { index, end, last }, error)))
            }
            Err(error) => Err(error),
        }
    }

    pub fn walk(&mut self) -> Result<Walked, Error> {
        let first = self.first;
        let device_from = self.device_from()?;
        self.learn_chain(first, device_from)?;
        let mut index = first;
        let start = self.start_in(first)?;
        let mut extent = self.walk_segment(index, index >= device_from, start)?;
        while self.goes_on_in(index + 1)? {
            extent.sealed = true;
            self.contents.log[index].set_extent(extent);
            index += 1;
            extent = self.walk_segment(index, index >= device_from, Extent::EMPTY)?;
        }
        self.check_reaches_replay(index, extent.end)?;
        let torn = self.check_nothing_promised(index, extent.end)?;
        let last = self.last;
        Ok(Walked {
            tail: index,
            extent,
            groups: self.groups,
            sequence: last.map_or(Sequence(0), |last| last.sequence),
            crc: last.map_or(0, |last| last.crc),
            last_start: last.map_or(0, |last| last.start_in(&self.contents.log[index])),
            synced_up_to: last.map_or(Position::NONE, |last| last.synced_up_to),
            epoch: self.highest_epoch(),
            tag: self.tag,
            clean: last.is_none_or(|last| last.kind == FrameKind::Closing) && !torn,
            torn,
        })
    }

    /// Where replay begins with a segment, the frame that its first one
    /// continues is the last of the segment before, if that is still there.
    /// Without it any frame of the segment would do for the first, and a log
    /// that has none there yet would forget its sequence and epoch; behind a
    /// hole the older segment still knows how high they were.
    fn learn_chain(&mut self, first: usize, device_from: usize) -> Result<(), Error> {
        let at_its_start = |from: Position| from.offset() <= FRAMES_START;
        if first == 0 || !self.replay_from.is_some_and(at_its_start) {
            return Ok(());
        }
        let walked = self.walk_segment(first - 1, first > device_from, Extent::EMPTY)?;
        // That segment is not needed for replay, so damage there is ignored.
        if walked.end != self.contents.log[first - 1].extent().end {
            self.last = None;
        }
        Ok(())
    }

    /// Where the walk begins in the first segment: at the frame to replay from,
    /// which its caller knows to be stable, so that what lies before it is of
    /// this segment's life and needs no look; else at the segment's start.
    fn start_in(&self, first: usize) -> Result<Extent, Error> {
        let segment = &self.contents.log[first];
        let Some(from) = self.replay_from.filter(|from| from.offset() > FRAMES_START) else {
            return Ok(Extent::EMPTY);
        };
        if self.learns_chain || self.window(segment, true)?.header(from.offset())?.is_none() {
            return Ok(Extent::EMPTY);
        }
        Ok(Extent {
            end: from.offset(),
            first_tag: self.first_tag(segment, from.offset())?,
            ..Extent::EMPTY
        })
    }

    /// Tag of the first tagged group before `end`.
    fn first_tag(&self, segment: &Segment, end: u64) -> Result<Tag, Error> {
        let mut window = FileWindow::new(segment, Arc::clone(&segment.file), end);
        let mut extent = Extent::EMPTY;
        while let Some(found) = window.header_behind(extent.end, |_| true)? {
            extent.end = found.end();
            extent.note_tag(found.header.tag);
            if extent.first_tag != Tag::default() {
                break;
            }
        }
        Ok(extent.first_tag)
    }

    fn highest_epoch(&self) -> u32 {
        let segments = self.contents.log.iter().chain(&self.contents.sorted);
        let headers = segments
            .map(|segment| segment.header.epoch)
            .max()
            .unwrap_or(0);
        headers.max(self.last.map_or(0, |last| last.epoch))
    }

    /// Index of the first segment that is read from the device: the one where
    /// the promise of the newest segment's first frame ends.
    fn device_from(&self) -> Result<usize, Error> {
        for (index, segment) in self.contents.log.iter().enumerate().rev() {
            if let Some(found) = self.window(segment, true)?.header(FRAMES_START)? {
                let stable = found.header.synced_up_to;
                let unflushed = |it: &Arc<Segment>| end_of(it.id(), it.extent().end) > stable;
                return Ok(self.contents.log[..index]
                    .iter()
                    .position(unflushed)
                    .unwrap_or(index));
            }
        }
        Ok(0)
    }

    fn window(&self, segment: &Segment, device: bool) -> Result<FileWindow, Error> {
        let file = self.file(segment, device)?;
        Ok(FileWindow::new(segment, file, segment.header.segment_bytes))
    }

    fn file(&self, segment: &Segment, device: bool) -> Result<Arc<dyn File>, Error> {
        if !device {
            return Ok(Arc::clone(&segment.file));
        }
        self.disk
            .open(&segment.path, OpenMode::ReadDevice)
            .map_err(Error::io("open", &segment.path))
    }

    /// Accepts frames from `start` on until one is missing. Returns how far the
    /// segment goes.
    fn walk_segment(&mut self, index: usize, device: bool, start: Extent) -> Result<Extent, Error> {
        let segment = Arc::clone(&self.contents.log[index]);
        let file = self.file(&segment, device)?;
        let mut window = FileWindow::sweeping(&segment, file, segment.header.segment_bytes);
        let mut extent = start;
        self.reached = (index, extent.end);
        let linked = self.is_linked(index);
        while let Some(found) =
            self.next_frame(&mut window, extent.end, linked || extent != Extent::EMPTY)?
        {
            let end = end_of(segment.id(), found.end());
            let wanted = self.replay_from.is_none_or(|from| end > from);
            let shown = !wanted
                || self.show(&mut window, &found, end)?
                || self.show_damaged(index, &mut window, (extent.end, &found), end)?;
            if !shown {
                break;
            }
            extent.end = found.end();
            extent.note_tag(found.header.tag);
            self.accept(&found);
            self.reached = (index, extent.end);
        }
        Ok(extent)
    }

    fn accept(&mut self, found: &FoundFrame) {
        let FrameHeader {
            sequence,
            epoch,
            kind,
            tag,
            synced_up_to,
            ..
        } = found.header;
        let before = self.last.map_or(Sequence(0), |last| last.sequence);
        assert!(
            sequence > before,
            "frame {sequence} accepted behind {before}"
        );
        self.last = Some(Last {
            start: Position::new(found.header.segment, found.start),
            sequence,
            crc: found.crc,
            epoch,
            kind,
            synced_up_to,
        });
        if tag != Tag::default() {
            self.tag = tag;
        }
    }

    /// The frame behind `offset` that continues the chain.
    fn next_frame(
        &self,
        window: &mut FileWindow,
        offset: u64,
        chained: bool,
    ) -> Result<Option<FoundFrame>, Error> {
        let last = self.last;
        window.header_behind(offset, |header| {
            last.is_none_or(|last| follows(&last, header, chained))
        })
    }

    /// Verifies a frame and shows it to the visitor; false when it does not
    /// verify.
    fn show(
        &mut self,
        window: &mut FileWindow,
        found: &FoundFrame,
        end: Position,
    ) -> Result<bool, Error> {
        let Some(payload) = window.payload(found)? else {
            return Ok(false);
        };
        if !self.options.accepts_torn_frames && !self.finisher.verify(&found.header, payload) {
            return Ok(false);
        }
        if found.header.kind == FrameKind::Group {
            self.groups += 1;
            (self.visit)(&group(found, end, payload, Vec::new()))?;
        }
        Ok(true)
    }

    /// Shows the visitor a frame that does not verify, where it was stable once and its
    /// header proves which records it had; false where that is not so.
    fn show_damaged(
        &mut self,
        index: usize,
        window: &mut FileWindow,
        (before, found): (u64, &FoundFrame),
        end: Position,
    ) -> Result<bool, Error> {
        if !self.options.shows_damaged_groups || found.header.kind != FrameKind::Group {
            return Ok(false);
        }
        let Some(mut payload) = window.payload(found)?.map(<[u8]>::to_vec) else {
            return Ok(false);
        };
        let Some(damaged) = Finisher::damaged(&found.header, &mut payload) else {
            return Ok(false);
        };
        // What no later frame promises may be torn: it is cut off.
        match self.check_nothing_promised(index, before) {
            Ok(_) => return Ok(false),
            Err(Error::Damaged { .. }) => {}
            Err(error) => return Err(error),
        }
        self.groups += 1;
        (self.visit)(&group(found, end, &payload, damaged))?;
        Ok(true)
    }

    /// Whether the segment before is the one that this one names.
    fn is_linked(&self, index: usize) -> bool {
        index > 0 && self.contents.log[index].header.previous == self.contents.log[index - 1].id()
    }

    /// Whether the log continues in segment `index`. Released segments leave
    /// holes in what an opening from the oldest on finds; behind a place to
    /// replay from nothing is ever released, so there a hole is a lost file.
    fn goes_on_in(&self, index: usize) -> Result<bool, Error> {
        let Some(segment) = self.contents.log.get(index) else {
            return Ok(false);
        };
        // The log leaves a segment only when it has a frame.
        if self.last.is_none() {
            return Ok(false);
        }
        let linked = self.is_linked(index);
        let mut window = self.window(segment, false)?;
        if self
            .next_frame(&mut window, FRAMES_START, linked)?
            .is_none()
        {
            return Ok(false);
        }
        if !linked && self.replay_from.is_some() {
            let lost = FileName::Segment(SegmentKind::Log, segment.header.previous);
            let file = segment.path.with_file_name(lost.to_string());
            return Err(Error::damaged(
                &file,
                0,
                format!("the file is missing, {} follows it", segment.path.display()),
            ));
        }
        Ok(true)
    }

    /// An error if the walk ended before the place to replay from, or at it: a place within a
    /// segment is one where a group is known to be.
    fn check_reaches_replay(&self, index: usize, end: u64) -> Result<(), Error> {
        let segment = &self.contents.log[index];
        let end_position = end_of(segment.id(), end);
        let falls_short = |from: Position| {
            end_position < from || (end_position == from && from.offset() > FRAMES_START)
        };
        match self.replay_from {
            Some(from) if falls_short(from) => Err(Error::damaged(
                &segment.path,
                end,
                format!("the log is to be replayed from {from}, but ends here"),
            )),
            _ => Ok(()),
        }
    }

    /// The place up to which everything was found, if all frames before `end` of a segment were. No frame
    /// lies between the end of a segment that was left and the first place in the next one, which a
    /// flush of an empty segment promises.
    fn bound_of(&self, index: usize, end: u64) -> Position {
        let segment = &self.contents.log[index];
        let extent = segment.extent();
        match self.contents.log.get(index + 1) {
            Some(next) if extent.sealed && extent.end == end && self.is_linked(index + 1) => {
                Position::new(next.id(), FRAMES_START)
            }
            _ => end_of(segment.id(), end),
        }
    }

    /// Looks behind the end for a frame that promises more than was found; that is damage.
    /// Returns whether there are frames of an unfinished write.
    fn check_nothing_promised(&self, index: usize, end: u64) -> Result<bool, Error> {
        let here = self.bound_of(index, end);
        let epoch = self.last.map_or(0, |last| last.epoch);
        let torn = Cell::new(false);
        let promise = |header: &FrameHeader| {
            torn.set(torn.get() || header.epoch >= epoch);
            header.epoch >= epoch && header.synced_up_to > here
        };
        for (at, segment) in self.contents.log.iter().enumerate().skip(index) {
            let from = if at == index { end } else { FRAMES_START };
            let entered = at == index || self.contents.log[at - 1].extent().sealed;
            let reach = segment.search_limit(from);
            let limit = if entered {
                reach
            } else {
                reach.min(GLANCE_BYTES)
            };
            let mut window = FileWindow::sweeping(segment, self.file(segment, true)?, limit);
            if let Some(found) = window.search(from, promise)? {
                return Err(self.damaged(index, end, &found));
            }
        }
        Ok(torn.get())
    }

    /// Names the place that is damaged: here, or the start of the next segment
    /// when this one was left properly.
    fn damaged(&self, index: usize, end: u64, witness: &FoundFrame) -> Error {
        let FrameHeader {
            sequence, segment, ..
        } = witness.header;
        let what = format!(
            "a group is missing that was stable when group {sequence} (segment {segment:08x}, byte {}) was written",
            witness.start
        );
        let here = &self.contents.log[index];
        let left_here = here.extent().sealed && here.extent().end == end && segment != here.id();
        match self.contents.log.get(index + 1) {
            Some(next) if left_here => Error::damaged(&next.path, FRAMES_START, what),
            _ => Error::damaged(&here.path, end, what),
        }
    }
}

/// Whether `header` can come next. Across a hole only the order is known.
fn follows(last: &Last, header: &FrameHeader, chained: bool) -> bool {
    let continues = header.sequence.0 == last.sequence.0 + 1 && header.previous_crc == last.crc;
    header.epoch >= last.epoch
        && if chained {
            continues
        } else {
            header.sequence > last.sequence
        }
}

fn group<'a>(
    found: &FoundFrame,
    end: Position,
    payload: &'a [u8],
    damaged: Vec<usize>,
) -> Group<'a> {
    let first = found.start + FRAME_HEADER_BYTES as u64;
    let records = record::walk(payload)
        .map(|(at, header, bytes)| {
            let start = crate::format::RECORD_HEADER_BYTES;
            let payload = &bytes[start..start + header.payload_bytes];
            (
                Position::new(found.header.segment, first + at as u64),
                header.kind,
                payload,
            )
        })
        .collect();
    Group {
        tag: found.header.tag,
        sequence: found.header.sequence,
        start: Position::new(found.header.segment, found.start),
        end,
        records,
        damaged,
        body: payload,
    }
}
