//! Segments made ahead, so that a commit never waits for one.
//!
//! ```text
//!   n.making ──zeros, sync──► n.spare ──header, sync──► id.log (next) ──► active
//!      ▲ 16 KiB at a time        ▲                                          │
//!      └ new file                └────────── rename: recycled ◄── released ─┘
//! ```
//!
//! A file's blocks are written once, when it is made: overwriting a written
//! block costs one device flush, an unwritten extent costs two. A recycled
//! file is not zeroed again: frames carry their segment's id.
//!
//! The *next* log segment is ready in every respect: entering it costs the
//! commit path neither a flush nor a directory operation. When making one
//! fails (a full disk) the failure is kept for whoever needs a segment, and
//! making is tried again when someone asks or something is released. A failed
//! flush of the directory is another matter: nobody knows which names last, so
//! the supply gives nothing any more and the log ends where it needs a segment.
//!
//! With page-cache durability the same thread flushes the segments that were
//! left, in their order, so that nobody waits for that either.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use environment::{Disk, File, OpenMode};

use crate::committer::end_of;
use crate::doorbell::Doorbell;
use crate::format::{
    BLOCK_BYTES, FRAMES_START, REACH_NOTE_BYTES, REACH_NOTE_START, ReachNote, SEGMENT_HEADER_BYTES,
    Salt, SegmentHeader,
};
use crate::segment::{Extent, FileName, Segment, reach_for};
use crate::{Error, Position, SEGMENT_MAX, SegmentKind};

/// Zeros are written in pieces of this size. It is the size of the page cache's folios for the file
/// from then on, and a small write costs time in proportion to the folio it hits.
const ZERO_BYTES: usize = 16 << 10;

/// What is in stock. Changed under the lock; no I/O is done under it.
#[derive(Debug)]
pub(crate) struct Stock {
    /// The prepared log segment.
    pub next: Option<Arc<Segment>>,
    /// Numbers of the spare files.
    pub spares: Vec<u32>,
    /// Number of the next spare file.
    pub spare_number: u32,
    /// Id of the next segment, log or sorted.
    pub next_id: u32,
    /// The log segment that the next one follows.
    pub active: u32,
    /// Why making failed last time.
    pub failure: Option<Error>,
    /// Somebody has asked for the next segment since, and waits.
    pub awaited: bool,
    /// A flush of the directory failed: no segment is given any more.
    pub stopped: Option<Error>,
    /// Segments to flush, oldest first; the first one may be under way.
    pub settling: VecDeque<Arc<Segment>>,
    /// A flush failed: nothing is flushed any more.
    pub unsettled: Option<Error>,
    /// The maker ends.
    pub stop: bool,
}

/// The stock and the thread that fills it.
#[derive(Debug)]
pub(crate) struct Supply {
    disk: Arc<dyn Disk>,
    directory: PathBuf,
    /// Size of what it makes.
    pub segment_bytes: u64,
    reserve_bytes: u64,
    /// Segments wanted ready, the next one included.
    target: usize,
    epoch: u32,
    salt: Salt,
    stock: Mutex<Stock>,
    /// Told when the maker may have something to do.
    changed: Condvar,
    /// Rung when a segment is ready or making failed.
    doorbell: Arc<Doorbell>,
    /// All before this was flushed here.
    settled: AtomicU64,
    /// Held over a flush: the kernel tells a failure to one caller only, and
    /// whoever comes next must find it in the stock.
    flushing: Mutex<()>,
    /// The same over a flush of the directory.
    flushing_names: Mutex<()>,
}

/// What a supply needs to know.
#[derive(Debug)]
pub(crate) struct SupplyPlan {
    pub disk: Arc<dyn Disk>,
    pub directory: PathBuf,
    pub segment_bytes: u64,
    pub reserve_bytes: u64,
    pub target: usize,
    pub epoch: u32,
    pub salt: Salt,
    pub doorbell: Arc<Doorbell>,
}

