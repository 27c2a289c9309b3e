//! Recent creations and deletions of keys: with them, a count of now becomes one at a past
//! revision (`count.rs`).
//!
//! ```text
//!   floor │ chunk       chunk       open
//!     12  │ 13 … 140    140 … 260   261 …      notes, by revision
//!         └─ all of them above the floor        full chunks are shared with readers
//! ```
//!
//! Most writes change an existing key and leave no trace here. The last `KEPT_MAX` notes
//! are kept, or fewer if their keys are long; none is from before the engine was opened.
//!
//! Notes are not part of the published trees, so a reader finds notes of later
//! revisions than its snapshot's, and passes over them. It finds all notes up to its
//! revision: notes are made before the state that they belong to is published.

use std::collections::VecDeque;
use std::sync::Arc;

/// Most notes kept: some megabytes with keys of usual length.
const KEPT_MAX: u64 = 1 << 16;
/// Most heap bytes of full chunks, for long keys.
const KEPT_BYTES_MAX: usize = 16 << 20;
/// Notes of a full chunk. A reader copies the open chunk and shares the full ones.
const CHUNK_NOTES: usize = 128;
/// A chunk is full too when its keys have this many bytes.
const CHUNK_BYTES: usize = 16 << 10;

/// How a key began or ceased to exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transition {
    Created,
    Deleted,
}

#[derive(Clone, Copy, Debug)]
struct Note {
    main: i64,
    transition: Transition,
    /// Where its key ends in the chunk's.
    key_end: usize,
}

#[derive(Clone, Debug, Default)]
struct Chunk {
    /// Notes since the start that come before it.
    before: u64,
    notes: Vec<Note>,
    /// The keys, one behind the other.
    keys: Vec<u8>,
}

impl Chunk {
    fn last_main(&self) -> Option<i64> {
        self.notes.last().map(|note| note.main)
    }

    fn heap_bytes(&self) -> usize {
        self.notes.capacity() * size_of::<Note>() + self.keys.capacity()
    }

    fn iter(&self) -> impl Iterator<Item = (i64, Transition, &[u8])> {
        let mut start = 0;
        self.notes.iter().map(move |note| {
            let key = &self.keys[start..note.key_end];
            start = note.key_end;
            (note.main, note.transition, key)
        })
    }
}

/// The notes, in ascending order of their revisions.
#[derive(Debug, Default)]
pub(crate) struct Creations {
    /// Every transition above this revision is noted; `None`: nothing is noted yet.
    floor: Option<i64>,
    full: VecDeque<Arc<Chunk>>,
    open: Chunk,
    /// Heap bytes of the full chunks.
    full_bytes: usize,
}

impl Creations {
    /// Forgets all notes and begins to note transitions above `revision`. A reader that still has a
    /// snapshot of a replaced state finds no notes for it, neither old ones nor new ones.
    pub(crate) fn start(&mut self, revision: i64) {
        let newest = self.newest().max(self.floor);
        *self = Creations::default();
        self.floor = newest.max(Some(revision));
    }

    fn newest(&self) -> Option<i64> {
        let full = self.full.back().and_then(|chunk| chunk.last_main());
        self.open.last_main().or(full)
    }

    /// Notes that `key` was created or deleted at `main`.
    pub(crate) fn note(&mut self, main: i64, key: &[u8], transition: Transition) {
        if self.floor.is_none() {
            return;
        }
        assert!(self.newest() <= Some(main), "{main} was noted late");
        self.open.keys.extend_from_slice(key);
        let key_end = self.open.keys.len();
        self.open.notes.push(Note {
            main,
            transition,
            key_end,
        });
        if self.open.notes.len() == CHUNK_NOTES || key_end >= CHUNK_BYTES {
            self.close_chunk();
        }
    }

    /// Notes since the start.
    fn all(&self) -> u64 {
        self.open.before + self.open.notes.len() as u64
    }

    /// Notes since the start that are no longer kept.
    fn forgotten(&self) -> u64 {
        self.full.front().map_or(self.open.before, |it| it.before)
    }

