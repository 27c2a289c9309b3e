//! The thread that looks for damage which no reader has met.
//!
//! ```text
//!   segments ──step──► rest ──step──► rest ─ ... ─► end of a round ──► pause ──► first segment
//!                       └─ at times: a walk over the keys of the index
//! ```
//!
//! After each piece of work the thread rests until its share of a core stays below the
//! limit. The time that a piece of work took is measured by the clock, so it includes the wait
//! for the device, and the true share is smaller.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use engine::{Engine, KeyWalk, ScrubStep, Scrubber};
use environment::{Clock, Instant, threads};
use tracing::{error, info, warn};

use crate::Error;
use crate::lock::lock;

/// The keys of the index are walked at most this often.
const KEYS_INTERVAL: Duration = Duration::from_secs(1);
/// Rests between two walks over the keys, so that the segments get the other half of the time.
const KEYS_PART: u32 = 2;
/// Rest after an error, which may persist.
const REST_AFTER_ERROR: Duration = Duration::from_secs(10);
const WHOLE_PERMILLE: u32 = 1000;

/// How the log and the index are verified in the background.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scrubbing {
    /// Most time of one core that it may use, in thousandths.
    pub core_permille: u32,
    /// Pause between two rounds over all sealed segments.
    pub round_pause: Duration,
}

impl Default for Scrubbing {
    fn default() -> Scrubbing {
        Scrubbing {
            core_permille: 10,
            round_pause: Duration::from_secs(3600),
        }
    }
}

/// Work and findings of scrubbing since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScrubFindings {
    /// Bytes of sealed segments that were verified.
    pub bytes: u64,
    /// Rounds over all sealed segments that have ended.
    pub rounds: u64,
    /// Damaged places that were found.
    pub damaged: u64,
    /// Damaged frames that were written again from the page cache.
    pub rewritten: u64,
    /// Walks over the keys of the index that found the sum that apply has kept.
    pub sound_walks: u64,
    /// Walks that found another sum, and nothing that proves what the entries were.
    pub spoiled_walks: u64,
    /// Entries of the index that had changed, and that their records proved.
    pub corrected_entries: u64,
}

/// The counters behind [`ScrubFindings`].
#[derive(Debug, Default)]
struct ScrubCounters {
    bytes: AtomicU64,
    rounds: AtomicU64,
    damaged: AtomicU64,
    rewritten: AtomicU64,
    sound_walks: AtomicU64,
    spoiled_walks: AtomicU64,
    corrected_entries: AtomicU64,
}

/// Signals the end to the thread.
#[derive(Debug, Default)]
struct ScrubEnd {
    ended: Mutex<bool>,
    changed: Condvar,
}

impl ScrubEnd {
    /// Rests, and returns whether the thread should go on.
    fn rest(&self, length: Duration) -> bool {
        let ended = lock(&self.ended);
        let waited = self
            .changed
            .wait_timeout_while(ended, length, |ended| !*ended);
        !*waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn end(&self) {
        *lock(&self.ended) = true;
        self.changed.notify_all();
    }
}

/// The thread, for its owner.
#[derive(Debug)]
pub(crate) struct ScrubThread {
    counters: Arc<ScrubCounters>,
    ending: Arc<ScrubEnd>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl ScrubThread {
    pub fn start(
        options: Scrubbing,
        clock: Arc<dyn Clock>,
        engine: Engine,
    ) -> Result<ScrubThread, Error> {
        if options.core_permille == 0 || options.core_permille > WHOLE_PERMILLE {
            return Err(Error::InvalidOptions(format!(
                "`core_permille` is {}: write 1 to 1000, or leave scrubbing out",
                options.core_permille
            )));
        }
        let (counters, ending) = (Arc::<ScrubCounters>::default(), Arc::<ScrubEnd>::default());
        let work = ScrubWork {
            options,
            clock,
            scrubber: engine.scrubber(),
            engine,
            counters: Arc::clone(&counters),
            ending: Arc::clone(&ending),
        };
        let thread = threads::spawn("scrub", move || work.run()).map_err(Error::thread)?;
        Ok(ScrubThread {
            counters,
            ending,
            thread: Mutex::new(Some(thread)),
        })
    }

    pub fn findings(&self) -> ScrubFindings {
        let counters = &self.counters;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ScrubFindings {
            bytes: read(&counters.bytes),
            rounds: read(&counters.rounds),
            damaged: read(&counters.damaged),
            rewritten: read(&counters.rewritten),
            sound_walks: read(&counters.sound_walks),
            spoiled_walks: read(&counters.spoiled_walks),
            corrected_entries: read(&counters.corrected_entries),
        }
    }

    /// Ends the thread, and waits for it.
    pub fn stop(&self) {
        self.ending.end();
        if let Some(thread) = lock(&self.thread).take()
            && thread.join().is_err()
        {
            error!("the thread that looks for damage panicked");
        }
    }
}

impl Drop for ScrubThread {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The work of the thread.
struct ScrubWork {
    options: Scrubbing,
    clock: Arc<dyn Clock>,
    scrubber: Scrubber,
    engine: Engine,
    counters: Arc<ScrubCounters>,
    ending: Arc<ScrubEnd>,
}

impl ScrubWork {
    fn run(mut self) {
        let mut keys_due = self.clock.now();
        let mut segments_due = keys_due;
        loop {
            let began = self.clock.now();
            let rest = if began >= keys_due {
                let rest = self.walk_keys();
                // The segments get their turn behind the rest.
                keys_due = self.clock.now() + (rest * KEYS_PART).max(KEYS_INTERVAL);
                rest
            } else if began >= segments_due {
                let (rest, pause) = self.verify_segments();
                segments_due = self.clock.now() + rest + pause;
                rest
            } else {
                keys_due.min(segments_due).saturating_since(began)
            };
            if !self.ending.rest(rest) {
                return;
            }
        }
    }

