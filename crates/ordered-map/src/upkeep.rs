//! What keeps a map small and its opening short: one thread of its own.
//!
//! Whoever writes rings when a good piece of log has been written; the thread then lets old
//! versions go, and drives the engine's checkpoints and reclaim, a step between two groups
//! at a time.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use environment::threads;

use crate::Error;
use crate::core::Core;
use crate::stamp::STAMP;

/// Between two looks at work of the engine's own threads.
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

/// What the thread is to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Word {
    #[default]
    Sleep,
    Look,
    End,
}

/// Wakes the thread.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    word: Mutex<Word>,
    said: Condvar,
}

impl Bell {
    /// There may be something to do.
    pub(crate) fn ring(&self) {
        self.say(Word::Look);
    }

    /// The map goes.
    pub(crate) fn end(&self) {
        self.say(Word::End);
    }

    fn say(&self, word: Word) {
        let mut said = self.lock();
        if *said != Word::End {
            *said = word;
        }
        drop(said);
        self.said.notify_one();
    }

    /// Sleeps until somebody rings; false: it is the end.
    fn wait(&self) -> bool {
        let mut word = self.lock();
        while *word == Word::Sleep {
            word = self.said.wait(word).unwrap_or_else(PoisonError::into_inner);
        }
        let goes_on = *word != Word::End;
        if goes_on {
            *word = Word::Sleep;
        }
        goes_on
    }

    /// Lets a moment pass, if the end does not come.
    fn wait_a_moment(&self) {
        let word = self.lock();
        let goes_on = |word: &mut Word| *word != Word::End;
        drop(self.said.wait_timeout_while(word, BETWEEN_LOOKS, goes_on));
    }

    fn is_ending(&self) -> bool {
        *self.lock() == Word::End
    }

    fn lock(&self) -> MutexGuard<'_, Word> {
        self.word.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is left to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    Nothing,
    /// The engine's threads are at it.
    Others,
    /// Another step.
    Step,
}

impl Core {
    /// One step; what failed is tried again when more has been written.
    pub(crate) fn step(&self) -> Result<Left, Error> {
        self.at_work(|work| {
            work.compact_if_due();
            work.applier.maintain(&mut || STAMP.to_vec())?;
            Ok(if work.applier.has_a_step_to_do() {
                Left::Step
            } else if work.applier.is_maintaining() {
                Left::Others
            } else {
                Left::Nothing
            })
        })?
    }

    fn look_after(&self) {
        let mut said = String::new();
        while self.bell.wait() {
            if let Err(error) = self.do_what_is_due() {
                // Once, however often it is tried again.
                let error = error.to_string();
                if said != error {
                    tracing::warn!("upkeep: {error}");
                    said = error;
                }
            }
        }
    }

    fn do_what_is_due(&self) -> Result<(), Error> {
        while !self.bell.is_ending() {
            match self.step()? {
                Left::Step => {}
                Left::Others => self.bell.wait_a_moment(),
                Left::Nothing => break,
            }
        }
        Ok(())
    }
}

/// The thread, which ends with this.
#[derive(Debug)]
pub(crate) struct Upkeep {
    core: Arc<Core>,
    thread: Option<JoinHandle<()>>,
}

impl Upkeep {
    pub(crate) fn start(core: &Arc<Core>) -> io::Result<Upkeep> {
        let at_work = Arc::clone(core);
        let thread = threads::spawn("map-upkeep", move || at_work.look_after())?;
        // An opening may have found enough.
        core.bell.ring();
        Ok(Upkeep {
            core: Arc::clone(core),
            thread: Some(thread),
        })
    }
}

impl Drop for Upkeep {
    fn drop(&mut self) {
        self.core.bell.end();
        if let Some(Err(_panic)) = self.thread.take().map(JoinHandle::join) {
            tracing::warn!("upkeep ended in a panic before the map was closed");
        }
    }
}
