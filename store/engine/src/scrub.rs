//! Looking for damage in sealed segments that no reader has met.
//!
//! ```text
//!   sealed segment ─► frame fails ─┬─ page cache has it sound ─► written again from there
//!                                  └─ versions that point into it ─► read ─► noted: other
//!                                                                     members are asked
//! ```
//!
//! Damage into which no version points is reported once and left: a restart reads what is behind
//! the last checkpoint, which is not sealed for long, and the segment is released in time.

use crate::damage::DamagedVersion;
use crate::parts::Parts;
use crate::read::Records;
use crate::trees::{self, CURRENT, HIDDEN, HISTORY, OF_VERSIONS, VersionEntry};
use crate::{Error, Version, hidden, history_key};
use bytes::Bytes;
use std::collections::BTreeSet;
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::Arc;
use value_log::{DamagedStretch, Position, Scrub};

/// Most places that are remembered, so that they are not reported again in each round.
const REPORTED_MAX: usize = 1024;
/// Most versions that are read because of one damaged place; the next round finds the others.
const VERSIONS_MAX: usize = 1024;

/// Verifies sealed segments in small steps.
#[derive(Debug)]
pub struct Scrubber {
    parts: Arc<Parts>,
    scrub: Scrub,
    /// Damaged places that were reported.
    reported: BTreeSet<Position>,
}

/// The outcome of a step of a [`Scrubber`].
#[derive(Debug, Default)]
pub struct ScrubStep {
    /// Bytes that were read.
    pub bytes: u64,
    /// Places that were found damaged in this step and in no earlier one.
    pub damaged: Vec<ScrubbedDamage>,
    /// Places with bytes that were written again from the page cache.
    pub rewritten: usize,
    /// All sealed segments have been looked at.
    pub round_over: bool,
}

/// A damaged place in a sealed segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScrubbedDamage {
    /// The segment's file.
    pub file: PathBuf,
    /// The first byte of the damaged frame.
    pub offset: u64,
    /// Bytes of the frame.
    pub bytes: u64,
    /// Versions with records there that cannot be read: other members are asked for them.
    pub unreadable: usize,
    /// Versions there that no other member is asked for: their transaction replaced them.
    pub hidden: usize,
}

impl Scrubber {
    pub(crate) fn new(parts: &Arc<Parts>) -> Scrubber {
        Scrubber {
            parts: Arc::clone(parts),
            scrub: parts.records.log_view.log.scrub(),
            reported: BTreeSet::new(),
        }
    }

    /// Verifies the next frames of the sealed segments.
    pub fn step(&mut self) -> Result<ScrubStep, Error> {
        self.parts.records.lifecycle.check_open()?;
        let scrubbed = self.scrub.step()?;
        let mut step = ScrubStep {
            bytes: scrubbed.bytes,
            round_over: scrubbed.round_over,
            ..ScrubStep::default()
        };
        for stretch in scrubbed.damaged {
            if rewrite(&self.parts.records, &stretch)? {
                step.rewritten += 1;
                continue;
            }
            // Reading the versions notes those that are damaged, in each round: other members
            // may not have been there in the last one.
            let damage = damage_in(&self.parts.records, &stretch)?;
            let is_new = self.reported.len() < REPORTED_MAX && self.reported.insert(stretch.start);
            if is_new {
                step.damaged.push(damage);
            }
        }
        Ok(step)
    }
}

fn rewrite(records: &Records, stretch: &DamagedStretch) -> Result<bool, Error> {
    let _mending = records.damage.mending.lock();
    let rewritten = records.log_view.log.rewrite(stretch)?;
    if rewritten {
        let (file, offset) = (stretch.file.display(), stretch.start.offset());
        tracing::warn!(%file, offset, "damaged bytes were written again from the page cache");
    }
    Ok(rewritten)
}

/// Reads all versions that lie in a damaged stretch. The unreadable ones are noted as
/// damaged.
fn damage_in(records: &Records, stretch: &DamagedStretch) -> Result<ScrubbedDamage, Error> {
    let (versions, hidden) = versions_in(records, stretch);
    let mut unreadable = 0;
    for DamagedVersion { key, main } in versions {
        let known = trees::find(&records.index.reader.pin(), &key, main);
        let Some(known) = known else { continue };
        match records.read(&Version {
            key: key.clone(),
            main,
            tombstone: known.tombstone,
            pointer: known.pointer,
        }) {
            Ok(_) | Err(Error::Compacted { .. }) => {}
            Err(Error::DamagedValue { .. }) => unreadable += 1,
            Err(error @ Error::Closed { .. }) => return Err(error),
            // A sector that the device cannot read may still be written.
            Err(_) => {
                records.damage.note(&key, main, false);
                unreadable += 1;
            }
        }
    }
    let offset = stretch.start.offset();
    Ok(ScrubbedDamage {
        file: stretch.file.clone(),
        offset,
        bytes: stretch.end - offset,
        unreadable,
        hidden,
    })
}

/// The versions with records in a stretch, and the number of hidden ones.
fn versions_in(records: &Records, stretch: &DamagedStretch) -> (Vec<DamagedVersion>, usize) {
    let (first, end) = (stretch.start, stretch.end);
    let trees = records.index.reader.pin();
    let (mut found, mut hidden) = (Vec::new(), 0);
    for tree in OF_VERSIONS {
        let mut cursor = trees.cursor(tree, Bound::Unbounded, Bound::Unbounded);
        while let Some((encoded, entry)) = cursor.next() {
            let known = VersionEntry::from(entry);
            let position = known.pointer.position();
            let here = position.segment() == first.segment()
                && (first.offset()..end).contains(&position.offset());
            if !here {
                continue;
            }
            match key_of(tree, encoded) {
                Some(key) if found.len() < VERSIONS_MAX => found.push(DamagedVersion {
                    key,
                    main: known.main,
                }),
                Some(_) => {}
                None => hidden += 1,
            }
        }
    }
    (found, hidden)
}

/// The user key of an entry; `None` for a hidden one.
fn key_of(tree: usize, encoded: &[u8]) -> Option<Bytes> {
    match tree {
        CURRENT => Some(Bytes::copy_from_slice(encoded)),
        HISTORY => {
            let mut key = Vec::new();
            history_key::decode(encoded, &mut key);
            Some(key.into())
        }
        _ => {
            assert!(tree == HIDDEN && hidden::decode(encoded).is_some());
            None
        }
    }
}
