//! Segments made ahead, so that a commit never waits for one.
//!
//! ```text
//!   each group flushed:
//!   n.making ──zeros, sync──► n.spare ──header, sync──► id.log (next) ──► active
//!      ▲ 16 KiB at a time        ▲                                          │
//!      └ new file                └────────── rename: recycled ◄── released ─┘
//!
//!   no flush for each group, and sorted segments:
//!   n.making ──room reserved, sync──► header, sync──► id.log or .sorted ──► removed
//! ```
//!
//! Where each group is flushed, a file's blocks are written once, when it is made:
//! overwriting a written block costs one device flush, an unwritten extent costs two. A recycled
//! file is not zeroed again: frames carry their segment's id. Elsewhere zeros would only
//! double what the device has to write, so the room is reserved, and such a file keeps the
//! name of one that is being made: the next opening removes it if it never became a segment.
//!
//! The *next* log segment is ready in every respect: entering it costs the
//! commit path neither a flush nor a directory operation. It is open, so it
//! needs no descriptor either.
//!
//! When making one fails the log is unharmed, whatever the reason: a full disk,
//! a quota, no descriptor, no memory, no permission. The failure is kept for the
//! caller that needs a segment, and making is tried again when a caller asks,
//! when something is released, and after a pause. A failed flush of the
//! directory is different: it is unknown which names last, so the pool
//! gives nothing any more and the log ends where it needs a segment.
//!
//! With page-cache durability the same thread flushes sealed segments, in their order,
//! so that no commit waits for that either.
//!
//! While a log is small, its segments grow instead, and none is made ahead (`growth.rs`).

mod growth;
mod sorted;
mod state;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, MutexGuard, PoisonError};

use environment::{Disk, File, Mutex, OpenMode, Shortage};

use crate::doorbell::Doorbell;
use crate::format::{
    BLOCK_BYTES, FRAMES_START, REACH_NOTE_BYTES, REACH_NOTE_START, ReachNote, SEGMENT_HEADER_BYTES,
    Salt, SegmentHeader,
};
use crate::frame_seal::FrameSeal;
use crate::position::end_of;
use crate::segment::{Extent, FileName, Segment, SpareFile, reach_for};
use crate::{Blocks, Error, Position, SegmentKind};
use state::Job;

pub(crate) use growth::{Growth, note_reserved, wanted_bytes};
pub(crate) use sorted::SortedRoom;
pub(crate) use state::PoolState;

/// Zeros are written in pieces of this size. It is the size of the page cache's folios for the file
/// from then on, and a small write costs time in proportion to the folio it hits.
const ZERO_BYTES: usize = 16 << 10;
/// Where groups are flushed, other files are written in pieces, each with a flush of its own: a
/// group's flush waits for what the device was given before. A piece is this part of a segment.
const PIECE_PART: u64 = 64;
const PIECE_BYTES_MIN: u64 = 16 << 10;
const PIECE_BYTES_MAX: u64 = 1 << 20;

/// Parameters of a pool.
#[derive(Debug)]
pub(crate) struct PoolParameters {
    pub disk: Arc<dyn Disk>,
    pub directory: PathBuf,
    /// Size of the segments that the pool makes.
    pub segment_bytes: u64,
    pub reserve_bytes: u64,
    /// Segments wanted ready, the next one included.
    pub target: usize,
    /// How the blocks of log segments are made ready.
    pub blocks: Blocks,
    /// Whether log segments grow in a log that is not small any more.
    pub keeps_growing: bool,
    /// Whether a thread makes them.
    pub has_thread: bool,
    pub epoch: u32,
    pub salt: Salt,
    /// Rung when a segment is ready or making failed.
    pub doorbell: Arc<Doorbell>,
}

