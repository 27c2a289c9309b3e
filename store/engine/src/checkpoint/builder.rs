//! The work of one thread on a checkpoint: entries become leaves, and are summed.

use super::entries::read_entries;
use super::format::Foot;
use super::key_hasher::KeyHasher;
use super::portions::{Portion, Portions};
use super::segment_sums::SegmentSums;
use super::unusable::Unusable;
use crate::hidden;
use crate::history_key;
use crate::state_hash;
use crate::trees::{CURRENT, HIDDEN, HISTORY, OF_VERSIONS, VersionEntry};
use environment::Mutex;
use ordered_index::{BulkLoad, IndexEntry};
use std::collections::BTreeSet;

/// Trees, or parts of them, under construction.
pub(super) type Loads = [BulkLoad; OF_VERSIONS.len()];

/// The share of one thread: all that it has made of the portions that it took.
#[derive(Debug)]
pub(super) struct Builder {
    /// Parts of the trees, by the number of the portion.
    pub(super) built: Vec<(u64, Result<Loads, Unusable>)>,
    /// Entries and the greatest revision.
    pub(super) seen: Foot,
    /// Sum over the keys of CURRENT.
    pub(super) keys: u64,
    hasher: KeyHasher,
    pub(super) live: SegmentSums,
}

impl Builder {
    /// Takes portions until there is none, or one is unusable.
    pub(super) fn run(portions: &Mutex<&mut Portions<'_>>, present: &BTreeSet<u32>) -> Builder {
        let mut builder = Builder {
            built: Vec::new(),
            seen: Foot::default(),
            keys: 0,
            hasher: KeyHasher::default(),
            live: SegmentSums::new(present),
        };
        let mut portion = Portion::default();
        let next = |portion: &mut Portion| portions.lock().next(portion);
        while let Some(number) = next(&mut portion) {
            let loads = builder.build(&portion);
            if loads.is_err() {
                portions.lock().stop();
            }
            builder.built.push((number, loads));
        }
        builder
    }

    fn build(&mut self, portion: &Portion) -> Result<Loads, Unusable> {
        let mut loads = OF_VERSIONS.map(|_| BulkLoad::new());
        for payload in portion.payloads() {
            read_entries(payload, |tree, key, entry| {
                self.check_and_sum(tree, key, entry)?;
                let pushed = loads[tree].push(key, entry);
                pushed.map_err(|error| Unusable::from(error.to_string()))
            })?;
        }
        Ok(loads)
    }

    fn check_and_sum(
        &mut self,
        tree: usize,
        key: &[u8],
        entry: IndexEntry,
    ) -> Result<(), Unusable> {
        let version = VersionEntry::from(entry);
        if !self.live.add(version.pointer) {
            let segment = version.pointer.segment();
            return Err(Unusable::lost(format!(
                "it points into segment {segment:08x}, which is gone"
            )));
        }
        if tree == HISTORY && !history_key::is_well_formed(key) {
            return Err("a key of its history is malformed".into());
        }
        if tree == HIDDEN && hidden::decode(key).is_none() {
            return Err("a key of its hidden versions is malformed".into());
        }
        if tree == CURRENT {
            let element = state_hash::of_hashed_key(self.hasher.hash(key), version.main);
            self.keys = self.keys.wrapping_add(element);
        }
        self.seen.count(tree, entry);
        Ok(())
    }
}
