//! A walk over the keys visible at a revision.
//!
//! At the newest revision that is a walk over CURRENT. In the past CURRENT
//! and HISTORY are merged by key; each end has its own pair of cursors, and
//! the two ends stop where their keys meet.

use crate::history_key;
use crate::side::Side;
use crate::trees::{CURRENT, HISTORY, VersionEntry};
use crate::{Snapshot, Version};
use bytes::{Bytes, BytesMut};
use ordered_index::{Cursor, IndexEntry};
use std::ops::Bound;

/// Versions in key order; made by [`Snapshot::range`].
#[derive(Debug)]
pub struct Range<'a>(Walk<'a>);

#[derive(Debug)]
enum Walk<'a> {
    Newest(Cursor<'a>, KeyMemory),
    Past(Box<Past<'a>>),
}

impl<'a> Range<'a> {
    pub(crate) fn new(
        snapshot: &'a Snapshot,
        start: &[u8],
        end: Option<&[u8]>,
        at: i64,
    ) -> Range<'a> {
        if at >= snapshot.revision() {
            let (start, end) = bounds(start, end);
            let cursor = snapshot.trees.cursor(CURRENT, start, end);
            return Range(Walk::Newest(cursor, KeyMemory::default()));
        }
        let merge = |backward| Merge::new(snapshot, start, end, at, backward);
        let (front, back) = (merge(false), merge(true));
        Range(Walk::Past(Box::new(Past {
            front,
            back,
            front_key: None,
            back_key: None,
        })))
    }
}

pub(crate) fn bounds<'k>(
    start: &'k [u8],
    end: Option<&'k [u8]>,
) -> (Bound<&'k [u8]>, Bound<&'k [u8]>) {
    (
        Bound::Included(start),
        end.map_or(Bound::Unbounded, Bound::Excluded),
    )
}

/// Keys in memory that some of them share, because an allocation for each takes longer than its
/// key's copy.
#[derive(Debug, Default)]
struct KeyMemory(BytesMut);

impl KeyMemory {
    /// Of memory that several keys share.
    const BYTES: usize = 1024;

    fn version(&mut self, (key, entry): (&[u8], IndexEntry)) -> Version {
        if self.0.capacity() < key.len() {
            self.0 = BytesMut::with_capacity(key.len().max(Self::BYTES));
        }
        self.0.extend_from_slice(key);
        Version::new(self.0.split().freeze(), VersionEntry::from(entry))
    }
}

/// An end of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Where the least keys are.
    Front,
    /// Where the greatest keys are.
    Back,
}

impl Range<'_> {
    /// The next version from one end, with its key added to `keys`.
    pub(crate) fn next_entry(&mut self, from: End, keys: &mut Vec<u8>) -> Option<VersionEntry> {
        if let (Walk::Newest(cursor, _), End::Front) = (&mut self.0, from) {
            return cursor.next_into(keys).map(VersionEntry::from);
        }
        let version = match from {
            End::Front => self.next(),
            End::Back => self.next_back(),
        }?;
        keys.extend_from_slice(&version.key);
        Some(version.entry())
    }
}

impl Iterator for Range<'_> {
    type Item = Version;

    fn next(&mut self) -> Option<Version> {
        match &mut self.0 {
            Walk::Newest(cursor, memory) => cursor.next().map(|found| memory.version(found)),
            Walk::Past(past) => past.next(),
        }
    }
}

impl DoubleEndedIterator for Range<'_> {
    fn next_back(&mut self) -> Option<Version> {
        match &mut self.0 {
            Walk::Newest(cursor, memory) => cursor.next_back().map(|found| memory.version(found)),
            Walk::Past(past) => past.next_back(),
        }
    }
}

#[derive(Debug)]
struct Past<'a> {
    front: Merge<'a>,
    back: Merge<'a>,
    /// Last key handed out at the front; the back stops before it.
    front_key: Option<Bytes>,
    back_key: Option<Bytes>,
}

impl Past<'_> {
    fn next(&mut self) -> Option<Version> {
        let found = self.front.next()?;
        if self.back_key.as_ref().is_some_and(|back| found.key >= back) {
            return None;
        }
        self.front_key = Some(found.key.clone());
        Some(found)
    }

    fn next_back(&mut self) -> Option<Version> {
        let found = self.back.next()?;
        if self
            .front_key
            .as_ref()
            .is_some_and(|front| found.key <= front)
        {
            return None;
        }
        self.back_key = Some(found.key.clone());
        Some(found)
    }
}

/// CURRENT and HISTORY side by side, in one direction.
#[derive(Debug)]
pub(crate) struct Merge<'a> {
    current: Side<'a>,
    history: Side<'a>,
    at: i64,
    backward: bool,
}

impl<'a> Merge<'a> {
    pub(crate) fn new(
        snapshot: &'a Snapshot,
        start: &[u8],
        end: Option<&[u8]>,
        at: i64,
        backward: bool,
    ) -> Merge<'a> {
        let (from, to) = (history_key::prefix(start), end.map(history_key::prefix));
        let (start, end) = bounds(start, end);
        let (from, to) = bounds(&from, to.as_deref());
        let side = |cursor, superseded| Side::new(cursor, superseded, backward);
        Merge {
            current: side(snapshot.trees.cursor(CURRENT, start, end), false),
            history: side(snapshot.trees.cursor(HISTORY, from, to), true),
            at,
            backward,
        }
    }

    pub(crate) fn next(&mut self) -> Option<Version> {
        let mut versions = Vec::new();
        loop {
            let key = self.next_versions(&mut versions)?;
            let at = self.at;
            let visible = versions.iter().filter(|version| version.main <= at);
            let visible = visible.max_by_key(|version| version.main);
            if let Some(&version) = visible.filter(|version| !version.tombstone) {
                return Some(Version::new(key, version));
            }
        }
    }

    /// The next key that has any version, and all it has, in no order.
    pub(crate) fn next_versions(&mut self, versions: &mut Vec<VersionEntry>) -> Option<Bytes> {
        let key = self.next_key()?;
        versions.clear();
        for side in [&mut self.current, &mut self.history] {
            versions.extend(std::iter::from_fn(|| side.take(&key)));
        }
        assert!(!versions.is_empty(), "a key of the index without a version");
        Some(key)
    }

    fn next_key(&self) -> Option<Bytes> {
        let key = match (self.current.key(), self.history.key()) {
            (Some(one), Some(other)) if self.backward => one.max(other),
            (Some(one), Some(other)) => one.min(other),
            (one, other) => one.or(other)?,
        };
        Some(Bytes::copy_from_slice(key))
    }
}
