//! Opening: read the directory, walk the log, continue behind its end.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use environment::randomness::Random;
use environment::{Disk, threads};

use crate::committer::Committer;
use crate::directory::{self, Contents};
use crate::format::{BLOCK_BYTES, FRAMES_START, SEAL_NOTE_BYTES, SEAL_NOTE_START, Salt};
use crate::frame::Chain;
use crate::last_frame::show_as_on_device;
use crate::log::{Log, Threads};
use crate::log_state::LogState;
use crate::position::end_of;
use crate::recovery::{Visit, Walked, Walker};
use crate::segment::{Extent, FileName, Segment, SpareFile};
use crate::segment_pool::{Growth, PoolParameters, PoolState, SegmentPool, note_reserved};
use crate::window::FileWindow;
use crate::{Blocks, Error, Group, Options, Position, Recovered, Sequence, Worker};

/// The epoch of the first opening.
const FIRST_EPOCH: u32 = 1;

/// A log that was read to its end ([`Log::walk`]). No segment has been changed by that.
#[derive(Debug)]
#[must_use = "the log is not open yet"]
pub struct WalkedLog {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    options: Options,
    contents: Contents,
    /// `None` if there is no log yet.
    walked: Option<Walked>,
}

impl WalkedLog {
    pub(crate) fn walk(
        disk: Arc<dyn Disk>,
        path: &Path,
        options: Options,
        replay_from: Option<Position>,
        visit: &mut Visit<'_>,
    ) -> Result<WalkedLog, Error> {
        options.check()?;
        let contents = directory::read(&*disk, path)?;
        let replay_from = replay_from.filter(|&from| from != Position::NONE);
        let mut show = |group: &Group<'_>| visit(group);
        let walked = if contents.log.is_empty() {
            check_new(path, &contents, replay_from)?;
            None
        } else {
            let walker = Walker::begin(&*disk, path, &contents, replay_from, &options, &mut show);
            Some(walker?.walk()?)
        };
        Ok(WalkedLog {
            disk,
            path: path.into(),
            options,
            contents,
            walked,
        })
    }

    /// Opens it, behind the end that was found.
    pub fn open(self) -> Result<(Log, Recovered), Error> {
        let WalkedLog {
            disk,
            path,
            options,
            contents,
            walked,
        } = self;
        match walked {
            Some(walked) => resume(disk, &path, options, contents, walked),
            None => create(disk, &path, options, contents),
        }
    }
}

/// Checks that nothing speaks for a log where there is none.
fn check_new(path: &Path, contents: &Contents, replay_from: Option<Position>) -> Result<(), Error> {
    if let Some(from) = replay_from {
        return Err(Error::damaged(
            path,
            0,
            format!("the log is to be replayed from {from}, but there is no log here"),
        ));
    }
    if let Some(sorted) = contents.sorted.first() {
        return Err(Error::damaged(
            &sorted.path,
            0,
            "there are sorted segments but no log",
        ));
    }
    Ok(())
}

/// Makes a new log.
fn create(
    disk: Arc<dyn Disk>,
    path: &Path,
    options: Options,
    contents: Contents,
) -> Result<(Log, Recovered), Error> {
    let segment_bytes = options.segment_bytes;
    let new = (
        0,
        Growth::of_new(options.starts_small, options.durability.blocks()),
    );
    let state = state(&*disk, path, segment_bytes, &contents, None, new)?;
    let log = (FIRST_EPOCH, new_salt(&options)?);
    let pool = pool(disk, path, &options, segment_bytes, log, state);
    pool.prepare_next()?;
    let active = pool.take_next()?.expect("it was prepared just now");
    pool.note_entered();
    let walked = Walked {
        tail: 0,
        extent: Extent::EMPTY,
        groups: 0,
        sequence: Sequence(0),
        crc: 0,
        last_start: 0,
        synced_up_to: Position::NONE,
        epoch: FIRST_EPOCH - 1,
        tag: Default::default(),
        clean: true,
        torn: false,
    };
    let shared = Arc::new(LogState::new(options, pool));
    start(shared, active, walked)
}

fn new_salt(options: &Options) -> Result<Salt, Error> {
    let drawn = || Random::from_system().map(|mut random| random.next_u64());
    let salt = options.salt.map_or_else(drawn, Ok);
    salt.map(Salt)
        .map_err(|source| Error::Randomness(Arc::new(source)))
}