    fn close_chunk(&mut self) {
        let next = Chunk {
            before: self.all(),
            notes: Vec::with_capacity(CHUNK_NOTES),
            keys: Vec::new(),
        };
        let mut chunk = std::mem::replace(&mut self.open, next);
        chunk.notes.shrink_to_fit();
        chunk.keys.shrink_to_fit();
        self.full_bytes += chunk.heap_bytes();
        self.full.push_back(Arc::new(chunk));
        while self.all() - self.forgotten() > KEPT_MAX || self.full_bytes > KEPT_BYTES_MAX {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        if let Some(oldest) = self.full.pop_front() {
            self.full_bytes -= oldest.heap_bytes();
            self.floor = self.floor.max(oldest.last_main());
        }
    }

    /// Forgets chunks of transitions at or below `revision`, which no count needs any more.
    pub(crate) fn forget_through(&mut self, revision: i64) {
        let is_past = |chunk: &Chunk| chunk.last_main().is_some_and(|last| last <= revision);
        while self.full.front().is_some_and(|oldest| is_past(oldest)) {
            self.forget_oldest();
        }
        if self.full.is_empty() && is_past(&self.open) {
            self.floor = self.floor.max(self.open.last_main());
            self.open = Chunk {
                before: self.all(),
                ..Chunk::default()
            };
        }
    }

    /// The transitions above revision `after`, and perhaps some at or below it; `None` where
    /// they are not all noted, or are more than `at_most`.
    pub(crate) fn since(&self, after: i64, at_most: u64) -> Option<CreationsSince> {
        if self.floor.is_none_or(|floor| after < floor) {
            return None;
        }
        let past = |chunk: &Arc<Chunk>| chunk.last_main().is_some_and(|last| last <= after);
        let first = self.full.partition_point(past);
        let before = self
            .full
            .get(first)
            .map_or(self.open.before, |it| it.before);
        (self.all() - before <= at_most).then(|| CreationsSince {
            full: self.full.range(first..).cloned().collect(),
            open: self.open.clone(),
        })
    }

    pub(crate) fn heap_bytes(&self) -> u64 {
        (self.full_bytes + self.open.heap_bytes()) as u64
    }
}

/// Some of the notes, for a reader to look at.
#[derive(Debug)]
pub(crate) struct CreationsSince {
    full: Vec<Arc<Chunk>>,
    open: Chunk,
}

impl CreationsSince {
    /// Revision, what happened, and to which key.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (i64, Transition, &[u8])> {
        let full = self.full.iter().flat_map(|chunk| chunk.iter());
        full.chain(self.open.iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mains(creations: &Creations, after: i64) -> Option<Vec<i64>> {
        let recent = creations.since(after, u64::MAX)?;
        let mains = recent.iter().map(|(main, _, _)| main);
        Some(mains.filter(|&main| main > after).collect())
    }

    fn filled(notes: i64) -> Creations {
        let mut creations = Creations::default();
        creations.start(10);
        for main in 11..11 + notes {
            creations.note(main, &main.to_be_bytes(), Transition::Created);
        }
        creations
    }

    #[test]
    fn before_the_start_nothing_is_noted() {
        let mut creations = Creations::default();
        creations.note(3, b"k", Transition::Created);
        assert_eq!(mains(&creations, 0), None);
        creations.start(3);
        assert_eq!(
            (mains(&creations, 2), mains(&creations, 3)),
            (None, Some(vec![]))
        );
    }

    #[test]
    fn every_turn_above_a_revision_is_found_with_its_key() {
        let creations = filled(1000);
        assert_eq!(mains(&creations, 10), Some((11..1011).collect()));
        assert_eq!(mains(&creations, 700), Some((701..1011).collect()));
        let recent = creations.since(10, 1000).unwrap();
        assert!(
            recent
                .iter()
                .all(|(main, _, key)| key == main.to_be_bytes())
        );
        assert!(
            creations.since(10, 999).is_none(),
            "more than was asked for"
        );
    }

    #[test]
    fn the_oldest_turns_are_forgotten_and_the_floor_rises() {
        let creations = filled(KEPT_MAX as i64 * 2);
        let floor = creations.floor.unwrap();
        assert!(floor >= KEPT_MAX as i64 && mains(&creations, floor - 1).is_none());
        let last = 10 + KEPT_MAX as i64 * 2;
        assert_eq!(mains(&creations, floor), Some((floor + 1..=last).collect()));
    }

    #[test]
    fn long_keys_are_bounded_by_their_bytes() {
        let mut creations = Creations::default();
        creations.start(10);
        let long = vec![7; 1 << 20];
        for main in 11..111 {
            creations.note(main, &long, Transition::Created);
        }
        assert!(creations.heap_bytes() <= KEPT_BYTES_MAX as u64 + 4096);
        let kept = mains(&creations, creations.floor.unwrap()).unwrap();
        assert!(kept.len() >= 10 && kept.ends_with(&[109, 110]), "{kept:?}");
        let recent = creations.since(108, 2).unwrap();
        assert!(recent.open.keys.is_empty(), "a reader copies none of them");
    }

    #[test]
    fn compacted_turns_are_forgotten_and_later_ones_kept() {
        let mut creations = filled(1000);
        creations.forget_through(500);
        assert_eq!(mains(&creations, 500), Some((501..1011).collect()));
        assert_eq!(mains(&creations, 11), None);
        creations.forget_through(2000);
        assert_eq!(mains(&creations, 1010), Some(vec![]));
        assert_eq!(creations.full_bytes, 0);
    }

    #[test]
    fn a_new_state_shares_no_note_with_the_old_one() {
        let mut creations = filled(1000);
        creations.start(20);
        assert_eq!(mains(&creations, 900), None, "the old state's readers walk");
        assert_eq!(mains(&creations, 1010), Some(vec![]));
    }
}
