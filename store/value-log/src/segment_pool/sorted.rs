//! Files for sorted segments, which survivors and snapshots are written to.

use environment::Shortage;

use super::{SegmentPool, first_reach, segment_path, write_header};
use crate::segment::{Extent, FileName, Segment};
use crate::{Error, SegmentKind};

/// How much disk space sorted segments may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SortedRoom {
    /// Free space that new files leave alone.
    pub reserve_bytes: u64,
    /// On a full disk they take the last segments that were made ahead for the log.
    pub takes_the_last: bool,
}

impl SegmentPool {
    /// A spare file that will become a sorted segment: its header is written,
    /// its name is still the spare's. Leaves the last spare to the log and the reserve of
    /// `room` alone, unless `room` allows it to take the last one.
    pub fn begin_sorted(&self, room: SortedRoom) -> Result<(u32, Segment), Error> {
        let begun = self.try_begin_sorted(room);
        begun.map_err(|error| self.refusal(error))
    }

    /// A spare file, taken or made. The last one is left to the log unless `room` allows it.
    fn spare_for_sorted(&self, room: SortedRoom) -> Result<u32, Error> {
        let taken = {
            let mut state = self.state.lock();
            if state.spares.len() > 1 {
                state.spares.pop()
            } else {
                None
            }
        };
        if let Some(number) = taken {
            return Ok(number);
        }
        let made = self.make_spare(room.reserve_bytes);
        match made {
            Err(error) if room.takes_the_last && error.shortage() == Some(Shortage::Room) => {
                self.take_last()?.ok_or(error)
            }
            made => made,
        }
    }

    /// Takes the last spare, or else the log's next segment. Filling it allows other segments
    /// to be released.
    fn take_last(&self) -> Result<Option<u32>, Error> {
        let next = {
            let mut state = self.state.lock();
            if let Some(number) = state.spares.pop() {
                return Ok(Some(number));
            }
            let Some(next) = state.next.take() else {
                return Ok(None);
            };
            (state.take_number(), next)
        };
        let (number, next) = next;
        let spare = FileName::Spare(number).in_directory(&self.parameters.directory);
        self.rename(&next.path, &spare)?;
        self.sync_directory()?;
        Ok(Some(number))
    }

    fn try_begin_sorted(&self, room: SortedRoom) -> Result<(u32, Segment), Error> {
        self.check_running()?;
        let number = self.spare_for_sorted(room)?;
        let header = self.header(self.state.lock().allocate_id()?, 0, SegmentKind::Sorted);
        let from = FileName::Spare(number).in_directory(&self.parameters.directory);
        let begun = self.open(&from).and_then(|file| {
            write_header(&*file, &from, &header)?;
            Ok(file)
        });
        let file = begun.inspect_err(|_| self.discard(number))?;
        let path = segment_path(&self.parameters.directory, &header);
        self.changed.notify_all();
        let reach = first_reach(&header).reach;
        Ok((
            number,
            Segment::new(header, path, file, reach, Extent::EMPTY),
        ))
    }

    /// Gives a finished, flushed sorted segment its name. If the rename fails it
    /// is still a spare; if only the flush of the directory fails, the next opening
    /// finds it under one of the two names.
    pub fn finish_sorted(&self, number: u32, segment: &Segment) -> Result<(), Error> {
        let from = FileName::Spare(number).in_directory(&self.parameters.directory);
        let renamed = self.rename(&from, &segment.path);
        if renamed.is_err() {
            self.put_back(&[number]);
        }
        renamed?;
        self.sync_directory()
    }
}
