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

    /// Objects that are contained in another object, each with the largest of those: that one has more revisions,
    /// or was merged more often, or has a smaller name. Two processes that ask for this never name both of two.
    /// Names say nothing about damage: the other object must be read before the first is deleted.
    pub fn superseded(&self) -> Vec<(ObjectName, ObjectName)> {
        let names = || self.changes.iter().map(|object| object.name);
        let with_rows = names().filter(|name| !name.is_empty());
        let pairs = with_rows.filter_map(|name| {
            let others = names().filter(|other| contains(other, &name));
            let largest = others.max_by_key(|other| (other.last - other.first, level_of(other)));
            Some((name, largest?))
        });
        pairs.collect()
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

/// Whether `other` has all that `name` has, which may be leases and hashes only.
pub(crate) fn replaces(other: &ObjectName, name: &ObjectName) -> bool {
    match name.is_empty() {
        true => other.first <= name.first && name.first <= other.last + 1,
        false => contains(other, name),
    }
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

/// The outcome of a merge.
#[derive(Debug)]
pub struct Merged {
    /// The new object.
    pub object: SealedChanges,
    /// The objects that it contains, which may be deleted.
    pub contained: Vec<ObjectName>,
}

/// Why objects were not merged.
pub enum Unmerged {
    /// One of them cannot be read.
    Unread(ObjectName, Error),
    /// The new one was not stored. The others are as they were.
    Unstored(Error),
}

/// Reads objects, and stores one that has all that they have, in one attempt. None of them is deleted. The new
/// one is deleted again if its bytes are not those that were stored.
pub async fn merge(
    place: &BackupPlace,
    origin: Origin,
    names: &[ObjectName],
) -> Result<Merged, Unmerged> {
    let mut batches = Vec::new();
    for name in names {
        let opened = place.read(name).await;
        batches.extend(
            opened
                .map_err(|error| Unmerged::Unread(*name, error))?
                .batches,
        );
    }
    let batches = joined(batches);
    let level = names.iter().map(level_of).max().unwrap_or_default() + 1;
    let object = seal(origin, level, &batches);
    let put = place.put_once(&object).await;
    put.map_err(Unmerged::Unstored)?;
    // A store that has lost it must not be left without the others.
    let read = read_back(place, &object.name).await;
    read.map_err(Unmerged::Unstored)?;
    let within = |name: &&ObjectName| replaces(&object.name, name);
    let contained = names.iter().filter(within).copied().collect();
    Ok(Merged { object, contained })
}

async fn read_back(place: &BackupPlace, name: &ObjectName) -> Result<(), Error> {
    match place.read(name).await {
        Err(error) if error.is_loss() => {
            // Its name claims what it does not have. If it stays, no process deletes others in its favour.
            let _ = place.delete(name).await;
            Err(Error::NotStored(error.into()))
        }
        read => read.map(drop),
    }
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