    /// The rest behind work that has begun at this moment.
    fn rest_after(&self, began: Instant) -> Duration {
        let worked = self.clock.now().saturating_since(began);
        worked * (WHOLE_PERMILLE - self.options.core_permille) / self.options.core_permille
    }

    /// Walks the keys of the index with pauses, so that it takes half of a core at most, and
    /// returns how long to rest.
    fn walk_keys(&self) -> Duration {
        let mut worked = Duration::ZERO;
        let mut began = self.clock.now();
        let walk = self.engine.check_keys(&mut || {
            let slice = self.clock.now().saturating_since(began);
            worked += slice;
            let goes_on = self.ending.rest(slice);
            began = self.clock.now();
            goes_on
        });
        match walk {
            Some(KeyWalk::Sound) => add(&self.counters.sound_walks, 1),
            Some(KeyWalk::Correctable(entries)) => {
                add(&self.counters.corrected_entries, entries as u64);
            }
            Some(KeyWalk::Spoiled) => {
                add(&self.counters.spoiled_walks, 1);
                error!(
                    "the keys in the memory of this member are not those that were applied: \
                     its memory is faulty, or this is a bug; restart it, and replace the machine \
                     if it happens again"
                );
            }
            None => {}
        }
        let whole = worked * (WHOLE_PERMILLE - self.options.core_permille);
        whole / self.options.core_permille + self.rest_after(began)
    }

    /// Verifies a piece of the segments; returns how long to rest, and the pause behind a round.
    fn verify_segments(&mut self) -> (Duration, Duration) {
        let began = self.clock.now();
        match self.scrubber.step() {
            Ok(step) => {
                self.report(&step);
                let over = step.round_over;
                let pause = if over {
                    self.options.round_pause
                } else {
                    Duration::ZERO
                };
                (self.rest_after(began), pause)
            }
            Err(engine::Error::Closed { .. }) => (REST_AFTER_ERROR, Duration::ZERO),
            Err(error) => {
                warn!(%error, "a sealed segment could not be verified");
                (REST_AFTER_ERROR, Duration::ZERO)
            }
        }
    }

    fn report(&self, step: &ScrubStep) {
        add(&self.counters.bytes, step.bytes);
        add(&self.counters.rounds, u64::from(step.round_over));
        add(&self.counters.damaged, step.damaged.len() as u64);
        add(&self.counters.rewritten, step.rewritten as u64);
        for damage in &step.damaged {
            let remedy = match (damage.unreadable, damage.hidden) {
                (0, 0) => "no version needs these bytes; they go with their segment",
                (0, _) => "only versions that their own transaction replaced lie there",
                _ => "other members are asked for the damaged values",
            };
            error!(
                file = %damage.file.display(),
                offset = damage.offset,
                bytes = damage.bytes,
                values = damage.unreadable,
                "a sealed segment is damaged: {remedy}"
            );
        }
        if step.round_over {
            let missing = self.engine.damaged_versions().len();
            if missing > 0 {
                error!(
                    values = missing,
                    "damaged values could not be repaired: no other member has sent them"
                );
            }
            info!("all sealed segments were verified");
        }
    }
}

fn add(counter: &AtomicU64, number: u64) {
    counter.fetch_add(number, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rest_ends_at_once_when_the_thread_is_to_end() {
        let ending = ScrubEnd::default();
        assert!(ending.rest(Duration::ZERO));
        ending.end();
        assert!(!ending.rest(Duration::from_secs(3600)));
    }
}
