//! Segments that a reader looked up last, pinned: records in the order of keys point into a few, in
//! turn, and a look-up takes longer than the copy of a short record.

use std::sync::Arc;

use crate::segment::Segment;
use crate::{Log, Position};

/// Segments that are remembered, by the low bits of their ids.
const RECENT: usize = 32;

/// Segments of a log.
#[derive(Debug)]
pub(crate) struct Recent<'l> {
    pub log: &'l Log,
    pinned: [Option<Pin>; RECENT],
}

impl<'l> Recent<'l> {
    pub fn new(log: &'l Log) -> Recent<'l> {
        Recent {
            log,
            pinned: [const { None }; RECENT],
        }
    }

    /// The segment of a position; `None` if it was released.
    #[inline]
    pub fn get(&mut self, position: Position) -> Option<&Segment> {
        let id = position.segment();
        let pinned = &mut self.pinned[id as usize % RECENT];
        if pinned.as_ref().is_none_or(|it| it.0.id() != id) {
            *pinned = self.log.shared.segments.get(id).and_then(Pin::of);
        }
        Some(&*pinned.as_ref()?.0)
    }

    /// Unpins all of them.
    pub fn clear(&mut self) {
        self.pinned.fill_with(|| None);
    }
}

/// A pin, and the segment.
#[derive(Debug)]
struct Pin(Arc<Segment>);

impl Pin {
    fn of(segment: Arc<Segment>) -> Option<Pin> {
        segment.pins.pin().then_some(Pin(segment))
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.0.pins.unpin();
    }
}