/// Continues the log behind the end that a walk has found.
fn resume(
    disk: Arc<dyn Disk>,
    path: &Path,
    options: Options,
    mut contents: Contents,
    walked: Walked,
) -> Result<(Log, Recovered), Error> {
    let beyond = contents.log.split_off(walked.tail + 1);
    let active = Arc::clone(&contents.log[walked.tail]);
    if !walked.clean {
        keep_last_frame(&*disk, &active, &walked)?;
    }
    flush_accepted(&contents.log, &walked)?;
    let retiring = Retiring {
        disk: &*disk,
        path,
        blocks: options.durability.blocks(),
    };
    let next = retiring.retire(&mut contents, &active, beyond)?;
    let segment_bytes = active.header.segment_bytes;
    let ready_bytes = walked.extent.end.next_multiple_of(BLOCK_BYTES);
    active.note_ready(ready_bytes.min(segment_bytes));
    for segment in next.iter().chain([&active]) {
        note_reserved(segment)?;
    }
    let growth = (
        active.id(),
        Growth::of(&active, options.durability.blocks()),
    );
    let state = state(&*disk, path, segment_bytes, &contents, next, growth)?;
    let log = (walked.epoch + 1, active.header.salt);
    let pool = pool(disk, path, &options, segment_bytes, log, state);
    let shared = Arc::new(LogState::new(options, pool));
    let before = contents.log[..walked.tail].iter().chain(&contents.sorted);
    before.for_each(|segment| shared.segments.insert(Arc::clone(segment)));
    start(shared, active, walked)
}

/// After a failed flush: lets the page cache show the last frame as the walk has found it.
fn keep_last_frame(disk: &dyn Disk, tail: &Segment, walked: &Walked) -> Result<(), Error> {
    let frame = match walked.last_start {
        0 => 0..0,
        start => start..walked.extent.end,
    };
    show_as_on_device(disk, &tail.path, &*tail.file, frame, tail.header.salt)
}

/// Flushes the segments that the walk accepted from the page cache, before a frame promises
/// that they are stable; what the last frame promised is stable already. Removes a seal note
/// in the tail: it is from before a crash and would be wrong soon.
fn flush_accepted(log: &[Arc<Segment>], walked: &Walked) -> Result<(), Error> {
    for segment in log[..=walked.tail]
        .iter()
        .filter(|it| it.id() >= walked.synced_up_to.segment())
    {
        segment
            .file
            .sync_data()
            .map_err(Error::io("flush", &segment.path))?;
    }
    let tail = &log[walked.tail];
    if tail.extent().sealed {
        let zeros = [0; SEAL_NOTE_BYTES];
        tail.file
            .write_durable_at(&[&zeros], SEAL_NOTE_START)
            .map_err(Error::io("unseal", &tail.path))?;
    }
    Ok(())
}

/// Takes the segments behind the tail out of use, which hold nothing that counts.
struct Retiring<'a> {
    disk: &'a dyn Disk,
    path: &'a Path,
    /// How the log makes its segments from now on.
    blocks: Blocks,
}

impl Retiring<'_> {
    /// The segment that follows the tail is kept as the next, others become spares. One that
    /// begins with a frame is never the next: if a replay began there before anything else was
    /// written to it, that frame would pass for the first. As a spare it gets a
    /// new number, so that its old frames are recognised as stale.
    fn retire(
        &self,
        contents: &mut Contents,
        active: &Segment,
        beyond: Vec<Arc<Segment>>,
    ) -> Result<Option<Arc<Segment>>, Error> {
        let mut next = None;
        for segment in beyond {
            let follows = segment.header.previous == active.id()
                && segment.header.segment_bytes == active.header.segment_bytes
                && (self.blocks, segment.header.blocks) != (Blocks::Written, Blocks::Reserved)
                && !begins_with_a_frame(&segment)?;
            if follows && next.is_none() {
                segment.set_extent(Extent::EMPTY);
                next = Some(segment);
                continue;
            }
            self.take_out_of_use(&segment, contents)?;
        }
        self.disk
            .sync_directory(self.path)
            .map_err(Error::io("sync directory", self.path))?;
        Ok(next)
    }

    /// A spare that later openings find has written blocks.
    fn take_out_of_use(&self, segment: &Segment, contents: &mut Contents) -> Result<(), Error> {
        let path = &segment.path;
        if segment.header.blocks == Blocks::Reserved || segment.header.grows {
            return self.disk.remove(path).map_err(Error::io("remove", path));
        }
        let number = contents.spare_number;
        contents.spare_number += 1;
        let to = FileName::Spare(number).in_directory(self.path);
        self.disk
            .rename(path, &to)
            .map_err(Error::io("rename", path))?;
        contents.spares.push(number);
        Ok(())
    }
}

