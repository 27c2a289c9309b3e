//! The upkeep thread, which keeps a map small and its opening short.
//!
//! Writers ring its bell each time that about a MiB of log has been written. The thread then
//! drops old versions and drives the engine's checkpoints and reclaim, in steps between two
//! groups of writes.

use std::io;
use std::sync::{Arc, Condvar, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use environment::real::RealClock;
use environment::{Clock, Mutex, threads};

use crate::Error;
use crate::core::Core;
use crate::writing::Work;

/// Pause between two checks of work on the engine's own threads.
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

/// Work that is due on the thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Signal {
    #[default]
    Sleep,
    /// There may be work.
    Look,
    /// The map is being closed; this is never replaced by another signal.
    End,
}

/// Wakes the upkeep thread.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    signal: Mutex<Signal>,
    changed: Condvar,
}

impl Bell {
    /// Wakes the thread, because there may be something to do.
    pub(crate) fn ring(&self) {
        self.send(Signal::Look);
    }

    /// Lets the thread end, because the map is closed.
    pub(crate) fn end(&self) {
        self.send(Signal::End);
    }

    fn send(&self, signal: Signal) {
        let mut present = self.signal.lock();
        if *present != Signal::End {
            *present = signal;
        }
        drop(present);
        self.changed.notify_one();
    }

    /// Sleeps until the bell rings; false: the thread must end.
    fn wait(&self) -> bool {
        let mut signal = self.signal.lock();
        while *signal == Signal::Sleep {
            let waited = self.changed.wait(signal);
            signal = waited.unwrap_or_else(PoisonError::into_inner);
        }
        let goes_on = *signal != Signal::End;
        if goes_on {
            *signal = Signal::Sleep;
        }
        goes_on
    }

    /// Pauses, but not beyond the signal to end.
    fn wait_a_moment(&self) {
        let signal = self.signal.lock();
        let goes_on = |signal: &mut Signal| *signal != Signal::End;
        let waited = self
            .changed
            .wait_timeout_while(signal, BETWEEN_LOOKS, goes_on);
        drop(waited);
    }

    fn is_ending(&self) -> bool {
        *self.signal.lock() == Signal::End
    }
}

/// Work that remains after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    Nothing,
    /// Work that runs on the engine's threads.
    Others,
    /// Another step of this thread.
    Step,
}

impl Core {
    /// One step of upkeep. After an error it is tried again when more has been written.
    pub(crate) fn step(&self) -> Result<Left, Error> {
        self.at_work(|work| {
            work.compact_if_due();
            work.maintain()?;
            Ok(if work.applier.has_a_step_to_do() {
                Left::Step
            } else if work.applier.is_maintaining() {
                Left::Others
            } else {
                Left::Nothing
            })
        })?
    }

    /// Body of [`Map::compact`](crate::Map::compact): the upkeep thread does the steps.
    pub(crate) fn compact(&self) -> Result<(), Error> {
        let _only_one = self.compacting.lock();
        self.at_work(Work::begin_key_order)?;
        self.bell.ring();
        loop {
            if let Some(end) = self.at_work(|work| work.key_order_end.take())? {
                return end;
            }
            RealClock.sleep(BETWEEN_LOOKS);
        }
    }

    /// Shortens the next opening. There are no writers any more.
    pub(crate) fn checkpoint_for_opening(&self) -> Result<(), Error> {
        self.at_work(|work| {
            let stamp = work.format.stamp();
            let state = &mut || stamp.to_vec();
            Ok(work.applier.checkpoint_for_opening(state)?)
        })?
    }

    /// Body of the upkeep thread.
    fn run_upkeep(&self) {
        let mut last_error = String::new();
        while self.bell.wait() {
            if let Err(error) = self.do_all_steps() {
                // The same error is logged once, however often the step is tried again.
                let error = error.to_string();
                if last_error != error {
                    tracing::warn!("upkeep failed: {error}");
                    last_error = error;
                }
            }
        }
    }

    fn do_all_steps(&self) -> Result<(), Error> {
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

/// The upkeep thread, which ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Upkeep {
    core: Arc<Core>,
    thread: Option<JoinHandle<()>>,
}

impl Upkeep {
    pub(crate) fn start(core: &Arc<Core>) -> io::Result<Upkeep> {
        let at_work = Arc::clone(core);
        let thread = threads::spawn("map-upkeep", move || at_work.run_upkeep())?;
        // There may be work after the opening.
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
        if std::thread::panicking() {
            return;
        }
        if let Err(error) = self.core.checkpoint_for_opening() {
            tracing::warn!("the next opening replays the log: {error}");
        }
    }
}
