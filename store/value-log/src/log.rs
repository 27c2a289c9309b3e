//! The log: what its users call.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

use environment::{Disk, Mutex};

use crate::groups::Groups;
use crate::log_state::{LogState, Rotation};
use crate::release::release;
use crate::relocation::Relocation;
use crate::segment_pool::SortedRoom;
use crate::{
    Appended, Body, Error, Group, Options, Position, Record, Recovered, Seal, SegmentInfo,
    Sequence, Status, Tag, WalkedLog, record,
};

/// Runs on the flush thread after each flush, and once on failure. It must be
/// quick and must not call back into the log.
pub type Notice = Box<dyn Fn(Result<Sequence, Error>) + Send + Sync>;

/// An open log. A directory must be open once at a time: the caller takes the
/// directory's lock.
#[derive(Debug)]
pub struct Log {
    pub(crate) shared: Arc<LogState>,
    /// `None` with [`crate::Worker::Caller`], and once it is closed.
    threads: Mutex<Option<Threads>>,
}

/// The log's own threads.
#[derive(Debug)]
pub(crate) struct Threads {
    pub pool: JoinHandle<()>,
    /// `None` where callers write.
    pub flusher: Option<JoinHandle<()>>,
}

impl Log {
    /// Opens the log in `directory`, creating it when there is none.
    ///
    /// Every valid group that ends after `replay_from` (`None`: every group
    /// there is) is shown to `visit`, in order. It is the start of a segment or
    /// lies in a group that is known to be on stable storage, best at its start
    /// ([`Group::start`]): then nothing before it is read. A torn tail is
    /// dropped; damage
    /// in the middle is an [`Error::Damaged`]. When this returns, a fresh
    /// frame behind the end is on stable storage.
    pub fn open(
        disk: Arc<dyn Disk>,
        directory: &Path,
        options: Options,
        replay_from: Option<Position>,
        visit: &mut dyn FnMut(&Group<'_>) -> Result<(), Error>,
    ) -> Result<(Log, Recovered), Error> {
        Log::walk(disk, directory, options, replay_from, visit)?.open()
    }

    /// The first half of [`Log::open`], which only reads segments. A caller that does not like
    /// what it is shown can leave the log as it is.
    pub fn walk(
        disk: Arc<dyn Disk>,
        directory: &Path,
        options: Options,
        replay_from: Option<Position>,
        visit: &mut dyn FnMut(&Group<'_>) -> Result<(), Error>,
    ) -> Result<WalkedLog, Error> {
        WalkedLog::walk(disk, directory, options, replay_from, visit)
    }

    pub(crate) fn running(shared: Arc<LogState>, threads: Option<Threads>) -> Log {
        Log {
            shared,
            threads: Mutex::new(threads),
        }
    }

    /// Appends records to the group that all producers share; they stay
    /// together in it. Any number of threads may call this at once. On a log
    /// with [`Seal::Explicit`] this is an untagged group of its own.
    pub fn append(&self, records: &[Record<'_>]) -> Result<Appended, Error> {
        if records.is_empty() {
            return Err(Error::Misuse {
                what: "an append without records; use append_group".into(),
            });
        }
        match self.shared.options.seal {
            Seal::WhenIdle => self.shared.append_shared(records),
            Seal::Explicit => self.append_group(Tag::default(), records),
        }
    }

    /// Appends records as a group of its own, sealed at once. Groups that
    /// arrive while the device is busy share its next flush.
    pub fn append_group(&self, tag: Tag, records: &[Record<'_>]) -> Result<Appended, Error> {
        self.append_bodies(tag, &[&Body::encode(records)])
    }

    /// [`Log::append_group`] of records that are encoded already, those of one
    /// body behind those of another: from another log, or to be sent to one.
    pub fn append_bodies(&self, tag: Tag, bodies: &[&Body]) -> Result<Appended, Error> {
        match self.shared.options.seal {
            Seal::Explicit => self.shared.append_bodies(tag, bodies),
            Seal::WhenIdle => Err(Error::Misuse {
                what: "append_group on a log that was opened with Seal::WhenIdle; open it with Seal::Explicit".into(),
            }),
        }
    }

    /// Puts the records of `body` behind those of the last group, and returns when they are in the
    /// page cache. The group keeps its sequence; the last number of its tag becomes that of `tag`, which
    /// must have the same term and index and continue its numbers.
    ///
    /// `None`: the last group cannot become longer, and nothing was done. It can on a log with
    /// [`crate::Durability::Os`] that its callers write, while it lies in one block with these records and nothing
    /// has sealed it: a flush, [`Log::seal_last_group`], [`Log::groups`].
    ///
    /// For an appender that is the only one, and not where the last group ends in records that are not
    /// its own, or in a hard state.
    pub fn lengthen_last_group(&self, tag: Tag, body: &Body) -> Result<Option<Appended>, Error> {
        self.shared.lengthen(tag, body)
    }

    /// Bytes of records that [`Log::lengthen_last_group`] would put behind those of the last group now;
    /// 0 if it cannot become longer.
    pub fn room_in_last_group(&self) -> usize {
        self.shared.room_in_last_frame()
    }

    /// Lets the last group stay as it is, and those before it.
    pub fn seal_last_group(&self) {
        self.shared.pool.last_frame.seal_and(|| ());
    }

    /// Makes room for a group with `body_bytes` of records, entering the next segment if
    /// need be. For an appender that must not be refused later, and is the only one.
    /// After [`Error::NoSpace`] the log is unchanged. While no next segment can be made, or the log
    /// is small, `kept_bytes` of the segment in use are left free besides.
    pub fn make_room(&self, body_bytes: usize, kept_bytes: usize) -> Result<(), Error> {
        self.shared.make_room(body_bytes, kept_bytes)
    }

    /// Last group that is done.
    pub fn durable(&self) -> Sequence {
        self.shared.progress.durable()
    }

    /// Blocks until `sequence` is done or the log has stopped.
    pub fn wait_durable(&self, sequence: Sequence) -> Result<(), Error> {
        self.shared.work();
        self.shared.progress.wait(sequence)
    }

    /// Without a flush thread ([`crate::Worker`]): writes what was appended, flushes it if
    /// the durability asks for it, and makes segments ahead if no thread does. With a flush
    /// thread, does nothing.
    pub fn work(&self) {
        self.shared.work();
    }

    /// Waits until everything that is done now is on stable storage, with
    /// [`crate::Durability::Os`] too. For callers that note elsewhere what
    /// the log holds. A failure ends the log, like any failed flush.
    pub fn flush(&self) -> Result<(), Error> {
        self.shared.flush()
    }

    /// Sets what is called after each flush; replaces what was set before.
    pub fn on_durable(&self, notice: Notice) {
        self.shared.progress.set_notice(Arc::from(notice));
    }

    /// Groups in order, beginning with the first that ends after `from`, up to
    /// what is done at each step. [`Position::NONE`] means the oldest. From then on no group becomes longer
    /// ([`Log::lengthen_last_group`]).
    pub fn groups(&self, from: Position) -> Groups {
        Groups::new(Arc::clone(&self.shared), from)
    }

    /// All segments in use, by id.
    pub fn segments(&self) -> Vec<SegmentInfo> {
        self.shared
            .segments
            .all()
            .iter()
            .map(|segment| segment.info())
            .collect()
    }

    /// Seals the active segment and continues in the next one. Everything appended
    /// before is done when it returns.
    pub fn rotate(&self) -> Result<(), Error> {
        self.shared.rotate(Rotation::TO_NEXT_SEGMENT)
    }

    /// Releases sealed segments: their files are recycled, or removed when
    /// there are enough spares, or while [`Looks`](crate::Looks) have pinned them. Their records can
    /// no longer be read.
    pub fn release(&self, segments: &[u32]) -> Result<(), Error> {
        release(&self.shared.segments, &self.shared.pool, segments)
    }

    /// Starts writing sorted segments with records that are in the log already. This may use
    /// the log's reserve, because it allows segments to be released, but leaves
    /// `reserve_bytes` of free space alone. On a full disk it takes the last spare segment,
    /// then the log's next one.
    pub fn relocate(&self, reserve_bytes: u64) -> Result<Relocation, Error> {
        self.begin_relocation(SortedRoom {
            reserve_bytes,
            takes_the_last: true,
        })
    }

    /// Removes segments that were made ahead, to make room for a file that allows others to be
    /// released: first the spare ones, then, in another call, the next one of the log. None is
    /// made until [`Log::end_yielding`], and an append that needs one fails with
    /// [`Error::NoSpace`]. False if there is none to remove.
    pub fn yield_room(&self) -> Result<bool, Error> {
        self.shared.pool.yield_room()
    }

    /// Lets segments be made ahead again.
    pub fn end_yielding(&self) {
        self.shared.pool.end_yielding();
        self.shared.make_due_segments();
    }

    /// Starts writing sorted segments with records that need not be written to release others. New files
    /// leave `reserve_bytes` of free space alone, and the log keeps its spare segment.
    pub fn write_sorted(&self, reserve_bytes: u64) -> Result<Relocation, Error> {
        self.begin_relocation(SortedRoom {
            reserve_bytes,
            takes_the_last: false,
        })
    }

    fn begin_relocation(&self, room: SortedRoom) -> Result<Relocation, Error> {
        match self.shared.progress.failure() {
            Some(failure) => Err(failure),
            None => Ok(Relocation::new(Arc::clone(&self.shared), room)),
        }
    }

    /// Bytes from the start of a frame to its first record: with
    /// [`crate::Seal::Explicit`] a group's frame starts this far before it.
    pub const FRAME_HEADER_BYTES: u64 = crate::format::FRAME_HEADER_BYTES as u64;

    /// Bytes that a record with a payload of `payload_len` takes in the log.
    pub fn record_bytes(payload_len: usize) -> usize {
        record::record_bytes(payload_len)
    }

    /// Size of a segment, chosen when the directory was created.
    pub fn segment_bytes(&self) -> u64 {
        self.shared.pool.segment_bytes()
    }

    /// Bytes that the records of one group may take: a segment holds its frame.
    pub fn group_bytes_max(&self) -> u64 {
        let frame_bytes_max = self.shared.pool.segment_bytes() - crate::format::FRAMES_START;
        frame_bytes_max - Log::FRAME_HEADER_BYTES
    }

    /// Whether the log has room for groups without asking the file system for free space:
    /// segments are ready behind the one in use, or the log is small and grows without trouble.
    pub fn has_room_ahead(&self) -> bool {
        self.shared.pool.has_room_ahead()
    }

    /// Segments that are ready to be written behind the one in use; none while the log is
    /// small and its segments grow.
    pub fn spare_segments(&self) -> usize {
        self.shared.pool.ready()
    }

    /// Counters and state.
    pub fn status(&self) -> Status {
        let LogState { progress, pool, .. } = &*self.shared;
        Status {
            durable: progress.durable(),
            appended: self.shared.appended(),
            flushes: progress.flushes.load(Ordering::Relaxed),
            bytes_written: progress.bytes_written.load(Ordering::Relaxed),
            groups: progress.groups.load(Ordering::Relaxed),
            unflushed_bytes: self.shared.unflushed_bytes(),
            spare_segments: pool.ready(),
            failed: progress.failure().map(|error| error.to_string()),
        }
    }

    /// Writes and flushes what was appended, marks the end as clean and ends
    /// the threads. Dropping the log does the same and ignores a failure. Nothing may be
    /// appended from then on; records can be read as long as no other opening writes to the
    /// directory.
    pub fn close(&self) -> Result<(), Error> {
        self.end();
        self.shared.progress.failure().map_or(Ok(()), Err)
    }

    fn end(&self) {
        self.shared.end_caller_committer();
        let mut threads = self.threads.lock();
        let Some(Threads { pool, flusher }) = threads.take() else {
            return;
        };
        drop(threads);
        self.shared.control.lock().closing = true;
        self.shared.order();
        let flushed = flusher.map_or(Ok(()), JoinHandle::join);
        self.shared.pool.stop();
        let made = pool.join();
        let panicked = flushed.is_err() || made.is_err();
        assert!(
            !panicked || std::thread::panicking(),
            "a thread of the log has panicked"
        );
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.end();
    }
}