fn begins_with_a_frame(segment: &Arc<Segment>) -> Result<bool, Error> {
    let limit = segment.header.segment_bytes;
    let mut window = FileWindow::new(segment, Arc::clone(&segment.file), limit);
    Ok(window.header(FRAMES_START)?.is_some())
}

/// What the pool starts with; spares of another size are removed.
fn state(
    disk: &dyn Disk,
    path: &Path,
    segment_bytes: u64,
    contents: &Contents,
    next: Option<Arc<Segment>>,
    (active, growth): (u32, Growth),
) -> Result<PoolState, Error> {
    let mut spares = Vec::new();
    for &number in &contents.spares {
        let spare = FileName::Spare(number).in_directory(path);
        let file = disk
            .open(&spare, environment::OpenMode::Read)
            .map_err(Error::io("open", &spare))?;
        if file.size().map_err(Error::io("ask the size of", &spare))? == segment_bytes {
            spares.push(SpareFile::written(number));
        } else {
            disk.remove(&spare).map_err(Error::io("remove", &spare))?;
        }
    }
    let numbers = (contents.spare_number, contents.next_id);
    Ok(PoolState::new(next, spares, numbers, active, growth))
}

fn pool(
    disk: Arc<dyn Disk>,
    path: &Path,
    options: &Options,
    segment_bytes: u64,
    (epoch, salt): (u32, Salt),
    state: PoolState,
) -> SegmentPool {
    let parameters = PoolParameters {
        disk,
        directory: path.to_path_buf(),
        segment_bytes,
        reserve_bytes: options.reserve_bytes,
        target: options.spare_segments,
        blocks: options.durability.blocks(),
        keeps_growing: options.starts_small && options.durability.blocks() == Blocks::Reserved,
        has_thread: options.worker.pool_has_thread(),
        epoch,
        salt,
        doorbell: Arc::default(),
    };
    SegmentPool::new(parameters, state)
}

/// Writes the opening frame, then starts the threads.
fn start(
    shared: Arc<LogState>,
    active: Arc<Segment>,
    walked: Walked,
) -> Result<(Log, Recovered), Error> {
    assert!(
        shared.pool.segment_bytes() == active.header.segment_bytes,
        "one size for all that is new"
    );
    let extent = Extent {
        sealed: false,
        ..walked.extent
    };
    active.set_extent(extent);
    shared.segments.insert(Arc::clone(&active));
    let end = end_of(active.id(), extent.end);
    let chain = Chain {
        salt: active.header.salt,
        epoch: walked.epoch + 1,
        next: Sequence(walked.sequence.0 + 1),
        previous_crc: walked.crc,
        synced_up_to: end,
    };
    // If the last opening ended with a failed flush, the page cache may show a note
    // that the device never got.
    let reach = if walked.clean { active.reach } else { 0 };
    let mut committer = Committer::new(Arc::clone(&shared), active, (extent, reach), chain);
    committer.write_opening()?;
    shared.pool.note_flushed(end);
    let recovered = Recovered {
        groups: walked.groups,
        sequence: walked.sequence,
        tag: walked.tag,
        end,
        epoch: chain.epoch,
        clean: walked.clean,
        torn: walked.torn,
        segment_bytes: shared.pool.segment_bytes(),
    };
    let threads = match shared.options.worker {
        Worker::Threads => Some(spawn(&shared, committer)?),
        Worker::Caller => {
            shared.set_caller_committer(committer);
            None
        }
        Worker::CallerWithPool => {
            let pool = spawn_pool(&shared)?;
            shared.set_caller_committer(committer);
            Some(Threads {
                pool,
                flusher: None,
            })
        }
    };
    Ok((Log::running(shared, threads), recovered))
}

fn spawn(shared: &Arc<LogState>, committer: Committer) -> Result<Threads, Error> {
    let pool = spawn_pool(shared)?;
    match threads::spawn("log-flush", move || committer.run()) {
        Ok(flusher) => Ok(Threads {
            pool,
            flusher: Some(flusher),
        }),
        Err(error) => {
            shared.pool.stop();
            // The pool's thread ends at once: it only waits for something to do.
            let _ = pool.join();
            Err(no_thread(&error))
        }
    }
}

fn spawn_pool(shared: &Arc<LogState>) -> Result<JoinHandle<()>, Error> {
    let pool = Arc::clone(shared);
    threads::spawn("log-segments", move || pool.pool.run()).map_err(|it| no_thread(&it))
}

fn no_thread(error: &io::Error) -> Error {
    Error::Misuse {
        what: format!("the log cannot start its threads: {error}"),
    }
}
