//! A walk through all versions in the order of their keys, which copies those that lie out of
//! order. docs/decisions/0048-compaction-in-key-order.md says why.

use super::copy::{Copy, Entry, Portion, SLICE_ENTRIES, pointer_of};
use super::stretches;
use super::{candidates, full_segments, sealed_segments};
use crate::apply::Index;
use crate::moves::Moves;
use crate::parts::Parts;
use crate::record_pointer::RecordPointer;
use crate::trees::OF_VERSIONS;
use crate::{Error, directory};
use std::collections::BTreeSet;

/// A window takes at most this part of a segment, and one record.
const WINDOW_PART: u64 = 8;

/// The segments of a walk, as they were when it began. What is in others stays where it is.
#[derive(Debug)]
pub(crate) struct KeyOrderWalk {
    segments: BTreeSet<u32>,
    /// Those without much garbage, and without damage: what is in order there stays.
    full: BTreeSet<u32>,
}

/// Where a walk goes on.
#[derive(Clone, Debug, Default)]
pub(crate) struct WalkPlace {
    /// Number of the tree among those with versions.
    tree: usize,
    /// The last key that was looked at; `None` in front of the first one.
    behind: Option<Vec<u8>>,
}

/// A round that has ended.
#[derive(Debug)]
pub(crate) struct WalkRound {
    pub(crate) moves: Moves,
    pub(crate) copied_bytes: u64,
    /// Where the next one begins; `None`: this was the last one.
    pub(crate) next: Option<WalkPlace>,
}

impl KeyOrderWalk {
    /// A walk through all that is sealed and applied.
    pub(crate) fn new(parts: &Parts, index: &Index) -> KeyOrderWalk {
        let records = &parts.records;
        let sealed = sealed_segments(records, index, |_, _| true);
        KeyOrderWalk {
            full: full_segments(&candidates(records, index, |_, _| true)),
            segments: sealed.iter().map(|segment| segment.id).collect(),
        }
    }

    /// The segments that take part.
    pub(crate) fn segments(&self) -> &BTreeSet<u32> {
        &self.segments
    }

    /// Bytes of the records that lie out of order.
    pub(crate) fn bytes_out_of_order(&self, parts: &Parts) -> u64 {
        let moved = |(_, window): (usize, Vec<Entry>)| {
            let records = window.iter().map(|entry| pointer_of(entry).record_bytes());
            records.sum::<u64>()
        };
        self.windows(parts, WalkPlace::default()).map(moved).sum()
    }

    /// Copies what lies out of order from `place` on, until it has copied `bytes_max`, or a window more.
    pub(crate) fn copy_round(
        &self,
        parts: &Parts,
        place: WalkPlace,
        bytes_max: u64,
    ) -> Result<WalkRound, Error> {
        let checkpoint_bytes = directory::checkpoint_bytes(parts.records.index.index_bytes());
        let reserve_bytes = parts.directory.reserve_bytes + checkpoint_bytes;
        let relocation = parts.records.log_view.log.write_sorted(reserve_bytes)?;
        let mut copy = Copy::new(parts, relocation, false);
        let mut windows = self.windows(parts, place);
        while copy.copied_bytes < bytes_max
            && let Some((tree, window)) = windows.next()
        {
            copy.copy_slice(tree, &window)?;
        }
        Ok(WalkRound {
            copied_bytes: copy.copied_bytes,
            moves: copy.finish(BTreeSet::new())?,
            next: windows.place,
        })
    }

    fn windows<'a>(&'a self, parts: &'a Parts, place: WalkPlace) -> Windows<'a> {
        let segment_bytes = parts.records.log_view.log.segment_bytes();
        Windows {
            walk: self,
            parts,
            portion: Portion {
                entries_max: SLICE_ENTRIES,
                bytes_max: segment_bytes / WINDOW_PART,
            },
            place: Some(place),
        }
    }

    /// Removes the entries of records that stay.
    fn retain_out_of_order(&self, window: &mut Vec<Entry>) {
        let pointers: Vec<RecordPointer> = window.iter().map(pointer_of).collect();
        let placed = stretches::in_place(&pointers, &self.full);
        window.retain(|entry| {
            let pointer = pointer_of(entry);
            let stays = placed.contains(&pointer.segment());
            !stays && !stretches::stays_alone(pointer, &self.full)
        });
    }
}

/// Windows of a walk: neighbours of which those that lie out of order are left, with their tree.
struct Windows<'a> {
    walk: &'a KeyOrderWalk,
    parts: &'a Parts,
    portion: Portion,
    /// `None` at the end.
    place: Option<WalkPlace>,
}

impl Iterator for Windows<'_> {
    type Item = (usize, Vec<Entry>);

    fn next(&mut self) -> Option<(usize, Vec<Entry>)> {
        if self.parts.records.lifecycle.is_cancelled() {
            return None;
        }
        let WalkPlace {
            tree: number,
            behind,
        } = self.place.take()?;
        let &tree = OF_VERSIONS.get(number)?;
        let within = (self.parts, tree);
        let segments = &self.walk.segments;
        let (mut window, next) = self.portion.of(within, behind.as_deref(), segments);
        self.walk.retain_out_of_order(&mut window);
        self.place = match next {
            Some(_) => Some(WalkPlace {
                tree: number,
                behind: next,
            }),
            None if number + 1 < OF_VERSIONS.len() => Some(WalkPlace {
                tree: number + 1,
                behind: None,
            }),
            None => None,
        };
        Some((tree, window))
    }
}
