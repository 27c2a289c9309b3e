//! The state that a map's handles and its upkeep thread share.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use engine::{Engine, Headers, KeyChange};
use environment::Disk;
use handoff::{CommitQueue, Mutex};

use crate::Error;
use crate::compression::Compression;
use crate::held::{Held, Hold};
use crate::pair;
use crate::stamp::{Format, Inspector};
use crate::upkeep::Bell;
use crate::writing::{Answer, Operation, Work};

pub(crate) struct Core {
    pub engine: Engine,
    held: Arc<Held>,
    pub bell: Bell,
    /// How new values are stored.
    pub compression: Compression,
    /// Of new records.
    headers: Headers,
    directory: PathBuf,
    /// Upper limit of a batch, and of a key with its value.
    batch_bytes_max: u64,
    queue: CommitQueue<Operation, Answer>,
    /// Locked by the leader of a group of writes, and by upkeep between two groups.
    work: Mutex<Work>,
    /// Locked during a compaction.
    pub(crate) compacting: environment::Mutex<()>,
    /// A thread panicked while it held the `work` lock, so the state of the work is unknown.
    panicked: AtomicBool,
}

impl fmt::Debug for Core {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut core = formatter.debug_struct("Core");
        core.field("directory", &self.directory)
            .finish_non_exhaustive()
    }
}

impl Core {
    pub(crate) fn open(
        disk: Arc<dyn Disk>,
        directory: &Path,
        options: engine::Options,
        compression: Compression,
    ) -> Result<Core, Error> {
        Core::open_or_make(disk, directory, options, (Format::NEWEST, compression))
    }

    /// Opens a map of any version, or makes one of this version. Values are compressed in this way if
    /// its version allows it.
    pub(crate) fn open_or_make(
        disk: Arc<dyn Disk>,
        directory: &Path,
        mut options: engine::Options,
        (format_of_new, compression): (Format, Compression),
    ) -> Result<Core, Error> {
        // A map is compared with no other.
        options.state_hash = false;
        // No snapshot of what was written before an opening can be held.
        options.keeps_history = false;
        let batch_bytes_max = options.batch_bytes_max;
        let mut inspector = Inspector::default();
        let opened = Engine::open(disk, directory, options, &mut |replayed| {
            inspector.see(&replayed)
        });
        let foreign = |what| Error::Foreign {
            directory: directory.to_owned(),
            what,
        };
        let (engine, applier, recovered) = match (opened, inspector.foreign()) {
            (Err(_), Some(what)) => return Err(foreign(what)),
            (opened, _) => opened?,
        };
        let found = inspector.format(&recovered).map_err(foreign)?;
        let format = found.unwrap_or(format_of_new);
        let held = Arc::new(Held::default());
        let mut work = Work::new(
            applier,
            format,
            &recovered,
            Arc::clone(&held),
            directory,
            batch_bytes_max,
        );
        if found.is_none() {
            work.stamp()?;
        }
        Ok(Core {
            engine,
            held,
            bell: Bell::default(),
            compression: format.compression(compression),
            headers: format.headers(),
            directory: directory.to_owned(),
            batch_bytes_max,
            queue: CommitQueue::new(),
            work: Mutex::new(work),
            compacting: environment::Mutex::default(),
            panicked: AtomicBool::new(false),
        })
    }

    /// Refuses puts that are too large together, by the lengths of their keys and values. They count
    /// as they would be stored without compression: what may be stored does not depend on what it is.
    pub(crate) fn check_puts(
        &self,
        lengths: impl Iterator<Item = (usize, usize)>,
    ) -> Result<(), Error> {
        let bytes = |(key_bytes, value_bytes)| {
            let kv_bytes = pair::plain_bytes(key_bytes, value_bytes);
            KeyChange::log_bytes_with(kv_bytes, self.headers)
        };
        let batch_bytes = lengths.map(bytes).sum();
        let log_bytes_max = self.engine.batch_log_bytes_max();
        let batch_bytes_max = self.batch_bytes_max.min(log_bytes_max);
        match batch_bytes > batch_bytes_max {
            true => Err(engine::Error::TooLarge {
                batch_bytes,
                batch_bytes_max,
            }
            .into()),
            false => Ok(()),
        }
    }

    /// Carries an operation out, on this thread or on the one that leads its group. Returns
    /// the number of keys that it has deleted.
    pub(crate) fn carry_out(&self, operation: Operation) -> Answer {
        operation.check(self.batch_bytes_max)?;
        let answer = self.queue.commit(operation, |group| {
            let members: Vec<_> = group.collect();
            let operations: Vec<_> = members.iter().map(|it| it.take_operation()).collect();
            let answers = self.at_work(|work| {
                let answers = work.carry_out(&operations);
                // A write that was refused for want of room may pass after some upkeep.
                if work.wants_upkeep() || answers.iter().any(Result::is_err) {
                    self.bell.ring();
                }
                answers
            });
            // The operations are dropped before their threads get the answers: each thread
            // holds a clone, so its memory is freed by the thread that allocated it.
            drop(operations);
            match answers {
                Ok(answers) => {
                    for (member, answer) in members.iter().zip(answers) {
                        member.answer(answer);
                    }
                }
                Err(error) => members.iter().for_each(|it| it.answer(Err(error.clone()))),
            }
        });
        answer.unwrap_or_else(|_unanswered| Err(self.panic_error()))
    }

    /// Runs `body` with the `work` lock; an error after a panic under that lock.
    pub(crate) fn at_work<T>(&self, body: impl FnOnce(&mut Work) -> T) -> Result<T, Error> {
        let mut work = self.work.lock();
        if self.panicked.load(Ordering::Relaxed) {
            return Err(self.panic_error());
        }
        let latch = Latch(&self.panicked);
        let outcome = body(&mut work);
        std::mem::forget(latch);
        Ok(outcome)
    }

    /// Keeps the versions that are visible now from being dropped.
    pub(crate) fn hold(&self) -> Hold {
        self.held.hold(|| self.engine.snapshot().revision())
    }

    fn panic_error(&self) -> Error {
        Error::Panicked {
            directory: self.directory.clone(),
        }
    }
}

/// Records a panic: it is dropped by a panic alone.
struct Latch<'a>(&'a AtomicBool);

impl Drop for Latch<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
