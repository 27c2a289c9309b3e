//! Which versions a snapshot has, and in what order they are found.
//!
//! ```text
//!   key order, newest first     a7  a5  b6†  b3  c9 ...     versions
//!   order of revisions          3   7   7                   hidden ones
//! ```
//!
//! Versions are looked up a slice at a time, each under a pin of its own. Those written
//! after the moment are left out, and so are those that compaction had dropped by then.

use super::SnapshotInfo;
use crate::compaction::keep;
use crate::range::Merge;
use crate::trees::{HIDDEN, VersionEntry};
use crate::{Snapshot, hidden};
use bytes::Bytes;
use std::collections::VecDeque;
use std::ops::Bound;

/// Versions looked up under one pin, and those of one key more.
const SLICE_VERSIONS: usize = 4096;

/// Where a walk goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum From {
    /// With the versions of this key before that main revision, then with
    /// greater keys.
    Version { key: Bytes, below: i64 },
    /// Behind this entry of HIDDEN; empty: from its start.
    Hidden { after: Bytes },
}

impl From {
    pub(crate) fn first_version() -> From {
        let key = Bytes::new();
        From::Version {
            key,
            below: i64::MAX,
        }
    }

    pub(crate) fn first_hidden() -> From {
        let after = Bytes::new();
        From::Hidden { after }
    }
}

/// A version, and the key of its entry: the user's key, or that of HIDDEN.
#[derive(Clone, Debug)]
pub(crate) struct FoundVersion {
    pub(crate) key: Bytes,
    pub(crate) version: VersionEntry,
}

/// Versions that were looked up and are not sent yet.
#[derive(Debug)]
pub(crate) struct Walk {
    moment: SnapshotInfo,
    ahead: VecDeque<FoundVersion>,
    /// Where the next slice begins; `None`: there is none.
    from: Option<From>,
}

impl Walk {
    pub(crate) fn new(moment: SnapshotInfo, from: From) -> Walk {
        Walk {
            moment,
            ahead: VecDeque::new(),
            from: Some(from),
        }
    }

    /// The next version, if it has been looked up.
    pub(crate) fn front(&self) -> Option<&FoundVersion> {
        self.ahead.front()
    }

    /// Takes the next version off.
    pub(crate) fn pass(&mut self) {
        self.ahead.pop_front();
    }

    /// Nothing is ahead, and nothing comes.
    pub(crate) fn is_at_end(&self) -> bool {
        self.ahead.is_empty() && self.from.is_none()
    }

    /// Looks up the next slice.
    pub(crate) fn look(&mut self, snapshot: &Snapshot) {
        assert!(self.ahead.is_empty(), "a slice is sent before the next");
        self.from = match self.from.take() {
            Some(From::Version { key, below }) => self.look_at_versions(snapshot, key, below),
            Some(From::Hidden { after }) => self.look_at_hidden(snapshot, after),
            None => None,
        };
    }

    fn look_at_versions(&mut self, snapshot: &Snapshot, key: Bytes, below: i64) -> Option<From> {
        let mut merge = Merge::new(snapshot, &key, None, i64::MAX, false);
        let mut versions = Vec::new();
        while let Some(found) = merge.next_versions(&mut versions) {
            let SnapshotInfo {
                compacted,
                revision,
                ..
            } = self.moment;
            keep((compacted, revision), &mut versions);
            if found == key {
                versions.retain(|version| version.main < below);
            }
            let of_key = |&version: &VersionEntry| FoundVersion {
                key: found.clone(),
                version,
            };
            self.ahead.extend(versions.iter().map(of_key));
            if self.ahead.len() >= SLICE_VERSIONS {
                let (key, below) = (found, 0);
                return Some(From::Version { key, below });
            }
        }
        None
    }

    fn look_at_hidden(&mut self, snapshot: &Snapshot, after: Bytes) -> Option<From> {
        let first = hidden::first_of(self.moment.compacted + 1);
        let end = hidden::first_of(self.moment.revision.saturating_add(1));
        let start = if after.is_empty() {
            Bound::Included(&first[..])
        } else {
            Bound::Excluded(&after[..])
        };
        let mut cursor = snapshot
            .trees
            .cursor(HIDDEN, start, Bound::Excluded(&end[..]));
        while let Some((key, entry)) = cursor.next() {
            let key = Bytes::copy_from_slice(key);
            let version = VersionEntry::from(entry);
            self.ahead.push_back(FoundVersion {
                key: key.clone(),
                version,
            });
            if self.ahead.len() >= SLICE_VERSIONS {
                return Some(From::Hidden { after: key });
            }
        }
        None
    }
}