/// Segments that are ready for use, and the work that keeps enough of them ready.
#[derive(Debug)]
pub(crate) struct SegmentPool {
    pub parameters: PoolParameters,
    state: Mutex<PoolState>,
    /// Signalled when the pool's thread may have something to do.
    changed: Condvar,
    /// Bits of a position: everything before it was flushed here.
    flushed_bits: AtomicU64,
    /// Held over a flush: the kernel reports a failure to one caller only, and
    /// the next caller must find it in `state`.
    flushing: Mutex<()>,
    /// Sealed by each flush.
    pub last_frame: FrameSeal,
    /// The same over a flush of the directory.
    flushing_names: Mutex<()>,
}

impl SegmentPool {
    pub fn new(parameters: PoolParameters, state: PoolState) -> SegmentPool {
        SegmentPool {
            parameters,
            state: Mutex::new(state),
            changed: Condvar::new(),
            flushed_bits: AtomicU64::new(0),
            flushing: Mutex::new(()),
            last_frame: FrameSeal::new(),
            flushing_names: Mutex::new(()),
        }
    }

    /// Size of the segments that the pool makes.
    pub fn segment_bytes(&self) -> u64 {
        self.parameters.segment_bytes
    }

    /// Body of the pool's thread.
    pub fn run(&self) {
        while let Some(job) = self.wait_for_job() {
            self.run_job(job);
        }
    }

    /// Does all that is due, on the caller's thread.
    pub fn run_due(&self) {
        loop {
            let Some(job) = self.state.lock().due(self.parameters.target) else {
                return;
            };
            self.run_job(job);
        }
    }

    fn run_job(&self, job: Job) {
        let result = match job {
            Job::Grow(segment, bytes) => self.grow(&segment, bytes),
            Job::Next => self.prepare_next(),
            // Says nothing about room.
            Job::Flush(segment) => {
                self.flush_sealed(&segment);
                return self.parameters.doorbell.ring();
            }
            Job::Spare => self
                .make_spare(self.parameters.blocks, false, self.parameters.reserve_bytes)
                .map(|spare| self.state.lock().spares.push(spare))
                .map_err(|error| self.refusal(error)),
        };
        self.state.lock().note_outcome(result);
        self.parameters.doorbell.ring();
    }

    fn wait_for_job(&self) -> Option<Job> {
        let mut state = self.state.lock();
        loop {
            if state.stop {
                return None;
            }
            if let Some(job) = state.due(self.parameters.target) {
                return Some(job);
            }
            state = self.wait_for_change(state);
        }
    }

