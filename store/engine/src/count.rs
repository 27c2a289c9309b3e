//! How many keys a range has, now or at a past revision, without walking it.
//!
//! ```text
//!   keys at R  =  keys now  -  created since  +  deleted since    (within the range)
//! ```
//!
//! `creations.rs` keeps the recent creations and deletions of keys. If there were more of
//! them since R than the range has entries, the walk is shorter and is taken.

use crate::accounting::Accounting;
use crate::creations::{CreationsSince, Transition};
use crate::range::Merge;
use crate::trees::{CURRENT, HISTORY};
use crate::{Snapshot, history_key};

/// See [`crate::Engine::count`].
pub(crate) fn count(
    accounting: &Accounting,
    snapshot: &Snapshot,
    (start, end): (&[u8], Option<&[u8]>),
    at: i64,
) -> u64 {
    let now = snapshot.trees.count(CURRENT, start, end);
    if at >= snapshot.revision() {
        return now;
    }
    let walk = now + history_entries(snapshot, start, end);
    // A statement of its own, because the lock must not be held during a walk.
    let recent = accounting.creations.lock().since(at, walk);
    match recent {
        Some(recent) => correct(&recent, (at, snapshot.revision()), (start, end), now),
        None => count_by_walk(snapshot, start, end, at),
    }
}

fn history_entries(snapshot: &Snapshot, start: &[u8], end: Option<&[u8]>) -> u64 {
    let (from, to) = (history_key::prefix(start), end.map(history_key::prefix));
    snapshot.trees.count(HISTORY, &from, to.as_deref())
}

fn count_by_walk(snapshot: &Snapshot, start: &[u8], end: Option<&[u8]>, at: i64) -> u64 {
    let mut merge = Merge::new(snapshot, start, end, at, false);
    std::iter::from_fn(|| merge.next()).count() as u64
}

/// The number of keys at revision `at`, from their number `now` at revision `now_at`. A key
/// that one transaction creates and deletes counts as created and as deleted, which cancels out.
fn correct(
    recent: &CreationsSince,
    (at, now_at): (i64, i64),
    (start, end): (&[u8], Option<&[u8]>),
    now: u64,
) -> u64 {
    let (mut created, mut deleted) = (0, 0);
    for (main, transition, key) in recent.iter() {
        let in_range = key >= start && end.is_none_or(|end| key < end);
        if main <= at || main > now_at || !in_range {
            continue;
        }
        match transition {
            Transition::Created => created += 1,
            Transition::Deleted => deleted += 1,
        }
    }
    (now + deleted)
        .checked_sub(created)
        .expect("no more keys are created than there are")
}
