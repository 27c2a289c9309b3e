//! Files for sorted segments, which survivors and snapshots are written to.

use environment::Shortage;

use super::{SegmentPool, first_reach, segment_path, write_header};
use crate::segment::{Extent, Segment, SpareFile};
use crate::{Blocks, Error, SegmentKind};

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
    pub fn begin_sorted(&self, room: SortedRoom) -> Result<(SpareFile, Segment), Error> {
        let begun = self.try_begin_sorted(room);
        begun.map_err(|error| self.refusal(error))
    }

    /// A sorted segment is written once, in large frames, so its blocks need not be written before.
    /// On a full disk it gets a spare of the log; the last one only if `room` allows it. Where blocks
    /// cannot be reserved, it gets such a spare first, because zeros cost more.
    fn spare_for_sorted(&self, room: SortedRoom) -> Result<SpareFile, Error> {
        let cannot_reserve = self.state.lock().cannot_reserve;
        let extra = cannot_reserve.then(|| self.take_extra());
        if let Some(spare) = extra.flatten() {
            return Ok(spare);
        }
        match self.make_spare(Blocks::Reserved, false, room.reserve_bytes) {
            Err(error) if error.shortage() == Some(Shortage::Room) => {
                let taken = match self.take_extra() {
                    None if room.takes_the_last => self.take_last()?,
                    taken => taken,
                };
                taken.ok_or(error)
            }
            made => made,
        }
    }

    /// Takes a spare that is not the last.
    fn take_extra(&self) -> Option<SpareFile> {
        let spares = &mut self.state.lock().spares;
        if spares.len() > 1 { spares.pop() } else { None }
    }

    /// Takes the last spare, or else the log's next segment, if that is whole. Filling it allows
    /// other segments to be released.
    fn take_last(&self) -> Result<Option<SpareFile>, Error> {
        let (number, next) = {
            let mut state = self.state.lock();
            if let Some(spare) = state.spares.pop() {
                return Ok(Some(spare));
            }
            let Some(next) = state.next.take_if(|next| next.is_ready()) else {
                return Ok(None);
            };
            (state.take_number(), next)
        };
        let spare = SpareFile {
            number,
            blocks: next.header.blocks,
            grows: false,
        };
        self.rename(&next.path, &self.path_of(spare))?;
        self.sync_directory()?;
        Ok(Some(spare))
    }

    fn try_begin_sorted(&self, room: SortedRoom) -> Result<(SpareFile, Segment), Error> {
        self.check_running()?;
        self.look_at_room();
        let spare = self.spare_for_sorted(room)?;
        let id = self.state.lock().allocate_id()?;
        let header = self.header(id, 0, SegmentKind::Sorted, spare);
        let from = self.path_of(spare);
        let begun = self.open(&from).and_then(|file| {
            write_header(&*file, &from, &header, header.segment_bytes)?;
            Ok(file)
        });
        let file = begun.inspect_err(|_| self.discard(spare))?;
        let path = segment_path(&self.parameters.directory, &header);
        self.changed.notify_all();
        let reach = first_reach(&header, header.segment_bytes).reach;
        Ok((
            spare,
            Segment::new(header, path, file, reach, Extent::EMPTY),
        ))
    }

    /// Gives a finished, flushed sorted segment its name. If the rename fails it
    /// is still a spare, or removed if it has given room back; if only the flush of the directory
    /// fails, the next opening finds it under one of the two names.
    pub fn finish_sorted(&self, spare: SpareFile, segment: &Segment) -> Result<(), Error> {
        let renamed = self.rename(&self.path_of(spare), &segment.path);
        if renamed.is_err() {
            match spare.blocks {
                Blocks::Written => self.put_back(&[spare]),
                Blocks::Reserved => self.discard(spare),
            }
        }
        renamed?;
        self.sync_directory()
    }
}