    /// Returns when the state may have changed, or when it is time to try again what
    /// has failed.
    fn wait_for_change<'a>(
        &'a self,
        state: MutexGuard<'a, PoolState>,
    ) -> MutexGuard<'a, PoolState> {
        if state.failure.is_none() || state.stopped.is_some() {
            let waited = self.changed.wait(state);
            return waited.unwrap_or_else(PoisonError::into_inner);
        }
        let pause = state.pause();
        let goes_on = |it: &mut PoolState| {
            it.failure.is_some() && !it.stop && it.due(self.parameters.target).is_none()
        };
        let waited = self.changed.wait_timeout_while(state, pause, goes_on);
        let (mut state, outcome) = waited.unwrap_or_else(PoisonError::into_inner);
        if outcome.timed_out() {
            state.forget_failure();
        }
        state
    }

    fn flush_sealed(&self, segment: &Arc<Segment>) {
        // A failure is kept, and ends the log at its next write.
        if self.flush(std::slice::from_ref(segment)).is_ok() {
            self.state.lock().unflushed.pop_front();
        }
    }

    /// Flushes log segments, in their order: the oldest that was not flushed
    /// to its end, and those behind it. After a failure nothing is flushed.
    pub fn flush(&self, segments: &[Arc<Segment>]) -> Result<(), Error> {
        let _turn = self.flushing.lock();
        self.flushed()?;
        for segment in segments {
            // No frame before the end becomes longer from here on.
            let end = || end_of(segment.id(), segment.extent().end);
            let end = self.last_frame.seal_and(end);
            let flushed = segment.file.sync_data();
            if let Err(error) = flushed.map_err(Error::io("flush", &segment.path)) {
                self.state.lock().flush_failure = Some(error.clone());
                return Err(error);
            }
            self.note_flushed(end);
        }
        Ok(())
    }

    /// Everything before `end` is stable.
    pub fn note_flushed(&self, end: Position) {
        self.flushed_bits.fetch_max(end.to_bits(), Ordering::AcqRel);
    }

    /// Lets the pool's thread flush a sealed segment in the background.
    pub fn flush_later(&self, segment: Arc<Segment>) {
        self.state.lock().unflushed.push_back(segment);
        self.changed.notify_all();
    }

    /// Everything before this was flushed; an error when a flush failed.
    pub fn flushed(&self) -> Result<Position, Error> {
        match &self.state.lock().flush_failure {
            Some(error) => Err(error.clone()),
            None => Ok(Position::from_bits(
                self.flushed_bits.load(Ordering::Acquire),
            )),
        }
    }

    /// The same, whether or not a flush has failed since.
    pub fn flushed_up_to(&self) -> Position {
        Position::from_bits(self.flushed_bits.load(Ordering::Acquire))
    }

    /// Whether nothing waits to be flushed, or never will be.
    pub fn has_flushed_all(&self) -> bool {
        let state = self.state.lock();
        state.unflushed.is_empty() || state.flush_failure.is_some()
    }

    /// Lets the pool's thread end.
    pub fn stop(&self) {
        self.state.lock().stop = true;
        self.changed.notify_all();
    }

    /// Forgets a failure, so that making is tried again.
    pub fn retry(&self) {
        self.state.lock().forget_failure();
        self.changed.notify_all();
    }

    /// Whether a put need not ask for free space: segments are ready, or the log is small and
    /// nothing has kept it from growing.
    pub fn has_room_ahead(&self) -> bool {
        let state = self.state.lock();
        let makes_more = state.failures == 0 && state.failure.is_none() && !state.yields;
        state.ready() > 0 || (state.growth.log_is_small && makes_more)
    }

    /// Whether the next segment is there and takes any group.
    pub fn has_whole_next(&self) -> bool {
        self.state.lock().has_whole_next()
    }

    /// Segments ready for use.
    pub fn ready(&self) -> usize {
        self.state.lock().ready()
    }

    pub fn has_next(&self) -> bool {
        self.state.lock().next.is_some()
    }

    /// There is no whole next segment, and no waiting brings one: making it has failed, or the log
    /// is small.
    pub fn lacks_next(&self) -> bool {
        let state = self.state.lock();
        let is_awaited = state.failures == 0 && !state.yields && !state.growth.log_is_small;
        !state.has_whole_next() && !is_awaited
    }

    /// Whether [`SegmentPool::take_next`] has an answer.
    pub fn has_answer(&self) -> bool {
        let state = self.state.lock();
        state.next.is_some() || state.knows_failure()
    }

    /// An error when a flush of the directory failed: what is prepared may
    /// still be taken, nothing comes after it.
    pub fn check_running(&self) -> Result<(), Error> {
        self.state.lock().stopped.clone().map_or(Ok(()), Err)
    }

    /// The prepared log segment; `None` while it is being made. A failure is
    /// returned once, and then making is tried again. A failure from before any caller waited
    /// is tried again first: the disk that was full then may have room now.
    pub fn take_next(&self) -> Result<Option<Arc<Segment>>, Error> {
        let mut state = self.state.lock();
        let next = state.next.take();
        if let Some(next) = &next {
            state.active = next.id();
        }
        let answer = self.answer(&mut state, next);
        state.growth.note_asked(&answer);
        drop(state);
        self.changed.notify_all();
        answer
    }

    /// The answer to a committer that asks for room: what it found, `None` while that is being
    /// made, or why it cannot be made.
    fn answer<T>(&self, state: &mut PoolState, found: Option<T>) -> Result<Option<T>, Error> {
        let was_awaited = std::mem::replace(&mut state.awaited, true);
        if found.is_some() {
            state.awaited = false;
            return Ok(found);
        }
        if state.yields {
            state.awaited = false;
            return Err(self.lacks_segment());
        }
        let is_costly = state.is_costly && self.parameters.has_thread && state.failure.is_some();
        let failure = if is_costly {
            state.awaited = false;
            state.failure.clone()
        } else {
            let failure = state.failure.take().filter(|_| was_awaited);
            state.awaited = failure.is_none();
            failure
        };
        let failure = state.stopped.clone().or(failure);
        failure.map_or(Ok(None), Err)
    }

    /// Makes a spare (or takes one) the next log segment. Where that fails the log is
    /// unharmed, unless the pool has stopped.
    pub fn prepare_next(&self) -> Result<(), Error> {
        self.try_prepare_next().map_err(|error| self.refusal(error))
    }

    fn try_prepare_next(&self) -> Result<(), Error> {
        let spare = self.take_spare_or_make()?;
        let header = {
            let mut state = self.state.lock();
            let previous = state.active;
            self.header(state.allocate_id()?, previous, SegmentKind::Log, spare)
        };
        let next = self.prepare_spare(spare, header)?;
        let before = self.state.lock().next.replace(Arc::new(next));
        assert!(before.is_none(), "{before:?} was to be the next segment");
        Ok(())
    }

    fn header(&self, id: u32, previous: u32, kind: SegmentKind, file: SpareFile) -> SegmentHeader {
        SegmentHeader {
            id,
            previous,
            epoch: self.parameters.epoch,
            segment_bytes: self.parameters.segment_bytes,
            kind,
            blocks: file.blocks,
            grows: file.grows,
            salt: self.parameters.salt,
        }
    }

    /// Removes a spare after a failed write to it: the contents of its blocks are unknown.
    pub fn discard(&self, spare: SpareFile) {
        // If the removal fails, the next opening removes the file, or finds a spare, which is
        // overwritten before it is read.
        let _ = self.parameters.disk.remove(&self.path_of(spare));
    }

    /// Adds spare files. Their names must be lasting: the pool
    /// overwrites a spare's header, which a lost rename would leave in a file
    /// that still has a segment's name. The log makes no use of blocks that are only reserved
    /// where it flushes each group.
    pub fn put_back(&self, spares: &[SpareFile]) {
        for &spare in spares {
            match (self.parameters.blocks, spare.blocks) {
                (Blocks::Written, Blocks::Reserved) => self.discard(spare),
                _ => self.state.lock().spares.push(spare),
            }
        }
    }

    fn path_of(&self, spare: SpareFile) -> PathBuf {
        spare.name().in_directory(&self.parameters.directory)
    }

    /// Renames the file of a segment that is no longer in use to a spare's name and returns
    /// the spare, or removes it when there are enough. After an error the segment is
    /// as it was.
    pub fn recycle(&self, segment: &Segment) -> Result<Option<SpareFile>, Error> {
        let Some(spare) = self.spare_for(segment) else {
            self.remove(&segment.path)?;
            return Ok(None);
        };
        self.rename(&segment.path, &self.path_of(spare))?;
        Ok(Some(spare))
    }

    /// The spare that the file becomes, unless the file is not needed. On a disk that is nearly
    /// full the log keeps its next segment only, and the room of the rest is given back.
    /// Blocks that were written are worth keeping only where each group is flushed: without
    /// flushes, the first write to a page of them may have to read it.
    fn spare_for(&self, segment: &Segment) -> Option<SpareFile> {
        let is_low = self.is_low_on_space();
        let SegmentHeader {
            segment_bytes,
            blocks,
            ..
        } = segment.header;
        let is_whole = segment_bytes == self.parameters.segment_bytes && segment.is_ready();
        let mut state = self.state.lock();
        let enough = if is_low { 0 } else { self.parameters.target };
        let wanted = self.blocks(&state) == Blocks::Written
            && blocks == Blocks::Written
            && is_whole
            && state.ready() <= enough;
        wanted.then(|| SpareFile::written(state.take_number()))
    }

    /// Whether less is free than two segments and the reserve.
    fn is_low_on_space(&self) -> bool {
        let wanted_bytes = self.parameters.reserve_bytes + 2 * self.parameters.segment_bytes;
        let space = self.parameters.disk.space(&self.parameters.directory);
        space.is_ok_and(|it| it.available_bytes < wanted_bytes)
    }

    /// Whether the disk has this much room, as far as it says.
    fn has_available(&self, bytes: u64) -> bool {
        let space = self.parameters.disk.space(&self.parameters.directory);
        space.is_ok_and(|it| it.available_bytes >= bytes)
    }

    /// Removes the files that were made ahead, first the spares and in another call the log's
    /// next segment. None is made until [`SegmentPool::end_yielding`]: until then an append that
    /// needs a segment fails for want of room. False when there is nothing to remove.
    pub fn yield_room(&self) -> Result<bool, Error> {
        let (spares, next) = {
            let mut state = self.state.lock();
            state.yields = true;
            let spares = std::mem::take(&mut state.spares);
            let next = if spares.is_empty() {
                state.next.take()
            } else {
                None
            };
            (spares, next)
        };
        let spares = spares
            .into_iter()
            .map(|spare| self.remove(&self.path_of(spare)));
        let removed: Result<Vec<()>, Error> = spares.collect();
        let next = next.map(|it| self.remove(&it.path)).transpose()?;
        let count = removed?.len() + usize::from(next.is_some());
        if count > 0 {
            self.sync_directory()?;
        }
        Ok(count > 0)
    }

    /// Lets segments be made again.
    pub fn end_yielding(&self) {
        let mut state = self.state.lock();
        state.yields = false;
        state.forget_failure();
        drop(state);
        self.changed.notify_all();
    }

    /// Removes a file. Its bytes stay as they are for those that have it open.
    pub fn remove(&self, path: &Path) -> Result<(), Error> {
        self.parameters
            .disk
            .remove(path)
            .map_err(Error::io("remove", path))
    }

    /// Makes renames and removals lasting. A failure stops the pool: a
    /// later flush that succeeds would say nothing about these names.
    pub fn sync_directory(&self) -> Result<(), Error> {
        let names = &self.flushing_names;
        let _turn = names.lock();
        self.check_running()?;
        let synced = self
            .parameters
            .disk
            .sync_directory(&self.parameters.directory);
        synced.map_err(|error| {
            // If the directory could not be opened, no flush was tried.
            let was_tried = Shortage::of(&error) != Some(Shortage::Descriptors);
            let error = Error::io("sync directory", &self.parameters.directory)(error);
            if was_tried {
                self.state.lock().stopped = Some(error.clone());
            }
            error
        })
    }

    fn take_spare_or_make(&self) -> Result<SpareFile, Error> {
        self.look_at_room();
        let (spare, grows) = {
            let mut state = self.state.lock();
            (state.spares.pop(), state.growth.log_is_small)
        };
        let PoolParameters {
            blocks,
            reserve_bytes,
            ..
        } = self.parameters;
        spare.map_or_else(|| self.make_spare(blocks, grows, reserve_bytes), Ok)
    }

    /// Makes a file that reads as zeros if that leaves `reserve_bytes` of free
    /// space; the caller owns it. Its blocks are written where they cannot be reserved, and are
    /// those of the first step only if the file is to grow.
    fn make_spare(
        &self,
        blocks: Blocks,
        grows: bool,
        reserve_bytes: u64,
    ) -> Result<SpareFile, Error> {
        let ready_bytes = self.first_step(grows);
        self.check_space(ready_bytes, reserve_bytes)?;
        let number = self.state.lock().take_number();
        let making = FileName::Making(number).in_directory(&self.parameters.directory);
        let made = self.make_file(&making, blocks, ready_bytes);
        if made.is_err() {
            // The half-made file only takes room; if it stays, the next opening removes it.
            let _ = self.parameters.disk.remove(&making);
        }
        let spare = SpareFile {
            number,
            blocks: made?,
            grows,
        };
        if spare.is_kept() {
            let named = self.rename(&making, &self.path_of(spare));
            let named = named.and_then(|()| self.sync_directory());
            named.inspect_err(|_| {
                // The file has one of the two names, and is a spare under neither.
                let _ = self.parameters.disk.remove(&making);
                self.discard(spare);
            })?;
        }
        Ok(spare)
    }

    fn check_space(&self, bytes: u64, reserve_bytes: u64) -> Result<(), Error> {
        let space = self
            .parameters
            .disk
            .space(&self.parameters.directory)
            .map_err(Error::io("ask for room in", &self.parameters.directory))?;
        let needed_bytes = bytes + reserve_bytes;
        if space.available_bytes >= needed_bytes {
            return Ok(());
        }
        Err(self.no_space(needed_bytes, space.available_bytes))
    }

    fn no_space(&self, needed_bytes: u64, available_bytes: u64) -> Error {
        Error::NoSpace {
            directory: self.parameters.directory.clone(),
            needed_bytes,
            available_bytes,
        }
    }

    /// No segment can be made, and how much room one needs.
    fn lacks_segment(&self) -> Error {
        self.no_space(
            self.parameters.segment_bytes + self.parameters.reserve_bytes,
            0,
        )
    }

    /// Makes the file at `path`, with its whole size, the blocks of `ready_bytes` ready, and
    /// stable. Returns how they were made ready.
    fn make_file(&self, path: &Path, blocks: Blocks, ready_bytes: u64) -> Result<Blocks, Error> {
        let file = self
            .parameters
            .disk
            .open(path, OpenMode::CreateNew)
            .map_err(Error::io("create", path))?;
        let made = match blocks {
            Blocks::Written => Blocks::Written,
            Blocks::Reserved => self.reserve(&*file, path, ready_bytes)?,
        };
        if ready_bytes < self.parameters.segment_bytes {
            file.set_size(self.parameters.segment_bytes)
                .map_err(Error::io("set the size of", path))?;
        }
        match made {
            Blocks::Written => {
                let written = self.write_flushed_zeros(&*file, path, ready_bytes);
                self.state.lock().is_costly = lacks_room(&written);
                written?;
            }
            Blocks::Reserved => file.sync_data().map_err(Error::io("flush", path))?,
        }
        Ok(made)
    }

    /// Bytes that are flushed at a time.
    pub fn piece_bytes(&self) -> u64 {
        let part = self.parameters.segment_bytes / PIECE_PART;
        match self.parameters.blocks {
            Blocks::Written => part.clamp(PIECE_BYTES_MIN, PIECE_BYTES_MAX),
            Blocks::Reserved => u64::MAX,
        }
    }

    /// Writes zeros from the file's start on, and makes them stable.
    fn write_flushed_zeros(&self, file: &dyn File, path: &Path, bytes: u64) -> Result<(), Error> {
        let mut from = 0;
        while from < bytes {
            let to = from.saturating_add(self.piece_bytes()).min(bytes);
            self.write_zeros(file, path, from..to)?;
            file.sync_data().map_err(Error::io("flush", path))?;
            from = to;
        }
        Ok(())
    }

    /// Reserves the blocks of `bytes`; [`Blocks::Written`] says that it cannot be done here. That is known
    /// by any error but a shortage: file systems and sandboxes refuse the call in several ways.
    fn reserve(&self, file: &dyn File, path: &Path, bytes: u64) -> Result<Blocks, Error> {
        match file.reserve(bytes) {
            Ok(()) => Ok(Blocks::Reserved),
            Err(error) if Shortage::of(&error).is_some() => {
                Err(Error::io("reserve room for", path)(error))
            }
            Err(_) => {
                self.state.lock().cannot_reserve = true;
                Ok(Blocks::Written)
            }
        }
    }

    /// How the blocks of log segments are made ready here.
    fn blocks(&self, state: &PoolState) -> Blocks {
        match state.cannot_reserve {
            true => Blocks::Written,
            false => self.parameters.blocks,
        }
    }

    fn write_zeros(&self, file: &dyn File, path: &Path, range: Range<u64>) -> Result<(), Error> {
        let zeros = [0; ZERO_BYTES];
        let mut from = range.start;
        while from < range.end {
            // Pieces end at multiples of their size, so that folios are of one size.
            let to = (from + 1)
                .next_multiple_of(ZERO_BYTES as u64)
                .min(range.end);
            file.write_at(&[&zeros[..(to - from) as usize]], from)
                .map_err(Error::io("write zeros to", path))?;
            from = to;
        }
        Ok(())
    }

    /// The error for a caller that needs a segment. A full disk and a quota that is used
    /// up have an error of their own, because their remedy differs.
    fn refusal(&self, error: Error) -> Error {
        match &error {
            Error::Io { .. } if error.shortage() == Some(Shortage::Room) => self.lacks_segment(),
            Error::Io { .. } => Error::NoSegment {
                cause: Arc::new(error),
            },
            _ => error,
        }
    }

    /// Turns a spare into a segment in use. A spare that cannot be opened stays
    /// a spare, and one that cannot be written is removed. If its rename fails, a reserved one is
    /// removed, and one with written blocks is left alone: the next opening finds it under one of
    /// the two names.
    fn prepare_spare(&self, spare: SpareFile, header: SegmentHeader) -> Result<Segment, Error> {
        let from = self.path_of(spare);
        let file = self.open(&from).inspect_err(|_| self.put_back(&[spare]))?;
        let ready_bytes = self.first_step(header.grows);
        write_header(&*file, &from, &header, ready_bytes).inspect_err(|_| self.discard(spare))?;
        let path = segment_path(&self.parameters.directory, &header);
        self.rename(&from, &path).inspect_err(|_| {
            // Each attempt makes a file of its own.
            if !spare.is_kept() {
                self.discard(spare);
            }
        })?;
        self.sync_directory()?;
        let reach = first_reach(&header, ready_bytes).reach;
        let segment = Segment::new(header, path, file, reach, Extent::EMPTY);
        segment.note_ready(ready_bytes);
        Ok(segment)
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn File>, Error> {
        self.parameters
            .disk
            .open(path, OpenMode::ReadWrite)
            .map_err(Error::io("open", path))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), Error> {
        self.parameters
            .disk
            .rename(from, to)
            .map_err(Error::io("rename", from))
    }
}

