//! How many keys a range has, now or at a past revision, without walking it.
//!
//! ```text
//!   keys at R  =  keys now  -  born since R  +  gone since R     (within the range)
//! ```
//!
//! `turnover.rs` keeps the recent births and deletions of keys. If there were more of
//! them since R than the range has entries, the walk is shorter and is taken.

use crate::range::Merge;
use crate::trees::{CURRENT, HISTORY};
use crate::turnover::{Turn, Turns};
use crate::{Engine, Snapshot};

impl Engine {
    /// How many versions [`Snapshot::range`] yields: O(log n) at the newest
    /// revision, O(log n + keys born and gone since) shortly after, a walk
    /// where that would be longer.
    ///
    /// `snapshot` must come from this engine.
    pub fn count(&self, snapshot: &Snapshot, start: &[u8], end: Option<&[u8]>, at: i64) -> u64 {
        let now = snapshot.trees.count(CURRENT, start, end);
        if at >= snapshot.revision() {
            return now;
        }
        let walk = now + history_entries(snapshot, start, end);
        // A statement of its own, because the lock must not be held during a walk.
        let turns = self.0.books.turnover().since(at, walk);
        match turns {
            Some(turns) => correct(&turns, (at, snapshot.revision()), (start, end), now),
            None => count_by_walk(snapshot, start, end, at),
        }
    }
}

fn history_entries(snapshot: &Snapshot, start: &[u8], end: Option<&[u8]>) -> u64 {
    let (from, to) = (
        crate::history_key::prefix(start),
        end.map(crate::history_key::prefix),
    );
    snapshot.trees.count(HISTORY, &from, to.as_deref())
}

fn count_by_walk(snapshot: &Snapshot, start: &[u8], end: Option<&[u8]>, at: i64) -> u64 {
    let mut merge = Merge::new(snapshot, start, end, at, false);
    std::iter::from_fn(|| merge.next()).count() as u64
}

/// The number of keys at revision `at`, from their number `now` at revision `now_at`. A key
/// that one transaction creates and deletes counts as born and as gone, which cancels out.
fn correct(
    turns: &Turns,
    (at, now_at): (i64, i64),
    (start, end): (&[u8], Option<&[u8]>),
    now: u64,
) -> u64 {
    let (mut born, mut gone) = (0, 0);
    for (main, turn, key) in turns.iter() {
        let in_range = key >= start && end.is_none_or(|end| key < end);
        if main <= at || main > now_at || !in_range {
            continue;
        }
        match turn {
            Turn::Born => born += 1,
            Turn::Gone => gone += 1,
        }
    }
    (now + gone)
        .checked_sub(born)
        .expect("no more keys are born than there are")
}