impl Supply {
    pub fn new(plan: SupplyPlan, stock: Stock) -> Supply {
        let SupplyPlan {
            disk,
            directory,
            segment_bytes,
            reserve_bytes,
            target,
            epoch,
            salt,
            doorbell,
        } = plan;
        let (stock, changed) = (Mutex::new(stock), Condvar::new());
        Supply {
            disk,
            directory,
            segment_bytes,
            reserve_bytes,
            target,
            epoch,
            salt,
            stock,
            changed,
            doorbell,
            settled: AtomicU64::new(0),
            flushing: Mutex::new(()),
            flushing_names: Mutex::new(()),
        }
    }

    fn stock(&self) -> MutexGuard<'_, Stock> {
        self.stock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The maker's life.
    pub fn run(&self) {
        while let Some(job) = self.wait_for_job() {
            self.run_job(job);
        }
    }

    /// Does all that is due, on the caller's thread.
    pub fn run_due(&self) {
        loop {
            let Some(job) = self.stock().due(self.target) else {
                return;
            };
            self.run_job(job);
        }
    }

    fn run_job(&self, job: Job) {
        let result = match job {
            Job::Next => self.prepare_next(),
            Job::Settle(segment) => {
                self.settle(&segment);
                Ok(())
            }
            Job::Spare => self
                .make_spare(self.reserve_bytes)
                .map(|number| self.stock().spares.push(number)),
        };
        if let Err(error) = result {
            self.stock().failure = Some(error);
        }
        self.doorbell.ring();
    }

