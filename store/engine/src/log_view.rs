//! The value log, and what the engine knows about it beyond what the log itself knows.
//!
//! Every main revision from the floor on has all its changes in the log, and the revision marks
//! say where. A segment is released only when no entry of the index points into it; its marks go
//! before the segment, its live bytes after it.

use crate::Error;
use crate::accounting::Accounting;
use crate::damage::Damage;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use value_log::{Appended, Log, Position, SegmentKind, Sequence};

#[derive(Debug)]
pub(crate) struct LogView {
    pub(crate) log: Log,
    pub(crate) accounting: Accounting,
    floor: AtomicI64,
    /// Sequence of the last batch appended since open.
    appended: AtomicU64,
}

impl LogView {
    pub(crate) fn new(log: Log, accounting: Accounting, floor: i64) -> LogView {
        LogView {
            log,
            accounting,
            floor: AtomicI64::new(floor),
            appended: AtomicU64::new(0),
        }
    }

    pub(crate) fn floor(&self) -> i64 {
        self.floor.load(Ordering::Acquire)
    }

    pub(crate) fn raise_floor(&self, main: i64) {
        self.floor.fetch_max(main, Ordering::AcqRel);
    }

    /// Where the walk through the log begins for `main`; `None` when the log
    /// does not have it.
    pub(crate) fn start_of(&self, main: i64) -> Option<Position> {
        if main < self.floor() {
            return None;
        }
        self.accounting.marks.lock().before(main)
    }

    pub(crate) fn note_appended(&self, appended: &Appended) {
        self.appended
            .fetch_max(appended.sequence.0, Ordering::AcqRel);
    }

    /// Waits until everything appended since open is durable.
    pub(crate) fn wait_for_appended(&self) -> Result<(), Error> {
        let appended = Sequence(self.appended.load(Ordering::Acquire));
        if appended > self.log.durable() {
            self.log.wait_durable(appended)?;
        }
        Ok(())
    }

    /// Releases segments that no index entry points into; returns how many. After a failure
    /// halfway the released ones are forgotten and the others stay accounted for.
    pub(crate) fn release(&self, dead: &[u32], damage: &Damage) -> (usize, Result<(), Error>) {
        if dead.is_empty() {
            return (0, Ok(()));
        }
        let accounting = &self.accounting;
        accounting
            .marks
            .lock()
            .retain(|segment| !dead.contains(&segment));
        let outcome = {
            let _no_mending = damage.mending.lock();
            self.log.release(dead)
        };
        let left: BTreeSet<u32> = self.log.segments().iter().map(|it| it.id).collect();
        let gone = || dead.iter().filter(|id| !left.contains(id));
        let is_left = |segment| left.contains(&segment) || !dead.contains(&segment);
        accounting.overruled.lock().retain(is_left);
        let mut live = accounting.live.lock();
        gone().for_each(|&segment| live.forget(segment));
        (gone().count(), outcome.map_err(Error::from))
    }

    /// Whether the log's present segment has so much garbage that sealing it, which takes
    /// another one, gives room back.
    pub(crate) fn has_much_garbage_at_the_end(&self) -> bool {
        let live = self.accounting.live.lock();
        let segments = self.log.segments();
        let active = segments
            .iter()
            .find(|it| it.kind == SegmentKind::Log && !it.sealed);
        active.is_some_and(|it| {
            let garbage_bytes = it.used_bytes.saturating_sub(live.of(it.id).live_bytes);
            garbage_bytes > self.log.segment_bytes() / 2
        })
    }
}
