//! Walking the log group by group.

use std::sync::Arc;

use bytes::Bytes;

use crate::format::{FRAME_HEADER_BYTES, FRAMES_START, FrameKind};
use crate::frame::Finisher;
use crate::log_state::LogState;
use crate::position::end_of;
use crate::record;
use crate::segment::Segment;
use crate::window::{FileWindow, FoundFrame};
use crate::{Body, Error, GroupBuffer, Position};

/// Groups in order, up to what is done at each call of `next`. `None` means
/// "no more yet": a later call continues where it stopped.
#[derive(Debug)]
pub struct Groups {
    shared: Arc<LogState>,
    /// Groups that end at or before this are passed over.
    from: Position,
    cursor: Option<Cursor>,
    finisher: Finisher,
}

/// A place between two frames of a segment.
#[derive(Debug)]
struct Cursor {
    segment: Arc<Segment>,
    window: FileWindow,
    /// The next frame starts here or at the next block.
    offset: u64,
}

impl Groups {
    pub(crate) fn new(shared: Arc<LogState>, from: Position) -> Groups {
        // It may stop behind the last frame, and that would then go on in front of it.
        shared.pool.last_frame.seal_for_good();
        Groups {
            shared,
            from,
            cursor: None,
            finisher: Finisher::default(),
        }
    }

    fn next_group(&mut self) -> Result<Option<GroupBuffer>, Error> {
        loop {
            let Some(mut cursor) = self.take_cursor()? else {
                return Ok(None);
            };
            let extent = cursor.segment.extent();
            if cursor.offset >= extent.end {
                let id = cursor.segment.id();
                let next = self
                    .shared
                    .segments
                    .log_from(id + 1)
                    .filter(|_| extent.sealed);
                let more = next.is_some();
                self.cursor = Some(next.map_or(cursor, Cursor::at_start));
                if more { continue } else { return Ok(None) }
            }
            cursor.window.set_limit(extent.end);
            let (found, payload) = cursor.read_frame(&mut self.finisher)?;
            assert!(
                found.end() <= extent.end,
                "{found:?} reaches beyond {extent:?}"
            );
            cursor.offset = found.end();
            let passed_over = end_of(cursor.segment.id(), found.end()) <= self.from;
            self.cursor = Some(cursor);
            if found.header.kind == FrameKind::Group && !passed_over {
                return Ok(Some(group(&found, payload)));
            }
        }
    }

    /// Where it stopped, or where it starts.
    fn take_cursor(&mut self) -> Result<Option<Cursor>, Error> {
        if let Some(cursor) = self.cursor.take() {
            return Ok(Some(cursor));
        }
        let Some(segment) = self.shared.segments.log_from(self.from.segment()) else {
            return Ok(None);
        };
        let here = segment.id() == self.from.segment();
        let mut cursor = Cursor::at_start(segment);
        if here {
            cursor.go_to(self.from.offset())?;
        }
        Ok(Some(cursor))
    }
}

impl Iterator for Groups {
    type Item = Result<GroupBuffer, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_group().transpose()
    }
}

impl Cursor {
    fn at_start(segment: Arc<Segment>) -> Cursor {
        let window = FileWindow::new(&segment, Arc::clone(&segment.file), segment.extent().end);
        Cursor {
            segment,
            window,
            offset: FRAMES_START,
        }
    }

    /// Goes to the last frame that starts at or before `offset`: at once
    /// when one starts right there, otherwise from header to header.
    fn go_to(&mut self, offset: u64) -> Result<(), Error> {
        if offset >= FRAMES_START && self.window.header(offset)?.is_some() {
            self.offset = offset;
            return Ok(());
        }
        while let Some(found) = self.window.header_behind(self.offset, |_| true)? {
            if found.end() > offset {
                break;
            }
            self.offset = found.end();
        }
        Ok(())
    }

    fn read_frame(&mut self, finisher: &mut Finisher) -> Result<(FoundFrame, Bytes), Error> {
        let found = self.window.header_behind(self.offset, |_| true);
        let read = match found? {
            None => None,
            Some(found) => {
                let payload = self.window.payload(&found)?;
                let good = payload.filter(|payload| finisher.verify(&found.header, payload));
                good.map(|payload| (found, Bytes::copy_from_slice(payload)))
            }
        };
        if self.segment.is_released() {
            return Err(Error::NotFound {
                position: self.segment.position(self.offset),
            });
        }
        read.ok_or_else(|| {
            Error::damaged(
                &self.segment.path,
                self.offset,
                "no valid group where one was written",
            )
        })
    }
}

fn group(found: &FoundFrame, payload: Bytes) -> GroupBuffer {
    let segment = found.header.segment;
    let first = found.start + FRAME_HEADER_BYTES as u64;
    let records = record::split(&payload)
        .map(|(at, kind, bytes)| (Position::new(segment, first + at as u64), kind, bytes))
        .collect();
    GroupBuffer {
        tag: found.header.tag,
        sequence: found.header.sequence,
        start: Position::new(segment, found.start),
        end: end_of(segment, found.end()),
        records,
        body: Body::verified_before(payload),
    }
}
