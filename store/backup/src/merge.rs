//! Merging: many small objects become one, which is written first.
//!
//! ```text
//!   level 0   ▪▪▪▪▪▪▪▪▪▪ ... sixty of them ──► one of level 1 ──► sixty of those ──► one of level 2
//! ```
//!
//! Each row is written once on each level, until its object is large.

use std::cmp::Ordering;

use crate::catalog::BackupHistory;
use crate::changes::{Origin, SealedChanges, seal};
use crate::format::SEALED_BYTES;
use crate::name::{ObjectKind, ObjectName};
use crate::place::BackupPlace;
use crate::{ChangeBatch, Error};

/// Objects of a level that become one.
const MERGED_COUNT: usize = 60;
/// The highest level.
const LEVEL_MAX: u8 = 4;

impl BackupHistory {
    /// Adjacent objects of one level that are to become one; `None` while there are too few.
    pub fn next_merge(&self) -> Option<Vec<ObjectName>> {
        (0..LEVEL_MAX).find_map(|level| self.merge_of_level(level))
    }

    fn merge_of_level(&self, level: u8) -> Option<Vec<ObjectName>> {
        let mut run = Run::default();
        for object in &self.changes {
            let name = object.name;
            if level_of(&name) != level || name.plain_bytes() >= SEALED_BYTES {
                continue;
            }
            if !run.takes(&name) {
                run = Run::default();
            }
            run.add(name);
            if run.is_full() {
                return Some(run.names);
            }
        }
        None
    }

    /// Objects that are contained in another object: that one has more revisions, or was merged more often, or has
    /// a smaller name. Two processes that ask for this never name both of two.
    pub fn superseded(&self) -> Vec<ObjectName> {
        let names = || self.changes.iter().map(|object| object.name);
        let with_rows = names().filter(|name| !name.is_empty());
        let contained = with_rows.filter(|name| names().any(|other| contains(&other, name)));
        contained.collect()
    }
}

/// Whether `name` may be deleted because `other` is there.
pub(crate) fn contains(other: &ObjectName, name: &ObjectName) -> bool {
    let range = |name: &ObjectName| (name.first, name.last);
    let is_within = other.first <= name.first && name.last <= other.last;
    let is_preferred = match level_of(other).cmp(&level_of(name)) {
        Ordering::Equal => other.path() < name.path(),
        level => level.is_gt(),
    };
    let is_smaller = range(other) != range(name) || is_preferred;
    !other.is_empty() && is_within && is_smaller
}

fn level_of(name: &ObjectName) -> u8 {
    match name.kind {
        ObjectKind::Changes { level, .. } => level,
        ObjectKind::Base => u8::MAX,
    }
}

/// Adjacent objects.
#[derive(Default)]
struct Run {
    names: Vec<ObjectName>,
    /// The last revision of all.
    reached: i64,
    plain_bytes: u64,
}

impl Run {
    /// Whether an object continues the run.
    fn takes(&self, name: &ObjectName) -> bool {
        name.first <= self.reached + 1
    }

    fn add(&mut self, name: ObjectName) {
        self.reached = self.reached.max(name.last);
        self.plain_bytes += name.plain_bytes();
        self.names.push(name);
    }

    fn is_full(&self) -> bool {
        let is_large = self.plain_bytes >= SEALED_BYTES && self.names.len() > 1;
        is_large || self.names.len() >= MERGED_COUNT
    }
}

/// What a merge has done.
#[derive(Debug)]
pub struct Merged {
    /// The new object.
    pub object: SealedChanges,
    /// The objects that it contains, which may be deleted.
    pub contained: Vec<ObjectName>,
}

/// Reads objects, and stores one that has all that they have, in one attempt. Nothing is deleted. An error
/// comes with the object that it is about.
pub async fn merge(
    place: &BackupPlace,
    origin: Origin,
    names: &[ObjectName],
) -> Result<Merged, (ObjectName, Error)> {
    let mut batches = Vec::new();
    for name in names {
        let opened = place.read(name).await;
        batches.extend(opened.map_err(|error| (*name, error))?.batches);
    }
    let batches = joined(batches);
    let level = names.iter().map(level_of).max().unwrap_or_default() + 1;
    let object = seal(origin, level, &batches);
    let of_object = |error| (object.name, error);
    place.put_once(&object).await.map_err(of_object)?;
    // A store that has lost it must not be left without the others.
    place.read(&object.name).await.map_err(of_object)?;
    let within = |name: &&ObjectName| match name.is_empty() {
        true => object.name.first <= name.first && name.first <= object.name.last + 1,
        false => contains(&object.name, name),
    };
    let contained = names.iter().filter(within).copied().collect();
    Ok(Merged { object, contained })
}

/// Batches of objects that may overlap, each following the one before.
fn joined(mut batches: Vec<ChangeBatch>) -> Vec<ChangeBatch> {
    batches.sort_by_key(|batch| (batch.first, batch.last, batch.time_ms));
    let mut joined: Vec<ChangeBatch> = Vec::with_capacity(batches.len());
    for mut batch in batches {
        let next = joined.last().map_or(batch.first, |last| last.last + 1);
        if batch.is_empty() {
            // Within the rows of another process, it comes behind them.
            (batch.first, batch.last) = (next, next - 1);
        } else if batch.last < next {
            continue;
        }
        batch.trim_before(next);
        joined.push(batch);
    }
    joined
}