    fn wait_for_job(&self) -> Option<Job> {
        let mut stock = self.stock();
        loop {
            if stock.stop {
                return None;
            }
            if let Some(job) = stock.due(self.target) {
                return Some(job);
            }
            stock = self
                .changed
                .wait(stock)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn settle(&self, segment: &Arc<Segment>) {
        // A failure is kept, and ends the log at its next write.
        if self.flush(std::slice::from_ref(segment)).is_ok() {
            self.stock().settling.pop_front();
        }
    }

    /// Flushes log segments, in their order: the oldest that was not flushed
    /// to its end, and those behind it. After a failure nothing is flushed.
    pub fn flush(&self, segments: &[Arc<Segment>]) -> Result<(), Error> {
        let _turn = self.flushing.lock().unwrap_or_else(PoisonError::into_inner);
        self.settled()?;
        for segment in segments {
            let end = end_of(segment.id(), segment.extent().end);
            let flushed = segment.file.sync_data();
            if let Err(error) = flushed.map_err(Error::io("flush", &segment.path)) {
                self.stock().unsettled = Some(error.clone());
                return Err(error);
            }
            self.note_settled(end);
        }
        Ok(())
    }

    /// Everything before `end` is stable.
    pub fn note_settled(&self, end: Position) {
        self.settled.fetch_max(end.to_bits(), Ordering::AcqRel);
    }

    /// Has a segment that was left flushed in the background.
    pub fn settle_later(&self, segment: Arc<Segment>) {
        self.stock().settling.push_back(segment);
        self.changed.notify_all();
    }

    /// Everything before this was flushed; an error when a flush failed.
    pub fn settled(&self) -> Result<Position, Error> {
        match &self.stock().unsettled {
            Some(error) => Err(error.clone()),
            None => Ok(Position::from_bits(self.settled.load(Ordering::Acquire))),
        }
    }

    /// The same, whether or not a flush has failed since.
    pub fn flushed_up_to(&self) -> Position {
        Position::from_bits(self.settled.load(Ordering::Acquire))
    }

    /// Whether nothing waits to be flushed, or never will be.
    pub fn has_settled_all(&self) -> bool {
        let stock = self.stock();
        stock.settling.is_empty() || stock.unsettled.is_some()
    }

    /// Ends the maker.
    pub fn stop(&self) {
        self.stock().stop = true;
        self.changed.notify_all();
    }

    /// Tries again what failed.
    pub fn retry(&self) {
        self.stock().failure = None;
        self.changed.notify_all();
    }

    /// Segments ready for use.
    pub fn ready(&self) -> usize {
        let stock = self.stock();
        stock.spares.len() + usize::from(stock.next.is_some())
    }

    pub fn has_next(&self) -> bool {
        self.stock().next.is_some()
    }

    /// Whether [`Supply::take_next`] has an answer.
    pub fn is_settled(&self) -> bool {
        let stock = self.stock();
        stock.next.is_some() || stock.failure.is_some() || stock.stopped.is_some()
    }

    /// An error when a flush of the directory failed: what is prepared may
    /// still be taken, nothing comes after it.
    pub fn check_running(&self) -> Result<(), Error> {
        self.stock().stopped.clone().map_or(Ok(()), Err)
    }

    /// The prepared log segment; `None` while it is being made. A failure is
    /// given once and then tried again. One that nobody waited for is tried
    /// again first: the disk that was full then may have room now.
    pub fn take_next(&self) -> Result<Option<Arc<Segment>>, Error> {
        let mut stock = self.stock();
        let was_awaited = std::mem::replace(&mut stock.awaited, true);
        let answer = match stock.next.take() {
            Some(next) => {
                stock.active = next.id();
                stock.awaited = false;
                Ok(Some(next))
            }
            None => {
                let failure = stock.failure.take().filter(|_| was_awaited);
                stock.awaited = failure.is_none();
                let failure = stock.stopped.clone().or(failure);
                failure.map_or(Ok(None), Err)
            }
        };
        drop(stock);
        self.changed.notify_all();
        answer
    }

    /// Makes a spare (or takes one) the next log segment.
    pub fn prepare_next(&self) -> Result<(), Error> {
        let number = self.take_spare_or_make()?;
        let header = {
            let mut stock = self.stock();
            let previous = stock.active;
            self.header(allocate(&mut stock)?, previous, SegmentKind::Log)
        };
        // A spare that cannot be dressed is left alone: the next open sorts out
        // under which name it is.
        let next = self.dress_spare(number, header)?;
        let before = self.stock().next.replace(Arc::new(next));
        assert!(before.is_none(), "{before:?} was to be the next segment");
        Ok(())
    }

    fn header(&self, id: u32, previous: u32, kind: SegmentKind) -> SegmentHeader {
        SegmentHeader {
            id,
            previous,
            epoch: self.epoch,
            segment_bytes: self.segment_bytes,
            kind,
            salt: self.salt,
        }
    }

    /// A spare file that will become a sorted segment: its header is written,
    /// its name is still the spare's. Leaves the last spare to the log, and so
    /// much free space to whoever needs it.
    pub fn begin_sorted(&self, reserve_bytes: u64) -> Result<(u32, Segment), Error> {
        self.check_running()?;
        let taken = {
            let mut stock = self.stock();
            if stock.spares.len() > 1 {
                stock.spares.pop()
            } else {
                None
            }
        };
        let number = taken.map_or_else(|| self.make_spare(reserve_bytes), Ok)?;
        let header = self.header(allocate(&mut self.stock())?, 0, SegmentKind::Sorted);
        let from = FileName::Spare(number).in_directory(&self.directory);
        let begun = self.open(&from).and_then(|file| {
            write_header(&*file, &from, &header)?;
            Ok(file)
        });
        let file = begun.inspect_err(|_| self.discard(number))?;
        let path = segment_path(&self.directory, &header);
        self.changed.notify_all();
        let reach = first_reach(&header).reach;
        Ok((
            number,
            Segment::new(header, path, file, reach, Extent::EMPTY),
        ))
    }

    /// Gives a finished, flushed sorted segment its name. Where that fails it
    /// is a spare still; where only the name may not last, the next opening
    /// finds it under one of the two.
    pub fn finish_sorted(&self, number: u32, segment: &Segment) -> Result<(), Error> {
        let from = FileName::Spare(number).in_directory(&self.directory);
        let renamed = self.rename(&from, &segment.path);
        if renamed.is_err() {
            self.put_back(&[number]);
        }
        renamed?;
        self.sync_directory()
    }

    /// Removes a spare that failed to take a write: what its blocks hold nobody
    /// knows.
    pub fn discard(&self, number: u32) {
        let path = FileName::Spare(number).in_directory(&self.directory);
        // Where it stays, the next opening finds a spare: it is overwritten
        // before anyone believes it.
        let _ = self.disk.remove(&path);
    }

    /// Puts spare files into the stock. Their names must be lasting: the maker
    /// overwrites a spare's header, which a lost rename would leave in a file
    /// that still has a segment's name.
    pub fn put_back(&self, numbers: &[u32]) {
        self.stock().spares.extend_from_slice(numbers);
    }

    /// Renames the file of a segment that is in use no more to a spare's name,
    /// which is returned, or removes it when there are enough. Where that
    /// fails the segment is as it was.
    pub fn recycle(&self, segment: &Segment) -> Result<Option<u32>, Error> {
        let Some(number) = self.number_for(segment) else {
            self.disk
                .remove(&segment.path)
                .map_err(Error::io("remove", &segment.path))?;
            return Ok(None);
        };
        self.rename(
            &segment.path,
            &FileName::Spare(number).in_directory(&self.directory),
        )?;
        Ok(Some(number))
    }

    /// A spare's number for the file, unless it is of no use.
    fn number_for(&self, segment: &Segment) -> Option<u32> {
        let mut stock = self.stock();
        let ready = stock.spares.len() + usize::from(stock.next.is_some());
        let wanted = segment.header.segment_bytes == self.segment_bytes && ready <= self.target;
        wanted.then(|| take_number(&mut stock))
    }

    /// Makes renames and removals lasting. A failure stops the supply: a
    /// later flush that succeeds would say nothing about these names.
    pub fn sync_directory(&self) -> Result<(), Error> {
        let names = &self.flushing_names;
        let _turn = names.lock().unwrap_or_else(PoisonError::into_inner);
        self.check_running()?;
        let synced = self.disk.sync_directory(&self.directory);
        synced.map_err(|error| {
            let error = Error::io("sync directory", &self.directory)(error);
            self.stock().stopped = Some(error.clone());
            error
        })
    }

    fn take_spare_or_make(&self) -> Result<u32, Error> {
        let spare = self.stock().spares.pop();
        spare.map_or_else(|| self.make_spare(self.reserve_bytes), Ok)
    }

    /// Writes a new file full of zeros if that leaves `reserve_bytes` of free
    /// space; the caller owns its number.
    fn make_spare(&self, reserve_bytes: u64) -> Result<u32, Error> {
        self.check_space(reserve_bytes)?;
        let number = take_number(&mut self.stock());
        let making = FileName::Making(number).in_directory(&self.directory);
        let written = self.write_zeros(&making);
        if written.is_err() {
            // The half-made file only takes room; the next open would remove
            // it too.
            let _ = self.disk.remove(&making);
        }
        written?;
        self.rename(
            &making,
            &FileName::Spare(number).in_directory(&self.directory),
        )?;
        self.sync_directory()?;
        Ok(number)
    }

    fn check_space(&self, reserve_bytes: u64) -> Result<(), Error> {
        let space = self
            .disk
            .space(&self.directory)
            .map_err(Error::io("ask for room in", &self.directory))?;
        let needed_bytes = self.segment_bytes + reserve_bytes;
        if space.available_bytes >= needed_bytes {
            return Ok(());
        }
        Err(self.no_space(needed_bytes, space.available_bytes))
    }

    fn no_space(&self, needed_bytes: u64, available_bytes: u64) -> Error {
        Error::NoSpace {
            directory: self.directory.clone(),
            needed_bytes,
            available_bytes,
        }
    }

    fn write_zeros(&self, path: &Path) -> Result<(), Error> {
        let file = self
            .disk
            .open(path, OpenMode::CreateNew)
            .map_err(Error::io("create", path))?;
        let zeros = vec![0; ZERO_BYTES.min(self.segment_bytes as usize)];
        for offset in (0..self.segment_bytes).step_by(zeros.len()) {
            file.write_at(&[&zeros], offset)
                .map_err(|error| self.full_or(error, path))?;
        }
        file.sync_data().map_err(|error| self.full_or(error, path))
    }

    /// A full disk is told from other failures, as the caller's remedy differs.
    fn full_or(&self, error: std::io::Error, path: &Path) -> Error {
        match error.kind() {
            std::io::ErrorKind::StorageFull => {
                self.no_space(self.segment_bytes + self.reserve_bytes, 0)
            }
            _ => Error::io("write zeros to", path)(error),
        }
    }

    /// Turns spare `number` into a segment in use.
    fn dress_spare(&self, number: u32, header: SegmentHeader) -> Result<Segment, Error> {
        let from = FileName::Spare(number).in_directory(&self.directory);
        let file = self.open(&from)?;
        write_header(&*file, &from, &header)?;
        let path = segment_path(&self.directory, &header);
        self.rename(&from, &path)?;
        self.sync_directory()?;
        let reach = first_reach(&header).reach;
        Ok(Segment::new(header, path, file, reach, Extent::EMPTY))
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn File>, Error> {
        self.disk
            .open(path, OpenMode::ReadWrite)
            .map_err(Error::io("open", path))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), Error> {
        self.disk
            .rename(from, to)
            .map_err(Error::io("rename", from))
    }
}

#[derive(Clone, Debug)]
enum Job {
    /// The log needs its next segment.
    Next,
    /// A segment that was left is not flushed yet.
    Settle(Arc<Segment>),
    /// The stock is low.
    Spare,
}

impl Stock {
    /// What is to be done first.
    fn due(&self, target: usize) -> Option<Job> {
        let ready = self.spares.len() + usize::from(self.next.is_some());
        let makes = self.failure.is_none() && self.stopped.is_none();
        if makes && self.next.is_none() {
            return Some(Job::Next);
        }
        if let Some(segment) = self.settling.front().filter(|_| self.unsettled.is_none()) {
            return Some(Job::Settle(Arc::clone(segment)));
        }
        (makes && ready < target).then_some(Job::Spare)
    }
}

fn allocate(stock: &mut Stock) -> Result<u32, Error> {
    if stock.next_id > SEGMENT_MAX {
        return Err(Error::Misuse {
            what: "the log has used all 16,777,215 segment numbers; copy it into a new directory"
                .into(),
        });
    }
    assert!(
        stock.next_id > stock.active,
        "{stock:?} gives a number twice"
    );
    stock.next_id += 1;
    Ok(stock.next_id - 1)
}

fn take_number(stock: &mut Stock) -> u32 {
    stock.spare_number += 1;
    stock.spare_number - 1
}

fn segment_path(directory: &Path, header: &SegmentHeader) -> PathBuf {
    FileName::Segment(header.kind, header.id).in_directory(directory)
}

/// The reach of a segment without frames. Sorted ones go without a note: they
/// have their name when they are complete.
fn first_reach(header: &SegmentHeader) -> ReachNote {
    let end = match header.kind {
        SegmentKind::Log => FRAMES_START,
        SegmentKind::Sorted => header.segment_bytes,
    };
    reach_for(header, end)
}

/// Writes the first block: the header, zeros over a former seal note, and the
/// reach note.
fn write_header(file: &dyn File, path: &Path, header: &SegmentHeader) -> Result<(), Error> {
    let mut block = [0; BLOCK_BYTES as usize];
    block[..SEGMENT_HEADER_BYTES].copy_from_slice(&header.encode());
    let note = first_reach(header).encode();
    block[REACH_NOTE_START as usize..][..REACH_NOTE_BYTES].copy_from_slice(&note);
    file.write_durable_at(&[&block], 0)
        .map_err(Error::io("write the header of", path))
}
