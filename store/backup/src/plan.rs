//! Which objects restore a revision: a base, and changes without a gap.

use crate::catalog::BackupHistory;
use crate::name::ObjectName;
use crate::place::StoredObject;

/// Objects that restore a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestorePlan {
    /// The revision.
    pub revision: i64,
    /// The base.
    pub base: ObjectName,
    /// Changes behind the base, ascending by first revision. They may overlap.
    pub changes: Vec<ObjectName>,
}

/// Why a history does not restore a revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gap {
    /// No base is that old.
    BeforeBases {
        /// Revision of the oldest base.
        oldest: Option<i64>,
    },
    /// Changes are missing.
    Missing {
        /// The first revision that no object has.
        first: i64,
        /// The last one before the next object; the revision that was asked for if there is none.
        last: i64,
        /// Revision of the base before the gap.
        base: i64,
    },
}

/// The last revision that changes reach from the revision `from` without a gap. `changes` ascend by first
/// revision.
pub fn reach(changes: &[StoredObject], from: i64) -> i64 {
    changes.iter().fold(from, |reached, object| {
        match object.name.first <= reached + 1 {
            true => reached.max(object.name.last),
            false => reached,
        }
    })
}

impl BackupHistory {
    /// The plan for a revision. It begins at the newest base that has no gap behind it.
    pub fn plan(&self, revision: i64) -> Result<RestorePlan, Gap> {
        let usable = self.bases.iter().rev();
        let mut usable = usable.filter(|base| base.name.last <= revision).peekable();
        let newest = usable.peek().copied();
        let whole = usable.find_map(|base| {
            let changes = self.cover(base.name.last, revision)?;
            let base = base.name;
            Some(RestorePlan {
                revision,
                base,
                changes,
            })
        });
        whole.ok_or_else(|| match newest {
            None => Gap::BeforeBases {
                oldest: self.bases.first().map(|base| base.name.last),
            },
            Some(base) => self.gap_behind(base.name.last, revision),
        })
    }

    fn gap_behind(&self, base: i64, revision: i64) -> Gap {
        let first = reach(&self.changes, base) + 1;
        let later = self.changes.iter().map(|object| object.name.first);
        let next = later.filter(|next| *next > first).min();
        let last = next.map_or(revision, |next| next - 1).min(revision);
        Gap::Missing { first, last, base }
    }

    /// The fewest objects that have the revisions behind `base` up to `revision`, and those without
    /// revisions that lie between; `None` if there is a gap.
    pub(crate) fn cover(&self, base: i64, revision: i64) -> Option<Vec<ObjectName>> {
        let names = self.changes.iter().map(|object| object.name);
        let (empty, with_rows): (Vec<_>, Vec<_>) = names.partition(ObjectName::is_empty);
        let mut with_rows = with_rows.into_iter().peekable();
        let (mut cover, mut reached) = (Vec::new(), base);
        while reached < revision {
            let mut best = None::<ObjectName>;
            while let Some(name) = with_rows.next_if(|name| name.first <= reached + 1) {
                best = best.filter(|best| best.last >= name.last).or(Some(name));
            }
            let taken = best.filter(|best| best.last > reached)?;
            reached = taken.last;
            cover.push(taken);
        }
        let between = empty
            .into_iter()
            .filter(|name| name.first > base && name.first <= revision + 1);
        cover.extend(between);
        cover.sort_by_key(|name| (name.first, name.last));
        Some(cover)
    }
}
