//! A walk over the keys visible at a past revision that stops when it has looked at enough.
//!
//! ```text
//!   CURRENT   a7        c9            at 5: the walk passes a7 and c9, looks below them
//!   HISTORY   a4 a2     c3 … c1       in HISTORY, and leaves a long history with one seek
//! ```
//!
//! [`crate::Range`] takes as long as it takes. Here each entry costs a step, a key without a
//! visible version included, and so do the bytes of long keys: a reader that pays for a bounded
//! number of steps gets its answer in a bounded time, whatever the history looks like.

use std::ops::Bound;

use crate::range::bounds;
use crate::side::Side;
use crate::trees::{CURRENT, HISTORY, VersionEntry};
use crate::{Snapshot, history_key};
use bytes::Bytes;

/// Versions of one key that are passed one by one before the rest is passed with a seek.
const RUN_MAX: usize = 16;
/// Steps of a seek: several nodes of the index.
const SEEK_STEPS: u64 = 8;
/// Bytes of a key that cost as much as an entry.
const KEY_BYTES_OF_STEP: usize = 256;

/// The next visible key, or why there is none.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The version of the key that [`PastWalk::key`] returns.
    Visible(VersionEntry),
    End,
    /// The steps are used up.
    Stopped,
}

#[derive(Debug)]
pub(crate) struct PastWalk<'a> {
    snapshot: &'a Snapshot,
    at: i64,
    /// Where the walk ends in HISTORY.
    history_end: Option<Vec<u8>>,
    current: Side<'a>,
    history: Side<'a>,
    /// The key that was looked at last.
    key: Vec<u8>,
}

impl<'a> PastWalk<'a> {
    pub(crate) fn new(
        snapshot: &'a Snapshot,
        start: &[u8],
        end: Option<&[u8]>,
        at: i64,
    ) -> PastWalk<'a> {
        let history_end = end.map(history_key::prefix);
        let history_start = history_key::prefix(start);
        let trees = &snapshot.trees;
        let (from, to) = bounds(start, end);
        let current = trees.cursor(CURRENT, from, to);
        let (from, to) = bounds(&history_start, history_end.as_deref());
        let history = trees.cursor(HISTORY, from, to);
        PastWalk {
            snapshot,
            at,
            history_end,
            current: Side::new(current, false, false),
            history: Side::new(history, true, false),
            key: Vec::new(),
        }
    }

    /// The key that the last step returned.
    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    /// The next key that the walk has not looked at; `None` at its end.
    pub(crate) fn next_key(&self) -> Option<&[u8]> {
        match (self.current.key(), self.history.key()) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        }
    }

    /// Goes on to the next visible key.
    pub(crate) fn step(&mut self, steps: &mut u64) -> Step {
        loop {
            let mut key = std::mem::take(&mut self.key);
            let Some(next) = self.next_key() else {
                return Step::End;
            };
            if *steps == 0 {
                return Step::Stopped;
            }
            key.clear();
            key.extend_from_slice(next);
            *steps = steps.saturating_sub((key.len() / KEY_BYTES_OF_STEP) as u64);
            self.key = key;
            let newest = self.take_current(steps);
            let visible = self.take_history(newest, steps);
            if let Some(version) = visible.filter(|version| !version.tombstone) {
                return Step::Visible(version);
            }
        }
    }

    /// The version in CURRENT, if it is visible.
    fn take_current(&mut self, steps: &mut u64) -> Option<VersionEntry> {
        let version = self.current.take(&self.key)?;
        *steps = steps.saturating_sub(1);
        (version.main <= self.at).then_some(version)
    }

    /// Passes the key's versions in HISTORY. Returns the visible one, unless `newest` is.
    fn take_history(
        &mut self,
        newest: Option<VersionEntry>,
        steps: &mut u64,
    ) -> Option<VersionEntry> {
        let mut visible = newest;
        for _ in 0..RUN_MAX {
            let Some(version) = self.history.take(&self.key) else {
                return visible;
            };
            *steps = steps.saturating_sub(1);
            visible = visible.or((version.main <= self.at).then_some(version));
        }
        if self.history.key() != Some(&self.key[..]) {
            return visible;
        }
        let looked_up = || self.snapshot.newest_superseded(&self.key, self.at);
        visible = visible.or_else(looked_up);
        *steps = steps.saturating_sub(SEEK_STEPS);
        let last = history_key::encode(&self.key, 0);
        let (_, end) = bounds(&last, self.history_end.as_deref());
        let trees = &self.snapshot.trees;
        let rest = trees.cursor(HISTORY, Bound::Excluded(&last), end);
        self.history = Side::new(rest, true, false);
        visible
    }
}

/// The first visible key of a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum First {
    /// It and its version.
    Found(crate::Version),
    /// The range has none.
    Empty,
    /// The steps are used up; the keys before this one are not visible.
    Stopped(Bytes),
}

impl Snapshot {
    /// The smallest key of a range that is visible at `at`, if it is found within `steps`, from
    /// which the steps that it takes are subtracted. At the newest revision one step suffices.
    pub fn first(&self, start: &[u8], end: Option<&[u8]>, at: i64, steps: &mut u64) -> First {
        if at >= self.revision() {
            return self.first_now(start, end, steps);
        }
        let mut walk = PastWalk::new(self, start, end, at);
        match walk.step(steps) {
            Step::Visible(entry) => First::Found(version(walk.key(), entry)),
            Step::End => First::Empty,
            Step::Stopped => {
                let next = walk.next_key().expect("a walk stops before its end");
                First::Stopped(Bytes::copy_from_slice(next))
            }
        }
    }

    fn first_now(&self, start: &[u8], end: Option<&[u8]>, steps: &mut u64) -> First {
        if *steps == 0 {
            return First::Stopped(Bytes::copy_from_slice(start));
        }
        let (from, to) = bounds(start, end);
        let mut cursor = self.trees.cursor(CURRENT, from, to);
        let Some((key, entry)) = cursor.next() else {
            return First::Empty;
        };
        *steps = steps.saturating_sub(SEEK_STEPS + (key.len() / KEY_BYTES_OF_STEP) as u64);
        First::Found(version(key, VersionEntry::from(entry)))
    }
}

fn version(key: &[u8], entry: VersionEntry) -> crate::Version {
    crate::Version::new(Bytes::copy_from_slice(key), entry)
}