fn lacks_room<T>(outcome: &Result<T, Error>) -> bool {
    let shortage = outcome.as_ref().err().and_then(Error::shortage);
    shortage == Some(Shortage::Room)
}

fn segment_path(directory: &Path, header: &SegmentHeader) -> PathBuf {
    FileName::Segment(header.kind, header.id).in_directory(directory)
}

/// The reach of a segment without frames. That of a sorted one is the whole segment: it
/// gets its name only when it is complete. So is that of a segment without written blocks: its
/// log does not flush each group, and must not flush a note before the first one.
fn first_reach(header: &SegmentHeader, ready_bytes: u64) -> ReachNote {
    let end = match (header.kind, header.blocks) {
        (SegmentKind::Log, Blocks::Written) => FRAMES_START,
        (SegmentKind::Log, Blocks::Reserved) | (SegmentKind::Sorted, _) => header.segment_bytes,
    };
    reach_for(header, end, ready_bytes)
}

/// Writes the first block: the header, zeros over a former seal note, and the
/// reach note.
fn write_header(
    file: &dyn File,
    path: &Path,
    header: &SegmentHeader,
    ready_bytes: u64,
) -> Result<(), Error> {
    let mut block = [0; BLOCK_BYTES as usize];
    block[..SEGMENT_HEADER_BYTES].copy_from_slice(&header.encode());
    let note = first_reach(header, ready_bytes).encode();
    block[REACH_NOTE_START as usize..][..REACH_NOTE_BYTES].copy_from_slice(&note);
    file.write_durable_at(&[&block], 0)
        .map_err(Error::io("write the header of", path))
}
