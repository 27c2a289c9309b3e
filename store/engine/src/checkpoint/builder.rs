//! The work of one thread on a checkpoint: entries become leaves, and are summed.

use super::entries::read_entries;
use super::format::Foot;
use super::key_hasher::KeyHasher;
use super::portions::{Portion, Portions};
use super::segment_sums::SegmentSums;
use super::unusable::Unusable;
use crate::hidden;
use crate::history_key;
use crate::sorted_changes::LastOfEachKey;
use crate::state_hash;
use crate::trees::{CURRENT, HIDDEN, HISTORY, OF_VERSIONS, VersionEntry};
use environment::Mutex;
use ordered_index::{BulkLoad, IndexEntry};
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::iter::Peekable;

/// When changes of this size were freed, the system gets free memory back. The allocator would
/// keep it, and the nodes of the index, which have a heap of their own, could not use it.
const RETURNED_BYTES: usize = 16 << 20;

/// Trees, or parts of them, under construction.
pub(super) type Loads = [BulkLoad; OF_VERSIONS.len()];

/// How the entries of a checkpoint become trees.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoadRules {
    /// Whether superseded versions are loaded. If not, changes of keys may take the place of
    /// what the checkpoint has.
    pub(crate) history: bool,
    /// Whether keys are summed for a [`crate::StateHash`].
    pub(crate) hashes: bool,
}

/// The share of one thread: all that it has made of the portions that it took.
#[derive(Debug)]
pub(super) struct Builder {
    rules: LoadRules,
    /// Parts of the trees, by the number of the portion.
    pub(super) built: Vec<(u64, Result<Loads, Unusable>)>,
    /// Entries of the file, and the greatest revision in it.
    pub(super) seen: Foot,
    /// Sum over the keys of CURRENT.
    pub(super) keys: u64,
    hasher: KeyHasher,
    pub(super) live: SegmentSums,
    /// Bytes of changes that were freed since memory was given back.
    freed_bytes: usize,
}

/// Changes that were not merged yet.
type Changes<'p> = Peekable<LastOfEachKey<'p>>;

impl Builder {
    /// Takes portions until there is none, or one is unusable.
    pub(super) fn run(
        portions: &Mutex<&mut Portions>,
        present: &BTreeSet<u32>,
        rules: LoadRules,
    ) -> Builder {
        let mut builder = Builder {
            rules,
            built: Vec::new(),
            seen: Foot::default(),
            keys: 0,
            hasher: KeyHasher::default(),
            live: SegmentSums::new(present),
            freed_bytes: 0,
        };
        let mut portion = Portion::default();
        let next = |portion: &mut Portion| portions.lock().next(portion);
        while let Some(number) = next(&mut portion) {
            let loads = builder.build(&portion);
            if loads.is_err() {
                portions.lock().stop();
            }
            builder.built.push((number, loads));
            builder.free_changes(&mut portion);
        }
        builder
    }

    /// Now, because the portions are locked when the next one is taken.
    fn free_changes(&mut self, portion: &mut Portion) {
        let freed = portion.changes.drain(..).map(|stretch| stretch.bytes());
        self.freed_bytes += freed.sum::<usize>();
        if self.freed_bytes >= RETURNED_BYTES {
            self.freed_bytes = 0;
            environment::real::return_free_memory();
        }
    }

    fn build(&mut self, portion: &Portion) -> Result<Loads, Unusable> {
        let mut loads = OF_VERSIONS.map(|_| BulkLoad::new());
        let mut changes = LastOfEachKey::new(&portion.changes).peekable();
        for payload in portion.payloads() {
            read_entries(payload, |tree, key, entry| {
                self.take(&mut loads, &mut changes, tree, key, entry)
            })?;
        }
        changes.try_for_each(|(key, version)| self.put_unless_deleted(&mut loads, key, version))?;
        Ok(loads)
    }

    /// Takes an entry of the checkpoint, behind the changes of lesser keys.
    #[inline]
    fn take(
        &mut self,
        loads: &mut Loads,
        changes: &mut Changes<'_>,
        tree: usize,
        key: &[u8],
        entry: IndexEntry,
    ) -> Result<(), Unusable> {
        self.seen.count(tree, entry);
        check_key(tree, key)?;
        if self.rules.history {
            return self.put(loads, tree, key, entry);
        }
        let mut is_replaced = tree != CURRENT;
        while let Some(order) = changes.peek().map(|(changed, _)| (*changed).cmp(key))
            && order != Ordering::Greater
            && !is_replaced
        {
            let (changed, newer) = changes.next().expect("just seen");
            self.put_unless_deleted(loads, changed, newer)?;
            is_replaced = order == Ordering::Equal;
        }
        match is_replaced {
            true => self.live.check(VersionEntry::from(entry).pointer),
            false => self.put(loads, tree, key, entry),
        }
    }

    fn put_unless_deleted(
        &mut self,
        loads: &mut Loads,
        key: &[u8],
        version: VersionEntry,
    ) -> Result<(), Unusable> {
        match version.tombstone {
            true => Ok(()),
            false => self.put(loads, CURRENT, key, version.entry()),
        }
    }

    #[inline]
    fn put(
        &mut self,
        loads: &mut Loads,
        tree: usize,
        key: &[u8],
        entry: IndexEntry,
    ) -> Result<(), Unusable> {
        let version = VersionEntry::from(entry);
        self.live.add(version.pointer)?;
        if tree == CURRENT && self.rules.hashes {
            let element = state_hash::of_hashed_key(self.hasher.hash(key), version.main);
            self.keys = self.keys.wrapping_add(element);
        }
        let pushed = loads[tree].push(key, entry);
        pushed.map_err(|error| error.to_string().into())
    }
}

fn check_key(tree: usize, key: &[u8]) -> Result<(), &'static str> {
    if tree == HISTORY && !history_key::is_well_formed(key) {
        return Err("a key of its history is malformed");
    }
    if tree == HIDDEN && hidden::decode(key).is_none() {
        return Err("a key of its hidden versions is malformed");
    }
    Ok(())
}
