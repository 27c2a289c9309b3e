//! Segments that a reader looked up last: records in the order of keys point into a few, in turn, and
//! a look-up takes longer than the copy of a short record.

use std::sync::Arc;

use crate::segment::Segment;
use crate::{Log, Position};

/// Segments that are remembered, by the low bits of their ids.
const RECENT: usize = u64::BITS as usize;

/// Segments of a log.
#[derive(Debug)]
pub(crate) struct Recent<'l> {
    pub log: &'l Log,
    /// Whether segments are pinned (`pins.rs`).
    pins: bool,
    remembered: [Option<Remembered>; RECENT],
    /// A bit for each place that is taken.
    taken: u64,
}

impl<'l> Recent<'l> {
    pub fn new(log: &'l Log) -> Recent<'l> {
        Recent {
            log,
            pins: false,
            remembered: [const { None }; RECENT],
            taken: 0,
        }
    }

    /// The same for a reader that does not copy what it reads.
    pub fn pinned(log: &'l Log) -> Recent<'l> {
        Recent {
            pins: true,
            ..Recent::new(log)
        }
    }

    /// The segment of a position; `None` if it was released, or is about to be.
    #[inline]
    pub fn get(&mut self, position: Position) -> Option<&Segment> {
        let id = position.segment();
        let place = id as usize % RECENT;
        let found = &mut self.remembered[place];
        if found.as_ref().is_none_or(|it| it.segment.id() != id) {
            let segment = self.log.shared.segments.get(id)?;
            *found = Remembered::of(segment, self.pins);
            self.taken |= 1 << place;
        }
        Some(&*found.as_ref()?.segment)
    }

    /// Forgets all of them.
    pub fn clear(&mut self) {
        while self.taken != 0 {
            self.remembered[self.taken.trailing_zeros() as usize] = None;
            self.taken &= self.taken - 1;
        }
    }
}

#[derive(Debug)]
struct Remembered {
    segment: Arc<Segment>,
    is_pinned: bool,
}

impl Remembered {
    /// `None`: it cannot be pinned any more.
    fn of(segment: Arc<Segment>, is_pinned: bool) -> Option<Remembered> {
        let is_there = !is_pinned || segment.pins.pin();
        is_there.then_some(Remembered { segment, is_pinned })
    }
}

impl Drop for Remembered {
    fn drop(&mut self) {
        if self.is_pinned {
            self.segment.pins.unpin();
        }
    }
}
